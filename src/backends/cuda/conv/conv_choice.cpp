// Which algorithm computes a convolution: the fastest that was timed, once for each problem.
#include <algorithm>
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
#include "backends/cuda/tuning/choices.h"
#include "backends/cuda/tuning/timing.h"
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

// The operands of a problem, in one piece of memory.
class Operands {
 public:
  Operands(const ConvSpec& spec, std::size_t scratch) {
    const ConvShape& s = spec.call.shape;
    const auto bytes = [&](std::int64_t elements) { return scratch_piece(elements, spec.dtype); };
    const std::size_t x = bytes(s.in_pixels() * s.in_channels), w = bytes(s.weights());
    const std::size_t y = bytes(s.out_pixels() * s.out_channels), bias = bytes(s.out_channels);
    memory_ = context().allocate(x + w + y + bias + scratch);
    filled_ = x + w + y + bias;
    auto* const at = static_cast<std::byte*>(memory_->address);
    void *const at_x = at, *const at_w = at + x, *const at_y = at + x + w;
    const void* at_bias = spec.epilogue.bias ? at + x + w + y : nullptr;
    switch (spec.call.pass) {
      case ConvPass::forward:
        operands_ = {at_x, at_w, at_bias, at_y};
        result_ = {at_y, s.out_pixels() * s.out_channels, spec.dtype};
        break;
      case ConvPass::input_grad:
        operands_ = {at_y, at_w, at_bias, at_x};
        result_ = {at_x, s.in_pixels() * s.in_channels, spec.dtype};
        break;
      case ConvPass::weight_grad:
        operands_ = {at_x, at_y, at_bias, at_w};
        result_ = {at_w, s.weights(), spec.dtype};
    }
    scratch_ = at + filled_;
  }
  void fill() const { fill_with_numbers(memory_->address, filled_); }
  void run(const ConvAlgorithm& algorithm) const { algorithm.run(operands_, scratch_); }
  const Result& result() const { return result_; }

 private:
  std::shared_ptr<ir::Remote> memory_;
  std::size_t filled_ = 0;  // bytes
  ConvOperands operands_{};
  Result result_{};
  void* scratch_ = nullptr;
};

