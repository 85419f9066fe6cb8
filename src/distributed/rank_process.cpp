#include "distributed/rank_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "base/text.h"
#include "varve/error.h"

namespace varve::distributed {
namespace {

struct Pipe {
  int read = -1, write = -1;
};

Pipe open_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error(cat("launch: no pipe can be opened: ", std::strerror(errno), "."));
  return {ends[0], ends[1]};
}

// A word of a shell's command line.
std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char letter : word) text += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return text + "'";
}

// ssh, or what VARVE_LAUNCH_AGENT names, with a shell on the other host.
std::vector<std::string> agent_words(const std::string& host) {
  const char* chosen = std::getenv("VARVE_LAUNCH_AGENT");
  const std::string agent = chosen && *chosen ? chosen : "ssh -o BatchMode=yes";
  std::vector<std::string> words;
  for (std::size_t at = 0, end = 0; at < agent.size(); at = end + 1) {
    end = std::min(agent.find(' ', at), agent.size());
    if (end > at) words.push_back(agent.substr(at, end - at));
  }
  words.push_back(host);
  words.push_back("sh -s");
  return words;
}

// What that shell reads: the job's key must not be seen in a list of processes.
std::string agent_script(const RankStart& start) {
  char folder[4096] = "";
  std::string script = cat("cd ", quoted(getcwd(folder, sizeof(folder)) ? folder : "."), " || exit 1\n");
  for (char** setting = environ; *setting; ++setting)  // the user's own, which the other host would not see
    if (const std::string_view text = *setting; text.starts_with("VARVE_"))
      script += cat("export ", text.substr(0, text.find('=') + 1), quoted(std::string(text.substr(text.find('=') + 1))),
                    "\n");
  for (const auto& [name, value] : start.variables) script += cat("export ", name, "=", quoted(value), "\n");
  script += "exec";
  for (const std::string& word : start.command) script += " " + quoted(word);
  return script + " < /dev/null\n";
}

// Of a process, itself first.
std::vector<pid_t> descendants(pid_t first) {
  std::vector<pid_t> found{first};
  for (std::size_t i = 0; i < found.size(); ++i) {
    std::ifstream children(cat("/proc/", found[i], "/task/", found[i], "/children"));
    for (pid_t child = 0; children >> child;) found.push_back(child);
  }
  return found;
}

struct Plumbing {
  Pipe in, out, err;
};

// In the new process.
[[noreturn]] void become(const RankStart& start, std::vector<std::string> words, const Plumbing& pipes,
                         pid_t launcher) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != launcher) _exit(1);
  if (start.host.empty())
    for (const auto& [name, value] : start.variables) setenv(name.c_str(), value.c_str(), 1);
  else
    setpgid(0, 0);  // Ctrl-C is for the ranks, and would end their agent first
  if (pipes.in.read >= 0) dup2(pipes.in.read, 0);
  if (pipes.out.write >= 0) dup2(pipes.out.write, 1);
  if (pipes.err.write >= 0) dup2(pipes.err.write, 2);
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  std::fprintf(stderr, "error: '%s' cannot be started: %s\n", argv[0], std::strerror(errno));
  _exit(127);
}

}  // namespace

RankProcess::RankProcess(const RankStart& start) : number_(start.number), labels_(start.labels) {
  const bool direct = number_ == 0, here = start.host.empty();
  const std::vector<std::string> words = here ? start.command : agent_words(start.host);
  Plumbing pipes;
  if (!here) pipes.in = open_pipe();
  if (!direct) pipes.out = open_pipe();
  if (!direct) pipes.err = open_pipe();
  const pid_t launcher = getpid();
  pid_ = fork();
  if (pid_ < 0) throw Error(cat("launch: rank ", number_, " cannot be started: ", std::strerror(errno), "."));
  if (pid_ == 0) become(start, words, pipes, launcher);
  running_ = true;
  for (const auto& [pipe, to] : {std::pair{pipes.out, 1}, std::pair{pipes.err, 2}}) {
    if (pipe.read < 0) continue;
    close(pipe.write);
    streams_.push_back({pipe.read, to, {}});
  }
  if (here) return;
  const std::string script = agent_script(start);
  close(pipes.in.read);
  static_cast<void>(!write(pipes.in.write, script.data(), script.size()));
  close(pipes.in.write);
}

RankProcess::~RankProcess() {
  if (running_) {
    send_all(SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  for (Stream& stream : streams_)
    if (stream.fd >= 0) close(stream.fd);
}

RankProcess::RankProcess(RankProcess&& other) noexcept
    : number_(other.number_),
      status_(other.status_),
      pid_(other.pid_),
      running_(std::exchange(other.running_, false)),
      labels_(other.labels_),
      streams_(std::exchange(other.streams_, {})) {}

bool RankProcess::has_ended() {
  if (!running_ || waitpid(pid_, &status_, WNOHANG) != pid_) return false;
  running_ = false;
  return true;
}

int RankProcess::code() const { return WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_); }

std::string RankProcess::how() const {
  if (WIFSIGNALED(status_)) return cat("was ended by signal ", WTERMSIG(status_));
  return code() == 0 ? "" : cat("ended with exit code ", code());
}

void RankProcess::send(int signal) const {
  if (running_) kill(pid_, signal);
}

void RankProcess::send_all(int signal) const {
  if (!running_) return;
  for (const pid_t each : descendants(pid_)) kill(each, signal);
}

void RankProcess::pass_on(Stream& stream) const {
  char bytes[8192];
  const ssize_t got = read(stream.fd, bytes, sizeof(bytes));
  if (got < 0 && errno == EINTR) return;
  if (got <= 0) {
    if (!stream.line.empty()) print(stream, stream.line + "\n");
    close(stream.fd);
    stream.fd = -1;
    return;
  }
  stream.line.append(bytes, static_cast<std::size_t>(got));
  constexpr std::size_t kLongest = 1 << 16;
  for (std::size_t end = stream.line.find('\n'); end != std::string::npos || stream.line.size() > kLongest;
       end = stream.line.find('\n')) {
    const std::size_t cut = std::min(end, kLongest);
    print(stream, stream.line.substr(0, cut) + "\n");
    stream.line.erase(0, end == std::string::npos ? cut : cut + 1);
  }
}

void RankProcess::print(const Stream& stream, const std::string& line) const {
  const std::string text = labels_ ? cat("[", number_, "] ", line) : line;
  std::FILE* to = stream.to == 1 ? stdout : stderr;
  std::fwrite(text.data(), 1, text.size(), to);
  std::fflush(to);
}

bool pass_output(std::vector<RankProcess>& ranks, int milliseconds) {
  std::vector<pollfd> waits;
  std::vector<std::pair<RankProcess*, RankProcess::Stream*>> whose;
  for (RankProcess& rank : ranks)
    for (RankProcess::Stream& stream : rank.streams())
      if (stream.fd >= 0) {
        waits.push_back({stream.fd, POLLIN, 0});
        whose.push_back({&rank, &stream});
      }
  if (poll(waits.data(), waits.size(), milliseconds) > 0)
    for (std::size_t i = 0; i < waits.size(); ++i)
      if (waits[i].revents) whose[i].first->pass_on(*whose[i].second);
  return !waits.empty();
}

}  // namespace varve::distributed
