#include "bench/machine_facts.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "base/cpu.h"
#include "base/text.h"
#include "bench/process.h"
#include "bench/request.h"

namespace varve::bench {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string system_name() {
  std::ifstream file("/etc/os-release");
  utsname kernel{};
  uname(&kernel);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("PRETTY_NAME=\"")) return cat(line.substr(13, line.size() - 14), ", Linux ", kernel.release);
  return cat("Linux ", kernel.release);
}

std::vector<std::string> features() {
  const CpuFeatures& f = cpu_features();
  std::vector<std::string> names;
  const auto add = [&](bool has, const char* name) {
    if (has) names.emplace_back(name);
  };
  add(f.avx2, "avx2"), add(f.avx_vnni, "avx_vnni"), add(f.avx512, "avx512"), add(f.avx512_vnni, "avx512_vnni");
  add(f.avx512_bf16, "avx512_bf16"), add(f.avx512_fp16, "avx512_fp16");
  add(f.amx_bf16, "amx_bf16"), add(f.amx_int8, "amx_int8");
  return names;
}

double clock_mhz() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("cpu MHz")) return std::atof(line.substr(line.find(':') + 1).c_str());
  return 0;
}

}  // namespace

ordered_json machine_facts() {
  const double mhz = clock_mhz();
  return {{"cpu", cpu_name()},
          {"isa", isa_name()},
          {"cores", physical_cores()},
          {"logical", logical_cpus()},
          {"features", features()},
          {"memory_bytes", static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE)},
          {"os", system_name()},
          {"governor", or_null(first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"))},
          {"clock_mhz", mhz > 0 ? ordered_json(mhz) : ordered_json(nullptr)}};
}

std::vector<double> load_average() {
  double loads[3];
  if (getloadavg(loads, 3) != 3) return {};
  return {loads[0], loads[1], loads[2]};
}

std::string source_commit() {
  if (const char* told = std::getenv("VARVE_COMMIT"); told != nullptr && *told != 0) return told;
  const auto git = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"git", "-C", VARVE_SOURCE_DIR});
    const Finished done = run({.words = std::move(words), .limit_seconds = 10});
    return done.exit_code == 0 ? done.output : std::string();
  };
  std::string commit = git({"rev-parse", "HEAD"});
  while (!commit.empty() && commit.back() == '\n') commit.pop_back();
  if (commit.empty()) return "";
  return git({"status", "--porcelain", "--untracked-files=no"}).empty() ? commit : commit + "+";
}

std::string iso_time() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

double energy_joules() {
  std::error_code ignored;
  double total = 0;
  bool any = false;
  for (const auto& zone : fs::directory_iterator("/sys/class/powercap", ignored)) {
    const std::string name = zone.path().filename().string();
    if (name.find(':') == std::string::npos || name.find(':') != name.rfind(':')) continue;  // packages, not parts
    const std::string line = first_line(zone.path() / "energy_uj");
    if (line.empty()) continue;
    total += std::atof(line.c_str()) / 1e6;
    any = true;
  }
  return any ? total : -1;
}

}  // namespace varve::bench
