#include "bench/hosts.h"

#include <unistd.h>

#include <sstream>

#include "base/text.h"

namespace varve::bench {
namespace {

constexpr const char* kBridge = "wire";

std::vector<std::string> split_words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

void must(const std::string& line) {
  const Finished done = run({.words = split_words(line), .limit_seconds = 20});
  if (!done.started || done.exit_code != 0)
    throw Error(
        cat("hosts as network namespaces need root and iproute2 (apt install iproute2): `", line, "`: ", done.output));
}

}  // namespace

Hosts::Hosts(int count, const std::string& rate) : count_(count), prefix_(cat("varve", getpid())) {
  try {
    build(rate);
  } catch (...) {
    remove();
    throw;
  }
}

Hosts::~Hosts() { remove(); }

std::string Hosts::name(int host) const { return host < 0 ? prefix_ + "hub" : cat(prefix_, "h", host); }

std::string Hosts::address(int host) const { return cat("10.213.77.", host + 1); }

// A host's end of the wire is shaped where it sends; what comes to it, where the bridge sends.
void Hosts::build(const std::string& rate) {
  const auto shape = [&](const std::string& space, const std::string& device) {
    if (!rate.empty())
      must(cat("ip netns exec ", space, " tc qdisc add dev ", device, " root tbf rate ", rate,
               " burst 256kb latency 100ms"));
  };
  must("ip netns add " + name(-1));
  must(cat("ip -n ", name(-1), " link add ", kBridge, " type bridge"));
  must(cat("ip -n ", name(-1), " link set ", kBridge, " up"));
  for (int host = 0; host < count_; ++host) {
    const std::string port = cat("port", host);
    must("ip netns add " + name(host));
    must(cat("ip -n ", name(-1), " link add ", port, " type veth peer name ", kInterface, " netns ", name(host)));
    must(cat("ip -n ", name(-1), " link set ", port, " master ", kBridge, " up"));
    must(cat("ip -n ", name(host), " addr add ", address(host), "/24 dev ", kInterface));
    must(cat("ip -n ", name(host), " link set ", kInterface, " up"));
    must(cat("ip -n ", name(host), " link set lo up"));
    shape(name(host), kInterface);
    shape(name(-1), port);
  }
}

void Hosts::remove() const {
  for (int host = -1; host < count_; ++host) run({.words = {"ip", "netns", "delete", name(host)}, .limit_seconds = 20});
}

Command Hosts::inside(int host, Command command) const {
  std::string program = command.words[0];
  // `ip netns exec` starts the program: /proc/self/exe would be `ip`.
  if (program == kThisProgram) program = cat("/proc/", getpid(), "/exe");
  std::vector<std::string> words = {"ip", "netns", "exec", name(host), program};
  words.insert(words.end(), command.words.begin() + 1, command.words.end());
  command.words = std::move(words);
  return command;
}

}  // namespace varve::bench
