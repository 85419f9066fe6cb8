// Starts the ranks of a job, passes on what they print, and starts them again when one has died.
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <thread>

#include "base/cpu.h"
#include "base/meeting.h"
#include "base/sockets.h"
#include "base/text.h"
#include "varve/distributed.h"

namespace varve::distributed {
namespace {

using Clock = std::chrono::steady_clock;
using Variables = std::vector<std::pair<std::string, std::string>>;

constexpr double kLeaveSeconds = 10, kEndSeconds = 5;  // to end by themselves; after SIGTERM

double seconds_since(Clock::time_point then) { return std::chrono::duration<double>(Clock::now() - then).count(); }

volatile std::sig_atomic_t asked_to_end = 0;

// Ctrl-C reaches the ranks as it reaches us: they save and end, and we wait for them. SIGTERM is passed on.
class Signals {
 public:
  Signals() {
    struct sigaction action {};
    action.sa_handler = [](int signal) { asked_to_end = signal; };
    asked_to_end = 0;
    for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &before_[i]);
  }
  ~Signals() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  }

 private:
  static constexpr std::array<int, 2> kSignals{SIGINT, SIGTERM};
  std::array<struct sigaction, 2> before_{};
};

std::string random_key() {
  std::ifstream source("/dev/urandom", std::ios::binary);
  std::array<unsigned char, 16> bytes{};
  if (!source.read(reinterpret_cast<char*>(bytes.data()), bytes.size()))
    throw Error("launch: /dev/urandom cannot be read, so that the job would have no key.");
  std::string text;
  for (const unsigned char byte : bytes) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", byte);
    text += digits;
  }
  return text;
}

// A word of a shell's command line.
std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char letter : word) text += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return text + "'";
}

struct Pipe {
  int read = -1, write = -1;
};

Pipe open_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error(cat("launch: no pipe can be opened: ", std::strerror(errno), "."));
  return {ends[0], ends[1]};
}

// A process, and what it has printed of its present lines.
struct Rank {
  int number = 0;
  pid_t pid = -1;
  int status = 0;
  bool running = false;
  struct Stream {
    int fd = -1;
    int to = 1;
    std::string line;
  };
  std::vector<Stream> streams;
};

