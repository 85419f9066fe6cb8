#include "backends/cuda/device/context.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <unordered_map>

#include "backends/cuda/device/capture.h"
#include "backends/cuda/device/status.h"
#include "base/levers.h"
#include "base/memory.h"
#include "base/text.h"

namespace varve::cuda {

// ---- memory

namespace {

// Blocks of few sizes find their next use sooner.
std::size_t block_bytes(std::size_t bytes) {
  const std::size_t grain = bytes < (std::size_t{1} << 20) ? 512 : std::size_t{2} << 20;
  return std::max<std::size_t>((bytes + grain - 1) / grain * grain, grain);
}

}  // namespace

// All work runs in one order, so a block given back may be taken again at once.
class Allocation final : public ir::Remote {
 public:
  Allocation(Context& context, std::size_t size) : context_(context) {
    device = &context;
    bytes = size;
    context.make_current();
    const std::lock_guard lock(context.mutex_);
    CUdeviceptr pointer = 0;
    std::vector<CUdeviceptr>& free = context.free_[block_bytes(size)];
    if (!free.empty()) {
      pointer = free.back();
      free.pop_back();
    } else if (CUresult status = cuMemAlloc(&pointer, block_bytes(size)); status != CUDA_SUCCESS) {
      if (status == CUDA_ERROR_OUT_OF_MEMORY) {
        context.free_blocks();
        status = cuMemAlloc(&pointer, block_bytes(size));
      }
      if (status != CUDA_SUCCESS) fail(size, status);
    }
    address = reinterpret_cast<void*>(pointer);
    context.held_ += static_cast<std::int64_t>(size);
    context.peak_ = std::max(context.peak_, context.held_);
  }
  ~Allocation() override {
    const std::lock_guard lock(context_.mutex_);
    context_.free_[block_bytes(bytes)].push_back(reinterpret_cast<CUdeviceptr>(address));
    context_.held_ -= static_cast<std::int64_t>(bytes);
  }
  void fetch(void* to) override {
    context_.make_current();
    if (bytes)
      check(cuMemcpyDtoHAsync(to, reinterpret_cast<CUdeviceptr>(address), bytes, context_.stream_),
            "cuMemcpyDtoHAsync");
    context_.wait();
  }

 private:
  [[noreturn]] void fail(std::size_t size, CUresult status) const {
    if (status != CUDA_ERROR_OUT_OF_MEMORY) check(status, "cuMemAlloc");
    std::size_t free = 0, total = 0;
    cuMemGetInfo(&free, &total);
    throw OutOfMemory(cat("out of memory on ", context_.gpu_.name, ": could not allocate ", human_bytes(size), "; ",
                          human_bytes(static_cast<std::uint64_t>(context_.held_)), " held by this process, ",
                          human_bytes(free), " of ", human_bytes(total),
                          " free. Try a smaller batch, or release tensors that are no longer needed."));
  }
  Context& context_;
};

// Pinned memory of the processor that kernels write through the same address.
class SharedBlock final : public ir::Remote {
 public:
  SharedBlock(Context& context, std::size_t size) : context_(context) {
    device = &context;
    bytes = size;
    on_both_sides = true;
    context.make_current();
    check(cuMemHostAlloc(&address, std::max<std::size_t>(size, 64), CU_MEMHOSTALLOC_DEVICEMAP), "cuMemHostAlloc");
  }
  ~SharedBlock() override {
    context_.make_current();
    cuStreamSynchronize(context_.stream());
    cuMemFreeHost(address);
  }
  void fetch(void* to) override {
    context_.wait();
    if (bytes) std::memcpy(to, address, bytes);
  }

