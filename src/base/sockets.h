// TCP connections that carry frames: a length, then that many bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace varve {

// An open file descriptor, closed at the end.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    if (this != &other) {
      close();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  bool open() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  void close();
  void shut_down() const;  // whoever waits in it wakes up

 private:
  int fd_ = -1;
};

struct HostPort {
  std::string host;
  int port = 0;
};
HostPort parse_address(const std::string& address);  // "host:port", "[::1]:80"; Error when it is none

Socket listen_on(const std::string& host, int port);  // Error: the address is taken, or is not ours
int port_of(const Socket& listening);
Socket accept_from(const Socket& listening);  // closed when there is nobody
// Closed when nobody listens there, or answers in time (0: as long as the system tries); Error: no such host.
Socket connect_to(const std::string& host, int port, double seconds = 0);
std::string own_address(const Socket& connected);   // numeric
std::string peer_address(const Socket& connected);  // numeric

inline constexpr std::size_t kMostFrame = std::size_t{1} << 20;
// Blocking, for clients. False: the other side is gone, or did not answer in time (0: waits).
bool send_frame(const Socket& socket, std::string_view frame);
bool receive_frame(const Socket& socket, std::string& frame, double seconds = 0);

// Numbers and texts in a frame.
void put_number(std::string& frame, std::uint32_t number);
void put_text(std::string& frame, std::string_view text);
bool take_number(std::string_view& frame, std::uint32_t& number);
bool take_text(std::string_view& frame, std::string& text);

}  // namespace varve
