// A small HTTP server for pages of this machine: loopback only, GET only, one answer a connection, everything bounded.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>

namespace varve::cli {

struct PageAnswer {
  int status = 404;
  std::string type = "text/plain; charset=utf-8";
  std::string body = "not found\n";
};

class PageServer {
 public:
  using Answer = std::function<PageAnswer(const std::string& path)>;  // called on the server's thread; must not throw
  // Listens on 127.0.0.1 from now on, at `port`, or at a free one when that is taken or 0. `csp`: what pages may load.
  PageServer(int port, std::string csp, Answer answer);
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  std::string url() const;
  std::int64_t answered() const { return answered_.load(); }  // requests so far
  void wait() { thread_.join(); }                             // for ever: the process is ended by a signal

 private:
  void serve();

  int listener_ = -1, port_ = 0;
  std::string csp_;
  Answer answer_;
  std::atomic<bool> stopping_ = false;
  std::atomic<std::int64_t> answered_ = 0;
  std::thread thread_;
};

}  // namespace varve::cli