 private:
  Context& context_;
};

std::shared_ptr<ir::Remote> Context::allocate_shared(std::size_t bytes) {
  return std::make_shared<SharedBlock>(*this, bytes);
}

void Context::free_blocks() {
  cuStreamSynchronize(stream_);
  for (auto& [size, blocks] : free_)
    for (const CUdeviceptr block : blocks) cuMemFree(block);
  free_.clear();
}

void Context::release_unused() {
  make_current();
  const std::lock_guard lock(mutex_);
  free_blocks();
}

// Pinned memory in which uploads wait for their turn: what was given may change at once, and nothing stalls until the
// ring is full.
class Context::Ring {
 public:
  static constexpr std::size_t kSlots = 4;
  static constexpr std::size_t kSlotBytes = std::size_t{8} << 20;

  Ring() {
    check(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    for (Slot& slot : slots_) {
      check(cuMemHostAlloc(&slot.memory, kSlotBytes, 0), "cuMemHostAlloc");
      check(cuEventCreate(&slot.done, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    }
    check(cuEventCreate(&order_, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  }
  ~Ring() {
    for (Slot& slot : slots_) {
      cuEventDestroy(slot.done);
      cuMemFreeHost(slot.memory);
    }
    cuEventDestroy(order_);
    cuStreamDestroy(stream_);
  }

  // The copy runs beside the kernels on a stream of its own.
  void upload(CUdeviceptr to, const std::byte* from, std::size_t bytes, CUstream work, CUevent after) {
    if (!after) check(cuEventRecord(order_, work), "cuEventRecord");
    check(cuStreamWaitEvent(stream_, after ? after : order_, 0), "cuStreamWaitEvent");
    while (bytes > 0) {
      Slot& slot = slots_[next_++ % kSlots];
      check(cuEventSynchronize(slot.done), "cuEventSynchronize");
      const std::size_t part = std::min(bytes, kSlotBytes);
      std::memcpy(slot.memory, from, part);
      check(cuMemcpyHtoDAsync(to, slot.memory, part, stream_), "cuMemcpyHtoDAsync");
      check(cuEventRecord(slot.done, stream_), "cuEventRecord");
      check(cuStreamWaitEvent(work, slot.done, 0), "cuStreamWaitEvent");
      to += part;
      from += part;
      bytes -= part;
    }
  }

 private:
  struct Slot {
    void* memory = nullptr;
    CUevent done = nullptr;
  };
  Slot slots_[kSlots];
  CUevent order_ = nullptr;
  CUstream stream_ = nullptr;
  std::size_t next_ = 0;
};

// ---- errors that kernels note

struct Context::Words {
  static constexpr std::size_t kWords = 4096;
  volatile std::uint64_t* host = nullptr;  // pinned; kernels write it through the same address
  std::vector<std::size_t> free;
  std::deque<std::string> texts;  // addresses stay
  std::unordered_map<std::string, int> numbers;
};

// ---- the context

Context::Context(Gpu gpu) : gpu_(std::move(gpu)) {
  CUdevice device = 0;
  check(cuDeviceGet(&device, gpu_.ordinal), "cuDeviceGet");
  check(cuDevicePrimaryCtxRetain(&context_, device), "cuDevicePrimaryCtxRetain");
  make_current();
  check(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  ring_ = std::make_unique<Ring>();
  words_ = std::make_unique<Words>();
  void* words = nullptr;
  check(cuMemHostAlloc(&words, Words::kWords * 8, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE),
        "cuMemHostAlloc");
  words_->host = static_cast<volatile std::uint64_t*>(words);
  for (std::size_t w = Words::kWords; w-- > 0;) words_->free.push_back(w);
}

Context::~Context() = default;  // never runs: the context lives as long as the process

void Context::make_current() const {
  CUcontext current = nullptr;  // asked for each time: other libraries choose theirs in the same threads
  if (cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == context_) return;
  check(cuCtxSetCurrent(context_), "cuCtxSetCurrent");
}

int Context::note(const std::string& text) {
  const std::lock_guard lock(mutex_);
  const auto [known, added] = words_->numbers.emplace(text, static_cast<int>(words_->texts.size()));
  if (added) words_->texts.push_back(text);
  return known->second;
}

void Context::share(backend::ErrorWord& errors) {
  std::size_t word = 0;
  {
    const std::lock_guard lock(mutex_);
    if (words_->free.empty())
      throw Error(cat("more than ", Words::kWords, " programs are alive on the GPU. Release some."));
    word = words_->free.back();
    words_->free.pop_back();
  }
  volatile std::uint64_t* const address = words_->host + word;
  *address = 0;
  errors.share({address,
                [this](int number) {
                  const std::lock_guard lock(mutex_);
                  return &words_->texts[static_cast<std::size_t>(number)];
                },
                [this, word] {
                  const std::lock_guard lock(mutex_);
                  words_->free.push_back(word);
                }});
}

std::shared_ptr<ir::Remote> Context::allocate(std::size_t bytes) { return std::make_shared<Allocation>(*this, bytes); }

namespace {

class EventMark final : public backend::Mark {
 public:
  explicit EventMark(const Context& context) : context_(context) {
    check(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    check(cuEventRecord(event, context.stream()), "cuEventRecord");
  }
  ~EventMark() override { cuEventDestroy(event); }
  bool passed() const override { return cuEventQuery(event) == CUDA_SUCCESS; }
  void wait() const override {
    check(cuEventSynchronize(event), "cuEventSynchronize");
    context_.check_ranks();
  }
  CUevent event = nullptr;

 private:
  const Context& context_;
};

}  // namespace

void Context::upload(void* to, const void* from, std::size_t bytes, const backend::Mark* after) {
  make_current();
  const std::lock_guard lock(mutex_);
  ring_->upload(reinterpret_cast<CUdeviceptr>(to), static_cast<const std::byte*>(from), bytes, stream_,
                after ? static_cast<const EventMark*>(after)->event : nullptr);
}

std::shared_ptr<backend::Mark> Context::mark() {
  make_current();
  return std::make_shared<EventMark>(*this);
}

void Context::copy(void* to, const void* from, std::size_t bytes) {
  make_current();
  if (bytes)
    check(cuMemcpyDtoDAsync(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from), bytes, stream_),
          "cuMemcpyDtoDAsync");
}

void Context::wait() {
  make_current();
  check(cuStreamSynchronize(stream_), "cuStreamSynchronize");
  check_ranks();
}

void Context::check_ranks() const {
  if (const std::string why = rank_failure(); !why.empty()) throw Error(why);
}

backend::DeviceMemory Context::memory() const {
  return {.held = held_, .peak = peak_, .total = static_cast<std::int64_t>(gpu_.memory)};
}

namespace {

class GraphRecording final : public backend::Recording {
 public:
  GraphRecording(Context& context, CUgraphExec graph) : context_(context), graph_(graph) {}
  ~GraphRecording() override {
    cuStreamSynchronize(context_.stream());
    cuGraphExecDestroy(graph_);
  }
  void replay() override { check(cuGraphLaunch(graph_, context_.stream()), "cuGraphLaunch"); }

 private:
  Context& context_;
  CUgraphExec graph_;
};

struct OwnedGraph {
  CUgraph graph = nullptr;
  ~OwnedGraph() {
    if (graph) cuGraphDestroy(graph);
  }
};

// Of each piece, whether nothing runs beside it: every other one comes before it or after it. Each of those before must
// lead to one that is not behind it, and each of those behind follow from one that is not before.
std::vector<bool> are_alone(const std::vector<backend::Device::Piece>& pieces) {
  const int count = static_cast<int>(pieces.size());
  std::vector<int> next(pieces.size(), count), last(pieces.size(), -1);  // the first that follows each, the last before
  for (int i = 0; i < count; ++i)
    for (const int earlier : pieces[static_cast<std::size_t>(i)].after) {
      int& first = next[static_cast<std::size_t>(earlier)];
      first = std::min(first, i);
      last[static_cast<std::size_t>(i)] = std::max(last[static_cast<std::size_t>(i)], earlier);
    }
  std::vector<bool> alone(pieces.size());
  for (int i = 0, reached = 0; i < count; ++i) {
    alone[static_cast<std::size_t>(i)] = reached <= i;
    reached = std::max(reached, next[static_cast<std::size_t>(i)]);
  }
  for (int i = count - 1, from = count; i >= 0; --i) {
    if (from < i) alone[static_cast<std::size_t>(i)] = false;
    from = std::min(from, last[static_cast<std::size_t>(i)]);
  }
  return alone;
}

// `alone`: whether the piece at work is.
void capture(CUstream stream, const std::vector<backend::Device::Piece>& pieces, bool& alone) {
  std::vector<std::vector<CUgraphNode>> ends;
  const std::vector<bool> all_alone = are_alone(pieces);
  for (const backend::Device::Piece& piece : pieces) {
    alone = all_alone[ends.size()];
    std::vector<CUgraphNode> nodes;
    for (const int earlier : piece.after) {
      const std::vector<CUgraphNode>& more = ends[static_cast<std::size_t>(earlier)];
      nodes.insert(nodes.end(), more.begin(), more.end());
    }
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    wait_for(stream, std::move(nodes));
    piece.work();
    ends.push_back(last_nodes(stream));
  }
  // A capture must end where all that was forked from it has been joined.
  std::vector<CUgraphNode> all;
  for (const std::vector<CUgraphNode>& nodes : ends) all.insert(all.end(), nodes.begin(), nodes.end());
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  wait_for(stream, std::move(all));
}

}  // namespace

void Context::let_next_overlap(Overlap overlap) const {
  if (!overlapping_ || (overlap == Overlap::where_alone && !alone_)) return;
  std::vector<CUgraphNode> nodes = last_nodes(stream_);
  std::vector<CUgraphEdgeData> edges(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    check(cuGraphNodeGetType(nodes[i], &type), "cuGraphNodeGetType");
    const bool apart = std::find(not_overlapped_.begin(), not_overlapped_.end(), nodes[i]) != not_overlapped_.end();
    if (type != CU_GRAPH_NODE_TYPE_KERNEL || apart) continue;
    edges[i].from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
    edges[i].type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  }
  wait_for(stream_, std::move(nodes), edges.data());
}

void Context::do_not_overlap(CUstream stream) {
  if (!overlapping_) return;
  const std::vector<CUgraphNode> nodes = last_nodes(stream);
  not_overlapped_.insert(not_overlapped_.end(), nodes.begin(), nodes.end());
}

std::unique_ptr<backend::Recording> Context::record(const std::vector<Piece>& pieces) {
  make_current();
  if (gpu_.major >= 9 && !overlap_refused_ && lever("overlap")) {
    try {
      return recorded(pieces, true);
    } catch (const Error&) {
      auto apart = recorded(pieces, false);
      overlap_refused_ = true;  // by the driver, since without it nothing fails
      return apart;
    }
  }
  return recorded(pieces, false);
}

std::unique_ptr<backend::Recording> Context::recorded(const std::vector<Piece>& pieces, bool overlap) {
  check(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_RELAXED), "cuStreamBeginCapture");
  overlapping_ = overlap;
  recording_ = true;
  not_overlapped_.clear();
  OwnedGraph owned;
  try {
    capture(stream_, pieces, alone_);
  } catch (...) {
    overlapping_ = recording_ = false;
    cuStreamEndCapture(stream_, &owned.graph);
    throw;
  }
  overlapping_ = recording_ = false;
  check(cuStreamEndCapture(stream_, &owned.graph), "cuStreamEndCapture");
  CUgraphExec executable = nullptr;
  // What is sent to other ranks goes before what is computed beside it.
  check(cuGraphInstantiate(&executable, owned.graph, joined_ ? CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY : 0),
        "cuGraphInstantiate");
  return std::make_unique<GraphRecording>(*this, executable);
}

std::vector<double> Context::time(const std::vector<std::function<void()>>& pieces) {
  make_current();
  std::vector<CUevent> events(pieces.size() + 1, nullptr);
  for (CUevent& event : events) check(cuEventCreate(&event, CU_EVENT_DEFAULT), "cuEventCreate");
  check(cuEventRecord(events[0], stream_), "cuEventRecord");
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    pieces[i]();
    check(cuEventRecord(events[i + 1], stream_), "cuEventRecord");
  }
  wait();
  std::vector<double> seconds;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    float ms = 0;
    check(cuEventElapsedTime(&ms, events[i], events[i + 1]), "cuEventElapsedTime");
    seconds.push_back(static_cast<double>(ms) * 1e-3);
  }
  for (const CUevent event : events) cuEventDestroy(event);
  return seconds;
}

// ---- the GPU of this process

namespace {

int attribute(CUdevice device, CUdevice_attribute which) {
  int value = 0;
  check(cuDeviceGetAttribute(&value, which, device), "cuDeviceGetAttribute");
  return value;
}

constexpr int kOldestMajor = 8;
constexpr int kOldestDriver = 13000;

Gpu open(int ordinal) {
  if (const CUresult status = cuInit(0); status != CUDA_SUCCESS)
    throw Error(cat("no NVIDIA GPU can be used: cuInit says ", text_of(status),
                    ". Check that `nvidia-smi` shows a GPU, or use device=cpu."));
  int driver = 0, count = 0;
  check(cuDriverGetVersion(&driver), "cuDriverGetVersion");
  if (driver < kOldestDriver)
    throw Error(cat("the NVIDIA driver supports CUDA ", driver / 1000, ".", driver % 1000 / 10,
                    "; Varve was built for CUDA 13.0. Install driver 580 or later."));
  check(cuDeviceGetCount(&count), "cuDeviceGetCount");
  if (ordinal >= count)
    throw Error(cat("there is no cuda:", ordinal, ": this machine shows ", count, count == 1 ? " GPU" : " GPUs",
                    count ? ", counted from cuda:0." : "."));
  CUdevice device = 0;
  check(cuDeviceGet(&device, ordinal), "cuDeviceGet");
  Gpu gpu;
  gpu.ordinal = ordinal;
  char name[256] = "";
  check(cuDeviceGetName(name, sizeof name, device), "cuDeviceGetName");
  gpu.name = name;
  gpu.major = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  gpu.minor = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  if (gpu.major < kOldestMajor)
    throw Error(cat(gpu.name, " has compute capability ", gpu.major, ".", gpu.minor,
                    "; Varve needs 8.0 (Ampere) or later. Use device=cpu."));
  gpu.multiprocessors = attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  gpu.multiprocessor_threads = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  gpu.shared_bytes = static_cast<std::size_t>(attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
  check(cuDeviceTotalMem(&gpu.memory, device), "cuDeviceTotalMem");
  return gpu;
}

struct Chosen {
  std::mutex mutex;
  int ordinal = 0;
  Context* context = nullptr;
};
Chosen& chosen() {
  static auto& it = *new Chosen;
  return it;
}

}  // namespace

int count_gpus() {
  int count = 0;
  return cuInit(0) == CUDA_SUCCESS && cuDeviceGetCount(&count) == CUDA_SUCCESS ? count : 0;
}

void choose(int ordinal) {
  const std::lock_guard lock(chosen().mutex);
  if (chosen().context && chosen().ordinal != ordinal)
    throw Error(cat("this process already uses cuda:", chosen().ordinal, "; one process works with one GPU. Start ",
                    "another for cuda:", ordinal, "."));
  chosen().ordinal = ordinal;
}

Context& context() {
  const std::lock_guard lock(chosen().mutex);
  if (!chosen().context) chosen().context = new Context(open(chosen().ordinal));
  return *chosen().context;
}

const Gpu& gpu() {
  static const Gpu none;
  const std::lock_guard lock(chosen().mutex);
  return chosen().context ? chosen().context->gpu() : none;
}

}  // namespace varve::cuda
