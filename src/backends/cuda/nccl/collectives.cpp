// The collective operators by NCCL, recorded into the step like any other kernel.
#include "backends/cuda/claims.h"
#include "backends/cuda/device/context.h"
#include "backends/cuda/device/sizes.h"
#include "backends/cuda/nccl/convert.h"
#include "backends/cuda/nccl/wire.h"
#include "backends/cuda/task.h"

namespace varve::cuda {
namespace {

using backend::Port;
using backend::Prepared;
using backend::RunArgs;

std::size_t count_of(const TensorType& type) { return static_cast<std::size_t>(type.shape.numel()); }

ncclDataType_t nccl_type(DType dtype) {
  if (dtype == f32) return ncclFloat32;
  if (dtype == f64) return ncclFloat64;
  if (dtype == i32) return ncclInt32;
  if (dtype == i64) return ncclInt64;
  return dtype == i8 ? ncclInt8 : ncclUint8;
}

// Narrow floats are summed in f32; integers wrap around as they do on the processor.
DType sum_type(DType dtype) { return dtype == bf16 || dtype == f16 ? f32 : dtype; }
// The largest and the smallest of floats are found among integers (convert.h).
DType extreme_type(DType dtype) { return !is_floating(dtype) ? dtype : dtype == f64 ? i64 : i32; }

// Results of few bytes may lie in the processor's memory (runtime/program_device.cpp), which is no place for NCCL.
constexpr std::size_t kMayBeShared = 4096;

// One side of an exchange: the tensor as it is, or converted in the scratch memory.
struct ExchangeSide {
  bool exists = false, staged = false;
  std::size_t at = 0, bytes = 0;  // in scratch
  Conversion conversion;

