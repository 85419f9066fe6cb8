#include "stream.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>

#include "context.h"

using varve::emulator::Capture;
using varve::emulator::require_idle_context;
using varve::emulator::submit;

struct CUevent_st {
  std::chrono::steady_clock::time_point time;
  bool recorded = false;
  unsigned flags = 0;
  std::shared_ptr<Capture> capture;  // set while its last record belongs to a capture
  CUstream stream = nullptr;
  unsigned long long position = 0;
  std::vector<CUgraphNode> nodes;  // the last ones before it
};

namespace varve::emulator {
namespace {

std::mutex mutex;  // over the two below and what the streams say of captures
std::vector<CUstream> streams;
std::vector<std::shared_ptr<Capture>> captures;

CUstream_st default_stream;

CUstream resolve(CUstream stream) {
  bool is_default = stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
  return is_default ? &default_stream : stream;
}

bool known(CUstream stream) {
  return stream == &default_stream || std::find(streams.begin(), streams.end(), stream) != streams.end();
}

bool forbids(const Capture& capture) {
  if (capture.mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
  return capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL || capture.thread == std::this_thread::get_id();
}

bool is_programmatic(const CUgraphEdgeData& edge) { return edge.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC; }

// Edges by which a kernel begins early lead from kernels to kernels, and from the port that is meant for them.
bool are_allowed(const CUstream_st& stream, CUgraphNodeType type) {
  for (std::size_t i = 0; i < stream.edges.size(); ++i) {
    const bool kernels = type == CU_GRAPH_NODE_TYPE_KERNEL && stream.after[i]->type == CU_GRAPH_NODE_TYPE_KERNEL;
    const bool port = stream.edges[i].from_port != CU_GRAPH_KERNEL_NODE_PORT_DEFAULT;
    if (is_programmatic(stream.edges[i]) != port || (port && !kernels)) return false;
  }
  return true;
}

}  // namespace

bool next_overlaps(CUstream handle) {
  std::lock_guard lock(mutex);
  const CUstream stream = resolve(handle);
  return known(stream) && stream->capture && std::any_of(stream->edges.begin(), stream->edges.end(), is_programmatic);
}

CUresult submit(CUstream handle, CUgraphNodeType type, Work work) {
  if (CUresult refused = require_context(); refused != CUDA_SUCCESS) return refused;
  CUstream stream = resolve(handle);
  {
    std::lock_guard lock(mutex);
    if (!known(stream)) return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture) {
      if (stream->capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
      if (!are_allowed(*stream, type)) return CUDA_ERROR_INVALID_VALUE;
      auto node = std::make_shared<CUgraphNode_st>(CUgraphNode_st{type, std::move(work)});
      stream->capture->graph->nodes.push_back(node);
      stream->after = {node.get()};
      stream->edges.clear();
      ++stream->submitted;
      return CUDA_SUCCESS;
    }
  }
  return work();
}

CUresult require_idle_context() {
  if (CUresult refused = require_context(); refused != CUDA_SUCCESS) return refused;
  std::lock_guard lock(mutex);
  for (const auto& capture : captures) {
    if (!forbids(*capture)) continue;
    capture->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return CUDA_SUCCESS;
}

}  // namespace varve::emulator

using namespace varve::emulator;

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  if (!stream) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult refused = require_context(); refused != CUDA_SUCCESS) return refused;
  std::lock_guard lock(mutex);
  *stream = new CUstream_st{.capture = nullptr, .flags = flags, .priority = priority};
  streams.push_back(*stream);
  return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream* stream, unsigned flags) { return cuStreamCreateWithPriority(stream, flags, 0); }

