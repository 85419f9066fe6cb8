// A rank that dies, stops or is not one of ours: the others say which, end soon, and a restarted job goes on exactly.
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/meeting.h"
#include "base/ranks.h"
#include "base/sockets.h"
#include "distributed/ranks.h"
#include "temporary_folder.h"
#include "varve/varve.h"

namespace varve::test {
namespace {

namespace dist = distributed;
using Clock = std::chrono::steady_clock;

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

double seconds_since(Clock::time_point then) { return std::chrono::duration<double>(Clock::now() - then).count(); }

std::string read(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

class Faults : public Ranks {
 protected:
  // Starts the ranks; the last one does `harm` to itself at a step of its training; what the others say is in files.
  struct Ended {
    int code = 0;
    double seconds = 0;
  };
  static Ended launch_harmed(const std::string& folder, const std::string& harm, int restarts = 0) {
    setenv("FAULT_FOLDER", folder.c_str(), 1);
    setenv("FAULT", harm.c_str(), 1);
    setenv("VARVE_SILENT_SECONDS", "2", 1);
    const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
    dist::LaunchOptions options;
    options.ranks = GetParam();
    options.restarts = restarts;
    options.command = {std::filesystem::read_symlink("/proc/self/exe").string(), "--gtest_brief=1",
                       std::string("--gtest_filter=") + test->test_suite_name() + "." + test->name()};
    const auto began = Clock::now();
    return {dist::launch(options), seconds_since(began)};
  }
  static bool is_rank() { return std::getenv("VARVE_RANK") != nullptr; }

  static void train_and_tell() {
    struct Harm : train::Callback {
      void step_end(train::Session& session) override {
        const std::string harm = std::getenv("FAULT");
        const bool restarted = std::getenv("VARVE_RESTART") != nullptr;
        if (restarted || harm == "none" || dist::rank() != dist::size() - 1) return;
        const std::size_t at = harm.find('@');
        if (session.step() != std::stoi(harm.substr(at + 1))) return;
        if (harm.starts_with("kill")) raise(SIGKILL);
        if (harm.starts_with("stop")) raise(SIGSTOP);
        if (harm.starts_with("throw")) throw Error("the disk of this rank is gone");
      }
    };
    const std::string folder = std::getenv("FAULT_FOLDER");
    auto model = nn::sequential(nn::flatten(), nn::dense(16, {.activation = nn::relu}), nn::dense(10));
    train::FitOptions options{.optimizer = optim::adam(1e-2),
                              .epochs = 3,
                              .batch = 32,
                              .run = folder + "/run",
                              .seed = 5,
                              .save_steps = 4,
                              .verbosity = train::Verbosity::quiet};
    options.callbacks = {std::make_shared<Harm>()};
    const std::string name = folder + "/rank" + std::to_string(dist::rank());
    try {
      train::fit(model, data::digits({.train = 300, .test = 1}).train, options);
      std::string weights;
      for (const nn::NamedVariable& named : model.named_variables())
        for (const float value : named.variable.value().to_vector<float>())
          weights.append(reinterpret_cast<const char*>(&value), sizeof(value));
      write(name, weights);
    } catch (const Error& error) {
      write(name, error.what());
      std::exit(1);
    }
  }
};

TEST_P(Faults, AKilledRankIsNamedAndARestartedJobGoesOnExactly) {
  if (is_rank()) return train_and_tell();
  const TemporaryFolder whole, harmed, again;
  ASSERT_EQ(launch_harmed(whole.path().string(), "none").code, 0);
  const Ended ended = launch_harmed(harmed.path().string(), "kill@14");
  EXPECT_NE(ended.code, 0);
  EXPECT_LT(ended.seconds, 30);
  const std::string last = "rank " + std::to_string(GetParam() - 1);
  for (int r = 0; r + 1 < GetParam(); ++r)
    EXPECT_NE(read(harmed / ("rank" + std::to_string(r))).find(last), std::string::npos)
        << read(harmed / ("rank" + std::to_string(r)));
  EXPECT_EQ(launch_harmed(again.path().string(), "kill@14", 1).code, 0);
  for (int r = 0; r < GetParam(); ++r) {
    EXPECT_GT(read(whole / "rank0").size(), 1000u);
    EXPECT_EQ(read(again / ("rank" + std::to_string(r))), read(whole / "rank0"));
  }
}

TEST_P(Faults, AStoppedRankIsNamed) {
  if (is_rank()) return train_and_tell();
  const TemporaryFolder folder;
  const Ended ended = launch_harmed(folder.path().string(), "stop@5");
  EXPECT_NE(ended.code, 0);
  EXPECT_LT(ended.seconds, 30);
  const std::string said = read(folder / "rank0");
  EXPECT_NE(said.find("rank " + std::to_string(GetParam() - 1)), std::string::npos) << said;
  EXPECT_NE(said.find("silent"), std::string::npos) << said;
}

TEST_P(Faults, ARankThatFailsTellsTheOthersWhy) {
  if (is_rank()) return train_and_tell();
  const TemporaryFolder folder;
  EXPECT_EQ(launch_harmed(folder.path().string(), "throw@5").code, 1);
  EXPECT_NE(read(folder / "rank0").find("rank " + std::to_string(GetParam() - 1)), std::string::npos)
      << read(folder / "rank0");
}

INSTANTIATE_TEST_SUITE_P(Of, Faults, ::testing::Values(2, 4));

// ---- the place where ranks meet

MeetingOptions two_with(const std::string& key) { return {.ranks = 2, .key = key}; }
std::string at(const MeetingServer& server) { return "127.0.0.1:" + std::to_string(server.port()); }

TEST(Meeting, ValuesAreSeenByAll) {
  MeetingServer server("127.0.0.1", 0, two_with("k"));
  MeetingClient first(at(server), 0, two_with("k")), second(at(server), 1, two_with("k"));
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    first.set("a", std::string("x\0y", 3));
  });
  EXPECT_EQ(second.get("a"), std::string("x\0y", 3));
  later.join();
  EXPECT_EQ(server.value("a"), std::string("x\0y", 3));
  EXPECT_EQ(server.failure(), "");
  EXPECT_NE(error_of([&] { second.get("nobody sets it", 0.3); }).find("waited"), std::string::npos);
}

TEST(Meeting, NobodyJoinsWithoutTheKeyTwiceOrAsARankTooMany) {
  MeetingServer server("127.0.0.1", 0, two_with("right"));
  EXPECT_NE(error_of([&] { MeetingClient(at(server), 0, two_with("wrong")); }).find("key"), std::string::npos);
  EXPECT_NE(error_of([&] { MeetingClient(at(server), 0, two_with("")); }).find("key"), std::string::npos);
  EXPECT_NE(error_of([&] { MeetingClient(at(server), 2, two_with("right")); }).find("2 ranks"), std::string::npos);
  const MeetingClient one(at(server), 0, two_with("right"));
  EXPECT_NE(error_of([&] { MeetingClient(at(server), 0, two_with("right")); }).find("already"), std::string::npos);
}

TEST(Meeting, HostileBytesHarmNobody) {
  MeetingServer server("127.0.0.1", 0, two_with("k"));
  MeetingClient first(at(server), 0, two_with("k"));
  for (const std::string& bytes :
       {std::string(100000, '\xff'), std::string("\0\0\0\0", 4), std::string("GET / HTTP/1.1\r\n\r\n"),
        std::string("\x05\0\0\0hhhhh", 9), std::string("\x01\0\0\0s", 5)}) {
    const Socket stranger = connect_to("127.0.0.1", server.port());
    ASSERT_TRUE(stranger.open());
    send_frame(stranger, bytes);
    static_cast<void>(!::send(stranger.fd(), bytes.data(), bytes.size(), 0x4000));  // MSG_NOSIGNAL
  }
  first.set("b", "still here");
  EXPECT_EQ(first.get("b"), "still here");
  EXPECT_EQ(server.failure(), "");
}

TEST(Meeting, ASilentRankIsNamed) {
  MeetingOptions options = two_with("k");
  options.silent_seconds = 1.5;  // beats come every second
  MeetingServer server("127.0.0.1", 0, options);
  const pid_t child = fork();
  if (child == 0) {
    const MeetingClient second(at(server), 1, options);
    raise(SIGSTOP);
    _exit(0);
  }
  MeetingClient first(at(server), 0, options);
  for (int i = 0; i < 100 && first.failure().empty(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_NE(first.failure().find("rank 1"), std::string::npos) << first.failure();
  EXPECT_NE(first.failure().find("silent"), std::string::npos) << first.failure();
}

TEST(Meeting, APortThatIsTakenIsSaid) {
  const MeetingServer server("127.0.0.1", 0, two_with("k"));
  EXPECT_NE(error_of([&] { MeetingServer("127.0.0.1", server.port(), two_with("k")); }).find("cannot listen"),
            std::string::npos);
}

// ---- who started us

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
