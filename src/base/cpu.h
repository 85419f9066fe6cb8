// What processor this is: asked once, at the first call.
#pragma once

#include <cstdint>
#include <string>

namespace varve {

// True when both the processor and the operating system support it.
struct CpuFeatures {
  bool avx2 = false;  // with FMA and F16C
  bool avx_vnni = false;
  bool avx512 = false;  // F, BW, DQ, VL and CD: the set every AVX-512 server has
  bool avx512_vnni = false;
  bool avx512_bf16 = false;
  bool avx512_fp16 = false;
  bool amx_bf16 = false;
  bool amx_int8 = false;
};
const CpuFeatures& cpu_features();

// The tiles of AMX. Linux gives their state (8 KiB for each thread) only to a process that asks for it; without it the
// first instruction that touches a tile kills the process.
enum class Amx : std::uint8_t { absent, refused, granted };
// Of this process. Asks the kernel at the first call; whoever uses tiles, or a library that does, calls this before.
Amx amx();
// From what the processor has, what the operating system saves (bits 17 and 18 of XCR0), and what the kernel answers.
// It is asked only where it may say yes.
Amx decide_amx(bool has_tiles, bool saves_tiles, bool (*ask)());

struct CacheSizes {  // bytes; a common value where the system does not say
  std::int64_t l1d = 32 << 10;
  std::int64_t l2 = 1 << 20;
  std::int64_t l3 = 8 << 20;
};
const CacheSizes& cache_sizes();

std::string cpu_name();  // "Intel(R) Xeon(R) Platinum 8480+"
// The widest set in use: "AVX-512 BF16 AMX", "AVX-512 BF16 (AMX refused)", "AVX-512 BF16", "AVX-512", "AVX2" or
// "baseline".
std::string isa_name();
std::string isa_name(const CpuFeatures& features, Amx amx);
int logical_cpus();    // that this process may run on
int physical_cores();  // of those, counting hyper-threads of one core once, and within the cgroup's CPU quota

}  // namespace varve