CUresult cuStreamDestroy(CUstream stream) {
  std::lock_guard lock(mutex);
  if (std::erase(streams, stream) == 0) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture) stream->capture->invalidated = true;
  std::erase_if(captures, [&](const auto& capture) { return capture->origin == stream; });
  delete stream;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetFlags(CUstream stream, unsigned* flags) {
  *flags = resolve(stream)->flags;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetPriority(CUstream stream, int* priority) {
  *priority = resolve(stream)->priority;
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream handle) {
  std::lock_guard lock(mutex);
  CUstream stream = resolve(handle);
  if (!known(stream)) return CUDA_ERROR_INVALID_HANDLE;
  if (!stream->capture) return CUDA_SUCCESS;
  stream->capture->invalidated = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult cuStreamQuery(CUstream stream) { return cuStreamSynchronize(stream); }

CUresult cuCtxSynchronize() { return require_idle_context(); }

// A stream joins a capture by waiting for an event of it, and is joined when its own last event is waited for.
CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned) {
  std::lock_guard lock(mutex);
  CUstream stream = resolve(handle);
  if (!event || !known(stream)) return CUDA_ERROR_INVALID_HANDLE;
  if (!event->capture) return stream->capture && event->recorded ? CUDA_ERROR_STREAM_CAPTURE_ISOLATION : CUDA_SUCCESS;
  if (stream->capture && stream->capture != event->capture) return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  if (!stream->capture) {
    stream->submitted = stream->joined = 0;
    stream->after.clear();
    stream->edges.clear();
  }
  stream->capture = event->capture;
  stream->after.insert(stream->after.end(), event->nodes.begin(), event->nodes.end());
  if (!stream->edges.empty()) stream->edges.resize(stream->after.size());
  if (known(event->stream)) event->stream->joined = std::max(event->stream->joined, event->position);
  return CUDA_SUCCESS;
}

namespace {

CUresult begin_capture(CUstream handle, CUgraph graph, CUstreamCaptureMode mode) {
  std::lock_guard lock(mutex);
  CUstream stream = resolve(handle);
  if (stream == &default_stream) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (!known(stream)) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  stream->capture = std::make_shared<Capture>();
  stream->capture->origin = stream;
  stream->capture->graph = graph ? graph : new CUgraph_st;
  stream->capture->owns_graph = !graph;
  stream->capture->mode = mode;
  stream->capture->thread = std::this_thread::get_id();
  stream->after.clear();
  stream->edges.clear();
  captures.push_back(stream->capture);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
  return begin_capture(handle, nullptr, mode);
}

CUresult cuStreamBeginCaptureToGraph(CUstream handle, CUgraph graph, const CUgraphNode*, const CUgraphEdgeData*,
                                     size_t count, CUstreamCaptureMode mode) {
  if (!graph) return CUDA_ERROR_INVALID_VALUE;
  if (count != 0) return CUDA_ERROR_NOT_SUPPORTED;
  return begin_capture(handle, graph, mode);
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  std::lock_guard lock(mutex);
  CUstream stream = resolve(handle);
  if (graph) *graph = nullptr;
  if (!known(stream)) return CUDA_ERROR_INVALID_HANDLE;
  auto capture = stream->capture;
  if (!capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  bool wrong_thread = capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != std::this_thread::get_id();
  if (wrong_thread) return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  bool unjoined = false;
  for (CUstream other : streams) {
    if (other->capture != capture) continue;
    unjoined = unjoined || (other != stream && other->joined < other->submitted);
    other->capture = nullptr;
  }
  std::erase(captures, capture);
  if (capture->invalidated || unjoined) {
    if (capture->owns_graph) delete capture->graph;
    return unjoined ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  }
  if (graph) *graph = capture->graph;
  return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  return cuStreamGetCaptureInfo(handle, status, nullptr, nullptr, nullptr, nullptr, nullptr);
}

CUresult cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                const CUgraphNode** dependencies, const CUgraphEdgeData** edges, size_t* count) {
  std::lock_guard lock(mutex);
  CUstream stream = resolve(handle);
  if (!known(stream)) return CUDA_ERROR_INVALID_HANDLE;
  const auto& capture = stream->capture;
  *status = !capture               ? CU_STREAM_CAPTURE_STATUS_NONE
            : capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                   : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (id) *id = reinterpret_cast<cuuint64_t>(capture.get());
  if (graph) *graph = capture ? capture->graph : nullptr;
  if (dependencies && !edges && !stream->edges.empty()) return CUDA_ERROR_LOSSY_QUERY;
  if (dependencies) *dependencies = stream->after.data();
  if (edges) *edges = stream->edges.empty() ? nullptr : stream->edges.data();
  if (count) *count = stream->after.size();
  return CUDA_SUCCESS;
}

// The order of the calls is one of those that any dependencies allow.
CUresult cuStreamUpdateCaptureDependencies(CUstream handle, CUgraphNode* nodes, const CUgraphEdgeData* edges,
                                           size_t count, unsigned flags) {
  std::lock_guard lock(mutex);
  CUstream stream = resolve(handle);
  if (!known(stream)) return CUDA_ERROR_INVALID_HANDLE;
  if (!stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (flags != CU_STREAM_SET_CAPTURE_DEPENDENCIES) return CUDA_ERROR_NOT_SUPPORTED;
  stream->after.assign(nodes, nodes + count);
  stream->edges.clear();
  if (edges) stream->edges.assign(edges, edges + count);
  return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent* event, unsigned flags) {
  if (!event) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult refused = require_context(); refused != CUDA_SUCCESS) return refused;
  *event = new CUevent_st{};
  (*event)->flags = flags;
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event) {
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  delete event;
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream handle) {
  std::lock_guard lock(mutex);
  CUstream stream = resolve(handle);
  if (!event || !known(stream)) return CUDA_ERROR_INVALID_HANDLE;
  event->recorded = true;
  event->time = std::chrono::steady_clock::now();
  event->capture = stream->capture;
  event->stream = stream;
  event->position = stream->submitted;
  event->nodes = stream->capture ? stream->after : std::vector<CUgraphNode>();
  return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent event) {
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  {
    std::lock_guard lock(mutex);
    if (event->capture) return CUDA_ERROR_CAPTURED_EVENT;
  }
  return require_idle_context();
}

CUresult cuEventQuery(CUevent event) { return cuEventSynchronize(event); }

CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  if (!milliseconds || !start || !end || !start->recorded || !end->recorded) return CUDA_ERROR_INVALID_HANDLE;
  if ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) return CUDA_ERROR_INVALID_HANDLE;
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
  return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  return submit(stream, CU_GRAPH_NODE_TYPE_HOST, [=] { return function(data), CUDA_SUCCESS; });
}
