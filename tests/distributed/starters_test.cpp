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

TEST(RankPlace, RanksOnThisNodeAreCounted) {
  std::map<std::string, std::string> slurm = {{"SLURM_PROCID", "3"},  {"SLURM_STEP_NUM_TASKS", "8"},
                                              {"SLURM_LOCALID", "1"}, {"SLURM_STEP_NODELIST", "n[1-4]"},
                                              {"SLURM_JOB_ID", "7"},  {"SLURM_STEP_ID", "0"},
                                              {"SLURM_NODEID", "1"},  {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"}};
  EXPECT_EQ(place_with(slurm).local_size, 2);
  slurm["SLURM_NODEID"] = "3";
  slurm["SLURM_LOCALID"] = "0";
  EXPECT_EQ(place_with(slurm).local_size, 1);
  slurm["SLURM_STEP_TASKS_PER_NODE"] = "x(";
  EXPECT_EQ(place_with(slurm).local_size, 1);
  const RankPlace mpich =
      place_with({{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}});
  EXPECT_EQ(mpich.local_rank, 1);
  EXPECT_EQ(mpich.local_size, 2);
}

TEST(RankPlace, AnotherAttemptHasAnotherKey) {
  std::map<std::string, std::string> torchrun = {{"RANK", "1"},
                                                 {"WORLD_SIZE", "2"},
                                                 {"MASTER_ADDR", "h"},
                                                 {"MASTER_PORT", "29500"},
                                                 {"TORCHELASTIC_RUN_ID", "x"},
                                                 {"TORCHELASTIC_RESTART_COUNT", "0"}};
  const std::string before = place_with(torchrun).key;
  torchrun["TORCHELASTIC_RESTART_COUNT"] = "1";
  EXPECT_NE(place_with(torchrun).key, before);
}

TEST(RankPlace, CoresAreDividedUnlessTheStarterHasBoundRanks) {
  EXPECT_EQ(share_of_cores(16, 16, 16, 4), 4);
  EXPECT_EQ(share_of_cores(8, 16, 16, 4), 2);   // hyper-threads
  EXPECT_EQ(share_of_cores(4, 4, 16, 4), 4);    // bound to cores of its own
  EXPECT_EQ(share_of_cores(16, 16, 32, 4), 8);  // bound to a socket that two share
  EXPECT_EQ(share_of_cores(1, 1, 2, 4), 1);     // more ranks than cores
  EXPECT_EQ(share_of_cores(2, 2, 2, 4), 1);
  EXPECT_EQ(share_of_cores(16, 16, 16, 1), 16);
}

}  // namespace
}  // namespace varve::test
