// Hosts that are not there: network namespaces of this machine on a bridge of their own, each behind a wire of a given
// speed. The machine's own network is not touched. Needs root, and iproute2's `ip` and `tc`.
#pragma once

#include <string>
#include <vector>

#include "bench/process.h"

namespace varve::bench {

class Hosts {
 public:
  // `rate`: of each host's wire, out and in, as `tc` writes it: "200mbit"; "": as fast as the machine. Error: what is
  // missing. Gone with the object.
  Hosts(int count, const std::string& rate);
  ~Hosts();
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  static constexpr const char* kInterface = "eth0";  // of each host
  int count() const { return count_; }
  std::string address(int host) const;
  Command inside(int host, Command command) const;  // the command, run on that host

 private:
  std::string name(int host) const;
  void build(const std::string& rate);
  void remove() const;

  int count_;
  std::string prefix_;
};

}  // namespace varve::bench
