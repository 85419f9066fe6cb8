// Trainings whose last rank comes to harm, and what the others say of it.
#pragma once

#include <signal.h>
#include <sys/resource.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

#include "distributed/ranks.h"
#include "temporary_folder.h"
#include "varve/varve.h"

namespace varve::test {

namespace dist = distributed;
using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

inline std::string read_text(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void write_text(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

// "kill@14": what comes over one rank at that step of its training. The last one, but for a full disk, which only rank
// 0 writes to.
class Harm : public train::Callback {
 public:
  Harm() : text_(std::getenv("FAULT")) {}
  bool is(const std::string& name) const { return text_.starts_with(name); }
  bool is_mine() const { return dist::rank() == (is("disk") ? 0 : dist::size() - 1); }
  bool makes(const std::string& name) const { return is_mine() && is(name); }

  void step_end(train::Session& session) override {
    const std::size_t at = text_.find('@');
    if (std::getenv("VARVE_RESTART") || !is_mine() || at == std::string::npos) return;
    if (session.step() != std::stoi(text_.substr(at + 1))) return;
    if (is("kill")) raise(SIGKILL);
    if (is("stop")) raise(SIGSTOP);
    if (is("throw")) throw Error("the disk of this rank is gone");
    if (is("leave")) std::exit(0);
    if (is("late")) std::this_thread::sleep_for(std::chrono::minutes(1));
    if (is("memory")) use_all_memory();
    if (is("disk")) fill_disk();
    if (is("cut")) write_text(std::getenv("FAULT_FOLDER") + std::string("/now"), "cut");
  }

  // Files cannot grow any more, as on a disk that is full.
  static void fill_disk() {
    signal(SIGXFSZ, SIG_IGN);
    limit_files(64);
  }
  static void limit_files(rlim_t bytes) {
    rlimit limit{};
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = std::min(bytes, limit.rlim_max);
    setrlimit(RLIMIT_FSIZE, &limit);
  }

 private:
  static void use_all_memory() {
    const rlimit none{1 << 20, 1 << 20};
    setrlimit(RLIMIT_AS, &none);
    std::vector<std::vector<char>> all;
    for (;;) all.emplace_back(1 << 24, 'x');
  }

  std::string text_;
};

class Faults : public Ranks {
 protected:
  struct Ended {
    int code = 0;
    double seconds = 0;
  };
  // Starts the ranks, which find in the environment what happens to one of them; what they say is in files.
  static Ended launch_harmed(const TemporaryFolder& folder, const std::string& harm, dist::LaunchOptions options = {}) {
    setenv("FAULT_FOLDER", folder.path().c_str(), 1);
    setenv("FAULT", harm.c_str(), 1);
    setenv("VARVE_SILENT_SECONDS", "2", 1);
    const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
    if (options.hosts.empty()) options.ranks = GetParam();
    options.command = {std::filesystem::read_symlink("/proc/self/exe").string(), "--gtest_brief=1",
                       std::string("--gtest_filter=") + test->test_suite_name() + "." + test->name()};
    const auto began = Clock::now();
    return {dist::launch(options), seconds_since(began)};
  }
  // What all ranks but one say of that one.
  static void expect_named(const TemporaryFolder& folder, int ranks, int rank, const std::string& said) {
    for (int r = 0; r < ranks; ++r) {
      if (r == rank) continue;
      const std::string text = read_text(folder / ("rank" + std::to_string(r)));
      EXPECT_NE(text.find("rank " + std::to_string(rank)), std::string::npos) << text;
      EXPECT_NE(text.find(said), std::string::npos) << text;
    }
  }
  // The last rank ended so; the others within seconds.
  static void expect_said(const std::string& harm, const std::string& said) {
    const TemporaryFolder folder;
    const Ended ended = launch_harmed(folder, harm);
    EXPECT_NE(ended.code, 0);
    EXPECT_LT(ended.seconds, 30);
    expect_named(folder, GetParam(), GetParam() - 1, said);
  }
  static bool is_rank() { return std::getenv("VARVE_RANK") != nullptr; }

  static void train_and_tell() {
    const auto harm = std::make_shared<Harm>();
    if (harm->makes("absent")) return;
    if (harm->is("late") && !harm->is_mine()) setenv("VARVE_RANK_DEADLINE", "2", 1);
    const std::string folder = std::getenv("FAULT_FOLDER");
    auto model = nn::sequential(nn::flatten(), nn::dense(harm->makes("network") ? 17 : 16, {.activation = nn::relu}),
                                nn::dense(10));
    train::FitOptions options{.optimizer = optim::adam(1e-2),
                              .epochs = 3,
                              .batch = harm->makes("batch") ? 16 : 32,
                              .run = folder + "/run",
                              .seed = 5,
                              .save_steps = 4,
                              .verbosity = train::Verbosity::quiet};
    options.callbacks = {harm};
    const data::DigitsOptions digits{
        .train = harm->makes("data") ? 200 : 300, .test = 1, .seed = harm->makes("samples") ? 2 : 1};
    const std::string name = folder + "/rank" + std::to_string(dist::rank());
    try {
      train::fit(model, data::digits(digits).train, options);
      std::string weights;
      for (const nn::NamedVariable& named : model.named_variables())
        for (const float value : named.variable.value().to_vector<float>())
          weights.append(reinterpret_cast<const char*>(&value), sizeof(value));
      write_text(name, weights);
    } catch (const Error& error) {
      Harm::limit_files(RLIM_INFINITY);
      write_text(name, error.what());
      std::exit(1);
    }
  }
};

}  // namespace varve::test
