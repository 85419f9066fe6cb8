// Streams and the graphs they are captured into. Work runs at the call; on a capturing stream it is kept for later.
#pragma once

#include <cuda.h>

#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

namespace varve::emulator {

using Work = std::function<CUresult()>;
using Nodes = std::vector<std::shared_ptr<CUgraphNode_st>>;

// Work of all the streams that take part in a capture, in the order of the calls: one of the orders that the
// dependencies allow.
struct Capture {
  CUstream origin;
  CUstreamCaptureMode mode;
  std::thread::id thread;
  CUgraph graph;           // where nodes are added
  bool owns_graph = true;  // it was made for this capture
  bool invalidated = false;
};

// Runs the work now or records it. Nothing that `work` refers to may belong to the caller.
CUresult submit(CUstream stream, CUgraphNodeType type, Work work);

// Whether what is recorded next on this stream begins before all that it follows has ended.
bool next_overlaps(CUstream stream);

// For calls that wait for streams, or on a device may do so, such as allocation: refused while any stream captures, and
// that capture is lost, unless its mode allows them.
CUresult require_idle_context();

}  // namespace varve::emulator

struct CUgraphNode_st {
  CUgraphNodeType type;
  varve::emulator::Work work;
  std::vector<CUgraph> bodies = {};  // of a conditional node
};

struct CUstream_st {
  std::shared_ptr<varve::emulator::Capture> capture;
  std::vector<CUgraphNode> after = {};      // what is captured next follows these
  std::vector<CUgraphEdgeData> edges = {};  // in this way
  unsigned long long submitted = 0;         // captured so far on this stream
  unsigned long long joined = 0;            // of these, how many another stream of the capture waits for
  unsigned flags = 0;
  int priority = 0;
};

struct CUgraph_st {
  varve::emulator::Nodes nodes;
  std::map<CUgraphConditionalHandle, std::shared_ptr<unsigned>> conditions = {};  // of which no node was made yet
};

struct CUgraphExec_st {
  varve::emulator::Nodes nodes;
};
