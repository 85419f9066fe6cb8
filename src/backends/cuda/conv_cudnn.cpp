#include "backends/cuda/conv_cudnn.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "backends/cuda/context.h"
#include "backends/cuda/cudnn_tuning.h"
#include "backends/cuda/status.h"
#include "base/levers.h"
#include "base/memory.h"
#include "base/text.h"
#include "varve/error.h"

namespace varve::cuda {
namespace {

using backend::RunArgs;

constexpr const char* kOwn = "own";  // our own kernel, as a way to compute it
constexpr std::uintptr_t kAlignment = 16;
constexpr std::size_t kMostTried = 10;

cudnnBackendDescriptorType_t operation_of(ConvPass pass) {
  switch (pass) {
    case ConvPass::forward:
      return CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
    case ConvPass::input_grad:
      return CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
    case ConvPass::weight_grad:
      break;
  }
  return CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
}

}  // namespace

std::string DnnConv::key() const {
  const ConvShape& s = call.shape;
  return cat(name(call.pass), epilogue.bias ? "+bias" : "", epilogue.relu ? "+relu" : "", " ", varve::name(dtype),
             tf32 ? " tf32" : "", " ", s.batch, "x", s.in_height, "x", s.in_width, "x", s.in_channels, " to ",
             s.out_height, "x", s.out_width, "x", s.out_channels, " by ", s.kernel_height, "x", s.kernel_width,
             " stride ", s.stride_height, ",", s.stride_width, " dilation ", s.dilation_height, ",", s.dilation_width,
             " pad ", s.pad_top, ",", s.pad_bottom, ",", s.pad_left, ",", s.pad_right, " groups ", s.groups);
}

DnnConvGraph::DnnConvGraph(const DnnConv& conv, std::shared_ptr<const dnn::Descriptor> gpu) : graph(std::move(gpu)) {
  const ConvShape& s = conv.call.shape;
  const ConvEpilogue& after = conv.epilogue;
  const std::array<std::int64_t, 4> result{s.batch, s.out_channels, s.out_height, s.out_width};
  x = graph.image({{s.batch, s.in_channels, s.in_height, s.in_width}, conv.dtype});
  w = graph.image({{s.out_channels, s.in_group(), s.kernel_height, s.kernel_width}, conv.dtype});
  y = graph.image({result, conv.dtype});
  const std::int64_t sums = after.empty() ? y : graph.image({result, f32, true});
  graph.convolution(operation_of(conv.call.pass), x, w, sums,
                    {.stride = {s.stride_height, s.stride_width},
                     .dilation = {s.dilation_height, s.dilation_width},
                     .pad_before = {s.pad_top, s.pad_left},
                     .pad_after = {s.pad_bottom, s.pad_right}});
  std::int64_t value = sums;
  if (after.bias) {
    bias = graph.image({{1, s.out_channels, 1, 1}, conv.dtype});
    const std::int64_t to = after.relu ? graph.image({result, f32, true}) : y;
    graph.add(value, bias, to);
    value = to;
  }
  if (after.relu) graph.relu(value, y);
}

namespace {

// ---- running

struct Operands {
  const void *x, *w, *y, *bias;
};

Operands operands_of(ConvPass pass, const void* first, const void* second, const void* bias, const void* out) {
  switch (pass) {
    case ConvPass::forward:
      return {first, second, out, bias};
    case ConvPass::input_grad:
      return {out, second, first, bias};
    case ConvPass::weight_grad:
      break;
  }
  return {first, out, second, bias};
}

struct DnnRun {
  std::shared_ptr<const dnn::Plan> plan;
  std::int64_t x, w, y, bias;

