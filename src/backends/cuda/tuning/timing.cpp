#include "backends/cuda/tuning/timing.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "backends/cuda/device/context.h"
#include "backends/cuda/device/sizes.h"
#include "backends/cuda/device/status.h"
#include "backends/cuda/tuning/choices.h"
#include "base/convert.h"
#include "base/levers.h"
#include "base/memory.h"
#include "base/text.h"
#include "varve/error.h"

namespace varve::cuda {
namespace {

constexpr double kStart = 2e-5;    // seconds that starting a kernel may take
constexpr double kHopeless = 1.5;  // times the best so far, and a start: not run again
constexpr double kLong = 2e-3;     // seconds: starting it does not count any more
constexpr int kRuns = 8;           // in a recording, so that starting them costs nothing
constexpr int kRounds = 3;         // of which the best counts

constexpr std::size_t kNumbers = std::size_t{1} << 18;

std::vector<std::uint16_t> make_numbers(std::uint32_t bits) {
  std::vector<std::uint16_t> made(kNumbers);
  std::uint32_t state = 1;
  for (std::uint16_t& x : made) {
    state = state * 1664525u + 1013904223u;
    x = static_cast<std::uint16_t>((state >> 16 & bits) + 0x3e80u);
  }
  return made;
}

const std::vector<std::uint16_t>& numbers(Signs signs) {
  static const auto& both = *new std::vector<std::uint16_t>(make_numbers(0x80ffu));
  static const auto& positive = *new std::vector<std::uint16_t>(make_numbers(0x00ffu));
  return signs == Signs::both ? both : positive;
}

// Seconds of one run; nothing when it does not work after all. What takes far longer than `best` is not run again.
std::optional<double> seconds_of(const std::function<void()>& run, std::optional<double> best) {
  try {
    const double once = context().time({run})[0];
    if (once > kLong || (best && once > kHopeless * *best + kStart)) return once;
    const auto all_runs = [&] {
      for (int i = 0; i < kRuns; ++i) run();
    };
    const auto recording = context().record({{all_runs, {}}});
    const std::vector<double> all =
        context().time(std::vector<std::function<void()>>(kRounds + 1, [&] { recording->replay(); }));
    return *std::min_element(all.begin() + 1, all.end()) / kRuns;
  } catch (const Error&) {
    return std::nullopt;
  }
}

// The first and the last numbers of each result.
std::vector<std::vector<double>> samples(const std::vector<Result>& results) {
  constexpr std::int64_t kMost = std::int64_t{1} << 14;
  context().wait();
  std::vector<std::vector<double>> all;
  for (const Result& result : results) {
    std::vector<double>& numbers = all.emplace_back();
    const std::int64_t count = std::min(kMost, result.count);
    for (const std::int64_t first : {std::int64_t{0}, result.count - count}) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(count) * size_of(result.dtype));
      const auto from =
          reinterpret_cast<CUdeviceptr>(result.address) + static_cast<CUdeviceptr>(first) * size_of(result.dtype);
      if (!bytes.empty()) check(cuMemcpyDtoH(bytes.data(), from, bytes.size()), "cuMemcpyDtoH");
      for (std::int64_t i = 0; i < count; ++i) numbers.push_back(load_f(bytes.data(), result.dtype, i));
    }
  }
  return all;
}

