// The varve command as a server: started, asked, and ended with the object.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

extern char** environ;

#ifdef VARVE_CLI_PATH
namespace varve::test {

class Served {
 public:
  explicit Served(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), VARVE_CLI_PATH);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return;
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, pipe[1], 1);
    posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
    if (posix_spawn(&pid_, VARVE_CLI_PATH, &files, nullptr, argv.data(), environ) != 0) pid_ = -1;
    posix_spawn_file_actions_destroy(&files);
    ::close(pipe[1]);
    out_ = pipe[0];
    const std::string mark = "http://127.0.0.1:";
    std::string text;
    for (char c = 0; text.find(mark) == std::string::npos || c != '/';) {
      if (::read(out_, &c, 1) != 1) return;
      text += c;
      if (text.ends_with(mark)) c = 0;
    }
    port_ = std::stoi(text.substr(text.find(mark) + mark.size()));
  }
  ~Served() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    if (out_ >= 0) ::close(out_);
  }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

  int port() const { return port_; }  // 0: it did not start

  int connect_to(const char* host) const {
    const int file = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port_));
    ::inet_pton(AF_INET, host, &address.sin_addr);
    if (::connect(file, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return file;
    ::close(file);
    return -1;
  }

  // All that comes back until the server closes; at most twenty seconds.
  std::string exchange(const std::string& request) const {
    const int file = connect_to("127.0.0.1");
    static_cast<void>(!::send(file, request.data(), request.size(), MSG_NOSIGNAL));
    std::string answer;
    std::array<char, 4096> part;
    for (pollfd ready{file, POLLIN, 0}; ::poll(&ready, 1, 20000) > 0;) {
      const ssize_t count = ::recv(file, part.data(), part.size(), 0);
      if (count <= 0) break;
      answer.append(part.data(), static_cast<std::size_t>(count));
    }
    ::close(file);
    return answer;
  }
  std::string get(const std::string& path) const {
    return exchange("GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port_) + "\r\n\r\n");
  }

 private:
  pid_t pid_ = -1;
  int out_ = -1, port_ = 0;
};

}  // namespace varve::test
#endif
