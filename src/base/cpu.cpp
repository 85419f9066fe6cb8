#include "base/cpu.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace varve {
namespace {

#if defined(__x86_64__)

struct Cpuid {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

Cpuid cpuid(unsigned leaf, unsigned subleaf = 0) {
  Cpuid r;
  if (!__get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d)) return {};
  return r;
}

bool bit(unsigned word, int position) { return (word >> position & 1u) != 0; }

// Which register files the operating system saves; only meaningful, and only legal to ask, with OSXSAVE.
std::uint64_t saved_state() {
  if (!bit(cpuid(1).c, 27)) return 0;
  unsigned low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return std::uint64_t{high} << 32 | low;
}

constexpr std::uint64_t kTileState = 0x60000;  // configuration and data

CpuFeatures detect() {
  const std::uint64_t state = saved_state();
  const auto saves = [state](std::uint64_t mask) { return (state & mask) == mask; };
  const bool ymm = saves(0x6), zmm = saves(0xE6), tiles = saves(kTileState);
  const Cpuid one = cpuid(1), seven = cpuid(7), more = cpuid(7, 1);
  CpuFeatures f;
  f.avx2 = ymm && bit(seven.b, 5) && bit(one.c, 12) && bit(one.c, 29);
  f.avx_vnni = f.avx2 && bit(more.a, 4);
  f.avx512 =
      f.avx2 && zmm && bit(seven.b, 16) && bit(seven.b, 17) && bit(seven.b, 28) && bit(seven.b, 30) && bit(seven.b, 31);
  f.avx512_vnni = f.avx512 && bit(seven.c, 11);
  f.avx512_bf16 = f.avx512 && bit(more.a, 5);
  f.avx512_fp16 = f.avx512 && bit(seven.d, 23);
  f.amx_bf16 = tiles && bit(seven.d, 24) && bit(seven.d, 22);
  f.amx_int8 = tiles && bit(seven.d, 24) && bit(seven.d, 25);
  return f;
}

// True when the kernel says yes and, asked again, still knows of it: a sandbox may answer what it does not know with 0.
// Kernels before 5.16 know no such request, and one refuses where a thread's signal stack is too small for the state.
bool ask_for_tiles() {
  constexpr int kGetPermission = 0x1022, kRequestPermission = 0x1023;  // ARCH_GET_XCOMP_PERM, ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;
  std::uint64_t granted = 0;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0 &&
         syscall(SYS_arch_prctl, kGetPermission, &granted) == 0 && (granted >> kTileData & 1u) != 0;
}

Amx detect_amx() { return decide_amx(bit(cpuid(7).d, 24), (saved_state() & kTileState) == kTileState, ask_for_tiles); }

std::string detect_name() {
  if (cpuid(0x80000000u).a < 0x80000004u) return "x86-64 processor";
  std::array<char, 49> text{};
  for (unsigned i = 0; i < 3; ++i) {
    const Cpuid r = cpuid(0x80000002u + i);
    const std::array words = {r.a, r.b, r.c, r.d};
    std::memcpy(text.data() + 16 * i, words.data(), 16);
  }
  const std::string padded(text.data());
  const std::size_t first = padded.find_first_not_of(' ');
  if (first == std::string::npos) return "x86-64 processor";
  return padded.substr(first, padded.find_last_not_of(' ') - first + 1);
}

#else

CpuFeatures detect() { return {}; }
Amx detect_amx() { return Amx::absent; }
std::string detect_name() { return "unknown processor"; }

#endif

CacheSizes detect_caches() {
  CacheSizes sizes;
  const auto ask = [](int what, std::int64_t& size) {
    if (const long answer = sysconf(what); answer > 0) size = answer;
  };
  ask(_SC_LEVEL1_DCACHE_SIZE, sizes.l1d);
  ask(_SC_LEVEL2_CACHE_SIZE, sizes.l2);
  ask(_SC_LEVEL3_CACHE_SIZE, sizes.l3);
  // The kernel knows the part that one core can reach; on some AMD processors the C library adds up all parts.
  for (int i = 0; i < 8; ++i) {
    const std::string cache = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(i) + "/";
    std::ifstream level_file(cache + "level"), size_file(cache + "size");
    int level = 0;
    std::int64_t kilobytes = 0;
    if (level_file >> level && size_file >> kilobytes && level == 3 && kilobytes > 0) sizes.l3 = kilobytes << 10;
  }
  return sizes;
}

std::vector<int> allowed_cpus() {
  // The kernel refuses a mask smaller than its own, so grow until it fits.
  for (int most = 1024; most <= 1 << 20; most *= 4) {
    std::vector<unsigned long> mask(static_cast<std::size_t>(most) / (8 * sizeof(unsigned long)));
    cpu_set_t* set = reinterpret_cast<cpu_set_t*>(mask.data());
    const std::size_t bytes = mask.size() * sizeof(unsigned long);
    if (sched_getaffinity(0, bytes, set) != 0) continue;
    std::vector<int> cpus;
    for (int cpu = 0; cpu < most; ++cpu) {
      if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, set)) cpus.push_back(cpu);
    }
    return cpus;
  }
  return {};
}

int read_int(const std::string& path, int otherwise) {
  std::ifstream file(path);
  int value = 0;
  return file >> value ? value : otherwise;
}

// A container may be given fewer cores' worth of time than its affinity shows (cgroup v2, then v1).
int quota_cores(int otherwise) {
  double quota = 0, period = 0;
  if (std::ifstream file("/sys/fs/cgroup/cpu.max"); !(file >> quota >> period)) {
    quota = read_int("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", -1);
    period = read_int("/sys/fs/cgroup/cpu/cpu.cfs_period_us", 0);
  }
  if (quota <= 0 || period <= 0) return otherwise;
  return std::max(1, static_cast<int>(std::min(quota / period + 0.5, 1e6)));
}

int detect_physical() {
  const std::vector<int> cpus = allowed_cpus();
  if (cpus.empty()) return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  std::set<std::pair<int, int>> cores;
  for (const int cpu : cpus) {
    const std::string topology = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    const int package = read_int(topology + "physical_package_id", -1);
    const int core = read_int(topology + "core_id", -1);
    cores.insert(core < 0 ? std::pair{-2, cpu} : std::pair{package, core});  // unknown: each counts by itself
  }
  const int count = static_cast<int>(cores.size());
  return std::min(count, quota_cores(count));
}

}  // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = detect();
  return features;
}

const CacheSizes& cache_sizes() {
  static const CacheSizes sizes = detect_caches();
  return sizes;
}

std::string cpu_name() { return detect_name(); }

Amx decide_amx(bool has_tiles, bool saves_tiles, bool (*ask)()) {
  if (!has_tiles) return Amx::absent;
  return saves_tiles && ask() ? Amx::granted : Amx::refused;
}

Amx amx() {
  static const Amx state = detect_amx();
  return state;
}

std::string isa_name() { return isa_name(cpu_features(), amx()); }

std::string isa_name(const CpuFeatures& f, Amx amx) {
  const std::string vectors = f.avx512_bf16 ? "AVX-512 BF16" : f.avx512 ? "AVX-512" : f.avx2 ? "AVX2" : "baseline";
  if (amx == Amx::absent) return vectors;
  return vectors + (amx == Amx::granted ? " AMX" : " (AMX refused)");
}

int logical_cpus() {
  static const int count = std::max(1, static_cast<int>(allowed_cpus().size()));
  return count;
}

int physical_cores() {
  static const int count = detect_physical();
  return count;
}

}  // namespace varve