// What a candidate gives; nothing when it fails.
std::optional<std::vector<std::vector<double>>> given_by(const Candidates& candidates, std::size_t i) {
  try {
    candidates.reset();
    candidates.runs[i]();
    return samples(candidates.results);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::int64_t elements_of(const backend::Port& port) {
  std::int64_t last = 0;
  for (int axis = 0; axis < port.type.shape.rank(); ++axis)
    last +=
        (port.type.shape[axis] - 1) * std::max<std::int64_t>(port.layout.strides[static_cast<std::size_t>(axis)], 0);
  return last + 1;
}

// Nothing when there is no memory left to try them.
std::optional<std::size_t> timed(const KernelChoice& choice, const std::vector<const backend::Prepared*>& kernels) {
  std::vector<std::size_t> offsets{0};
  for (const auto* ports : {&choice.in, &choice.out})
    for (const backend::Port& port : *ports)
      offsets.push_back(offsets.back() +
                        align_up(static_cast<std::size_t>(elements_of(port)) * size_of(port.type.dtype)));
  if (offsets.back() > kMostTunedBytes) return std::nullopt;
  std::size_t scratch = 0;
  for (const backend::Prepared* kernel : kernels) scratch = std::max(scratch, kernel->scratch_bytes);
  try {
    const std::shared_ptr<ir::Remote> memory = context().allocate(offsets.back() + scratch + kAlign);
    std::vector<void*> all;
    for (const std::size_t offset : offsets) all.push_back(static_cast<std::byte*>(memory->address) + offset);
    // Weights, moments and scalars of an optimiser are positive: it takes roots of some.
    std::vector<std::size_t> positive;
    for (std::size_t i = 0; i < choice.in.size(); ++i)
      if (choice.in[i].type.shape.numel() == 1) positive.push_back(i);
    for (const auto& [output, input] : choice.in_place) {
      all[choice.in.size() + static_cast<std::size_t>(output)] = all[static_cast<std::size_t>(input)];
      positive.push_back(static_cast<std::size_t>(input));
    }
    const std::vector<const void*> in(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(choice.in.size()));
    const backend::RunArgs args{in.data(), all.data() + in.size(), all.back(), nullptr};
    Candidates candidates;
    candidates.reset = [&] {
      fill_with_numbers(memory->address, memory->bytes);
      for (const std::size_t i : positive) fill_with_numbers(all[i], offsets[i + 1] - offsets[i], Signs::positive);
    };
    for (std::size_t o = 0; o < choice.out.size(); ++o)
      candidates.results.push_back({args.out[o], elements_of(choice.out[o]), choice.out[o].type.dtype});
    for (const backend::Prepared* kernel : kernels)
      candidates.runs.emplace_back([kernel, &args] { kernel->kernel->run(args); });
    return fastest_candidate(candidates);
  } catch (const OutOfMemory&) {
    return std::nullopt;
  }
}

}  // namespace

void fill_with_numbers(void* to, std::size_t bytes, Signs signs) {
  auto* begin = static_cast<std::byte*>(to);
  const std::size_t first = std::min(bytes, kNumbers * sizeof(std::uint16_t));
  context().upload(begin, numbers(signs).data(), first, nullptr);
  for (std::size_t done = first; done < bytes; done *= 2)
    context().copy(begin + done, begin, std::min(done, bytes - done));
}

bool agree(const std::vector<double>& a, const std::vector<double>& b) {
  constexpr double kRounding = 0.02;  // of sums of products in bf16, and more
  double largest = 0, apart = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) {
      if (a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i]))) return false;
      continue;
    }
    largest = std::max(largest, std::abs(b[i]));
    apart = std::max(apart, std::abs(a[i] - b[i]));
  }
  return apart <= kRounding * largest;
}

std::optional<std::size_t> fastest_candidate(const Candidates& candidates) {
  std::optional<std::vector<std::vector<double>>> expected;
  std::optional<std::size_t> best;
  std::optional<double> least;
  for (std::size_t i = 0; i < candidates.runs.size(); ++i) {
    const auto given = given_by(candidates, i);
    if (!given) continue;
    if (!expected) expected = given;
    bool equal = true;
    for (std::size_t r = 0; r < given->size(); ++r) equal = equal && agree((*given)[r], (*expected)[r]);
    if (!equal) continue;
    const std::optional<double> seconds = seconds_of(candidates.runs[i], least);
    if (!seconds || (least && *seconds >= *least)) continue;
    least = seconds;
    best = i;
  }
  return best;
}

backend::Prepared fastest_kernel(const KernelChoice& choice, backend::Prepared first, backend::Prepared second) {
  if (!lever("tuning") || !gpu().present()) return first;
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const ChoiceKey key = choice_key(ChoiceKind::kernel, choice.problem, choice.kernels);
  std::optional<std::string> chosen = choices().find(key);
  if (!chosen) {
    if (const std::optional<std::size_t> fastest = timed(choice, {&first, &second})) {
      chosen = choices().keep(key, cat(*fastest));
    } else {
      chosen = "0";
      choices().assume(key, *chosen);
    }
  }
  return *chosen == "1" ? std::move(second) : std::move(first);
}

}  // namespace varve::cuda
