// What runs as values in the GPU's memory say: a conditional node of the graph while a step is recorded, otherwise the
// processor reads the value.
#include "backends/cuda/device/capture.h"
#include "backends/cuda/device/context.h"
#include "backends/cuda/device/function.h"
#include "backends/cuda/device/launch.h"
#include "backends/cuda/device/status.h"
#include "base/levers.h"
#include "base/text.h"

namespace varve::cuda {
namespace {

constexpr Launch kOneThread{.grid = 1, .block = 1};

// The widest unit that rows of so many bytes are made of.
const char* unit_of(std::size_t bytes) { return bytes % 8 == 0 ? "u64" : bytes % 4 == 0 ? "u32" : "unsigned char"; }
std::size_t unit_bytes(std::size_t bytes) { return bytes % 8 == 0 ? 8 : bytes % 4 == 0 ? 4 : 1; }

struct Kernels {
  Function decide{"decide", {"device/decide.cu", ""}};
  Function set_condition{"set_condition", {"device/set_condition.cu", ""}};
};
const Kernels& kernels() {
  static const Kernels& all = *new Kernels;  // as long as the process: recordings are started until its end
  return all;
}

}  // namespace

std::string Context::decision_refusal() const { return lever("conditional-nodes") ? decisions_refused_ : kLeftOut; }

bool Context::is_true(const void* predicate) {
  unsigned char truth = 0;
  check(cuMemcpyDtoHAsync(&truth, reinterpret_cast<CUdeviceptr>(predicate), 1, stream_), "cuMemcpyDtoHAsync");
  wait();
  return truth != 0;
}

void Context::set_condition(CUgraphConditionalHandle condition, const void* predicate) const {
  kernels().set_condition(kOneThread, condition, static_cast<const unsigned char*>(predicate));
}

// A node after all that was recorded so far, whose bodies are still empty.
Context::Condition Context::record_condition(CUgraphConditionalNodeType type, unsigned bodies, const void* predicate) {
  CUgraph graph = nullptr;
  static_cast<void>(last_nodes(stream_, &graph));
  Condition condition{};
  check(cuGraphConditionalHandleCreate(&condition.handle, graph, context_, 0, 0), "cuGraphConditionalHandleCreate");
  set_condition(condition.handle, predicate);
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  params.conditional.handle = condition.handle;
  params.conditional.type = type;
  params.conditional.size = bodies;
  params.conditional.ctx = context_;
  const std::vector<CUgraphNode> after = last_nodes(stream_);
  CUgraphNode node = nullptr;
  check(cuGraphAddNode(&node, graph, after.data(), nullptr, after.size(), &params), "cuGraphAddNode");
  wait_for(stream_, {node});
  condition.bodies = {params.conditional.phGraph_out, params.conditional.phGraph_out + bodies};
  return condition;
}

// What is started meanwhile goes there.
void Context::record_into(CUgraph graph, const std::function<void()>& work) {
  if (side_streams_.size() == depth_) {
    side_streams_.push_back(nullptr);
    check(cuStreamCreate(&side_streams_.back(), CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  }
  const CUstream side = side_streams_[depth_], outer = stream_;
  check(cuStreamBeginCaptureToGraph(side, graph, nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_RELAXED),
        "cuStreamBeginCaptureToGraph");
  const bool overlapping = overlapping_;
  const auto leave = [&] {
    stream_ = outer;
    overlapping_ = overlapping;
    --depth_;
    CUgraph ended = nullptr;
    return cuStreamEndCapture(side, &ended);
  };
  stream_ = side;
  overlapping_ = false;
  ++depth_;
  try {
    work();
  } catch (...) {
    leave();
    throw;
  }
  check(leave(), "cuStreamEndCapture");
}

void Context::choose(const void* predicate, const std::function<void()>& then, const std::function<void()>& otherwise) {
  make_current();
  static_cast<void>(kernels());  // they are compiled meanwhile
  if (!recording_) return is_true(predicate) ? then() : otherwise();
  const Condition condition = record_condition(CU_GRAPH_COND_TYPE_IF, 2, predicate);
  record_into(condition.bodies[0], then);
  record_into(condition.bodies[1], otherwise);
}

void Context::repeat(const Repeat& how, const std::function<void()>& decide, const std::function<void()>& work) {
  make_current();
  const int complaint = note(how.too_long);
  auto* const predicate = static_cast<unsigned char*>(how.predicate);
  auto* const steps = static_cast<std::int64_t*>(how.steps);
  const auto count = [&](std::int64_t more) {
    decide();
    kernels().decide(kOneThread, predicate, steps, more, how.max_steps, how.errors->word(), complaint);
  };
  check(cuMemsetD32Async(reinterpret_cast<CUdeviceptr>(how.steps), 0, 2, stream_), "cuMemsetD32Async");
  count(0);
  if (!recording_) {
    for (; is_true(predicate); count(1)) work();
    return;
  }
  const Condition condition = record_condition(CU_GRAPH_COND_TYPE_WHILE, 1, predicate);
  record_into(condition.bodies[0], [&] {
    work();
    count(1);
    set_condition(condition.handle, predicate);
  });
}

void Context::copy_row(void* rows, const void* from, std::size_t bytes, const void* number) {
  if (bytes == 0) return;
  make_current();
  const Function copy("copy_row", {"device/copy_row.cu", defines({{"UNIT", unit_of(bytes)}})});
  const auto units = static_cast<std::int64_t>(bytes / unit_bytes(bytes));
  copy(striding(units), rows, from, units, static_cast<const std::int64_t*>(number));
}

}  // namespace varve::cuda
