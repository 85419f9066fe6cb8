// A rank that dies, stops or is not one of ours: the others say which, end soon, and a restarted job goes on exactly.
#include <signal.h>
#include <sys/resource.h>

#include <chrono>
#include <fstream>
#include <limits>
#include <sstream>
#include <thread>

#include "distributed/ranks.h"
#include "temporary_folder.h"
#include "varve/varve.h"

namespace varve::test {
namespace {

namespace dist = distributed;
using Clock = std::chrono::steady_clock;

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
  static void use_all_memory() {
    const rlimit none{1 << 20, 1 << 20};
    setrlimit(RLIMIT_AS, &none);
    std::vector<std::vector<char>> all;
    for (;;) all.emplace_back(1 << 24, 'x');
  }
  // What the others say of the last rank, which ended so; all within seconds.
  static void expect_said(const std::string& harm, const std::string& said) {
    const TemporaryFolder folder;
    const Ended ended = launch_harmed(folder.path().string(), harm);
    EXPECT_NE(ended.code, 0);
    EXPECT_LT(ended.seconds, 30);
    for (int r = 0; r + 1 < GetParam(); ++r) {
      const std::string text = read(folder / ("rank" + std::to_string(r)));
      EXPECT_NE(text.find("rank " + std::to_string(GetParam() - 1)), std::string::npos) << text;
      EXPECT_NE(text.find(said), std::string::npos) << text;
    }
  }
  static bool is_harm(const std::string& name) { return std::string(std::getenv("FAULT")).starts_with(name); }
  static bool is_rank() { return std::getenv("VARVE_RANK") != nullptr; }

  static void train_and_tell() {
    const bool last = dist::rank() == dist::size() - 1;
    if (last && std::getenv("FAULT") == std::string("absent")) return;
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
        if (harm.starts_with("leave")) std::exit(0);
        if (harm.starts_with("late")) std::this_thread::sleep_for(std::chrono::minutes(1));
        if (harm.starts_with("memory")) use_all_memory();
      }
    };
    const std::string folder = std::getenv("FAULT_FOLDER");
    auto model = nn::sequential(
        nn::flatten(), nn::dense(last && is_harm("network") ? 17 : 16, {.activation = nn::relu}), nn::dense(10));
    train::FitOptions options{.optimizer = optim::adam(1e-2),
                              .epochs = 3,
                              .batch = last && is_harm("batch") ? 16 : 32,
                              .run = folder + "/run",
                              .seed = 5,
                              .save_steps = 4,
                              .verbosity = train::Verbosity::quiet};
    options.callbacks = {std::make_shared<Harm>()};
    const std::string name = folder + "/rank" + std::to_string(dist::rank());
    if (!last && is_harm("late")) setenv("VARVE_RANK_DEADLINE", "2", 1);
    try {
      train::fit(
          model,
          data::digits(
              {.train = last && is_harm("data") ? 200 : 300, .test = 1, .seed = last && is_harm("samples") ? 2 : 1})
              .train,
          options);
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

TEST_P(Faults, ARankThatEndsEarlyIsNamed) {
  if (is_rank()) return train_and_tell();
  expect_said("leave@5", "has ended in order");
}

INSTANTIATE_TEST_SUITE_P(Of, Faults, ::testing::Values(2, 4));

// What more ranks would show again.
class FaultsOfTwo : public Faults {};

TEST_P(FaultsOfTwo, AStoppedRankIsNamed) {
  if (is_rank()) return train_and_tell();
  expect_said("stop@5", "has been silent");
}

TEST_P(FaultsOfTwo, ARankThatFailsTellsTheOthersWhy) {
  if (is_rank()) return train_and_tell();
  expect_said("throw@5", "the disk of this rank is gone");
}

TEST_P(FaultsOfTwo, ARankThatIsOutOfMemorySaysSo) {
  if (is_rank()) return train_and_tell();
  expect_said("memory@5", "out of memory");
}

TEST_P(FaultsOfTwo, ALateRankIsNamed) {
  if (is_rank()) return train_and_tell();
  expect_said("late@5", "is alive, but does not come");
}

TEST_P(FaultsOfTwo, ARankThatNeverJoinsIsNamed) {
  if (is_rank()) return train_and_tell();
  expect_said("absent", "before it joined");
}

TEST_P(FaultsOfTwo, ARankWithAnotherBatchIsNamed) {
  if (is_rank()) return train_and_tell();
  expect_said("batch", "batch: 16");
}

TEST_P(FaultsOfTwo, ARankWithOtherDataIsNamed) {
  if (is_rank()) return train_and_tell();
  expect_said("data", "training data: 200 samples");
}

TEST_P(FaultsOfTwo, ARankWithOtherSamplesIsNamed) {
  if (is_rank()) return train_and_tell();
  expect_said("samples", "training samples:");
}

TEST_P(FaultsOfTwo, ARankWithAnotherNetworkIsNamed) {
  if (is_rank()) return train_and_tell();
  expect_said("network", "network: ");
}

INSTANTIATE_TEST_SUITE_P(Of, FaultsOfTwo, ::testing::Values(2));

}  // namespace
}  // namespace varve::test
