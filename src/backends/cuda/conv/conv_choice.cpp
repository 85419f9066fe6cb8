// Which way a convolution is computed: the fastest that was measured, once for each problem.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>

#include "backends/cuda/conv/conv_cudnn.h"
#include "backends/cuda/conv/conv_few_channels.h"
#include "backends/cuda/conv/conv_im2col.h"
#include "backends/cuda/conv/conv_small_images.h"
#include "backends/cuda/conv/conv_transposed.h"
#include "backends/cuda/conv/conv_weight_grad_3x3.h"
#include "backends/cuda/cublas/cublas.h"
#include "backends/cuda/device/context.h"
#include "backends/cuda/device/status.h"
#include "backends/cuda/tuning/cudnn_tuning.h"
#include "backends/cuda/tuning/trial.h"
#include "base/convert.h"
#include "base/levers.h"
#include "base/memory.h"
#include "base/text.h"

namespace varve::cuda {
namespace {

using backend::RunArgs;

constexpr std::size_t kMostTried = 10;

// The first few that cuDNN suggests, and after them the first of every other engine.
std::vector<dnn::Candidate> promising(std::vector<dnn::Candidate> candidates) {
  constexpr std::size_t kFirst = 6;
  std::vector<dnn::Candidate> kept;
  for (dnn::Candidate& candidate : candidates) {
    const bool met = std::any_of(kept.begin(), kept.end(),
                                 [&](const dnn::Candidate& other) { return other.engine == candidate.engine; });
    if (kept.size() < kFirst || (!met && kept.size() < kMostTried)) kept.push_back(std::move(candidate));
  }
  return kept;
}

// Operands that hold small numbers, in one piece of memory.
class Trial {
 public:
  Trial(const ConvSpec& spec, std::size_t scratch) : dtype_(spec.dtype) {
    const ConvShape& s = spec.call.shape;
    const std::size_t element = size_of(spec.dtype);
    const std::size_t x = rounded(s.in_pixels() * s.in_channels, element), w = rounded(s.weights(), element);
    const std::size_t y = rounded(s.out_pixels() * s.out_channels, element), bias = rounded(s.out_channels, element);
    memory_ = context().allocate(x + w + y + bias + scratch);
    auto* const at = static_cast<std::byte*>(memory_->address);
    void *const at_x = at, *const at_w = at + x, *const at_y = at + x + w;
    const void* at_bias = spec.epilogue.bias ? at + x + w + y : nullptr;
    switch (spec.call.pass) {
      case ConvPass::forward:
        operands_ = {at_x, at_w, at_bias, at_y};
        out_ = s.out_pixels() * s.out_channels;
        break;
      case ConvPass::input_grad:
        operands_ = {at_y, at_w, at_bias, at_x};
        out_ = s.in_pixels() * s.in_channels;
        break;
      case ConvPass::weight_grad:
        operands_ = {at_x, at_y, at_bias, at_w};
        out_ = s.weights();
    }
    scratch_ = at + x + w + y + bias;
    fill_with_numbers(at, x + w + y + bias);
  }
  void run(const ConvWay& way) const { way.run(operands_, scratch_); }

  // The first and the last numbers that the way gives.
  std::vector<double> sample(const ConvWay& way) const {
    run(way);
    constexpr std::int64_t kMost = std::int64_t{1} << 14;
    const std::int64_t count = std::min(kMost, out_);
    std::vector<double> numbers;
    for (const std::int64_t first : {std::int64_t{0}, out_ - count}) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(count) * size_of(dtype_));
      context().wait();
      check(cuMemcpyDtoH(bytes.data(), reinterpret_cast<CUdeviceptr>(operands_.out) + first * size_of(dtype_),
                         bytes.size()),
            "cuMemcpyDtoH");
      for (std::int64_t i = 0; i < count; ++i) numbers.push_back(load_f(bytes.data(), dtype_, i));
    }
    return numbers;
  }

