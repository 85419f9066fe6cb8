// Attention and its gradient, a head at a time, straight from and to where the heads lie. f32 and bf16; other types,
// masks and heads that broadcast are decomposed.
#include <array>
#include <optional>

#include "backend/attention.h"
#include "backends/cpu/attention/attention_kernels.h"
#include "backends/cpu/common/loops.h"
#include "backends/cpu/common/scratch.h"
#include "backends/cpu/common/team.h"

namespace varve::cpu {
namespace {

using backend::Claim;
using backend::Port;
using backend::Prepared;
using backend::RunArgs;
using backend::Site;

// Where the heads of an operand lie: [.., T, D], or [.., T, heads, D].
struct Heads {
  std::vector<std::int64_t> extents, strides;  // of all axes but time and D, in elements
  std::int64_t time = 0, row = 0, columns = 0, column = 0;
  DType dtype = f32;

  Heads(const Port& port, bool inside) : dtype(port.type.dtype) {
    const Shape& shape = port.type.shape;
    const int time_axis = shape.rank() - (inside ? 3 : 2);
    for (int a = 0; a + 1 < shape.rank(); ++a) {
      const std::int64_t stride = port.layout.strides[static_cast<std::size_t>(a)];
      if (a == time_axis) {
        time = shape[a];
        row = stride;
      } else {
        extents.push_back(shape[a]);
        strides.push_back(stride);
      }
    }
    columns = shape.back();
    column = port.layout.strides.back();
  }

  std::int64_t count() const {
    std::int64_t heads = 1;
    for (const std::int64_t extent : extents) heads *= extent;
    return heads;
  }
  template <class Pointer>
  HeadMatrix<Pointer> head(Pointer data, std::int64_t index) const {
    std::int64_t offset = 0;
    for (std::size_t a = extents.size(); a-- > 0; index /= extents[a]) offset += index % extents[a] * strides[a];
    return {at(data, offset * element_bytes(dtype)), row, column, dtype};
  }
};

AttentionSizes sizes_of(const Attrs& attrs, const Heads& q, const Heads& k, const Heads& v) {
  return {.queries = q.time,
          .keys = k.time,
          .depth = q.columns,
          .width = v.columns,
          .scale = static_cast<float>(attrs.number("scale")),
          .causal = attrs.flag("causal")};
}

// f(item, scratch of the thread it runs on) for every item.
template <class F>
void share(std::int64_t items, int threads, void* scratch, std::size_t bytes, F f) {
  const std::int64_t workers = std::min<std::int64_t>(threads, items);
  parallel_for(workers, 1, [&](std::int64_t worker, std::int64_t) {
    for (std::int64_t item = items * worker / workers; item < items * (worker + 1) / workers; ++item)
      f(item, at(scratch, worker * static_cast<std::int64_t>(bytes)));
  });
}

Prepared make_attention(const Task& task, int threads) {
  const bool inside = task.attrs.flag("heads_inside");
  const Heads q(task.in[0], inside), k(task.in[1], inside), v(task.in[2], inside), out(task.out[0], inside);
  const AttentionSizes sizes = sizes_of(task.attrs, q, k, v);
  // Few heads are cut into stretches of queries, each of which packs the keys anew.
  constexpr std::int64_t kTasksEach = 4, kShortest = 96;  // tasks for each thread; queries that pay for packing
  const std::int64_t heads = q.count();
  std::int64_t stretches = 1;
  while (threads > 1 && heads * stretches < kTasksEach * threads && sizes.queries / (2 * stretches) >= kShortest)
    stretches *= 2;
  const std::size_t bytes = cache_aligned(attention_scratch(sizes));
  return backend::prepared(
      [=](const RunArgs& args) {
        share(heads * stretches, threads, args.scratch, bytes, [&](std::int64_t item, void* scratch) {
          const std::int64_t head = item / stretches, part = item % stretches;
          float* lse = static_cast<float*>(args.out[1]) + head * sizes.queries;
          attention_head(sizes,
                         {q.head(args.in[0], head), k.head(args.in[1], head), v.head(args.in[2], head),
                          out.head(args.out[0], head), lse},
                         sizes.queries * part / stretches, sizes.queries * (part + 1) / stretches, scratch);
        });
      },
      bytes * static_cast<std::size_t>(threads));
}

// The heads of one gradient and where they go: an output of the kernel, from one of its elements on.
struct Target {
  Heads heads;
  std::size_t output = 0;
  std::int64_t first = 0;