  DnnRun(std::shared_ptr<const dnn::Plan> plan_, const DnnConvGraph& graph)
      : plan(std::move(plan_)), x(graph.x), w(graph.w), y(graph.y), bias(graph.bias) {}
  void operator()(const Operands& at, void* workspace) const {
    std::vector<dnn::Operand> operands{{x, at.x}, {w, at.w}, {y, at.y}};
    if (bias >= 0) operands.push_back({bias, at.bias});
    plan->run(operands, workspace);
  }
};

bool aligned(const Operands& at) {
  for (const void* address : {at.x, at.w, at.y, at.bias})
    if (reinterpret_cast<std::uintptr_t>(address) % kAlignment != 0) return false;
  return true;
}

// ---- choosing

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
  Trial(const ConvShape& s, DType dtype, std::size_t workspace) {
    const std::size_t element = size_of(dtype);
    const std::size_t w = rounded(s.in_pixels() * s.in_channels, element), y = w + rounded(s.weights(), element);
    const std::size_t bias = y + rounded(s.out_pixels() * s.out_channels, element);
    const std::size_t scratch = bias + rounded(s.out_channels, element);
    memory_ = context().allocate(scratch + workspace);
    auto* at = static_cast<std::byte*>(memory_->address);
    operands_ = {at, at + w, at + y, at + bias};
    workspace_ = at + scratch;
    // 0x3c in every byte is a small positive number in all of our types.
    check(cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(at), 0x3c, scratch, context().stream()), "cuMemsetD8Async");
  }
  const Operands& operands() const { return operands_; }
  void* workspace() const { return workspace_; }

 private:
  static std::size_t rounded(std::int64_t count, std::size_t element) {
    constexpr std::size_t kRound = 256;
    return (static_cast<std::size_t>(count) * element + kRound - 1) / kRound * kRound;
  }
  std::shared_ptr<ir::Remote> memory_;
  Operands operands_{};
  void* workspace_ = nullptr;
};

struct Way {
  std::string tag;
  std::shared_ptr<const dnn::Plan> plan;  // null: our own kernel
};

// The number of the fastest; nothing when there is no memory left to try them.
std::optional<std::size_t> measured(const DnnConv& conv, const DnnConvGraph& graph, const std::vector<Way>& ways) {
  const PlainConv own(conv.call, conv.dtype, conv.epilogue);
  std::size_t workspace = own.scratch_bytes();
  for (const Way& way : ways) workspace = way.plan ? std::max(workspace, way.plan->workspace_bytes()) : workspace;
  try {
    const Trial trial(conv.call.shape, conv.dtype, workspace);
    const Operands& at = trial.operands();
    const bool backward = conv.call.pass == ConvPass::input_grad, weights = conv.call.pass == ConvPass::weight_grad;
    std::vector<std::function<void()>> runs;
    for (const Way& way : ways)
      if (way.plan)
        runs.emplace_back([&, run = DnnRun(way.plan, graph)] { run(at, trial.workspace()); });
      else
        runs.emplace_back([&] {
          own.run(backward ? at.y : at.x, weights ? at.y : at.w, conv.epilogue.bias ? at.bias : nullptr,
                  const_cast<void*>(backward  ? at.x
                                    : weights ? at.w
                                              : at.y),
                  trial.workspace());
        });
    return fastest_way(runs);
  } catch (const OutOfMemory&) {
    return std::nullopt;
  }
}

// Plans for those that cuDNN finds to work after all, up to `most`.
std::vector<Way> ways_of(const DnnConv& conv, const dnn::Graph& graph, std::vector<dnn::Candidate> candidates,
                         std::size_t most) {
  std::vector<Way> ways;
  for (dnn::Candidate& candidate : candidates) {
    if (ways.size() == most) break;
    const std::string tag = candidate.tag;
    if (std::optional<dnn::Plan> plan = graph.plan(std::move(candidate), conv.accept()))
      ways.push_back({tag, std::make_shared<const dnn::Plan>(std::move(*plan))});
  }
  return ways;
}

// ---- problems that this process has met

struct Problem {
  DnnConv conv;
  std::string key;
  DnnConvGraph made;
  std::vector<dnn::Candidate> candidates;
  bool known;                   // whether cuDNN had any
  std::optional<Way> way = {};  // once it is decided