 private:
  static std::size_t rounded(std::int64_t count, std::size_t element) {
    constexpr std::size_t kRound = 256;
    return (static_cast<std::size_t>(count) * element + kRound - 1) / kRound * kRound;
  }
  std::shared_ptr<ir::Remote> memory_;
  DType dtype_;
  std::int64_t out_ = 0;  // numbers
  ConvOperands operands_{};
  void* scratch_ = nullptr;
};

bool agree(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0, apart = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!(std::abs(a[i] - b[i]) < std::numeric_limits<double>::infinity())) return false;
    most = std::max(most, std::abs(b[i]));
    apart = std::max(apart, std::abs(a[i] - b[i]));
  }
  constexpr double kRounding = 0.02;  // of sums of products in bf16, and more
  return apart <= kRounding * most;
}

// The number of the fastest that computes what the first does; nothing when there is no memory left to try them.
std::optional<std::size_t> measured(const ConvSpec& spec, const std::vector<ConvWay>& ways) {
  std::size_t scratch = 0;
  for (const ConvWay& way : ways) scratch = std::max(scratch, way.scratch_bytes);
  try {
    const Trial trial(spec, scratch);
    std::vector<std::function<void()>> runs;
    for (const ConvWay& way : ways) runs.emplace_back([&] { trial.run(way); });
    while (const std::optional<std::size_t> best = fastest_way(runs)) {
      if (*best == 0 || agree(trial.sample(ways[*best]), trial.sample(ways[0]))) return best;
      runs[*best] = [] { throw Error("other numbers than the first way's."); };
    }
    return std::nullopt;
  } catch (const OutOfMemory&) {
    return std::nullopt;
  }
}

// ---- problems that this process has met

class Problem;
Problem& problem_of(const ConvSpec& spec);

class Problem {
 public:
  explicit Problem(const ConvSpec& spec)
      : spec_(spec),
        made_(spec),
        candidates_(made_.graph.candidates(accepted_for(spec))),
        known_(!candidates_.empty()) {}

  bool known() const { return known_; }  // to cuDNN
  bool decided() const { return way_ || remembered_way(name(true)); }

  const ConvWay& decide(bool tunes) {
    if (!way_) way_ = best(tunes);
    candidates_.clear();
    return *way_;
  }

 private:
  // With who takes part: a choice among fewer, of an older version or with a lever left out, is not one among these.
  std::string name(bool tunes) const {
    std::string text = cat(spec_.key(), tunes ? "" : " untuned", lever("same-bits") ? "" : " any order");
    if (tunes)
      for (const Other& other : others()) text += cat(", ", other.tag);
    return text;
  }

  ConvWay best(bool tunes) {
    const std::string problem = name(tunes);
    if (const std::optional<std::string> before = remembered_way(problem))
      if (std::optional<ConvWay> way = named(*before)) return *way;
    std::vector<ConvWay> ways = dnn_ways(
        spec_, made_, tunes ? promising(std::move(candidates_)) : std::move(candidates_), tunes ? kMostTried : 1);
    if (tunes)
      for (const Other& other : others()) ways.push_back(other.make());
    if (ways.empty()) ways.push_back(own_way(spec_));
    const std::optional<std::size_t> fastest = tunes && ways.size() > 1 ? measured(spec_, ways) : std::nullopt;
    const ConvWay& chosen = ways[fastest.value_or(0)];
    remember_way(problem, chosen.tag, fastest.has_value());
    return chosen;
  }

