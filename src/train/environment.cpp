// Where and how a run was made.
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "train/report.h"
#include "varve/compile.h"
#include "varve/version.h"

namespace varve::train {
namespace {

std::string compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#elif defined(__GNUC__)
  return "g++ " __VERSION__;
#else
  return "unknown";
#endif
}

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t begin = line.find_first_not_of(" \t", line.find(':') + 1);
    return begin == std::string::npos ? "unknown" : line.substr(begin);
  }
  return "unknown";
}

// Words as they were given, those with spaces in quotes.
std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string line;
  for (std::string word; std::getline(file, word, '\0');) {
    const bool quoted = word.empty() || word.find_first_of(" \t\n'\"") != std::string::npos;
    line += (line.empty() ? "" : " ") + (quoted ? '"' + word + '"' : word);
  }
  return line;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  char text[32];
  return gmtime_r(&now, &parts) && std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts) ? text : "unknown";
}

}  // namespace

std::string environment_json(std::int64_t seed) {
  utsname system{};
  const bool known = uname(&system) == 0;
  const nlohmann::ordered_json all = {
      {"varve", version()},
      {"compiler", compiler()},
      {"device", device()},
      {"cpu", cpu_model()},
      {"cores", std::thread::hardware_concurrency()},
      {"threads", threads()},
      {"deterministic", deterministic()},
      {"memory_bytes", static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE)},
      {"host", known ? system.nodename : "unknown"},
      {"system", known ? std::string(system.sysname) + ' ' + system.release + ' ' + system.machine : "unknown"},
      {"time", utc_now()},
      {"seed", seed},
      {"command", command_line()},
  };
  // What is not UTF-8 on the command line is replaced rather than refused.
  return all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

}  // namespace varve::train
