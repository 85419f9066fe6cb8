// This process's place among the processes of a job, as whoever started it says in the environment: `varve launch`,
// mpirun, srun or torchrun.
#pragma once

#include <string>
#include <vector>

namespace varve {

struct RankPlace {
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;  // on this host
  std::string starter = "none";        // who said so: "varve", "open mpi", "mpich", "slurm", "torchrun"
  std::string engine = "none";         // the communicator that fits the starter: "gloo", "openmpi", "mpich"
  std::string meeting;                 // host:port where the ranks meet; empty with MPI, which needs none
  std::string key;                     // what a process must know to join
  bool hosts_meeting = false;          // rank 0 opens the meeting; else the launcher has
};

// Read once. Throws Error that names the variable when one is wrong.
const RankPlace& rank_place();

// Whether this thread's ranks work on the same samples (distributed::WholeBatch), not each on its share.
bool& ranks_see_whole_batch();

// From these variables: how rank_place() reads, for tests. `get` returns null for what is not set.
RankPlace read_rank_place(const char* (*get)(const char* name));

// The cores that this rank may use: those of this machine divided among its ranks, unless the starter has bound each
// rank to cores of its own, as Open MPI and Slurm do.
int cores_of_this_rank();
// `cores` and `processors` that a rank may run on, `starters` processors that its starter may, `ranks` on the machine.
int share_of_cores(int cores, int processors, int starters, int ranks);

// Of what each rank has, such as instruction sets: "rank 2 has AVX2" for those that differ from rank 0; "": none.
std::string unlike_ranks(const std::vector<std::string>& each);

}  // namespace varve
