#include "runtime/machine.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <numeric>
#include <vector>

#include "base/cpu.h"
#include "base/memory.h"
#include "base/threads.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace varve::runtime {
namespace {

// More than latency × issue rate of any current processor (8 to 10), fewer than the 16 registers of AVX2.
constexpr int kChains = 12;

// Rounds of kChains independent multiply-adds in registers; returns a sum so that nothing is optimised away.
using FmaLoop = float (*)(std::int64_t rounds);
// a = b + s·c over n floats, past the caches where the machine can.
using TriadLoop = void (*)(float* a, const float* b, const float* c, std::int64_t n);

constexpr float kFactor = 0.5f, kTerm = 1.f;  // x = x/2 + 1 stays near 2: no denormals, no overflow

float fma_plain(std::int64_t rounds) {
  float x[kChains] = {};
  for (std::int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) x[i] = x[i] * kFactor + kTerm;
  }
  float sum = 0;
  for (const float v : x) sum += v;
  return sum;
}

void triad_plain(float* a, const float* b, const float* c, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) a[i] = b[i] + kFactor * c[i];
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) float fma_avx512(std::int64_t rounds) {
  const __m512 factor = _mm512_set1_ps(kFactor), term = _mm512_set1_ps(kTerm);
  __m512 x[kChains];
  for (__m512& v : x) v = term;
  for (std::int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) x[i] = _mm512_fmadd_ps(x[i], factor, term);
  }
  for (int i = 1; i < kChains; ++i) x[0] = _mm512_add_ps(x[0], x[i]);
  float lanes[16];
  _mm512_storeu_ps(lanes, x[0]);
  return lanes[0];
}

__attribute__((target("avx2,fma"))) float fma_avx2(std::int64_t rounds) {
  const __m256 factor = _mm256_set1_ps(kFactor), term = _mm256_set1_ps(kTerm);
  __m256 x[kChains];
  for (__m256& v : x) v = term;
  for (std::int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) x[i] = _mm256_fmadd_ps(x[i], factor, term);
  }
  for (int i = 1; i < kChains; ++i) x[0] = _mm256_add_ps(x[0], x[i]);
  return _mm256_cvtss_f32(x[0]);
}

__attribute__((target("avx512f"))) void triad_avx512(float* a, const float* b, const float* c, std::int64_t n) {
  const __m512 factor = _mm512_set1_ps(kFactor);
  for (std::int64_t i = 0; i < n; i += 16)
    _mm512_stream_ps(a + i, _mm512_fmadd_ps(_mm512_load_ps(c + i), factor, _mm512_load_ps(b + i)));
  _mm_sfence();
}

__attribute__((target("avx2,fma"))) void triad_avx2(float* a, const float* b, const float* c, std::int64_t n) {
  const __m256 factor = _mm256_set1_ps(kFactor);
  for (std::int64_t i = 0; i < n; i += 8)
    _mm256_stream_ps(a + i, _mm256_fmadd_ps(_mm256_load_ps(c + i), factor, _mm256_load_ps(b + i)));
  _mm_sfence();
}
#endif

struct Loops {
  FmaLoop fma = fma_plain;
  int lanes = 1;
  TriadLoop triad = triad_plain;
};

Loops loops_of_this_machine() {
#if defined(__x86_64__)
  if (cpu_features().avx512) return {fma_avx512, 16, triad_avx512};
  if (cpu_features().avx2) return {fma_avx2, 8, triad_avx2};
#endif
  return {};
}

double seconds_of(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The best of several runs: other programs on the machine only ever make one slower. No more than a second of them.
double best_seconds(int runs, const auto& work) {
  work();
  double best = seconds_of(work), total = best;
  for (int i = 1; i < runs && total < 1; ++i) {
    const double seconds = seconds_of(work);
    best = std::min(best, seconds);
    total += seconds;
  }
  return best;
}

// Time this thread has computed, not counting time the system gave to others: register loops touch nothing shared, so a
// busy machine does not lower the peak.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double best_rate_of_thread(const Loops& loops) {
  double best = 0;
  std::int64_t rounds = 1 << 14;
  for (int samples = 0; samples < 20;) {
    const double start = thread_seconds();
    volatile float sink = loops.fma(rounds);
    static_cast<void>(sink);
    const double seconds = thread_seconds() - start;
    if (seconds < 0.001) {
      rounds *= 2;  // too short to time
      continue;
    }
    best = std::max(best, 2.0 * loops.lanes * kChains * static_cast<double>(rounds) / seconds / 1e9);
    ++samples;
  }
  return best;
}

// All threads at once: the clock may be lower then. More threads than processors take turns.
double measure_gflops(const Loops& loops, int team) {
  std::vector<double> rates(static_cast<std::size_t>(team));
  parallel_for(team, 1, [&](std::int64_t thread, std::int64_t) {
    rates[static_cast<std::size_t>(thread)] = best_rate_of_thread(loops);
  });
  return std::accumulate(rates.begin(), rates.end(), 0.0) * std::min(1.0, static_cast<double>(logical_cpus()) / team);
}

double measure_gbps(const Loops& loops, int team) {
  // Three arrays, together many times the last cache, which the system may report for one of several slices only.
  const std::int64_t bytes = std::clamp<std::int64_t>(cache_sizes().l3 * 2, 64 << 20, 256 << 20);
  const std::int64_t count = bytes / static_cast<std::int64_t>(sizeof(float));
  Block a(static_cast<std::size_t>(bytes)), b(static_cast<std::size_t>(bytes)), c(static_cast<std::size_t>(bytes));
  const std::int64_t grain = (count / team + 15) / 16 * 16;
  parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
    std::fill(b.as<float>() + begin, b.as<float>() + end, 1.f);
    std::fill(c.as<float>() + begin, c.as<float>() + end, 2.f);
  });
  const double seconds = best_seconds(20, [&] {
    parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
      loops.triad(a.as<float>() + begin, b.as<float>() + begin, c.as<float>() + begin, end - begin);
    });
  });
  return 3.0 * static_cast<double>(bytes) / seconds / 1e9;
}

}  // namespace

MachinePeaks measure_peaks() {
  const Loops loops = loops_of_this_machine();
  return {measure_gflops(loops, threads()), measure_gbps(loops, threads())};
}

MachinePeaks machine_peaks() {
  static std::mutex mutex;
  static std::map<int, MachinePeaks> measured;
  const std::lock_guard lock(mutex);
  const auto [entry, is_new] = measured.try_emplace(threads());
  if (is_new) entry->second = measure_peaks();
  return entry->second;
}

MachinePeaks peaks_on(backend::Device* device, ProductType products) {
  if (!device) return machine_peaks();
  const backend::DevicePeaks peaks = device->peaks();
  const bool half = products == bf16 || products == f16;
  return {half ? peaks.bf16 : products == tf32 ? peaks.tf32 : peaks.f32, peaks.gbps};
}

}  // namespace varve::runtime
