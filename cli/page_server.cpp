#include "cli/page_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <list>
#include <utility>
#include <vector>

#include "base/text.h"

namespace varve::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostConnections = 32, kMostRequest = 8192;
constexpr auto kReadTime = std::chrono::seconds(5), kWriteTime = std::chrono::seconds(15);
constexpr int kTick = 200;  // milliseconds between looks at the clock

class Socket {
 public:
  explicit Socket(int file) : file_(file) {}
  Socket(Socket&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  Socket& operator=(Socket&&) = delete;
  ~Socket() {
    if (file_ >= 0) ::close(file_);
  }
  int get() const { return file_; }

 private:
  int file_;
};

struct Connection {
  Socket socket;
  Clock::time_point deadline;
  std::string request, response;
  std::size_t sent = 0;
};

const char* reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
    case 405:
      return "Method Not Allowed";
    case 431:
      return "Request Header Fields Too Large";
    default:
      return "Not Found";
  }
}

std::string lower_case(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

// The value of a header; "" when it is missing or there twice.
std::string header(const std::string& request, const std::string& name) {
  std::string found;
  int times = 0;
  for (std::size_t at = request.find("\r\n"); at != std::string::npos; at = request.find("\r\n", at)) {
    at += 2;
    const std::size_t end = std::min(request.find("\r\n", at), request.size()), colon = request.find(':', at);
    if (colon >= end || lower_case(request.substr(at, colon - at)) != name) continue;
    const std::size_t begin = std::min(request.find_first_not_of(" \t", colon + 1), end);
    found = request.substr(begin, end - begin);
    ++times;
  }
  return times == 1 ? found : "";
}

PageAnswer refusal(int status, const std::string& why) { return {.status = status, .body = why + "\n"}; }

// Names that lead to this machine only: a page elsewhere whose name was pointed at 127.0.0.1 must not read ours.
bool is_own_host(const std::string& host, int port) {
  for (const char* name : {"127.0.0.1", "localhost"})
    if (host == cat(name, ":", port)) return true;
  return false;
}

PageAnswer answer_to(const std::string& request, int port, const PageServer::Answer& answer) {
  const std::string line = request.substr(0, request.find("\r\n"));
  const std::size_t first = line.find(' '), second = line.find(' ', first + 1);
  if (first == std::string::npos || second == std::string::npos || !line.substr(second + 1).starts_with("HTTP/1."))
    return refusal(400, "expected: GET /path HTTP/1.1");
  if (line.substr(0, first) != "GET") return refusal(405, "only GET is answered");
  if (!is_own_host(lower_case(header(request, "host")), port)) return refusal(403, "unknown host");
  std::string path = line.substr(first + 1, second - first - 1);
  path = path.substr(0, path.find('?'));
  return path.starts_with('/') ? answer(path) : refusal(400, "expected a path");
}

std::string response_text(const PageAnswer& answer, const std::string& csp) {
  return cat("HTTP/1.1 ", answer.status, " ", reason(answer.status), "\r\nContent-Type: ", answer.type,
             "\r\nContent-Length: ", answer.body.size(), "\r\nContent-Security-Policy: ", csp,
             "\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCache-Control: no-store\r\n",
             answer.status == 405 ? "Allow: GET\r\n" : "", "Connection: close\r\n\r\n") +
         answer.body;
}

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

// False: the connection is done with.
bool read_some(Connection& connection) {
  std::array<char, 4096> part;
  const ssize_t count = ::recv(connection.socket.get(), part.data(), part.size(), 0);
  if (count < 0) return would_block();
  if (count == 0) return false;
  connection.request.append(part.data(), static_cast<std::size_t>(count));
  return true;
}

bool write_some(Connection& connection) {
  const ssize_t count = ::send(connection.socket.get(), connection.response.data() + connection.sent,
                               connection.response.size() - connection.sent, MSG_NOSIGNAL);
  if (count < 0) return would_block();
  connection.sent += static_cast<std::size_t>(count);
  if (connection.sent < connection.response.size()) return true;
  ::shutdown(connection.socket.get(), SHUT_WR);
  return false;
}

bool bind_to(int socket, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

}  // namespace

PageServer::PageServer(int port, std::string csp, Answer answer) : csp_(std::move(csp)), answer_(std::move(answer)) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto fail = [](const char* what) {
    throw Error(cat("the page cannot be served: ", what, ": ", std::strerror(errno), "."));
  };
  if (socket.get() < 0) fail("no socket");
  const int yes = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (!bind_to(socket.get(), port) && !bind_to(socket.get(), 0)) fail("no port of 127.0.0.1 is free");
  if (::listen(socket.get(), 16) != 0) fail("cannot listen");
  sockaddr_in bound{};
  socklen_t size = sizeof bound;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) fail("no port");
  port_ = ntohs(bound.sin_port);
  listener_ = ::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0);
  if (listener_ < 0) fail("no socket");
  // Signals belong to the thread that trains.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { serve(); });
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    ::close(listener_);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

PageServer::~PageServer() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
  ::close(listener_);
}

std::string PageServer::url() const { return cat("http://127.0.0.1:", port_, "/"); }

void PageServer::serve() {
  std::list<Connection> open;
  std::vector<pollfd> files;
  while (!stopping_) {
    files.clear();
    // A full house lets newcomers wait in the system's short queue.
    files.push_back({listener_, static_cast<short>(open.size() < kMostConnections ? POLLIN : 0), 0});
    for (const Connection& each : open)
      files.push_back({each.socket.get(), static_cast<short>(each.response.empty() ? POLLIN : POLLOUT), 0});
    if (::poll(files.data(), files.size(), kTick) < 0 && errno != EINTR) return;
    const Clock::time_point now = Clock::now();
    std::size_t i = 1;
    for (auto at = open.begin(); at != open.end(); ++i) {
      bool alive = now < at->deadline;
      if (alive && files[i].revents != 0) alive = at->response.empty() ? read_some(*at) : write_some(*at);
      const bool complete = at->request.find("\r\n\r\n") != std::string::npos;
      if (alive && at->response.empty() && (complete || at->request.size() > kMostRequest)) {
        const bool fits = at->request.find("\r\n\r\n") <= kMostRequest;
        at->response = response_text(
            fits ? answer_to(at->request, port_, answer_) : refusal(431, "the request is too long"), csp_);
        at->deadline = now + kWriteTime;
        ++answered_;
      }
      at = alive ? std::next(at) : open.erase(at);
    }
    if ((files[0].revents & POLLIN) != 0) {
      Socket socket(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (socket.get() >= 0) open.push_back({std::move(socket), now + kReadTime, "", ""});
    }
  }
}

}  // namespace varve::cli
