#include "backends/cuda/cudnn/cudnn.h"

#include <algorithm>
#include <mutex>

#include "backends/cuda/device/context.h"
#include "base/text.h"
#include "varve/error.h"

namespace varve::cuda::dnn {

void check(cudnnStatus_t status, const std::string& call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char why[512] = "";
  cudnnGetLastErrorString(why, sizeof why);
  throw Error(cat(call, " failed: ", why[0] ? why : "no reason given", " (", cudnnGetErrorString(status), ")."));
}

// ---- descriptors

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  check(cudnnBackendCreateDescriptor(type, &handle_),
        cat("cudnnBackendCreateDescriptor of type ", static_cast<int>(type)));
}

Descriptor& Descriptor::set_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::size_t count,
                                const void* values) {
  check(cudnnBackendSetAttribute(handle_, name, type, static_cast<std::int64_t>(count), values),
        cat("cudnnBackendSetAttribute of ", static_cast<int>(name)));
  return *this;
}

void Descriptor::finish() { check(cudnnBackendFinalize(handle_), "cudnnBackendFinalize"); }

std::size_t Descriptor::get_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t most,
                                void* values) const {
  std::int64_t count = 0;
  check(cudnnBackendGetAttribute(handle_, name, type, most, &count, values),
        cat("cudnnBackendGetAttribute of ", static_cast<int>(name)));
  return static_cast<std::size_t>(std::min(count, most));
}

std::int64_t Descriptor::count(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) const {
  std::int64_t count = 0;
  check(cudnnBackendGetAttribute(handle_, name, type, 0, &count, nullptr),
        cat("cudnnBackendGetAttribute of ", static_cast<int>(name)));
  return count;
}

std::vector<Descriptor> Descriptor::get(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type,
                                        std::int64_t most) const {
  std::vector<Descriptor> found;  // cuDNN fills descriptors that we made
  std::vector<cudnnBackendDescriptor_t> handles;
  for (std::int64_t i = 0; i < most; ++i) handles.push_back(found.emplace_back(type).get());
  const std::size_t count = get_raw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, most, handles.data());
  found.erase(found.begin() + static_cast<std::ptrdiff_t>(count), found.end());
  return found;
}

// ---- the library

namespace {

struct Library {
  cudnnHandle_t handle = nullptr;
  CUstream stream = nullptr;
  std::string refusal = {};
  std::mutex mutex = {};  // a handle is for one thread at a time
};

Library* opened() {
  auto* made = new Library;
  context().make_current();
  const cudnnStatus_t status = cudnnCreate(&made->handle);
  if (status != CUDNN_STATUS_SUCCESS) made->refusal = cat("cuDNN cannot be used here: ", cudnnGetErrorString(status));
  return made;
}

// Work goes to the stream of the context, which changes while bodies of conditions are recorded.
void follow_stream(Library& library) {
  const CUstream stream = context().stream();
  if (library.stream == stream) return;
  check(cudnnSetStream(library.handle, reinterpret_cast<cudaStream_t>(stream)), "cudnnSetStream");
  library.stream = stream;
}

// Lives as long as the process: programs may outlive static objects. Opened with the GPU, which may come later.
Library& library() {
  static Library& none = *new Library{.refusal = "no GPU"};
  if (!gpu().present()) return none;
  static Library& it = *opened();
  return it;
}

cudnnDataType_t data_type(DType dtype) {
  switch (dtype) {
    case f64:
      return CUDNN_DATA_DOUBLE;
    case bf16:
      return CUDNN_DATA_BFLOAT16;
    case f16:
      return CUDNN_DATA_HALF;
    default:
      return CUDNN_DATA_FLOAT;
  }
}

// ---- engines

bool accepts(const Descriptor& engine, const Accept& accept) {
  for (const auto note :
       engine.get<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT)) {
    switch (note) {
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
        if (!accept.tensor_cores) return false;
        break;
      case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
        if (!accept.any_order) return false;
        break;
      // Less exact than a sum of products in f32.
      case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
      case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
      case CUDNN_NUMERICAL_NOTE_FFT:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
        return false;
      default:
        break;
    }
  }
  // Compiled at run time: seconds for each, while precompiled engines know the same graphs.
  const auto notes =
      engine.get<cudnnBackendBehaviorNote_t>(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_BEHAVIOR_NOTE_TYPE_COUNT);
  return std::find(notes.begin(), notes.end(), CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) == notes.end();
}

std::string tag_of(std::int64_t engine, const Descriptor& config) {
  std::string tag = cat("eng", engine);
  for (const Descriptor& knob :
       config.get(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, CUDNN_KNOB_TYPE_COUNTS)) {
    const auto type = knob.get<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, 1);
    const auto value = knob.get<std::int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, 1);
    tag += cat(" k", static_cast<int>(type.at(0)), "=", value.at(0));
  }
  return tag;
}

// The configurations that one of cuDNN's heuristics suggests; none when it does not know the graph.
std::vector<Descriptor> suggestions(cudnnBackendHeurMode_t mode, const Descriptor& graph, const Descriptor* gpu) {
  Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph).set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (gpu) heuristic.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *gpu);
  if (cudnnBackendFinalize(heuristic.get()) != CUDNN_STATUS_SUCCESS) return {};
  const std::int64_t count = heuristic.count(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR);
  return heuristic.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, count);
}

}  // namespace

