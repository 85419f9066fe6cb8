// An emulated NCCL: ranks are processes of this machine that share a piece of memory. What a stream is given runs as a
// host function of the emulated driver, at the call or when a graph is launched, and waits there for the other ranks.
// It never finds out by itself that a rank is gone: only ncclCommAbort ends a wait.
#include <cuda.h>
#include <fcntl.h>
#include <nccl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <mutex>
#include <vector>

namespace {

constexpr int kMostRanks = 8;
constexpr std::size_t kSlot = 256 << 10, kBox = 16 << 10;  // bytes

enum class Kind { all_reduce, all_gather, reduce_scatter, broadcast, send, receive };

struct Call {
  Kind kind;
  std::size_t count;
  ncclDataType_t type;
  ncclRedOp_t combine;
  int peer;
  bool operator==(const Call&) const = default;
};

// What all ranks map. Zero at the start.
struct Shared {
  std::atomic<int> joined, arrived;
  std::atomic<unsigned> generation;
  Call calls[kMostRanks];
  std::byte slots[kMostRanks][kSlot];
  struct Box {  // from one rank to another
    std::atomic<std::size_t> bytes;
    std::byte data[kBox];
  } boxes[kMostRanks][kMostRanks];
};

struct Aborted {};

}  // namespace

struct ncclComm {
  struct Job {
    ncclComm* comm;
    Call call;
    const std::byte* in;
    std::byte* out;
  };

  Shared* shared = nullptr;
  int rank = 0, size = 1;
  std::atomic<bool> aborted{false};
  std::atomic<ncclResult_t> error{ncclSuccess};
  std::mutex mutex;
  std::deque<Job> jobs;  // graphs may run them again for as long as the process lives
  std::deque<std::vector<Job>> groups;

  template <class Done>
  void wait_until(Done done) const {
    for (int looks = 0; !done(); ++looks) {
      if (aborted) throw Aborted();
      if (looks > 100) usleep(50);
    }
  }

  void barrier() const {
    const unsigned generation = shared->generation;
    if (shared->arrived.fetch_add(1) + 1 == size) {
      shared->arrived = 0;
      ++shared->generation;
    } else {
      wait_until([&] { return shared->generation != generation; });
    }
  }

  // The real one would hang, or worse.
  void check_same(const Call& call) {
    shared->calls[rank] = call;
    barrier();
    const bool same = std::all_of(shared->calls, shared->calls + size, [&](const Call& c) { return c == call; });
    barrier();
    if (same) return;
    std::fprintf(stderr, "NCCL emulator: rank %d makes another call than the others\n", rank);
    error = ncclInvalidUsage;
    wait_until([] { return false; });
  }
};

namespace {

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat64:
    case ncclInt64:
      return 8;
    case ncclFloat32:
    case ncclInt32:
      return 4;
    default:
      return 1;
  }
}

template <class T>
void combine(std::byte* to, const Shared& shared, int ranks, std::size_t count, ncclRedOp_t how) {
  for (std::size_t i = 0; i < count; ++i) {
    T total{}, next{};
    for (int r = 0; r < ranks; ++r) {
      std::memcpy(&next, shared.slots[r] + i * sizeof(T), sizeof(T));
      total = r == 0           ? next
              : how == ncclSum ? static_cast<T>(total + next)
              : how == ncclMax ? std::max(total, next)
                               : std::min(total, next);
    }
    std::memcpy(to + i * sizeof(T), &total, sizeof(T));
  }
}

void combine(std::byte* to, const Shared& shared, int ranks, std::size_t count, const Call& call) {
  switch (call.type) {
    case ncclFloat32:
      return combine<float>(to, shared, ranks, count, call.combine);
    case ncclFloat64:
      return combine<double>(to, shared, ranks, count, call.combine);
    case ncclInt32:
      return combine<std::int32_t>(to, shared, ranks, count, call.combine);
    case ncclInt64:
      return combine<std::int64_t>(to, shared, ranks, count, call.combine);
    case ncclInt8:
      return combine<std::int8_t>(to, shared, ranks, count, call.combine);
    default:
      return combine<std::uint8_t>(to, shared, ranks, count, call.combine);
  }
}

// Collectives go by the slot: everybody's piece goes in, and what each is to have comes out.
void exchange(ncclComm::Job& job) {
  ncclComm& comm = *job.comm;
  Shared& shared = *comm.shared;
  const Call& call = job.call;
  const std::size_t size = size_of(call.type), bytes = call.count * size;
  const int parts = call.kind == Kind::reduce_scatter ? comm.size : 1;
  comm.check_same(call);
  for (std::size_t at = 0; at < bytes; at += kSlot)
    for (int part = 0; part < parts; ++part) {
      const std::size_t piece = std::min(kSlot, bytes - at);
      if (call.kind != Kind::broadcast || comm.rank == call.peer)
        std::memcpy(shared.slots[comm.rank], job.in + static_cast<std::size_t>(part) * bytes + at, piece);
      comm.barrier();
      if (call.kind == Kind::all_reduce || (call.kind == Kind::reduce_scatter && part == comm.rank))
        combine(job.out + at, shared, comm.size, piece / size, call);
      else if (call.kind == Kind::broadcast)
        std::memcpy(job.out + at, shared.slots[call.peer], piece);
      else if (call.kind == Kind::all_gather)
        for (int r = 0; r < comm.size; ++r)
          std::memcpy(job.out + static_cast<std::size_t>(r) * bytes + at, shared.slots[r], piece);
      comm.barrier();
    }
}

