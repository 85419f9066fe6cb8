#include "backend/collective.h"

#include <cstring>
#include <map>

#include "backend/communicator.h"
#include "backend/message.h"
#include "base/convert.h"
#include "base/ranks.h"
#include "base/text.h"
#include "base/threads.h"

namespace varve::backend {
namespace {

// What the engine sums: narrow floats in f32, narrow integers in i32.
DType wire_type(DType dtype) {
  if (dtype == bf16 || dtype == f16) return f32;
  if (dtype == i8 || dtype == u8 || dtype == boolean) return i32;
  return dtype;
}

std::size_t count_of(const TensorType& type) { return static_cast<std::size_t>(type.shape.numel()); }

// A block at a time, by all threads: gradients are large.
void copy_or_convert(const void* from, DType from_type, void* to, DType to_type, std::size_t count) {
  constexpr std::int64_t kBlock = 64 << 10;
  if (from == to && from_type == to_type) return;
  parallel_for(static_cast<std::int64_t>(count), kBlock, [&](std::int64_t begin, std::int64_t end) {
    const auto* source = static_cast<const std::byte*>(from) + static_cast<std::size_t>(begin) * size_of(from_type);
    auto* target = static_cast<std::byte*>(to) + static_cast<std::size_t>(begin) * size_of(to_type);
    const auto n = static_cast<std::size_t>(end - begin);
    if (from_type == to_type)
      std::memcpy(target, source, n * size_of(from_type));
    else
      convert(source, from_type, target, to_type, static_cast<std::int64_t>(n));
  });
}

bool is_narrow_float(DType dtype) { return dtype == bf16 || dtype == f16; }

// Sums of bf16 or f16, which travel as they are and are added in f32: each rank adds one part of the values, and all
// gather the parts. By the communication thread, whose buffers are kept.
void sum_narrow(Communicator& all, void* data, std::size_t count, DType dtype) {
  thread_local std::vector<std::byte> sent, received;
  thread_local std::vector<float> sum, next;
  const auto ranks = static_cast<std::size_t>(all.size());
  const std::size_t part = (count + ranks - 1) / ranks, bytes = part * size_of(dtype);
  sent.resize(ranks * bytes);
  received.resize(ranks * bytes);
  sum.resize(part);
  next.resize(part);
  std::memcpy(sent.data(), data, count * size_of(dtype));
  std::memset(sent.data() + count * size_of(dtype), 0, ranks * bytes - count * size_of(dtype));
  all.all_to_all(sent.data(), received.data(), bytes);
  copy_or_convert(received.data(), dtype, sum.data(), f32, part);
  for (std::size_t r = 1; r < ranks; ++r) {
    copy_or_convert(received.data() + r * bytes, dtype, next.data(), f32, part);
#pragma omp simd
    for (std::size_t i = 0; i < part; ++i) sum[i] += next[i];
  }
  copy_or_convert(sum.data(), f32, sent.data(), dtype, part);
  all.all_gather(sent.data(), received.data(), bytes);
  std::memcpy(data, received.data(), count * size_of(dtype));
}

void sum_over_ranks(Communicator& all, void* data, std::size_t count, DType dtype) {
  if (is_narrow_float(dtype))
    sum_narrow(all, data, count, dtype);
  else
    all.all_reduce(data, count, dtype, Combine::sum);
}

// One value in, one out, through a buffer of the wire's type: the output's own where that will do.
using Call = void (*)(Communicator&, void* data, std::size_t count, DType dtype);
Prepared in_place_collective(const Task& task, DType wire, Call call) {
  const DType dtype = task.dtype_in();
  const std::size_t count = count_of(task.in[0].type);
  const bool widens = wire != dtype;
  return prepared(
      [=](const RunArgs& args) {
        void* const data = widens ? args.scratch : args.out[0];
        copy_or_convert(args.in[0], dtype, data, wire, count);
        Communication::get().run([=](Communicator& all) { call(all, data, count, wire); });
        copy_or_convert(data, wire, args.out[0], dtype, count);
      },
      widens ? count * size_of(wire) : 0);
}

Prepared all_sum(const Task& task) {
  const DType dtype = task.dtype_in();
  return in_place_collective(task, is_narrow_float(dtype) ? dtype : wire_type(dtype), sum_over_ranks);
}
Prepared all_max(const Task& task) {
  return in_place_collective(task, wire_type(task.dtype_in()),
                             [](Communicator& all, void* data, std::size_t count, DType dtype) {
                               all.all_reduce(data, count, dtype, Combine::max);
                             });
}
Prepared all_min(const Task& task) {
  return in_place_collective(task, wire_type(task.dtype_in()),
                             [](Communicator& all, void* data, std::size_t count, DType dtype) {
                               all.all_reduce(data, count, dtype, Combine::min);
                             });
}

Prepared all_gather(const Task& task) {
  const std::size_t bytes = task.in[0].type.bytes();
  return prepared([=](const RunArgs& args) {
    const void* in = args.in[0];
    void* out = args.out[0];
    Communication::get().run([=](Communicator& all) { all.all_gather(in, out, bytes); });
  });
}

Prepared all_to_all(const Task& task) {
  const std::size_t bytes = task.in[0].type.bytes() / static_cast<std::size_t>(task.attrs.integer("ranks"));
  return prepared([=](const RunArgs& args) {
    const void* in = args.in[0];
    void* out = args.out[0];
    Communication::get().run([=](Communicator& all) { all.all_to_all(in, out, bytes); });
  });
}

Prepared sum_scatter(const Task& task) {
  const DType dtype = task.dtype_in(), wire = wire_type(dtype);
  const std::size_t all_count = count_of(task.in[0].type), own = count_of(task.out[0].type);
  const bool widens = wire != dtype;
  return prepared(
      [=](const RunArgs& args) {
        auto* const wide_in = static_cast<std::byte*>(args.scratch);
        const void* in = widens ? wide_in : args.in[0];
        void* out = widens ? wide_in + all_count * size_of(wire) : args.out[0];
        if (widens) copy_or_convert(args.in[0], dtype, wide_in, wire, all_count);
        Communication::get().run([=](Communicator& all) { all.sum_scatter(in, out, own, wire); });
        if (widens) copy_or_convert(out, wire, args.out[0], dtype, own);
      },
      widens ? (all_count + own) * size_of(wire) : 0);
}

Prepared rank_broadcast(const Task& task) {
  const std::size_t bytes = task.in[0].type.bytes();
  const int root = static_cast<int>(task.attrs.integer("root"));
  return prepared([=](const RunArgs& args) {
    if (args.out[0] != args.in[0] && bytes) std::memcpy(args.out[0], args.in[0], bytes);
    void* data = args.out[0];
    Communication::get().run([=](Communicator& all) { all.broadcast(data, bytes, root); });
  });
}

Prepared rank_barrier(const Task&) {
  return prepared([](const RunArgs& args) {
    Communication::get().run([](Communicator& all) { all.barrier(); });
    *static_cast<float*>(args.out[0]) = *static_cast<const float*>(args.in[0]);
  });
}

// Outputs: the bucket, and the number of the work, which `end` waits for.
Prepared all_sum_begin(const Task& task) {
  struct Part {
    DType dtype;
    std::size_t count;
  };
  std::vector<Part> parts;
  for (const Port& in : task.in) parts.push_back({in.type.dtype, count_of(in.type)});
  const DType wire = task.dtype_out();
  const std::size_t count = count_of(task.out[0].type);
  return prepared([=](const RunArgs& args) {
    auto* to = static_cast<std::byte*>(args.out[0]);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      copy_or_convert(args.in[i], parts[i].dtype, to, wire, parts[i].count);
      to += parts[i].count * size_of(wire);
    }
    void* data = args.out[0];
    *static_cast<std::int64_t*>(args.out[1]) = static_cast<std::int64_t>(
        Communication::get().post([=](Communicator& all) { sum_over_ranks(all, data, count, wire); }));
  });
}

Prepared all_sum_end(const Task& task) {
  const std::size_t bytes = task.out[0].type.bytes();
  return prepared([=](const RunArgs& args) {
    Communication::get().wait(static_cast<Communication::Ticket>(*static_cast<const std::int64_t*>(args.in[1])));
    if (args.out[0] != args.in[0]) std::memcpy(args.out[0], args.in[0], bytes);
  });
}

// Values of any types, one after the other in bytes. Outputs: those of every rank, and the number of the work.
Prepared all_gather_begin(const Task& task) {
  std::vector<std::size_t> sizes;
  for (const Port& in : task.in) sizes.push_back(in.type.bytes());
  const auto bytes = static_cast<std::size_t>(task.shape_out()[1]);
  return prepared([=](const RunArgs& args) {
    auto* const out = static_cast<std::byte*>(args.out[0]);
    std::byte* const own = out + bytes * static_cast<std::size_t>(rank_place().rank);
    std::byte* to = own;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i]) std::memcpy(to, args.in[i], sizes[i]);
      to += sizes[i];
    }
    *static_cast<std::int64_t*>(args.out[1]) = static_cast<std::int64_t>(
        Communication::get().post([=](Communicator& all) { all.all_gather(own, out, bytes); }));
  });
}

