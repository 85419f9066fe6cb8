// Starts the ranks of a job, passes on what they print, and starts them again when one has died.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "base/cpu.h"
#include "base/meeting.h"
#include "base/text.h"
#include "distributed/rank_process.h"
#include "varve/distributed.h"

namespace varve::distributed {
namespace {

using Clock = std::chrono::steady_clock;

// To end by themselves; after SIGTERM; for a rank that is named, when the others have ended.
constexpr double kLeaveSeconds = 8, kEndSeconds = 4, kAloneSeconds = 2;
// A job that fails at once is not started at once again: the first wait, the longest, and how long a job must have run
// for the waits to begin anew.
constexpr double kFirstPause = 0.5, kLongestPause = 60, kRanWell = 60;

double seconds_since(Clock::time_point then) { return std::chrono::duration<double>(Clock::now() - then).count(); }

volatile std::sig_atomic_t asked_to_end = 0, asked_by_process = 0, times_asked = 0;

// Ctrl-C reaches the ranks on this machine as it reaches us: they save and end, and we wait for them. What a process
// sends to us alone is passed on.
class Signals {
 public:
  Signals() {
    struct sigaction action {};
    action.sa_flags = SA_SIGINFO;
    action.sa_sigaction = [](int signal, siginfo_t* info, void*) {
      asked_to_end = signal;
      asked_by_process = info->si_code <= 0;
      times_asked = times_asked + 1;
    };
    asked_to_end = 0;
    times_asked = 0;
    for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &before_[i]);
  }
  ~Signals() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

 private:
  static constexpr std::array<int, 2> kSignals{SIGINT, SIGTERM};
  std::array<struct sigaction, 2> before_{};
};

std::string own_name() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

double silent_seconds() {
  const char* value = std::getenv("VARVE_SILENT_SECONDS");
  const double seconds = value ? std::atof(value) : 0;
  return seconds > 0 ? seconds : 10;
}

// What changes from start to start.
struct Attempt {
  int restart = 0;
  int per_host = 1;
  std::vector<std::string> hosts;
  std::string run;  // the folder that the job has begun
};

class Job {
 public:
  Job(const LaunchOptions& options, const Attempt& attempt) : options_(options), attempt_(attempt) {
    const bool here = attempt.hosts.empty();
    const std::string address = !options.address.empty() ? options.address : here ? "127.0.0.1" : own_name();
    const int all = attempt.per_host * static_cast<int>(std::max<std::size_t>(1, attempt.hosts.size()));
    const std::string key = random_key();
    server_ = std::make_unique<MeetingServer>(address, 0, MeetingOptions{all, key, silent_seconds()});
    const std::string meeting =
        cat(address.find(':') == std::string::npos ? address : "[" + address + "]", ":", server_->port());
    ranks_.reserve(static_cast<std::size_t>(all));
    for (int number = 0; number < all; ++number) start(number, all, meeting, key);
  }

  // The exit code of the rank that failed first.
  int wait() {
    Clock::time_point closing{};
    while (any_running() || pass_output(ranks_, 0)) {
      pass_output(ranks_, 50);
      for (RankProcess& rank : ranks_)
        if (rank.has_ended()) note_end(rank);
      if (asked_to_end) pass_on_request();
      // Named by the meeting: they have been told, and end by themselves.
      if (!failed_ && !server_->failure().empty()) note_failure(0);
      end_the_rest();
      if (any_running()) {
        closing = Clock::now();
      } else if (seconds_since(closing) > 1) {
        break;  // a rank may leave processes behind that hold its output open
      }
    }
    return code_;
  }

  std::string failure() const { return server_->failure(); }
  std::string run() const { return server_->value("run"); }
  // The host of the rank that the failure names; "": this machine, or none.
  std::string blamed_host() const {
    const int rank = server_->blamed();
    return rank < 0 || attempt_.hosts.empty() ? "" : host_of(rank);
  }

 private:
  std::string host_of(int number) const {
    return attempt_.hosts.empty() ? "" : attempt_.hosts[static_cast<std::size_t>(number / attempt_.per_host)];
  }

  // 0: what the environment says, or what the ranks find on their own host.
  int threads_each() const {
    if (options_.threads > 0) return options_.threads;
    if (std::getenv("VARVE_THREADS") || !attempt_.hosts.empty()) return 0;
    return std::max(1, physical_cores() / attempt_.per_host);
  }

