// A run that is killed at random moments, over and over, and goes on each time, ends with the same bits.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <random>
#include <thread>

#include "train/fit_helpers.h"

extern char** environ;

namespace varve {
namespace {

using namespace train_tests;
namespace fs = std::filesystem;

#ifdef VARVE_CLI_PATH

class Process {
 public:
  explicit Process(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), VARVE_CLI_PATH);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t quiet;
    posix_spawn_file_actions_init(&quiet);
    for (const int file : {1, 2}) posix_spawn_file_actions_addopen(&quiet, file, "/dev/null", O_WRONLY, 0);
    if (posix_spawn(&pid_, VARVE_CLI_PATH, &quiet, nullptr, argv.data(), environ) != 0) pid_ = -1;
    posix_spawn_file_actions_destroy(&quiet);
  }
  bool running() { return pid_ > 0 && !ended_ && !(ended_ = waitpid(pid_, &status_, WNOHANG) == pid_); }
  void kill() {
    if (!running()) return;
    ::kill(pid_, SIGKILL);
    wait();
  }
  int wait() {
    if (!ended_ && pid_ > 0) ended_ = waitpid(pid_, &status_, 0) == pid_;
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : -1;
  }

 private:
  pid_t pid_ = -1;
  int status_ = -1;
  bool ended_ = false;
};

std::vector<std::string> fresh(const std::string& runs, int epochs) {
  return {"train",       "cnn-mnist",    "data=digits", "data.train=400",
          "width=4",     "data.test=50", "batch=40",    "epochs=" + std::to_string(epochs),
          "average=0.9", "save_steps=1", "seed=5",      "runs=" + runs};
}

std::string checkpoint(const std::string& runs) { return runs + "/cnn-mnist-1/last.safetensors"; }

// Begins the run, or goes on with it when it has come as far as a checkpoint.
Process start(const std::string& runs, int epochs) {
  if (fs::exists(checkpoint(runs))) return Process({"train", runs + "/cnn-mnist-1", "--resume"});
  fs::remove_all(runs);
  return Process(fresh(runs, epochs));
}

void expect_same_tensors(const std::string& a, const std::string& b) {
  const Safetensors x = load_safetensors(a), y = load_safetensors(b);
  ASSERT_EQ(x.tensors.size(), y.tensors.size());
  ASSERT_FALSE(x.tensors.empty());
  for (std::size_t i = 0; i < x.tensors.size(); ++i) {
    EXPECT_EQ(x.tensors[i].first, y.tensors[i].first);
    EXPECT_TRUE(same_bits(x.tensors[i].second, y.tensors[i].second)) << x.tensors[i].first;
  }
}

TEST(Kill, AtRandomMomentsOverAndOver) {
  const Folder folder;
  const std::string runs = folder / "killed";
  const char* full = std::getenv("VARVE_TEST_FULL");
  const int kills = full && std::strcmp(full, "0") != 0 ? 50 : 15;
  const int epochs = 3 * kills;  // of ten steps: a run that outlives them all
  ASSERT_EQ(Process(fresh(folder / "straight", epochs)).wait(), 0);
  std::mt19937 random(7);
  std::uniform_real_distribution<double> uniform(0, 1);
  int killed = 0, in_training = 0;
  for (int i = 0; i < kills; ++i) {
    const bool existed = fs::exists(checkpoint(runs));
    const auto before = existed ? fs::last_write_time(checkpoint(runs)) : fs::file_time_type();
    Process process = start(runs, epochs);
    const auto saved = [&] { return fs::exists(checkpoint(runs)) && fs::last_write_time(checkpoint(runs)) != before; };
    // Every other time while it trains and saves, otherwise at any moment from its start.
    if (i % 2 == 0)
      while (process.running() && !saved()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::duration<double>(uniform(random) * (i % 2 == 0 ? 0.02 : 0.2)));
    killed += process.running();
    in_training += saved();
    process.kill();
  }
  EXPECT_GE(in_training, kills / 4) << "too few of the kills fell into training";
  EXPECT_EQ(killed, kills) << "the run ended before it could be killed that often";
  ASSERT_EQ(start(runs, epochs).wait(), 0);
  expect_same_tensors(checkpoint(runs), checkpoint(folder / "straight"));
  expect_same_tensors(runs + "/cnn-mnist-1/best.safetensors", folder / "straight/cnn-mnist-1/best.safetensors");
  std::cout << killed << " processes were killed, " << in_training << " of them in training\n";
}

#endif

}  // namespace
}  // namespace varve