class Job {
 public:
  Job(const LaunchOptions& options, int per_host, int restart, const std::string& run)
      : options_(options), per_host_(per_host) {
    const bool here = options.hosts.empty();
    const std::string address = !options.address.empty() ? options.address : here ? "127.0.0.1" : own_name();
    const int hosts = here ? 1 : static_cast<int>(options.hosts.size());
    const std::string key = random_key();
    server_ = std::make_unique<MeetingServer>(address, 0, MeetingOptions{hosts * per_host, key, silent_seconds()});
    const std::string meeting =
        cat(address.find(':') == std::string::npos ? address : "[" + address + "]", ":", server_->port());
    for (int host = 0; host < hosts; ++host)
      for (int local = 0; local < per_host; ++local) {
        Variables variables = {{"VARVE_RANK", std::to_string(host * per_host + local)},
                               {"VARVE_RANKS", std::to_string(hosts * per_host)},
                               {"VARVE_LOCAL_RANK", std::to_string(local)},
                               {"VARVE_LOCAL_RANKS", std::to_string(per_host)},
                               {"VARVE_MEETING", meeting},
                               {"VARVE_JOB_KEY", key}};
        if (restart > 0) variables.push_back({"VARVE_RESTART", std::to_string(restart)});
        if (!run.empty()) variables.push_back({"VARVE_RUN", run});
        if (const int threads = threads_each(); threads > 0)
          variables.push_back({"VARVE_THREADS", std::to_string(threads)});
        start(host * per_host + local, here ? "" : options.hosts[static_cast<std::size_t>(host)], variables);
      }
  }
  ~Job() {
    for (Rank& rank : ranks_) {
      if (rank.running) {
        kill(rank.pid, SIGKILL);
        waitpid(rank.pid, nullptr, 0);
      }
      for (Rank::Stream& stream : rank.streams)
        if (stream.fd >= 0) close(stream.fd);
    }
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // The exit code of the one that failed first.
  int wait() {
    Clock::time_point failed_at{}, termed_at{};
    bool failed = false, termed = false;
    int code = 0;
    while (any_running() || any_open()) {
      pass_output();
      for (Rank& rank : ranks_) {
        if (!rank.running || waitpid(rank.pid, &rank.status, WNOHANG) != rank.pid) continue;
        rank.running = false;
        const int ended = WIFSIGNALED(rank.status) ? 128 + WTERMSIG(rank.status) : WEXITSTATUS(rank.status);
        if (ended == 0 || failed) continue;
        failed = true;
        failed_at = Clock::now();
        code = ended;
        server_->fail(cat("rank ", rank.number,
                          WIFSIGNALED(rank.status) ? " was ended by signal " : " ended with exit code ",
                          WIFSIGNALED(rank.status) ? WTERMSIG(rank.status) : ended));
      }
      if (asked_to_end == SIGTERM && !termed) {
        termed = failed = true;
        failed_at = termed_at = Clock::now();
        if (code == 0) code = 128 + SIGTERM;
        send(SIGTERM);
      }
      if (failed && !termed && seconds_since(failed_at) > kLeaveSeconds) {
        termed = true;
        termed_at = Clock::now();
        send(SIGTERM);
      }
      if (termed && seconds_since(termed_at) > kEndSeconds) send(SIGKILL);
      if (!any_running() && failed_to_close()) break;
    }
    return code;
  }

  std::string failure() const { return server_->failure(); }
  std::string run() const { return server_->value("run"); }

 private:
  static std::string own_name() {
    char name[256] = "";
    gethostname(name, sizeof(name) - 1);
    return name;
  }
  static double silent_seconds() {
    const char* value = std::getenv("VARVE_SILENT_SECONDS");
    const double seconds = value ? std::atof(value) : 0;
    return seconds > 0 ? seconds : 10;
  }

  // 0: what the environment says, or what the ranks find on their own host.
  int threads_each() const {
    if (options_.threads > 0) return options_.threads;
    if (std::getenv("VARVE_THREADS") || !options_.hosts.empty()) return 0;
    return std::max(1, physical_cores() / per_host_);
  }

  void start(int number, const std::string& host, const Variables& variables) {
    const bool direct = number == 0;  // on our own terminal, so that its progress bar is one
    std::string script;
    std::vector<std::string> words = options_.command;
    if (!host.empty()) {
      // Variables go through the standard input: the key must not be seen in a list of processes.
      const char* chosen = std::getenv("VARVE_LAUNCH_AGENT");
      words.clear();
      std::string agent = chosen && *chosen ? chosen : "ssh -o BatchMode=yes";
      for (std::size_t at = 0, end = 0; at < agent.size(); at = end + 1) {
        end = std::min(agent.find(' ', at), agent.size());
        if (end > at) words.push_back(agent.substr(at, end - at));
      }
      words.push_back(host);
      words.push_back("sh -s");
      char folder[4096] = "";
      script = cat("cd ", quoted(getcwd(folder, sizeof(folder)) ? folder : "."), " || exit 1\n");
      for (const auto& [name, value] : variables) script += cat("export ", name, "=", quoted(value), "\n");
      script += "exec";
      for (const std::string& word : options_.command) script += " " + quoted(word);
      script += " < /dev/null\n";
    }
    const Pipe in = script.empty() ? Pipe{} : open_pipe();
    const Pipe out = direct ? Pipe{} : open_pipe(), err = direct ? Pipe{} : open_pipe();
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const pid_t launcher = getpid(), pid = fork();
    if (pid < 0) throw Error(cat("launch: rank ", number, " cannot be started: ", std::strerror(errno), "."));
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (getppid() != launcher) _exit(1);
      if (host.empty())
        for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
      if (in.read >= 0) dup2(in.read, 0);
      if (out.write >= 0) dup2(out.write, 1);
      if (err.write >= 0) dup2(err.write, 2);
      signal(SIGINT, SIG_DFL);
      signal(SIGTERM, SIG_DFL);
      execvp(argv[0], argv.data());
      std::fprintf(stderr, "error: '%s' cannot be started: %s\n", argv[0], std::strerror(errno));
      _exit(127);
    }
    Rank rank;
    rank.number = number;
    rank.pid = pid;
    rank.running = true;
    for (const auto& [pipe, to] : {std::pair{out, 1}, std::pair{err, 2}}) {
      if (pipe.read < 0) continue;
      close(pipe.write);
      rank.streams.push_back({pipe.read, to, {}});
    }
    if (in.write >= 0) {
      close(in.read);
      static_cast<void>(!write(in.write, script.data(), script.size()));
      close(in.write);
    }
    ranks_.push_back(std::move(rank));
  }