  explicit Problem(const DnnConv& c)
      : conv(c), key(c.key()), made(c), candidates(made.graph.candidates(c.accept())), known(!candidates.empty()) {}

  const Way& decide(bool tunes) {
    if (!way) way = decided(tunes);
    candidates.clear();
    return *way;
  }

 private:
  Way decided(bool tunes) {
    const std::string problem = key + (tunes ? "" : " untuned");
    if (const std::optional<std::string> before = remembered_way(problem)) {
      if (*before == kOwn) return {kOwn, nullptr};
      std::vector<dnn::Candidate> same;
      for (dnn::Candidate& candidate : candidates)
        if (candidate.tag == *before) same.push_back(std::move(candidate));
      std::vector<Way> ways = ways_of(conv, made.graph, std::move(same), 1);
      if (!ways.empty()) return ways[0];
      candidates = made.graph.candidates(conv.accept());
    }
    std::vector<Way> ways = tunes ? ways_of(conv, made.graph, promising(std::move(candidates)), kMostTried)
                                  : ways_of(conv, made.graph, std::move(candidates), 1);
    // Without tensor cores cuDNN has little for channels-last images; then ours may be the fastest.
    if (ways.empty() || (tunes && !conv.accept().tensor_cores)) ways.push_back({kOwn, nullptr});
    const std::optional<std::size_t> best = tunes && ways.size() > 1 ? measured(conv, made, ways) : std::nullopt;
    const Way& chosen = ways[best.value_or(0)];
    remember_way(problem, chosen.tag, best.has_value());
    return chosen;
  }
};

std::mutex problems_mutex;  // for all problems, and so that one is measured at a time

Problem& problem_of(const DnnConv& conv) {
  static auto& all = *new std::map<std::string, Problem>;
  return all.try_emplace(conv.key(), conv).first->second;
}

}  // namespace

std::string refusal_of(const DnnConv& conv) {
  if (!lever("cudnn")) return kLeftOut;
  if (!dnn::refusal().empty()) return dnn::refusal();
  if (conv.dtype == f64) return "f64";
  if (conv.call.empty) return "an empty tensor";
  const ConvShape& s = conv.call.shape;
  constexpr std::int64_t kMost = std::int64_t{1} << 31;  // what its kernels count elements with
  if (std::max({s.in_pixels() * s.in_channels, s.out_pixels() * s.out_channels, s.weights()}) >= kMost)
    return "more than 2^31 elements";
  const std::lock_guard lock(problems_mutex);
  return problem_of(conv).known ? "" : "cuDNN has no engine for it";
}

backend::Prepared prepare_dnn_conv(const DnnConv& conv) {
  const std::lock_guard lock(problems_mutex);
  Problem& problem = problem_of(conv);
  const Way& way = problem.decide(lever("tuning"));
  PlainConv own(conv.call, conv.dtype, conv.epilogue);
  const std::size_t scratch = std::max(own.scratch_bytes(), way.plan ? way.plan->workspace_bytes() : 0);
  if (!way.plan)
    return backend::prepared(
        [own = std::move(own), bias = conv.epilogue.bias](const RunArgs& args) {
          own.run(args.in[0], args.in[1], bias ? args.in[2] : nullptr, args.out[0], args.scratch);
        },
        scratch);
  return backend::prepared(
      [own = std::move(own), run = DnnRun(way.plan, problem.made), pass = conv.call.pass,
       bias = conv.epilogue.bias](const RunArgs& args) {
        const void* added = bias ? args.in[2] : nullptr;
        const Operands at = operands_of(pass, args.in[0], args.in[1], added, args.out[0]);
        if (aligned(at)) return run(at, args.scratch);
        own.run(args.in[0], args.in[1], added, args.out[0], args.scratch);
      },
      scratch);
}

}  // namespace varve::cuda
