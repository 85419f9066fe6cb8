// Who started us: each starter's variables, and how many threads a rank has.
#include <map>

#include "base/ranks.h"
#include "distributed/ranks.h"

namespace varve::test {
namespace {

std::map<std::string, std::string>& variables() {
  static std::map<std::string, std::string> all;
  return all;
}
RankPlace place_with(std::map<std::string, std::string> given) {
  variables() = std::move(given);
  return read_rank_place([](const char* name) -> const char* {
    const auto found = variables().find(name);
    return found == variables().end() ? nullptr : found->second.c_str();
  });
}

TEST(RankPlace, EveryStarterIsUnderstood) {
  EXPECT_EQ(place_with({}).size, 1);
  const RankPlace own = place_with({{"VARVE_RANK", "1"}, {"VARVE_RANKS", "4"}, {"VARVE_MEETING", "h:1"}});
  EXPECT_EQ(own.rank, 1);
  EXPECT_EQ(own.engine, "gloo");
  const RankPlace open_mpi = place_with({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "3"}});
  EXPECT_EQ(open_mpi.rank, 2);
  EXPECT_EQ(open_mpi.engine, "openmpi");
  EXPECT_EQ(place_with({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}).engine, "mpich");
  const RankPlace slurm = place_with({{"SLURM_PROCID", "3"},
                                      {"SLURM_STEP_NUM_TASKS", "8"},
                                      {"SLURM_JOB_ID", "7"},
                                      {"SLURM_STEP_ID", "0"},
                                      {"SLURM_STEP_NODELIST", "node[03-07,9],x1"}});
  EXPECT_EQ(slurm.meeting.substr(0, 7), "node03:");
  EXPECT_FALSE(slurm.hosts_meeting);
  const RankPlace torchrun =
      place_with({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "29500"}});
  EXPECT_EQ(torchrun.meeting, "10.0.0.1:29501");
  EXPECT_TRUE(torchrun.hosts_meeting);
}

TEST(RankPlace, WrongVariablesAreNamed) {
  const auto message = [](std::map<std::string, std::string> given) { return error_of([&] { place_with(given); }); };
  EXPECT_NE(message({{"VARVE_RANK", "4"}, {"VARVE_RANKS", "4"}, {"VARVE_MEETING", "h:1"}}).find("VARVE_RANK:"),
            std::string::npos);
  EXPECT_NE(message({{"VARVE_RANK", "x"}, {"VARVE_RANKS", "4"}}).find("got 'x'"), std::string::npos);
  EXPECT_NE(message({{"VARVE_RANK", "0"}, {"VARVE_RANKS", "2"}}).find("VARVE_MEETING"), std::string::npos);
  EXPECT_NE(message({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"VARVE_COMMUNICATOR", "smoke"}}).find("smoke"),
            std::string::npos);
}

}  // namespace
}  // namespace varve::test