// The number of the fastest that computes what the first does; nothing when there is no memory left to try them.
std::optional<std::size_t> measured(const ConvSpec& spec, const std::vector<ConvAlgorithm>& algorithms) {
  std::size_t scratch = 0;
  for (const ConvAlgorithm& algorithm : algorithms) scratch = std::max(scratch, algorithm.scratch_bytes);
  try {
    const Operands operands(spec, scratch);
    Candidates candidates{.runs = {}, .reset = [&] { operands.fill(); }, .results = {operands.result()}};
    for (const ConvAlgorithm& algorithm : algorithms) candidates.runs.emplace_back([&] { operands.run(algorithm); });
    return fastest_candidate(candidates);
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
  bool decided() const { return algorithm_ || choices().find(key(true)); }

  const ConvAlgorithm& decide(bool tunes) {
    if (!algorithm_) algorithm_ = best(tunes);
    candidates_.clear();
    return *algorithm_;
  }

 private:
  // With who takes part: a choice among fewer, of an older version or with a lever left out, is not one among these.
  ChoiceKey key(bool tunes) const {
    std::string problem = cat(spec_.key(), tunes ? "" : " untuned", lever("same-bits") ? "" : " any order");
    std::vector<KernelText> kernels;
    for (const Other& other : tunes ? others() : std::vector<Other>()) {
      problem += cat(", ", other.tag);
      for (const char* file : other.files) kernels.push_back({file, ""});
    }
    return choice_key(ChoiceKind::conv, problem, kernels);
  }

  ConvAlgorithm best(bool tunes) {
    const ChoiceKey problem = key(tunes);
    if (const std::optional<std::string> before = choices().find(problem))
      if (std::optional<ConvAlgorithm> algorithm = named(*before)) return *algorithm;
    std::vector<ConvAlgorithm> algorithms = dnn_algorithms(
        spec_, made_, tunes ? promising(std::move(candidates_)) : std::move(candidates_), tunes ? kMostTried : 1);
    if (tunes)
      for (const Other& other : others()) algorithms.push_back(other.make());
    if (algorithms.empty()) algorithms.push_back(plain_algorithm(spec_));
    const std::optional<std::size_t> fastest =
        tunes && algorithms.size() > 1 ? measured(spec_, algorithms) : std::nullopt;
    const ConvAlgorithm& chosen = algorithms[fastest.value_or(0)];
    if (!fastest) {
      choices().assume(problem, chosen.tag);
      return chosen;
    }
    const std::string kept = choices().keep(problem, chosen.tag);  // perhaps another process's
    return kept == chosen.tag ? chosen : named(kept).value_or(chosen);
  }

  // What may be faster than anything of cuDNN's. They are made when they are wanted: that may time products.
  struct Other {
    std::string tag;
    std::vector<const char*> files;  // of its kernels
    std::function<ConvAlgorithm()> make;
  };
  std::vector<Other> others() const {
    std::vector<Other> all;
    const bool product = is_product(spec_), blas = blas_refusal(spec_.dtype).empty();
    if (product && blas) all.push_back({"product", {}, [this] { return *product_algorithm(spec_); }});
    const bool few = pays_for_few_channels(spec_);  // where it does, im2col never won
    if (!product && blas && !few && pays_for_im2col(spec_))
      all.push_back({"im2col", {"conv/conv_im2col.cu"}, [this] { return *im2col_algorithm(spec_); }});
    if (few)
      all.push_back({"few_channels",
                     {"conv/conv_few_channels.cu", "conv/conv_few_channels_weight_grad.cu", "matmul/split_k_sum.cu"},
                     [this] { return *few_channels_algorithm(spec_); }});
    if (pays_for_3x3(spec_))
      all.push_back({"weight_grad_3x3", {"conv/conv_weight_grad_3x3.cu", "matmul/split_k_sum.cu"}, [this] {
                       return *weight_grad_3x3_algorithm(spec_);
                     }});
    if (pays_for_small_images(spec_))
      all.push_back({"small_images",
                     {"conv/conv_small_images.cu", "conv/conv_small_images_weight_grad.cu", "matmul/split_k_sum.cu"},
                     [this] { return *small_images_algorithm(spec_); }});
    // Of single taps it is a product in either form; the tensor cores read TF32 along both factors' rows alone.
    if (const std::optional<ConvSpec> forward = transposed_spec(spec_); forward && (!product || spec_.tf32))
      all.push_back({"transposed", {"conv/conv_transposed.cu"}, [this, forward] {
                       return transposed_algorithm(spec_, problem_of(*forward).decide(true));
                     }});
    // Without tensor cores cuDNN has little for channels-last images; then ours may be the fastest.
    if (!spec_.tensor_cores())
      all.push_back({"plain", {"conv/conv_plain.cu"}, [this] { return plain_algorithm(spec_); }});
    return all;
  }

  std::optional<ConvAlgorithm> named(const std::string& tag) {
    for (const Other& other : others())
      if (other.tag == tag) return other.make();
    for (dnn::Candidate& candidate : made_.graph.candidates(accepted_for(spec_))) {
      if (candidate.tag != tag) continue;
      std::vector<dnn::Candidate> one;
      one.push_back(std::move(candidate));
      for (ConvAlgorithm& algorithm : dnn_algorithms(spec_, made_, std::move(one), 1)) return std::move(algorithm);
    }
    return std::nullopt;
  }

  ConvSpec spec_;
  DnnConvGraph made_;
  std::vector<dnn::Candidate> candidates_;
  bool known_;
  std::optional<ConvAlgorithm> algorithm_;  // once it is decided
};

std::mutex problems_mutex;  // for all problems, and so that one is measured at a time

Problem& problem_of(const ConvSpec& spec) {
  static auto& all = *new std::map<std::string, Problem>;
  return all.try_emplace(spec.key(), spec).first->second;
}

bool all_aligned(const ConvOperands& at) {
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
  // Its kernels for small pictures then sum over the wrong pixels (seen with 9.19, f32, pictures of 3×4 to 4×8).
  if (spec.call.pass == ConvPass::weight_grad && (s.pad_top != s.pad_bottom || s.pad_left != s.pad_right))
    return "a weight gradient whose padding differs before and after";
  constexpr std::int64_t kMost = std::int64_t{1} << 31;  // what its kernels count elements with
  if (std::max({s.in_pixels() * s.in_channels, s.out_pixels() * s.out_channels, s.weights()}) >= kMost)
    return "more than 2^31 elements";
  const std::lock_guard lock(problems_mutex);
  return problem_of(spec).known() ? "" : "cuDNN has no engine for it";
}

void begin_dnn_conv(const ConvSpec& spec) {
  const std::lock_guard lock(problems_mutex);
  if (!lever("tuning") || problem_of(spec).decided()) return;
  static_cast<void>(weight_grad_3x3_algorithm(spec));
  static_cast<void>(small_images_algorithm(spec));
  static_cast<void>(few_channels_algorithm(spec));
}

backend::Prepared prepare_dnn_conv(const ConvSpec& spec) {
  const std::lock_guard lock(problems_mutex);
  const ConvAlgorithm algorithm = problem_of(spec).decide(lever("tuning"));
  const ConvAlgorithm plain = algorithm.any_address ? algorithm : plain_algorithm(spec, Begin::when_started);
  return backend::prepared(
      [algorithm, plain, bias = spec.epilogue.bias](const RunArgs& args) {
        const ConvOperands at{args.in[0], args.in[1], bias ? args.in[2] : nullptr, args.out[0]};
        (algorithm.any_address || all_aligned(at) ? algorithm : plain).run(at, args.scratch);
      },
      std::max(algorithm.scratch_bytes, plain.scratch_bytes));
}

}  // namespace varve::cuda
