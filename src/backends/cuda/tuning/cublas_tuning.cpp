#include "backends/cuda/tuning/cublas_tuning.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "backends/cuda/device/context.h"
#include "backends/cuda/device/status.h"
#include "backends/cuda/tuning/trial.h"
#include "base/files.h"
#include "base/levers.h"
#include "base/memory.h"
#include "base/text.h"
#include "varve/error.h"

namespace varve::cuda {
namespace {

constexpr int kCandidates = 8;
constexpr double kStart = 2e-5;                           // seconds that starting a kernel may take
constexpr int kRuns = 8;                                  // in a recording, so that starting them costs nothing
constexpr double kLong = 2e-3;                            // seconds: starting it does not count any more
constexpr int kRounds = 3;                                // of which the best counts
constexpr std::size_t kMostBytes = std::size_t{1} << 30;  // of operands: larger products take the first proposal
constexpr std::size_t kMostFileBytes = std::size_t{64} << 20;
constexpr std::size_t kAlgorithmBytes = sizeof(cublasLtMatmulAlgo_t);

// ---- choices of this process, and of those before it

std::filesystem::path choices_file() {
  const std::filesystem::path folder = cache_folder();
  if (folder.empty()) return {};
  std::string gpu_name = gpu().name;
  std::replace_if(
      gpu_name.begin(), gpu_name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '-');
  return folder / cat("products-", gpu_name, "-", gpu().major, gpu().minor, "-cublaslt", cublasLtGetVersion(), ".txt");
}

class Choices {
 public:
  Choices() : file_(choices_file()) {
    std::error_code error;
    if (file_.empty() || !std::filesystem::exists(file_, error)) return;
    try {
      const std::vector<std::byte> bytes = read_file(file_, kMostFileBytes);
      known_ = read_choices({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    } catch (const Error&) {  // then they are found again
    }
  }

  const BlasAlgorithm* find(const std::string& key) const {
    const auto found = known_.find(key);
    return found == known_.end() ? nullptr : &found->second;
  }

  // Appended in one write: processes that tune at the same time do not tear each other's lines.
  void keep(const std::string& key, const BlasAlgorithm& algorithm, bool on_disk) {
    known_[key] = algorithm;
    if (file_.empty() || !on_disk) return;
    std::error_code error;
    std::filesystem::create_directories(file_.parent_path(), error);
    const std::string line = choice_line(key, algorithm);
    std::ofstream out(file_, std::ios::app | std::ios::binary);
    out.write(line.data(), static_cast<std::streamsize>(line.size()));
  }

 private:
  std::filesystem::path file_;
  std::unordered_map<std::string, BlasAlgorithm> known_;
};

std::mutex& tuning_mutex() {
  static std::mutex mutex;
  return mutex;
}
Choices& all_choices() {
  static auto& choices = *new Choices;
  return choices;
}

// ---- timing

constexpr std::size_t kRound = 256;
std::size_t rounded(std::size_t bytes) { return (bytes + kRound - 1) / kRound * kRound; }

// Seconds of one run; nothing when a library does not want to after all. What takes longer than `enough` need not be
// known better than that.
std::optional<double> seconds_of(const std::function<void()>& run, double enough) {
  try {
    const double once = context().time({run, run})[1];  // the first one loads the kernel
    if (once > std::min(kLong, enough)) return once;
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

// A product with its operands in one piece of memory.
class Trial {
 public:
  Trial(const BlasGemm& gemm, std::size_t workspace) : gemm_(gemm) {
    const BlasGemm::Bytes bytes = gemm.operand_bytes();
    const std::size_t b = rounded(bytes.a), c = b + rounded(bytes.b), scale = c + rounded(bytes.c);
    const std::size_t scratch = scale + kRound;
    memory_ = context().allocate(scratch + workspace + kRound);
    fill_with_numbers(memory_->address, memory_->bytes);
    auto* at = static_cast<std::byte*>(memory_->address);
    operands_ = {.a = at,
                 .b = at + b,
                 .bias = at + c,  // long enough, and its values do not matter
                 .c0 = at + c,
                 .scale = at + scale,
                 .c = at + c,
                 .scratch = at + scratch};
  }

  std::optional<double> seconds(const BlasAlgorithm& algorithm, double enough) const {
    return seconds_of([&] { gemm_.run(operands_, algorithm); }, enough);
  }

 private:
  const BlasGemm& gemm_;
  std::shared_ptr<ir::Remote> memory_;
  GemmOperands operands_;
};

// Nothing when there is no memory left to try them.
std::optional<BlasAlgorithm> fastest(const BlasGemm& gemm, const std::vector<BlasAlgorithm>& candidates) {
  std::size_t workspace = 0;
  for (const BlasAlgorithm& candidate : candidates) workspace = std::max(workspace, candidate.workspace);
  try {
    const Trial trial(gemm, workspace);
    std::optional<BlasAlgorithm> best;
    double least = 0;
    for (const BlasAlgorithm& candidate : candidates) {
      const std::optional<double> seconds = trial.seconds(candidate, best ? 2 * least + kStart : kLong);
      if (!seconds || (best && *seconds >= least)) continue;
      least = *seconds;
      best = candidate;
    }
    return best;
  } catch (const OutOfMemory&) {
    return std::nullopt;
  }
}

// ---- two kernels beside each other

std::size_t bytes_of(const backend::Port& port) {
  std::int64_t last = 0;
  for (int axis = 0; axis < port.type.shape.rank(); ++axis)
    last +=
        (port.type.shape[axis] - 1) * std::max<std::int64_t>(port.layout.strides[static_cast<std::size_t>(axis)], 0);
  return static_cast<std::size_t>(last + 1) * size_of(port.type.dtype);
}

std::optional<bool> compared(const Rivals& rivals) {
  std::vector<std::size_t> offsets{0};
  for (const auto* ports : {rivals.in, rivals.out})
    for (const backend::Port& port : *ports) offsets.push_back(offsets.back() + rounded(bytes_of(port)));
  if (offsets.back() > kMostBytes) return std::nullopt;
  try {
    const std::size_t scratch = std::max(rivals.first->scratch_bytes, rivals.second->scratch_bytes);
    const std::shared_ptr<ir::Remote> memory = context().allocate(offsets.back() + scratch + kRound);
    fill_with_numbers(memory->address, memory->bytes);
    std::vector<void*> all;
    for (const std::size_t offset : offsets) all.push_back(static_cast<std::byte*>(memory->address) + offset);
    for (const auto& [output, input] : rivals.in_place)
      all[rivals.in->size() + static_cast<std::size_t>(output)] = all[static_cast<std::size_t>(input)];
    const std::vector<const void*> in(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(rivals.in->size()));
    const backend::RunArgs args{in.data(), all.data() + in.size(), all.back(), nullptr};
    const auto first = seconds_of([&] { rivals.first->kernel->run(args); }, kLong);
    if (!first) return false;
    const auto second = seconds_of([&] { rivals.second->kernel->run(args); }, 2 * *first + kStart);
    return !second || *first <= *second;
  } catch (const OutOfMemory&) {
    return std::nullopt;
  }
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

std::string choice_line(const std::string& key, const BlasAlgorithm& algorithm) {
  std::string line = key + "\t";
  unsigned char bytes[kAlgorithmBytes];
  std::memcpy(bytes, &algorithm.algorithm, kAlgorithmBytes);
  for (const unsigned char byte : bytes) {
    line += "0123456789abcdef"[byte / 16];
    line += "0123456789abcdef"[byte % 16];
  }
  return line + "\n";
}

std::unordered_map<std::string, BlasAlgorithm> read_choices(const std::string& text) {
  std::unordered_map<std::string, BlasAlgorithm> choices;
  for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string line = text.substr(begin, end - begin);
    const std::size_t tab = line.find('\t');
    if (tab == std::string::npos || line.size() - tab - 1 != 2 * kAlgorithmBytes) continue;
    unsigned char bytes[kAlgorithmBytes];
    bool valid = true;
    for (std::size_t i = 0; i < kAlgorithmBytes; ++i) {
      const int high = digit(line[tab + 1 + 2 * i]), low = digit(line[tab + 2 + 2 * i]);
      valid = valid && high >= 0 && low >= 0;
      bytes[i] = static_cast<unsigned char>(high * 16 + low);
    }
    if (!valid) continue;
    BlasAlgorithm algorithm;
    std::memcpy(&algorithm.algorithm, bytes, kAlgorithmBytes);
    choices.emplace(line.substr(0, tab), algorithm);
  }
  return choices;
}

std::optional<BlasAlgorithm> chosen_algorithm(const BlasGemm& gemm, std::uint32_t alignment) {
  const bool tunes = lever("tuning");
  const std::string key = cat(gemm.key(), tunes ? "" : " untuned", lever("same-bits") ? "" : " any order");
  const std::lock_guard lock(tuning_mutex());
  Choices& choices = all_choices();
  if (const BlasAlgorithm* known = choices.find(key)) {
    BlasAlgorithm algorithm = *known;
    if (gemm.takes(algorithm)) return algorithm;
  }
  const std::vector<BlasAlgorithm> candidates = gemm.candidates(tunes ? kCandidates : 1, alignment);
  if (candidates.empty()) return std::nullopt;
  const bool compares = tunes && candidates.size() > 1 && gemm.operand_bytes().all() < kMostBytes;
  const std::optional<BlasAlgorithm> best = compares ? fastest(gemm, candidates) : std::nullopt;
  choices.keep(key, best.value_or(candidates[0]), best.has_value());
  return best.value_or(candidates[0]);
}

bool first_is_faster(const std::string& key, const Rivals& rivals) {
  if (!lever("tuning") || !gpu().present()) return true;
  const std::lock_guard lock(tuning_mutex());
  if (const BlasAlgorithm* known = all_choices().find(key)) return known->algorithm.data[0] == 1;
  const std::optional<bool> first = compared(rivals);
  BlasAlgorithm verdict;
  verdict.algorithm.data[0] = first.value_or(true) ? 1 : 2;
  all_choices().keep(key, verdict, first.has_value());
  return first.value_or(true);
}

}  // namespace varve::cuda