// Moves a piece if it can; returns whether the message is over.
bool pass_piece(const ncclComm::Job& job, std::size_t& at) {
  const ncclComm& comm = *job.comm;
  const bool sends = job.call.kind == Kind::send;
  Shared::Box& box =
      sends ? comm.shared->boxes[comm.rank][job.call.peer] : comm.shared->boxes[job.call.peer][comm.rank];
  const std::size_t bytes = job.call.count * size_of(job.call.type), piece = std::min(kBox, bytes - at);
  if (at == bytes || (box.bytes != 0) == sends) return at == bytes;
  if (sends)
    std::memcpy(box.data, job.in + at, piece);
  else
    std::memcpy(job.out + at, box.data, piece);
  box.bytes = sends ? piece : 0;
  at += piece;
  return at == bytes;
}

// Side by side: none waits for another.
void pass_messages(void* data) {
  const auto& messages = *static_cast<std::vector<ncclComm::Job>*>(data);
  std::vector<std::size_t> at(messages.size(), 0);
  try {
    messages.front().comm->wait_until([&] {
      bool over = true;
      for (std::size_t i = 0; i < messages.size(); ++i) over = pass_piece(messages[i], at[i]) && over;
      return over;
    });
  } catch (const Aborted&) {  // what was to be received is not
  }
}

void run(void* data) {
  ncclComm::Job& job = *static_cast<ncclComm::Job*>(data);
  try {
    exchange(job);
  } catch (const Aborted&) {  // what was to be computed is not
  }
}

ncclResult_t submit(ncclComm* comm, cudaStream_t stream, const Call& call, const void* in, void* out) {
  if (!comm || (call.count && !in && !out)) return ncclInvalidArgument;
  if (comm->aborted) return ncclInvalidUsage;
  const std::lock_guard lock(comm->mutex);
  comm->jobs.push_back({comm, call, static_cast<const std::byte*>(in), static_cast<std::byte*>(out)});
  // One that failed while another rank was awaited ends here; the caller learns it by the communicator's state.
  return cuLaunchHostFunc(stream, run, &comm->jobs.back()) == CUDA_SUCCESS ? ncclSuccess : ncclUnhandledCudaError;
}

// Messages that were begun since ncclGroupStart.
struct Group {
  bool open = false;
  std::vector<ncclComm::Job> messages;
  cudaStream_t stream = nullptr;
};
thread_local Group group;

ncclResult_t send_group() {
  if (group.messages.empty()) return ncclSuccess;
  ncclComm* const comm = group.messages.front().comm;
  const std::lock_guard lock(comm->mutex);
  comm->groups.push_back(std::move(group.messages));
  group.messages.clear();
  const CUresult status = cuLaunchHostFunc(group.stream, pass_messages, &comm->groups.back());
  return status == CUDA_SUCCESS ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t submit_message(ncclComm* comm, cudaStream_t stream, const Call& call, const void* in, void* out) {
  if (!comm || (!in && !out)) return ncclInvalidArgument;
  if (comm->aborted) return ncclInvalidUsage;
  group.stream = stream;
  group.messages.push_back({comm, call, static_cast<const std::byte*>(in), static_cast<std::byte*>(out)});
  return group.open ? ncclSuccess : send_group();
}

}  // namespace

// The id names rank 0's memory: a file without a name, which goes when the last process ends.
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const int file = memfd_create("varve-emulated-nccl", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, sizeof(Shared)) != 0) return ncclSystemError;
  std::snprintf(id->internal, sizeof(id->internal), "/proc/%d/fd/%d", getpid(), file);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  if (ranks > kMostRanks || rank < 0 || rank >= ranks) return ncclInvalidArgument;
  const int file = open(id.internal, O_RDWR | O_CLOEXEC);
  if (file < 0) return ncclSystemError;
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) return ncclSystemError;
  *comm = new ncclComm;
  (*comm)->shared = static_cast<Shared*>(memory);
  (*comm)->rank = rank;
  (*comm)->size = ranks;
  ++(*comm)->shared->joined;
  (*comm)->wait_until([&] { return (*comm)->shared->joined == ranks; });
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->aborted = true;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  *error = comm->error;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t status) { return status == ncclSuccess ? "no error" : "emulated error"; }
const char* ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return submit(comm, stream, {Kind::all_reduce, count, type, op, 0}, in, out);
}
ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return submit(comm, stream, {Kind::all_gather, count, type, ncclSum, 0}, in, out);
}
ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return submit(comm, stream, {Kind::reduce_scatter, count, type, op, 0}, in, out);
}
ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return submit(comm, stream, {Kind::broadcast, count, type, ncclSum, root}, in, out);
}
ncclResult_t ncclGroupStart() {
  group.open = true;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  group.open = false;
  return send_group();
}
ncclResult_t ncclSend(const void* in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return submit_message(comm, stream, {Kind::send, count, type, ncclSum, peer}, in, nullptr);
}
ncclResult_t ncclRecv(void* out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return submit_message(comm, stream, {Kind::receive, count, type, ncclSum, peer}, nullptr, out);
}