// Each value's rows, one of each rank.
Prepared all_gather_end(const Task& task) {
  const std::size_t ranks = static_cast<std::size_t>(task.shape_in()[0]);
  const std::size_t bytes = static_cast<std::size_t>(task.shape_in()[1]);
  std::vector<std::size_t> sizes;
  for (const Port& out : task.out) sizes.push_back(out.type.bytes() / ranks);
  return prepared([=](const RunArgs& args) {
    Communication::get().wait(static_cast<Communication::Ticket>(*static_cast<const std::int64_t*>(args.in[1])));
    for (std::size_t r = 0; r < ranks; ++r) {
      const auto* from = static_cast<const std::byte*>(args.in[0]) + r * bytes;
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        if (sizes[i]) std::memcpy(static_cast<std::byte*>(args.out[i]) + r * sizes[i], from, sizes[i]);
        from += sizes[i];
      }
    }
  });
}

const std::map<std::string, Maker>& makers() {
  static const std::map<std::string, Maker> map = {
      {"all_sum", all_sum},
      {"all_max", all_max},
      {"all_min", all_min},
      {"all_gather", all_gather},
      {"sum_scatter", sum_scatter},
      {"all_to_all", all_to_all},
      {"rank_broadcast", rank_broadcast},
      {"rank_barrier", rank_barrier},
      {"all_sum_begin", all_sum_begin},
      {"all_sum_end", all_sum_end},
      {"all_gather_begin", all_gather_begin},
      {"all_gather_end", all_gather_end},
      {"send_begin", send_begin},
      {"send_end", send_end},
      {"recv_begin", recv_begin},
      {"recv_end", recv_end},
      {"exchanged", exchanged},
  };
  return map;
}

}  // namespace

Maker collective_maker(const std::string& op) {
  const auto found = makers().find(op);
  return found == makers().end() ? nullptr : found->second;
}

void add_collective_claims(ClaimMap& map, const std::string& backend) {
  for (const auto& [op, make] : makers()) offer(map, backend, op, make);
}

bool is_collective(const ir::Node& node) { return node.op->family == "collective"; }

}  // namespace varve::backend
