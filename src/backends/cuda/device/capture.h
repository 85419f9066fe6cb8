// The ends of what a stream has captured so far.
#pragma once

#include <cuda.h>

#include <vector>

#include "backends/cuda/device/status.h"

namespace varve::cuda {

// The nodes that work captured next on this stream waits for.
inline std::vector<CUgraphNode> last_nodes(CUstream stream, CUgraph* graph = nullptr) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUgraphNode* nodes = nullptr;
  std::size_t count = 0;
  check(cuStreamGetCaptureInfo(stream, &status, nullptr, graph, &nodes, nullptr, &count), "cuStreamGetCaptureInfo");
  return {nodes, nodes + count};
}

// edges: how each is waited for; null means until it has ended
inline void wait_for(CUstream stream, std::vector<CUgraphNode> nodes, const CUgraphEdgeData* edges = nullptr) {
  check(
      cuStreamUpdateCaptureDependencies(stream, nodes.data(), edges, nodes.size(), CU_STREAM_SET_CAPTURE_DEPENDENCIES),
      "cuStreamUpdateCaptureDependencies");
}

}  // namespace varve::cuda