  // What may be faster than anything of cuDNN's. Ways are made when they are wanted: that may measure products.
  struct Other {
    std::string tag;
    std::function<ConvWay()> make;
  };
  std::vector<Other> others() const {
    std::vector<Other> all;
    const bool product = is_product(spec_), blas = blas_refusal(spec_.dtype).empty();
    if (product && blas) all.push_back({"product", [this] { return *product_way(spec_); }});
    const bool few = pays_for_few(spec_);  // where it does, gathering never won
    if (!product && blas && !few && pays_to_gather(spec_))
      all.push_back({"gathered", [this] { return *gathered_way(spec_); }});
    if (few) all.push_back({"few", [this] { return *few_way(spec_); }});
    if (pays_to_tile(spec_)) all.push_back({"tiled", [this] { return *tiled_way(spec_); }});
    if (pays_for_small(spec_)) all.push_back({"small", [this] { return *small_way(spec_); }});
    // Of single taps it is a product either way; the tensor cores read TF32 along both factors' rows alone.
    if (const std::optional<ConvSpec> forward = turned_spec(spec_); forward && (!product || spec_.tf32))
      all.push_back({"turned", [this, forward] { return turned_way(spec_, problem_of(*forward).decide(true)); }});
    // Without tensor cores cuDNN has little for channels-last images; then ours may be the fastest.
    if (!spec_.tensor_cores()) all.push_back({"own", [this] { return own_way(spec_); }});
    return all;
  }

  std::optional<ConvWay> named(const std::string& tag) {
    for (const Other& other : others())
      if (other.tag == tag) return other.make();
    for (dnn::Candidate& candidate : made_.graph.candidates(accepted_for(spec_))) {
      if (candidate.tag != tag) continue;
      std::vector<dnn::Candidate> one;
      one.push_back(std::move(candidate));
      for (ConvWay& way : dnn_ways(spec_, made_, std::move(one), 1)) return std::move(way);
    }
    return std::nullopt;
  }

  ConvSpec spec_;
  DnnConvGraph made_;
  std::vector<dnn::Candidate> candidates_;
  bool known_;
  std::optional<ConvWay> way_;  // once it is decided
};

std::mutex problems_mutex;  // for all problems, and so that one is measured at a time

Problem& problem_of(const ConvSpec& spec) {
  static auto& all = *new std::map<std::string, Problem>;
  return all.try_emplace(spec.key(), spec).first->second;
}

bool aligned(const ConvOperands& at) {
  constexpr std::uintptr_t kAlignment = 16;
  for (const void* address : {at.first, at.second, at.bias, static_cast<const void*>(at.out)})
    if (reinterpret_cast<std::uintptr_t>(address) % kAlignment != 0) return false;
  return true;
}

}  // namespace

std::string dnn_refusal(const ConvSpec& spec) {
  if (!lever("cudnn")) return kLeftOut;
  if (!dnn::refusal().empty()) return dnn::refusal();
  if (spec.dtype == f64) return "f64";
  if (spec.call.empty) return "an empty tensor";
  const ConvShape& s = spec.call.shape;
  constexpr std::int64_t kMost = std::int64_t{1} << 31;  // what its kernels count elements with
  if (std::max({s.in_pixels() * s.in_channels, s.out_pixels() * s.out_channels, s.weights()}) >= kMost)
    return "more than 2^31 elements";
  const std::lock_guard lock(problems_mutex);
  return problem_of(spec).known() ? "" : "cuDNN has no engine for it";
}

void begin_dnn_conv(const ConvSpec& spec) {
  const std::lock_guard lock(problems_mutex);
  if (!lever("tuning") || problem_of(spec).decided()) return;
  static_cast<void>(tiled_way(spec));
  static_cast<void>(small_way(spec));
  static_cast<void>(few_way(spec));
}

backend::Prepared prepare_dnn_conv(const ConvSpec& spec) {
  const std::lock_guard lock(problems_mutex);
  const ConvWay way = problem_of(spec).decide(lever("tuning"));
  const ConvWay own = way.any_address ? way : own_way(spec, Begin::when_started);
  return backend::prepared(
      [way, own, bias = spec.epilogue.bias](const RunArgs& args) {
        const ConvOperands at{args.in[0], args.in[1], bias ? args.in[2] : nullptr, args.out[0]};
        (way.any_address || aligned(at) ? way : own).run(at, args.scratch);
      },
      std::max(way.scratch_bytes, own.scratch_bytes));
}

}  // namespace varve::cuda