  bool any_running() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.running; });
  }
  bool any_open() const {
    for (const Rank& rank : ranks_)
      for (const Rank::Stream& stream : rank.streams)
        if (stream.fd >= 0) return true;
    return false;
  }
  // A rank may leave processes behind that hold its output open: a moment for them, no more.
  bool failed_to_close() {
    if (!ended_) {
      ended_ = true;
      ended_at_ = Clock::now();
    }
    return seconds_since(ended_at_) > 1;
  }

  void send(int signal) const {
    for (const Rank& rank : ranks_)
      if (rank.running) kill(rank.pid, signal);
  }

  void pass_output() {
    std::vector<pollfd> waits;
    std::vector<std::pair<Rank*, Rank::Stream*>> whose;
    for (Rank& rank : ranks_)
      for (Rank::Stream& stream : rank.streams)
        if (stream.fd >= 0) {
          waits.push_back({stream.fd, POLLIN, 0});
          whose.push_back({&rank, &stream});
        }
    if (poll(waits.data(), waits.size(), 50) <= 0) return;
    for (std::size_t i = 0; i < waits.size(); ++i)
      if (waits[i].revents) take(*whose[i].first, *whose[i].second);
  }

  void take(const Rank& rank, Rank::Stream& stream) const {
    char bytes[8192];
    const ssize_t got = read(stream.fd, bytes, sizeof(bytes));
    if (got < 0 && errno == EINTR) return;
    if (got <= 0) {
      if (!stream.line.empty()) print(rank, stream, stream.line + "\n");
      close(stream.fd);
      stream.fd = -1;
      return;
    }
    stream.line.append(bytes, static_cast<std::size_t>(got));
    constexpr std::size_t kLongest = 1 << 16;
    for (std::size_t end = stream.line.find('\n'); end != std::string::npos || stream.line.size() > kLongest;
         end = stream.line.find('\n')) {
      const std::size_t cut = std::min(end, kLongest);
      print(rank, stream, stream.line.substr(0, cut) + "\n");
      stream.line.erase(0, end == std::string::npos ? cut : cut + 1);
    }
  }

  void print(const Rank& rank, const Rank::Stream& stream, const std::string& line) const {
    const std::string text = options_.labels ? cat("[", rank.number, "] ", line) : line;
    std::FILE* to = stream.to == 1 ? stdout : stderr;
    std::fwrite(text.data(), 1, text.size(), to);
    std::fflush(to);
  }

  const LaunchOptions& options_;
  const int per_host_;
  std::unique_ptr<MeetingServer> server_;
  std::vector<Rank> ranks_;
  bool ended_ = false;
  Clock::time_point ended_at_{};
};

}  // namespace

int launch(const LaunchOptions& options) {
  constexpr int kMostRanks = 4096;
  if (options.ranks < 1 || options.ranks > kMostRanks)
    throw Error(cat("launch: expected 1 to ", kMostRanks, " ranks, got ", options.ranks, "."));
  if (options.command.empty()) throw Error("launch: no command to start. For example: varve launch -n 4 train lenet5");
  const Signals signals;
  int ranks = options.ranks;
  std::string run;
  for (int restart = 0;; ++restart) {
    Job job(options, ranks, restart, run);
    const int code = job.wait();
    if (!job.run().empty()) run = job.run();
    if (code == 0 || asked_to_end || restart == options.restarts) return code;
    if (options.elastic && ranks > 1) --ranks;
    std::fprintf(stderr, "launch: %s; starting again with %d rank%s, %d restart%s left\n", job.failure().c_str(),
                 ranks * static_cast<int>(std::max<std::size_t>(1, options.hosts.size())), ranks == 1 ? "" : "s",
                 options.restarts - restart - 1, options.restarts - restart - 1 == 1 ? "" : "s");
  }
}

}  // namespace varve::distributed
