#include "bench/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "base/text.h"
#include "bench/clock.h"

extern char** environ;

namespace varve::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Pipe {
  int ends[2] = {-1, -1};
  Pipe() {
    if (pipe2(ends, O_CLOEXEC) != 0) throw Error(cat("pipe: ", std::strerror(errno)));
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() { close_read(), close_write(); }
  void close_read() { shut(ends[0]); }
  void close_write() { shut(ends[1]); }

 private:
  static void shut(int& end) {
    if (end >= 0) close(end);
    end = -1;
  }
};

// Everything that exec needs, made before fork: between the two only plain system calls are allowed.
struct Prepared {
  std::vector<std::string> variables;
  std::vector<char*> arguments, environment;
  cpu_set_t processors;
  bool bound = false;

  explicit Prepared(const Command& command) {
    for (const std::string& word : command.words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    for (char** v = environ; *v; ++v) {
      const std::string entry = *v;
      if (!command.environment.contains(entry.substr(0, entry.find('=')))) variables.push_back(entry);
    }
    for (const auto& [name, value] : command.environment) variables.push_back(name + "=" + value);
    for (std::string& v : variables) environment.push_back(v.data());
    environment.push_back(nullptr);
    CPU_ZERO(&processors);
    for (const int cpu : command.processors) CPU_SET(cpu, &processors);
    bound = !command.processors.empty();
  }
};

[[noreturn]] void become(const Prepared& prepared, int out, int failed) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(out, STDOUT_FILENO);
  dup2(out, STDERR_FILENO);
  if (prepared.bound) sched_setaffinity(0, sizeof prepared.processors, &prepared.processors);
  // Memory that runs out ends the worker, not the driver.
  const int score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (score >= 0) {
    if (write(score, "1000", 4) != 4) errno = 0;
    close(score);
  }
  execvpe(prepared.arguments[0], prepared.arguments.data(), prepared.environment.data());
  const int error = errno;
  if (write(failed, &error, sizeof error) != sizeof error) _exit(126);
  _exit(127);
}

// CPU time of a process so far, from its line in /proc: fields 14 and 15, counted after the name in parentheses.
double cpu_time(pid_t pid) {
  std::ifstream file(cat("/proc/", pid, "/stat"));
  std::string line;
  if (!std::getline(file, line)) return -1;
  const std::size_t after = line.rfind(')');
  if (after == std::string::npos) return -1;
  std::istringstream fields(line.substr(after + 1));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

class Watched {
 public:
  Watched(pid_t pid, int output, const Command& command) : pid_(pid), output_(output), command_(command) {}

  Finished wait() {
    Finished done;
    done.started = true;
    while (!reaped(done)) {
      drain(50);
      sample(done);
      if (command_.meanwhile) command_.meanwhile();
      if (seconds_since(start_) <= command_.limit_seconds || done.timed_out) continue;
      done.timed_out = true;
      kill(-pid_, SIGKILL);
    }
    kill(-pid_, SIGKILL);  // whatever it left behind
    drain(0);
    done.seconds = seconds_since(start_);
    done.output = tail_;
    return done;
  }

 private:
  bool reaped(Finished& done) {
    int status = 0;
    const pid_t ended = waitpid(pid_, &status, WNOHANG);
    if (ended == 0 || (ended < 0 && errno == EINTR)) return false;
    if (ended < 0) throw Error(cat("waitpid: ", std::strerror(errno)));
    if (WIFEXITED(status)) done.exit_code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) done.signal = WTERMSIG(status);
    return true;
  }

  void drain(int wait_ms) {
    pollfd ready{output_, POLLIN, 0};
    if (closed_) {
      poll(nullptr, 0, wait_ms);
      return;
    }
    while (poll(&ready, 1, wait_ms) > 0) {
      char part[4096];
      const ssize_t count = read(output_, part, sizeof part);
      if (count <= 0) {
        closed_ = count == 0;
        return;
      }
      tail_.append(part, static_cast<std::size_t>(count));
      if (tail_.size() > 2 * command_.tail_bytes) tail_.erase(0, tail_.size() - command_.tail_bytes);
      wait_ms = 0;
    }
    if (tail_.size() > command_.tail_bytes) tail_.erase(0, tail_.size() - command_.tail_bytes);
  }

  void sample(Finished& done) {
    const double now = seconds_since(start_);
    if (now < sampled_ + 0.5) return;
    const double used = cpu_time(pid_);
    if (used >= 0) done.busy.push_back((used - used_) / (now - sampled_));
    if (used >= 0) used_ = used;
    sampled_ = now;
  }

  pid_t pid_;
  int output_;
  const Command& command_;
  Clock::time_point start_ = Clock::now();
  std::string tail_;
  bool closed_ = false;
  double sampled_ = 0, used_ = 0;
};

// "0-3,8": the first number names the core.
std::string siblings(int cpu) {
  std::ifstream file(cat("/sys/devices/system/cpu/cpu", cpu, "/topology/thread_siblings_list"));
  std::string line;
  return std::getline(file, line) ? line : cat(cpu);
}

}  // namespace

Finished run(const Command& command) {
  if (command.words.empty()) throw Error("run: expected a program to run, got no words.");
  const Prepared prepared(command);
  Pipe output, failure;
  const pid_t pid = fork();
  if (pid < 0) throw Error(cat("fork: ", std::strerror(errno)));
  if (pid == 0) become(prepared, output.ends[1], failure.ends[1]);
  output.close_write(), failure.close_write();
  int error = 0;
  const bool refused = read(failure.ends[0], &error, sizeof error) == sizeof error;
  if (refused) {
    waitpid(pid, nullptr, 0);
    Finished none;
    none.output = cat(command.words[0], ": ", std::strerror(error));
    return none;
  }
  return Watched(pid, output.ends[0], command).wait();
}

std::vector<int> spread_processors(int count) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return {};
  std::vector<int> first, second;
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) (cores.insert(siblings(cpu)).second ? first : second).push_back(cpu);
  first.insert(first.end(), second.begin(), second.end());
  first.resize(std::min(first.size(), static_cast<std::size_t>(std::max(count, 1))));
  return first;
}

std::string this_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

}  // namespace varve::bench