  HeadMatrix<void*> head(const RunArgs& args, std::int64_t index) const {
    return heads.head<void*>(at(args.out[output], first * element_bytes(heads.dtype)), index);
  }
};
using Targets = std::array<Target, 3>;  // dq, dk, dv

// Inputs q, k, v, lse, dy.
Prepared make_attention_grad(const Attrs& attrs, const std::vector<Port>& in, const Targets& targets, int threads) {
  const bool inside = attrs.flag("heads_inside");
  const Heads q(in[0], inside), k(in[1], inside), v(in[2], inside), dy(in[4], inside);
  const AttentionSizes sizes = sizes_of(attrs, q, k, v);
  const std::size_t bytes = cache_aligned(attention_grad_scratch(sizes));
  return backend::prepared(
      [=](const RunArgs& args) {
        share(q.count(), threads, args.scratch, bytes, [&](std::int64_t head, void* scratch) {
          attention_grad_head(sizes,
                              {q.head(args.in[0], head), k.head(args.in[1], head), v.head(args.in[2], head),
                               dy.head(args.in[4], head), static_cast<const float*>(args.in[3]) + head * sizes.queries,
                               targets[0].head(args, head), targets[1].head(args, head), targets[2].head(args, head)},
                              scratch);
        });
      },
      bytes * static_cast<std::size_t>(threads));
}

Prepared make_apart(const Task& task, int threads) {
  const bool inside = task.attrs.flag("heads_inside");
  return make_attention_grad(
      task.attrs, task.in,
      {{{Heads(task.out[0], inside), 0}, {Heads(task.out[1], inside), 1}, {Heads(task.out[2], inside), 2}}}, threads);
}

std::string refusal_of(const ir::Node& node) {
  const DType dtype = node.types[0].dtype;
  if (dtype != f32 && dtype != bf16) return name(dtype);
  return backend::heads_refusal(node);
}

std::vector<backend::Memory> memory_of(const ir::Node& node) {
  std::vector<backend::Memory> memory(node.inputs.size(), backend::Memory::strided);
  if (node.is("attention_grad")) memory[3] = backend::Memory::contiguous;  // lse
  return memory;
}

// ---- a gradient whose three parts are joined

void claim_joined(const Site& site, std::vector<Claim>& claims) {
  const ir::Node& node = site.node();
  const std::optional<backend::JoinedHeads> joined = backend::joined_after(site);
  if (!joined || !refusal_of(node).empty()) return;
  Claim claim =
      Claim::of("heads attention_grad+concat", site.root(),
                [types = node.types, attrs = node.attrs, columns = joined->columns, threads = Setting::now().threads](
                    const std::vector<Port>& in, const std::vector<Port>& out) {
                  const auto target = [&](std::size_t o) {
                    return Target{Heads(backend::part_of(out[0], types[o]), true), 0, columns[o]};
                  };
                  return make_attention_grad(attrs, in, {target(0), target(1), target(2)}, threads);
                });
  claim.nodes.push_back(joined->concat);
  claim.outputs = {{joined->concat, 0}};
  claim.memory = memory_of(node);
  claims.push_back(std::move(claim));
}

void offer_heads(ClaimMap& map, const std::string& op, Prepared (*make)(const Task&, int)) {
  map[op].push_back([make](const Site& site, std::vector<Claim>& claims) {
    const ir::Node& node = site.node();
    const std::string kernel = cat("heads ", node.op->name), refusal = refusal_of(node);
    if (!refusal.empty()) return claims.push_back(Claim::no(kernel, refusal));
    Claim claim = Claim::of(kernel, site.root(),
                            [make, op = node.op->name, attrs = node.attrs, threads = Setting::now().threads](
                                const std::vector<Port>& in, const std::vector<Port>& out) {
                              return make({op, attrs, in, out}, threads);
                            });
    claim.memory = memory_of(node);
    claims.push_back(std::move(claim));
  });
}

}  // namespace

void add_attention_claims(ClaimMap& map) {
  offer_heads(map, "attention", make_attention);
  map["attention_grad"].push_back(claim_joined);
  offer_heads(map, "attention_grad", make_apart);
}

}  // namespace varve::cpu
