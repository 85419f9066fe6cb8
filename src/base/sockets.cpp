#include "base/sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>

#include "base/text.h"

namespace varve {
namespace {

struct Resolved {
  addrinfo* list = nullptr;
  ~Resolved() {
    if (list) freeaddrinfo(list);
  }
};

void resolve(const std::string& host, int port, bool passive, Resolved& resolved) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = passive ? AI_PASSIVE : 0;
  const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &resolved.list);
  if (code != 0) throw Error(cat("host '", host, "' is not known: ", gai_strerror(code), "."));
}

std::string numeric(const sockaddr_storage& address, socklen_t size) {
  char host[NI_MAXHOST] = "";
  getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof(host), nullptr, 0, NI_NUMERICHOST);
  return host;
}

void quick(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

// 0: none.
void limit_sends(int fd, double seconds) {
  timeval limit{};
  limit.tv_sec = static_cast<time_t>(seconds);
  limit.tv_usec = static_cast<suseconds_t>((seconds - static_cast<double>(limit.tv_sec)) * 1e6);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

bool receive_all(int fd, char* data, std::size_t bytes, double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (bytes > 0) {
    if (seconds > 0) {
      const double left = std::chrono::duration<double>(end - std::chrono::steady_clock::now()).count();
      pollfd wait{fd, POLLIN, 0};
      if (left <= 0 || poll(&wait, 1, static_cast<int>(left * 1000) + 1) == 0) return false;
    }
    const ssize_t got = recv(fd, data, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    data += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

}  // namespace

void Socket::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void Socket::shut_down() const {
  if (fd_ >= 0) ::shutdown(fd_, SHUT_RDWR);
}

HostPort parse_address(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  const std::string port = colon == std::string::npos ? "" : address.substr(colon + 1);
  const bool digits = !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string::npos;
  if (!digits || colon == 0 || std::stoi(port) > 65535)
    throw Error(cat("expected an address as host:port, got '", address, "'."));
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return {host, std::stoi(port)};
}

Socket listen_on(const std::string& host, int port) {
  Resolved found;
  resolve(host, port, true, found);
  Socket socket(::socket(found.list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.open()) throw Error(cat("no socket can be opened: ", std::strerror(errno), "."));
  const int on = 1;
  setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(socket.fd(), found.list->ai_addr, found.list->ai_addrlen) != 0 || listen(socket.fd(), 1024) != 0)
    throw Error(cat("cannot listen on ", host, ":", port, ": ", std::strerror(errno),
                    ". Choose another port, or a host that is this machine."));
  return socket;
}

int port_of(const Socket& listening) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  getsockname(listening.fd(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

Socket accept_from(const Socket& listening) {
  Socket accepted(accept4(listening.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (accepted.open()) quick(accepted.fd());
  return accepted;
}

Socket connect_to(const std::string& host, int port, double seconds) {
  Resolved found;
  resolve(host, port, false, found);
  for (const addrinfo* each = found.list; each; each = each->ai_next) {
    Socket socket(::socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket.open()) continue;
    // The limit of a send is that of connecting too.
    limit_sends(socket.fd(), seconds);
    if (connect(socket.fd(), each->ai_addr, each->ai_addrlen) != 0) continue;
    limit_sends(socket.fd(), 0);
    quick(socket.fd());
    return socket;
  }
  return {};
}

std::string own_address(const Socket& connected) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(connected.fd(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return "";
  return numeric(address, size);
}

std::string peer_address(const Socket& connected) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getpeername(connected.fd(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return "";
  return numeric(address, size);
}

bool send_frame(const Socket& socket, std::string_view frame) {
  std::string all;
  put_text(all, frame);
  std::size_t sent = 0;
  while (sent < all.size()) {
    const ssize_t now = send(socket.fd(), all.data() + sent, all.size() - sent, MSG_NOSIGNAL);
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) return false;
    sent += static_cast<std::size_t>(now);
  }
  return true;
}

bool receive_frame(const Socket& socket, std::string& frame, double seconds) {
  char length[4];
  if (!receive_all(socket.fd(), length, sizeof(length), seconds)) return false;
  std::string_view view(length, sizeof(length));
  std::uint32_t bytes = 0;
  take_number(view, bytes);
  if (bytes > kMostFrame) return false;
  frame.resize(bytes);
  return receive_all(socket.fd(), frame.data(), bytes, seconds);
}

void put_number(std::string& frame, std::uint32_t number) {
  for (int shift = 0; shift < 32; shift += 8) frame += static_cast<char>(number >> shift & 0xff);
}

void put_text(std::string& frame, std::string_view text) {
  put_number(frame, static_cast<std::uint32_t>(text.size()));
  frame += text;
}

bool take_number(std::string_view& frame, std::uint32_t& number) {
  if (frame.size() < 4) return false;
  number = 0;
  for (std::size_t i = 0; i < 4; ++i)
    number |= static_cast<std::uint32_t>(static_cast<unsigned char>(frame[i])) << (8 * i);
  frame.remove_prefix(4);
  return true;
}

bool take_text(std::string_view& frame, std::string& text) {
  std::uint32_t bytes = 0;
  if (!take_number(frame, bytes) || bytes > frame.size()) return false;
  text = std::string(frame.substr(0, bytes));
  frame.remove_prefix(bytes);
  return true;
}

}  // namespace varve