  void start(int number, int all, const std::string& meeting, const std::string& key) {
    RankStart start{.number = number,
                    .host = host_of(number),
                    .command = options_.command,
                    .variables = {{"VARVE_RANK", std::to_string(number)},
                                  {"VARVE_RANKS", std::to_string(all)},
                                  {"VARVE_LOCAL_RANK", std::to_string(number % attempt_.per_host)},
                                  {"VARVE_LOCAL_RANKS", std::to_string(attempt_.per_host)},
                                  {"VARVE_MEETING", meeting},
                                  {"VARVE_JOB_KEY", key}},
                    .labels = options_.labels};
    if (attempt_.restart > 0) start.variables.push_back({"VARVE_RESTART", std::to_string(attempt_.restart)});
    if (!attempt_.run.empty()) start.variables.push_back({"VARVE_RUN", attempt_.run});
    if (const int threads = threads_each(); threads > 0)
      start.variables.push_back({"VARVE_THREADS", std::to_string(threads)});
    ranks_.emplace_back(start);
  }

  void note_failure(int code) {
    if (!failed_) failed_at_ = Clock::now();
    failed_ = true;
    if (code_ == 0) code_ = code;
  }

  void note_end(const RankProcess& rank) {
    if (rank.code() != 0) note_failure(rank.code());
    server_->ended(rank.number(), rank.how());
  }

  // Those that have joined hear of it by the meeting, on whichever host, and below whichever shell they run. Those here
  // have had Ctrl-C from the terminal, as we have.
  void pass_on_request() {
    if (passed_on_ == times_asked) return;
    passed_on_ = times_asked;
    if (passed_on_ > 1) note_failure(128 + asked_to_end);  // asked again: they have seconds left
    if (attempt_.hosts.empty() && !asked_by_process) return;
    server_->pass_on(asked_to_end);
    for (const RankProcess& rank : ranks_)
      if (!server_->has_joined(rank.number())) rank.send(asked_to_end);
  }

  // The rank that is named, and that the others have left, may be stopped: it hardly ends by itself.
  void end_the_rest() {
    if (!failed_) return;
    const int blamed = server_->blamed();
    const bool others = std::any_of(ranks_.begin(), ranks_.end(),
                                    [&](const RankProcess& rank) { return rank.running() && rank.number() != blamed; });
    const double seconds = seconds_since(failed_at_);
    if (seconds < (others ? kLeaveSeconds : kAloneSeconds)) return;
    const bool asks = others && seconds < kLeaveSeconds + kEndSeconds;
    for (const RankProcess& rank : ranks_) rank.send_all(asks ? SIGTERM : SIGKILL);
  }

  bool any_running() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const RankProcess& rank) { return rank.running(); });
  }

  const LaunchOptions& options_;
  const Attempt attempt_;
  std::unique_ptr<MeetingServer> server_;
  std::vector<RankProcess> ranks_;
  bool failed_ = false;
  int code_ = 0, passed_on_ = 0;
  Clock::time_point failed_at_{};
};

void pause_for(double seconds) {
  const auto began = Clock::now();
  while (!asked_to_end && seconds_since(began) < seconds) std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

// Without what has failed: the host of the rank that was named, or one rank on each.
void shrink(Attempt& next, const std::string& host) {
  if (!host.empty() && next.hosts.size() > 1)
    std::erase(next.hosts, host);
  else if (next.per_host > 1)
    --next.per_host;
}

}  // namespace

int launch(const LaunchOptions& options) {
  constexpr int kMostRanks = 4096;
  if (options.ranks < 1 || options.ranks > kMostRanks)
    throw Error(cat("launch: expected 1 to ", kMostRanks, " ranks, got ", options.ranks, "."));
  if (options.command.empty()) throw Error("launch: no command to start. For example: varve launch -n 4 train lenet5");
  const Signals signals;
  Attempt attempt{.restart = 0, .per_host = options.ranks, .hosts = options.hosts, .run = {}};
  double pause = kFirstPause;
  for (;; ++attempt.restart) {
    const auto began = Clock::now();
    Job job(options, attempt);
    const int code = job.wait();
    if (!job.run().empty()) attempt.run = job.run();
    if (code == 0 || asked_to_end || attempt.restart == options.restarts) return code;
    if (options.elastic) shrink(attempt, job.blamed_host());
    if (seconds_since(began) > kRanWell) pause = kFirstPause;
    const int ranks = attempt.per_host * static_cast<int>(std::max<std::size_t>(1, attempt.hosts.size()));
    const int left = options.restarts - attempt.restart - 1;
    std::fprintf(stderr, "launch: %s; starting again with %d rank%s in %.1f s, %d restart%s left\n",
                 job.failure().c_str(), ranks, ranks == 1 ? "" : "s", pause, left, left == 1 ? "" : "s");
    pause_for(pause);
    if (asked_to_end) return code;
    pause = std::min(2 * pause, kLongestPause);
  }
}

}  // namespace varve::distributed