  ExchangeSide() = default;
  ExchangeSide(const TensorType& type, DType sent, Keys keys, bool back, std::size_t from) : exists(true), at(from) {
    if (keys == Keys::none && type.dtype == sent && type.bytes() > kMayBeShared) return;
    staged = true;
    bytes = align_up(count_of(type) * size_of(sent));
    const DType first = back ? sent : type.dtype, then = back ? type.dtype : sent;
    conversion = Conversion(first, then, {type.shape.numel()}, keys, back);
  }
  void* place(const void* tensor, void* scratch) const {
    return staged ? static_cast<std::byte*>(scratch) + at : const_cast<void*>(tensor);
  }
};

// A tensor in, or out, or both. `call(communicator, stream, in, out)` starts what moves them.
template <class Call>
Prepared exchange(const Port* in, const Port* out, DType sent, Keys keys, Call call) {
  const ExchangeSide from = in ? ExchangeSide(in->type, sent, keys, false, 0) : ExchangeSide();
  const ExchangeSide to = out ? ExchangeSide(out->type, sent, keys, true, from.bytes) : ExchangeSide();
  return backend::prepared(
      [=](const RunArgs& args) {
        const void* const source = from.exists ? from.place(args.in[0], args.scratch) : nullptr;
        void* const target = to.exists ? to.place(args.out[0], args.scratch) : nullptr;
        if (from.staged) from.conversion.run(args.in[0], from.place(nullptr, args.scratch));
        wire().run([&](ncclComm_t all, CUstream stream) { call(all, stream, source, target); });
        if (to.staged) to.conversion.run(target, args.out[0]);
      },
      from.bytes + to.bytes);
}

// ---- all ranks

Prepared all_reduce(const Task& task, DType sent, Keys keys, ncclRedOp_t combine) {
  const std::size_t count = count_of(task.in[0].type);
  if (count == 0) return nothing();
  return exchange(&task.in[0], &task.out[0], sent, keys,
                  [=](ncclComm_t all, CUstream stream, const void* in, void* out) {
                    check(nccl().all_reduce(in, out, count, nccl_type(sent), combine, all, stream), "ncclAllReduce");
                  });
}

Prepared all_sum(const Task& task) { return all_reduce(task, sum_type(task.dtype_in()), Keys::none, ncclSum); }

Prepared extreme(const Task& task, Keys keys, ncclRedOp_t combine) {
  const DType dtype = task.dtype_in();
  return all_reduce(task, extreme_type(dtype), is_floating(dtype) ? keys : Keys::none, combine);
}
Prepared all_max(const Task& task) { return extreme(task, Keys::for_max, ncclMax); }
Prepared all_min(const Task& task) { return extreme(task, Keys::for_min, ncclMin); }

Prepared all_gather(const Task& task) {
  const std::size_t bytes = task.in[0].type.bytes();
  if (bytes == 0) return nothing();
  return exchange(&task.in[0], &task.out[0], task.dtype_in(), Keys::none,
                  [=](ncclComm_t all, CUstream stream, const void* in, void* out) {
                    check(nccl().all_gather(in, out, bytes, ncclUint8, all, stream), "ncclAllGather");
                  });
}

Prepared sum_scatter(const Task& task) {
  const std::size_t own = count_of(task.out[0].type);
  if (own == 0) return nothing();
  const DType sent = sum_type(task.dtype_in());
  return exchange(
      &task.in[0], &task.out[0], sent, Keys::none, [=](ncclComm_t all, CUstream stream, const void* in, void* out) {
        check(nccl().reduce_scatter(in, out, own, nccl_type(sent), ncclSum, all, stream), "ncclReduceScatter");
      });
}

Prepared rank_broadcast(const Task& task) {
  const std::size_t bytes = task.in[0].type.bytes();
  if (bytes == 0) return nothing();
  const int root = static_cast<int>(task.attrs.integer("root"));
  return exchange(&task.in[0], &task.out[0], task.dtype_in(), Keys::none,
                  [=](ncclComm_t all, CUstream stream, const void* in, void* out) {
                    check(nccl().broadcast(in, out, bytes, ncclUint8, root, all, stream), "ncclBroadcast");
                  });
}

// Part r of what each rank has goes to rank r.
Prepared all_to_all(const Task& task) {
  const int ranks = static_cast<int>(task.attrs.integer("ranks"));
  const std::size_t bytes = task.in[0].type.bytes() / static_cast<std::size_t>(ranks);
  if (bytes == 0) return nothing();
  return exchange(&task.in[0], &task.out[0], task.dtype_in(), Keys::none,
                  [=](ncclComm_t all, CUstream stream, const void* in, void* out) {
                    check(nccl().group_start(), "ncclGroupStart");
                    for (int r = 0; r < ranks; ++r) {
                      const std::size_t at = bytes * static_cast<std::size_t>(r);
                      const auto* from = static_cast<const std::byte*>(in) + at;
                      auto* to = static_cast<std::byte*>(out) + at;
                      check(nccl().send(from, bytes, ncclUint8, r, all, stream), "ncclSend");
                      check(nccl().receive(to, bytes, ncclUint8, r, all, stream), "ncclRecv");
                    }
                    check(nccl().group_end(), "ncclGroupEnd");
                  });
}

// ---- two ranks, and the token that orders messages

// NCCL has no tags: between two ranks, messages are received in the order in which they are sent.
Prepared with_token(Prepared message, std::size_t in, std::size_t out) {
  const std::size_t scratch = message.scratch_bytes;
  return backend::prepared(
      [=, kernel = std::shared_ptr<backend::Kernel>(std::move(message.kernel))](const RunArgs& args) {
        kernel->run(args);
        if (args.out[out] != args.in[in]) context().copy(args.out[out], args.in[in], sizeof(float));
      },
      scratch);
}

// Where they are begun they are recorded; what needs them comes after that (compiler/passes/messages.cpp).
Prepared send_begin(const Task& task) {
  const std::size_t bytes = task.in[0].type.bytes();
  const int to = static_cast<int>(task.attrs.integer("to"));
  if (bytes == 0) return nothing();
  return exchange(&task.in[0], nullptr, task.dtype_in(), Keys::none,
                  [=](ncclComm_t all, CUstream stream, const void* in, void*) {
                    check(nccl().send(in, bytes, ncclUint8, to, all, stream), "ncclSend");
                  });
}

Prepared recv_begin(const Task& task) {
  const std::size_t bytes = task.out[0].type.bytes();
  const int from = static_cast<int>(task.attrs.integer("from"));
  if (bytes == 0) return nothing();
  return exchange(nullptr, &task.out[0], task.dtype_out(), Keys::none,
                  [=](ncclComm_t all, CUstream stream, const void*, void* out) {
                    check(nccl().receive(out, bytes, ncclUint8, from, all, stream), "ncclRecv");
                  });
}

Prepared send_end(const Task&) { return nothing(); }

// A sum of which nobody reads anything.
Prepared rank_barrier(const Task&) {
  return with_token(backend::prepared(
                        [](const RunArgs& args) {
                          wire().run([&](ncclComm_t all, CUstream stream) {
                            check(nccl().all_reduce(args.scratch, args.scratch, 1, ncclFloat32, ncclSum, all, stream),
                                  "ncclAllReduce");
                          });
                        },
                        sizeof(float)),
                    0, 0);
}

// ---- gradients by the bucket: the pieces that follow `begin` wait for the sums, and `end` is among them

Prepared all_sum_begin(const Task& task) {
  const DType sent = task.dtype_out();
  const std::size_t count = count_of(task.out[0].type);
  if (count == 0) return nothing();
  const auto start = [=](const void* in, void* out) {
    wire().run([&](ncclComm_t all, CUstream stream) {
      check(nccl().all_reduce(in, out, count, nccl_type(sent), ncclSum, all, stream), "ncclAllReduce");
    });
  };
  if (task.in.size() == 1 && task.dtype_in() == sent)
    return backend::prepared([=](const RunArgs& args) { start(args.in[0], args.out[0]); });
  // One behind the other, those of each type in a launch.
  struct Typed {
    Conversion conversion;
    std::vector<std::size_t> inputs, offsets;
  };
  std::vector<Typed> types;
  for (const DType dtype : {f64, f32, bf16, f16}) {
    Typed typed;
    std::vector<std::int64_t> counts;
    std::size_t offset = 0;
    for (std::size_t i = 0; i < task.in.size(); ++i) {
      const TensorType& type = task.in[i].type;
      if (type.dtype == dtype) {
        typed.inputs.push_back(i);
        typed.offsets.push_back(offset);
        counts.push_back(type.shape.numel());
      }
      offset += count_of(type) * size_of(sent);
    }
    if (counts.empty()) continue;
    typed.conversion = Conversion(dtype, sent, std::move(counts));
    types.push_back(std::move(typed));
  }
  return backend::prepared([=](const RunArgs& args) {
    for (const Typed& typed : types) {
      std::vector<Conversion::Place> places;
      for (std::size_t i = 0; i < typed.inputs.size(); ++i)
        places.push_back({args.in[typed.inputs[i]], static_cast<std::byte*>(args.out[0]) + typed.offsets[i]});
      typed.conversion.run(places);
    }
    start(args.out[0], args.out[0]);
  });
}

// What was begun is done, and lies where it is read; or it is copied there.
Prepared taken_over(const Task& task) {
  const std::size_t bytes = task.out[0].type.bytes();
  return backend::prepared([=](const RunArgs& args) {
    if (args.out[0] != args.in[0]) context().copy(args.out[0], args.in[0], bytes);
  });
}

}  // namespace

void add_collective_claims(ClaimMap& map) {
  const auto claim = [&](const char* op, Maker make) { backend::offer(map, "nccl", op, make); };
  claim("all_sum", all_sum);
  claim("all_max", all_max);
  claim("all_min", all_min);
  claim("all_gather", all_gather);
  claim("sum_scatter", sum_scatter);
  claim("all_to_all", all_to_all);
  claim("rank_broadcast", rank_broadcast);
  claim("send_begin", send_begin);
  claim("send_end", send_end);
  claim("recv_begin", recv_begin);
  claim("recv_end", taken_over);
  claim("exchanged", taken_over);
  claim("rank_barrier", rank_barrier);
  claim("all_sum_begin", all_sum_begin);
  claim("all_sum_end", taken_over);
}

}  // namespace varve::cuda
