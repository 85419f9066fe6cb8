// Ranks by MPI. Compiled once for each implementation, whose binary interfaces differ: libvarve_openmpi.so,
// libvarve_mpich.so.
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <vector>

#include "backend/communicator.h"
#include "base/text.h"
#include "varve/version.h"

namespace varve::mpi_ranks {
namespace {

using backend::Combine;

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw backend::BrokenConnection(cat("a connection to another rank broke (", call, ": ", text, ")."));
}

MPI_Datatype type_of(DType dtype) {
  if (dtype == f32) return MPI_FLOAT;
  if (dtype == f64) return MPI_DOUBLE;
  if (dtype == i32) return MPI_INT32_T;
  if (dtype == i64) return MPI_INT64_T;
  throw Error(cat("mpi: sums f32, f64, i32 and i64, not ", dtype, "."));
}

MPI_Op op_of(Combine combine) {
  return combine == Combine::sum ? MPI_SUM : combine == Combine::max ? MPI_MAX : MPI_MIN;
}

// MPI counts in int: what is larger goes in pieces.
constexpr std::size_t kMostElements = std::size_t{1} << 28;

template <class F>
void in_pieces(std::size_t count, F call) {
  for (std::size_t at = 0; at < count; at += kMostElements)
    call(at, static_cast<int>(std::min(kMostElements, count - at)));
}

class MpiCommunicator final : public backend::Communicator {
 public:
  explicit MpiCommunicator(const backend::Joining& joining) {
    int ready = 0, level = 0;
    check(MPI_Initialized(&ready), "MPI_Initialized");
    if (!ready) {
      check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread");
      ours_ = true;
    } else {
      check(MPI_Query_thread(&level), "MPI_Query_thread");
    }
    if (level < MPI_THREAD_SERIALIZED)
      throw Error("mpi: this MPI was started without support for threads; Varve needs MPI_THREAD_SERIALIZED.");
    check(MPI_Comm_dup(MPI_COMM_WORLD, &all_), "MPI_Comm_dup");
    check(MPI_Comm_set_errhandler(all_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(all_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(all_, &size_), "MPI_Comm_size");
    if (rank_ != joining.rank || size_ != joining.size)
      throw Error(cat("mpi: the environment says rank ", joining.rank, " of ", joining.size, ", MPI says ", rank_,
                      " of ", size_, ". Was it started by the mpirun of another MPI?"));
  }

  ~MpiCommunicator() override {
    int over = 0;
    if (aborted_ || MPI_Finalized(&over) != MPI_SUCCESS || over) return;
    MPI_Comm_free(&all_);
    if (ours_) MPI_Finalize();
  }

  std::string engine() const override { return "mpi"; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void all_reduce(void* data, std::size_t count, DType dtype, Combine combine) override {
    in_pieces(count, [&](std::size_t at, int n) {
      check(MPI_Allreduce(MPI_IN_PLACE, static_cast<char*>(data) + at * size_of(dtype), n, type_of(dtype),
                          op_of(combine), all_),
            "MPI_Allreduce");
    });
    sent_ += 2.0 * static_cast<double>(count * size_of(dtype)) * (size_ - 1) / size_;
  }

  void all_gather(const void* in, void* out, std::size_t bytes) override {
    if (bytes > kMostElements) {  // rank by rank
      char* to = static_cast<char*>(out);
      char* const own = to + bytes * static_cast<std::size_t>(rank_);
      if (in != own) std::copy_n(static_cast<const char*>(in), bytes, own);
      for (int r = 0; r < size_; ++r) broadcast(to + bytes * static_cast<std::size_t>(r), bytes, r);
      return;
    }
    sent_ += static_cast<double>(bytes) * (size_ - 1);
    const int n = static_cast<int>(bytes);
    const void* const own = static_cast<char*>(out) + bytes * static_cast<std::size_t>(rank_);
    check(MPI_Allgather(in == own ? MPI_IN_PLACE : in, n, MPI_BYTE, out, n, MPI_BYTE, all_), "MPI_Allgather");
  }

  void sum_scatter(const void* in, void* out, std::size_t count, DType dtype) override {
    if (count > kMostElements) throw Error("mpi: sum_scatter of more than 2²⁸ elements for each rank.");
    check(MPI_Reduce_scatter_block(in, out, static_cast<int>(count), type_of(dtype), MPI_SUM, all_),
          "MPI_Reduce_scatter_block");
    sent_ += static_cast<double>(count * size_of(dtype)) * (size_ - 1);
  }

  // Round by round: to the rank so far behind, from the one so far ahead.
  void all_to_all(const void* in, void* out, std::size_t bytes) override {
    const auto block = [&](int r) { return bytes * static_cast<std::size_t>(r); };
    const auto* from = static_cast<const char*>(in);
    auto* to = static_cast<char*>(out);
    std::copy_n(from + block(rank_), bytes, to + block(rank_));
    for (int round = 1; round < size_; ++round) {
      const int next = (rank_ + round) % size_, before = (rank_ + size_ - round) % size_;
      in_pieces(bytes, [&](std::size_t at, int n) {
        check(MPI_Sendrecv(from + block(next) + at, n, MPI_BYTE, next, 0, to + block(before) + at, n, MPI_BYTE, before,
                           0, all_, MPI_STATUS_IGNORE),
              "MPI_Sendrecv");
      });
    }
  }

  void broadcast(void* data, std::size_t bytes, int root) override {
    if (root == rank_) sent_ += static_cast<double>(bytes) * (size_ - 1);
    in_pieces(bytes, [&](std::size_t at, int n) {
      check(MPI_Bcast(static_cast<char*>(data) + at, n, MPI_BYTE, root, all_), "MPI_Bcast");
    });
  }

  void send(const void* data, std::size_t bytes, int to, int tag) override {
    in_pieces(bytes, [&](std::size_t at, int n) {
      sent_ += n;
      check(MPI_Send(static_cast<const char*>(data) + at, n, MPI_BYTE, to, tag, all_), "MPI_Send");
    });
  }

  void receive(void* data, std::size_t bytes, int from, int tag) override {
    in_pieces(bytes, [&](std::size_t at, int n) {
      check(MPI_Recv(static_cast<char*>(data) + at, n, MPI_BYTE, from, tag, all_, MPI_STATUS_IGNORE), "MPI_Recv");
    });
  }

  int receive_any(void* data, std::size_t bytes, int tag) override {
    MPI_Status first;
    check(MPI_Probe(MPI_ANY_SOURCE, tag, all_, &first), "MPI_Probe");
    receive(data, bytes, first.MPI_SOURCE, tag);
    return first.MPI_SOURCE;
  }

  void barrier() override { check(MPI_Barrier(all_), "MPI_Barrier"); }

  // MPI cannot end a call that waits. Who waits for it is let go (backend/communicator.cpp) and the process ends
  // without MPI_Finalize, by which mpirun sees that the job has failed.
  void abort() override { aborted_ = true; }

  double sent_bytes() const override { return sent_; }

 private:
  MPI_Comm all_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  bool ours_ = false;
  std::atomic<bool> aborted_{false};
  std::atomic<double> sent_ = 0;
};

}  // namespace
}  // namespace varve::mpi_ranks

extern "C" {
__attribute__((visibility("default"))) const char* varve_plugin_version() { return varve::version(); }
__attribute__((visibility("default"))) varve::backend::Communicator* varve_plugin_communicator(
    const varve::backend::Joining& joining) {
  return new varve::mpi_ranks::MpiCommunicator(joining);
}
}
