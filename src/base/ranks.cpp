#include "base/ranks.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/cpu.h"
#include "base/text.h"

namespace varve {
namespace {

constexpr int kMostRanks = 65536;

class Variables {
 public:
  explicit Variables(const char* (*get)(const char*)) : get_(get) {}

  std::string text(const char* name) const {
    const char* value = get_(name);
    return value ? value : "";
  }
  bool has(std::initializer_list<const char*> names) const {
    for (const char* name : names)
      if (text(name).empty()) return false;
    return true;
  }
  int number(const char* name, int least, int most) const {
    const std::string value = text(name);
    char* end = nullptr;
    const long number = std::strtol(value.c_str(), &end, 10);
    if (value.empty() || *end != 0 || number < least || number > most)
      throw Error(cat(name, ": expected a whole number from ", least, " to ", most, ", got '", value, "'."));
    return static_cast<int>(number);
  }
  int number_or(const char* name, int otherwise, int most) const {
    return text(name).empty() ? otherwise : number(name, 0, most);
  }

 private:
  const char* (*get_)(const char*);
};

struct Names {
  const char *rank, *size, *local_rank, *local_size;
};

RankPlace place(const Variables& env, const Names& names, const char* starter, const char* engine) {
  RankPlace place;
  place.size = env.number(names.size, 1, kMostRanks);
  place.rank = env.number(names.rank, 0, place.size - 1);
  place.local_rank = env.number_or(names.local_rank, 0, place.size - 1);
  place.local_size = env.number_or(names.local_size, 1, place.size);
  place.starter = starter;
  place.engine = engine;
  return place;
}

// "node[03-07,9]", "a,b": the first host of Slurm's list.
std::string first_host(const std::string& list) {
  const std::size_t bracket = list.find('['), comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket) return list.substr(0, comma);
  const std::size_t end = list.find_first_of(",-]", bracket);
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1);
}

// "2(x3),1": the tasks on each node of a step; how many on this one.
int slurm_local_size(const Variables& env) {
  const std::string list = env.text("SLURM_STEP_TASKS_PER_NODE");
  long node = env.number_or("SLURM_NODEID", 0, kMostRanks);
  for (std::size_t at = 0; at < list.size();) {
    char* end = nullptr;
    const long tasks = std::strtol(list.c_str() + at, &end, 10);
    const long nodes = std::strncmp(end, "(x", 2) == 0 ? std::strtol(end + 2, &end, 10) : 1;
    if (node < nodes && tasks > 0) return static_cast<int>(std::min<long>(tasks, kMostRanks));
    node -= nodes;
    at = std::min(list.find(',', static_cast<std::size_t>(end - list.c_str())), list.size() - 1) + 1;
  }
  return env.number_or("SLURM_NTASKS_PER_NODE", 1, kMostRanks);
}

// A port that ranks of one Slurm step agree on without talking.
int slurm_port(const Variables& env) {
  return 20000 +
         (env.number_or("SLURM_JOB_ID", 0, 2000000000) * 31 + env.number_or("SLURM_STEP_ID", 0, 2000000000)) % 20000;
}

}  // namespace

RankPlace read_rank_place(const char* (*get)(const char* name)) {
  const Variables env(get);
  RankPlace found;
  if (env.has({"VARVE_RANK", "VARVE_RANKS"})) {
    found = place(env, {"VARVE_RANK", "VARVE_RANKS", "VARVE_LOCAL_RANK", "VARVE_LOCAL_RANKS"}, "varve", "gloo");
    found.meeting = env.text("VARVE_MEETING");
    found.hosts_meeting = found.rank == 0 && env.text("VARVE_HOSTS_MEETING") == "1";
  } else if (env.has({"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"})) {
    found = place(
        env,
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
        "open mpi", "openmpi");
  } else if (env.has({"PMI_RANK", "PMI_SIZE"})) {
    found = place(env, {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"}, "mpich", "mpich");
  } else if (env.has({"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"})) {  // of a step: srun started this process
    found = place(env, {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", ""}, "slurm", "gloo");
    found.local_size = std::min(slurm_local_size(env), found.size);
    found.meeting = cat(first_host(env.text("SLURM_STEP_NODELIST")), ":", slurm_port(env));
    found.key = cat("slurm.", env.text("SLURM_JOB_ID"), ".", env.text("SLURM_STEP_ID"));
    found.hosts_meeting = found.rank == 0;
  } else if (env.has({"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})) {
    found = place(env, {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}, "torchrun", "gloo");
    // torchrun's own store listens on MASTER_PORT.
    found.meeting = cat(env.text("MASTER_ADDR"), ":", env.number("MASTER_PORT", 1, 65534) + 1);
    found.key = cat("torchrun.", env.text("TORCHELASTIC_RUN_ID"), ".", env.text("TORCHELASTIC_RESTART_COUNT"));
    found.hosts_meeting = found.rank == 0;
  }
  if (found.size > 1 && !env.text("VARVE_JOB_KEY").empty()) found.key = env.text("VARVE_JOB_KEY");
  if (found.size > 1 && !env.text("VARVE_COMMUNICATOR").empty()) {
    const std::string asked = env.text("VARVE_COMMUNICATOR");
    if (asked != "gloo" && asked != "openmpi" && asked != "mpich")
      throw Error(cat("VARVE_COMMUNICATOR: expected gloo, openmpi or mpich, got '", asked, "'."));
    if (asked == "gloo" && found.meeting.empty())
      throw Error(cat("VARVE_COMMUNICATOR=gloo needs a place to meet: this job was started by ", found.starter,
                      ", which gives none. Set VARVE_RANK, VARVE_RANKS and VARVE_MEETING=host:port, or leave it out."));
    found.engine = asked;
  }
  if (found.engine == "gloo" && found.size > 1 && found.meeting.empty())
    throw Error("VARVE_RANKS is set, but not VARVE_MEETING=host:port, where the ranks meet. `varve launch` sets both.");
  return found;
}

int share_of_cores(int cores, int processors, int starters, int ranks) {
  const int share = std::max(1, starters / std::max(1, ranks));
  if (ranks <= 1 || processors <= share) return cores;
  return std::max(1, cores * share / processors);
}

int cores_of_this_rank() {
  int ranks = 1;
  try {
    ranks = rank_place().local_size;
  } catch (const Error&) {  // said when the ranks join
  }
  cpu_set_t starters;
  const bool known = sched_getaffinity(getppid(), sizeof starters, &starters) == 0;
  return share_of_cores(physical_cores(), logical_cpus(), known ? CPU_COUNT(&starters) : logical_cpus(), ranks);
}

const RankPlace& rank_place() {
  static const RankPlace place = read_rank_place([](const char* name) -> const char* { return std::getenv(name); });
  return place;
}

std::string unlike_ranks(const std::vector<std::string>& each) {
  std::string others;
  for (std::size_t rank = 1; rank < each.size(); ++rank)
    if (each[rank] != each[0]) others += cat(others.empty() ? "" : ", ", "rank ", rank, " has ", each[rank]);
  return others;
}

bool& ranks_see_whole_batch() {
  static thread_local bool whole = false;
  return whole;
}

}  // namespace varve