const std::string& refusal() { return library().refusal; }

// ---- graphs

std::size_t Graph::keep(Descriptor descriptor) {
  parts_->push_back(std::move(descriptor));
  return parts_->size() - 1;
}

std::int64_t Graph::image(const Image& image) {
  const auto [n, c, h, w] = image.size;
  const auto id = static_cast<std::int64_t>(places_.size());
  constexpr std::int64_t kAlignment = 16;  // of the pointers that plans are given, in bytes
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, data_type(image.dtype))
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, image.size)
      .set(CUDNN_ATTR_TENSOR_STRIDES, std::array<std::int64_t, 4>{h * w * c, 1, w * c, c})
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment)
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, image.inside)
      .finish();
  places_.push_back(keep(std::move(tensor)));
  return id;
}

namespace {

// The three kinds of convolution call the same things by other names.
struct ConvolutionNames {
  cudnnBackendAttributeName_t x, w, y, taps, alpha, beta;
};
ConvolutionNames names_of(cudnnBackendDescriptorType_t pass) {
  switch (pass) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    default:
      return {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
  }
}

}  // namespace

void Graph::convolution(cudnnBackendDescriptorType_t pass, std::int64_t x, std::int64_t w, std::int64_t y,
                        const Taps& taps) {
  Descriptor geometry(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  geometry.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{2})
      .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, taps.stride)
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, taps.dilation)
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, taps.pad_before)
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, taps.pad_after)
      .finish();
  const std::size_t place = keep(std::move(geometry));
  const ConvolutionNames names = names_of(pass);
  Descriptor operation(pass);
  operation.set(names.x, of(x))
      .set(names.w, of(w))
      .set(names.y, of(y))
      .set(names.taps, (*parts_)[place])
      .set(names.alpha, 1.0f)
      .set(names.beta, 0.0f)
      .finish();
  operations_.push_back(keep(std::move(operation)));
}

void Graph::pointwise(cudnnPointwiseMode_t mode, std::int64_t x, std::optional<std::int64_t> b, std::int64_t y) {
  Descriptor function(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  function.set(CUDNN_ATTR_POINTWISE_MODE, mode).set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT).finish();
  const std::size_t place = keep(std::move(function));
  Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, (*parts_)[place])
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, of(x))
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, of(y));
  if (b) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, of(*b));
  operation.finish();
  operations_.push_back(keep(std::move(operation)));
}

void Graph::add(std::int64_t a, std::int64_t b, std::int64_t to) { pointwise(CUDNN_POINTWISE_ADD, a, b, to); }
void Graph::relu(std::int64_t from, std::int64_t to) { pointwise(CUDNN_POINTWISE_RELU_FWD, from, std::nullopt, to); }

const Descriptor& Graph::finish() {
  if (!graph_) {
    std::vector<cudnnBackendDescriptor_t> operations;
    for (const std::size_t place : operations_) operations.push_back((*parts_)[place].get());
    Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations);
    if (!gpu_) graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, library().handle);
    graph.finish();
    graph_ = keep(std::move(graph));
  }
  return (*parts_)[*graph_];
}

std::vector<Candidate> Graph::candidates(const Accept& accept) {
  const std::lock_guard lock(library().mutex);
  const Descriptor& graph = finish();
  std::vector<Candidate> found;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (Descriptor& config : suggestions(mode, graph, gpu_.get())) {
      const auto engines = config.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
      if (engines.empty() || !accepts(engines[0], accept)) continue;
      const std::int64_t engine = engines[0].get<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 1).at(0);
      const std::string tag = tag_of(engine, config);
      if (std::any_of(found.begin(), found.end(), [&](const Candidate& c) { return c.tag == tag; })) continue;
      found.push_back({tag, engine, std::move(config)});
    }
  }
  return found;
}

std::optional<Plan> Graph::plan(Candidate candidate, const Accept& accept) const {
  const std::lock_guard lock(library().mutex);
  Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, candidate.config);
  if (cudnnBackendFinalize(plan.get()) != CUDNN_STATUS_SUCCESS) return std::nullopt;
  Plan made(parts_, std::move(candidate.config), std::move(plan));
  if (made.workspace_bytes() > accept.workspace) return std::nullopt;
  return made;
}

// ---- plans

Plan::Plan(std::shared_ptr<const std::vector<Descriptor>> graph, Descriptor config, Descriptor plan)
    : graph_(std::move(graph)), config_(std::move(config)), plan_(std::move(plan)) {
  const auto bytes = plan_.get<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 1);
  workspace_ = static_cast<std::size_t>(bytes.at(0));
}

void Plan::run(const std::vector<Operand>& operands, void* workspace) const {
  std::vector<std::int64_t> ids;
  std::vector<void*> addresses;
  for (const Operand& operand : operands) {
    ids.push_back(operand.id);
    addresses.push_back(const_cast<void*>(operand.address));
  }
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids)
      .set_addresses(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, addresses)
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace)
      .finish();
  const std::lock_guard lock(library().mutex);
  context().make_current();
  follow_stream(library());
  check(cudnnBackendExecute(library().handle, plan_.get(), pack.get()), "cudnnBackendExecute");
}

}  // namespace varve::cuda::dnn
