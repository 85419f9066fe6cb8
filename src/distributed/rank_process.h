// One rank of a job as the launcher sees it: a process, here or behind an agent such as ssh, and what it prints.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace varve::distributed {

struct RankStart {
  int number = 0;
  std::string host;  // "": this machine
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> variables;
  bool labels = true;  // "[2] " before each line; rank 0 prints for itself, so that its progress line is one
};

class RankProcess {
 public:
  explicit RankProcess(const RankStart& start);
  ~RankProcess();  // kills it, if it still runs
  RankProcess(RankProcess&& other) noexcept;
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;
  RankProcess& operator=(RankProcess&&) = delete;

  int number() const { return number_; }
  bool running() const { return running_; }
  bool has_ended();         // true once: it has ended since the last call
  int code() const;         // how: 128 + n by signal n
  std::string how() const;  // "was ended by signal 9", "ended with exit code 2"; "" for 0
  void send(int signal) const;
  void send_all(int signal) const;  // to it, and to what it has started

  struct Stream {
    int fd = -1, to = 1;
    std::string line;  // what came of its present line
  };
  std::vector<Stream>& streams() { return streams_; }
  void pass_on(Stream& stream) const;  // what has come

 private:
  void print(const Stream& stream, const std::string& line) const;

  int number_ = 0, status_ = 0;
  pid_t pid_ = -1;
  bool running_ = false, labels_ = true;
  std::vector<Stream> streams_;
};

// Waits for output for a moment, and passes it on. False: none of them is open any more.
bool pass_output(std::vector<RankProcess>& ranks, int milliseconds);

}  // namespace varve::distributed
