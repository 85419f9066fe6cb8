// Attention and its gradient, straight from and to where the heads lie. Masks and heads that broadcast are decomposed.
#include "backends/cuda/attention/attention.h"

#include <algorithm>
#include <optional>

#include "backend/attention.h"
#include "backends/cuda/claims.h"
#include "backends/cuda/device/context.h"
#include "base/text.h"

namespace varve::cuda {

using backend::Claim;
using backend::Port;
using backend::Prepared;
using backend::RunArgs;
using backend::Site;

Heads::Heads(const Port& port, bool inside, std::int64_t first) : first_(first) {
  const Shape& shape = port.type.shape;
  const int time_axis = shape.rank() - (inside ? 3 : 2);
  int axis = kHeadAxes - (shape.rank() - 2);  // the last axes of heads are the last of the array
  element_ = static_cast<std::int64_t>(size_of(port.type.dtype));
  const std::int64_t piece = 16 / std::min<std::int64_t>(element_, 4);
  bool pieces = shape.back() % piece == 0;
  for (int a = 0; a + 1 < shape.rank(); ++a) {
    const std::int64_t stride = port.layout.strides[static_cast<std::size_t>(a)];
    pieces = pieces && stride % piece == 0;
    if (a == time_axis) {
      time_ = shape[a];
      layout_.row = stride;
    } else {
      extents_[static_cast<std::size_t>(axis)] = shape[a];
      layout_.heads[static_cast<std::size_t>(axis++)] = stride;
    }
  }
  layout_.column = port.layout.strides.back();
  layout_.aligned = pieces && layout_.column == 1 ? 1 : 0;
}

HeadsOperand Heads::at(const void* data) const {
  HeadsOperand operand = layout_;
  operand.data = static_cast<const std::byte*>(data) + first_ * element_;
  if (reinterpret_cast<std::uintptr_t>(operand.data) % 16 != 0) operand.aligned = 0;
  return operand;
}

namespace {

AttentionSizes sizes_of(const ir::Node& node) {
  const bool inside = node.attrs.flag("heads_inside");
  const auto time = [&](std::size_t i) {
    const Shape& shape = node.inputs[i].type().shape;
    return shape[shape.rank() - (inside ? 3 : 2)];
  };
  AttentionSizes sizes;
  sizes.dtype = node.inputs[0].type().dtype;
  sizes.depth = node.inputs[0].type().shape.back();
  sizes.width = node.inputs[2].type().shape.back();
  sizes.causal = node.attrs.flag("causal");
  sizes.problem.queries = time(0);
  sizes.problem.keys = time(1);
  sizes.problem.scale = node.attrs.number("scale");
  return sizes;
}

// The axes of heads, from an operand that has them all.
void set_heads(HeadsProblem& problem, const Heads& operand) {
  problem.extents = operand.extents();
  problem.heads = 1;
  for (const std::int64_t extent : problem.extents) problem.heads *= extent;
}

std::string refusal_of(const ir::Node& node) {
  if (std::string refusal = backend::heads_refusal(node); !refusal.empty()) return refusal;
  const int head_axes = node.inputs[0].type().shape.rank() - 2;
  if (head_axes > static_cast<int>(kHeadAxes)) return cat("more than ", kHeadAxes, " axes of heads");
  return plain_attention_tile(sizes_of(node)) ? "" : "heads too wide for shared memory";
}

AttentionKernels kernels_for(const AttentionSizes& sizes, AttentionPass pass, bool tf32) {
  return tensor_attention_refusal(sizes, pass, tf32).empty() ? tensor_attention(sizes, pass)
                                                             : plain_attention(sizes, pass);
}

std::string kernel_name(const ir::Node& node, AttentionPass pass, bool tf32) {
  const bool tensor = tensor_attention_refusal(sizes_of(node), pass, tf32).empty();
  return cat(tensor ? "tensor " : "heads ", node.op->name);
}

// ---- forward

// Inputs: q, k, v. Outputs: y, lse.
Prepared make_attention(AttentionSizes sizes, bool inside, bool tf32, const std::vector<Port>& in,
                        const std::vector<Port>& out) {
  const Heads q(in[0], inside), k(in[1], inside), v(in[2], inside), y(out[0], inside);
  set_heads(sizes.problem, q);
  const AttentionKernels kernels = kernels_for(sizes, AttentionPass::forward, tf32);
  return backend::prepared([=, problem = sizes.problem](const RunArgs& args) {
    kernels.forward({.grid = kernels.query_blocks(problem), .block = kernels.threads, .shared = kernels.forward_shared},
                    problem, q.at(args.in[0]), k.at(args.in[1]), v.at(args.in[2]), y.at(args.out[0]), args.out[1]);
  });
}

void claim_attention(const Site& site, std::vector<Claim>& claims) {
  const ir::Node& node = site.node();
  const std::string refusal = refusal_of(node);
  if (!refusal.empty()) return claims.push_back(Claim::no("heads attention", refusal));
  const bool tf32 = site.choices().tf32;
  Claim claim = Claim::of(kernel_name(node, AttentionPass::forward, tf32), site.root(),
                          [tf32, sizes = sizes_of(node), inside = node.attrs.flag("heads_inside")](
                              const std::vector<Port>& in, const std::vector<Port>& out) {
                            return make_attention(sizes, inside, tf32, in, out);
                          });
  claim.memory.assign(node.inputs.size(), backend::Memory::strided);
  claims.push_back(std::move(claim));
}

// ---- gradient

// The heads of one gradient: an output of the kernel, or some columns of it.
struct Target {
  Heads heads;
  std::size_t output = 0;
};
using Targets = std::array<Target, 3>;  // dq, dk, dv

// Inputs: q, k, v, lse, dy, and perhaps y.
Prepared make_gradient(AttentionSizes sizes, bool inside, bool tf32, const std::vector<Port>& in,
                       const Targets& targets) {
  const bool with_result = in.size() > 5;
  const Heads q(in[0], inside), k(in[1], inside), v(in[2], inside), dy(in[4], inside);
  const Heads y = with_result ? Heads(in[5], inside) : Heads();
  set_heads(sizes.problem, q);
  const AttentionKernels kernels =
      kernels_for(sizes, with_result ? AttentionPass::gradient_with_result : AttentionPass::gradient, tf32);
  const std::size_t statistics = kernels.grad ? 0
                                              : static_cast<std::size_t>(sizes.problem.heads * sizes.problem.queries) *
                                                    size_of(sizes.dtype == f64 ? f64 : f32);
  return backend::prepared(
      [=, problem = sizes.problem](const RunArgs& args) {
        const auto target = [&](std::size_t t) { return targets[t].heads.at(args.out[targets[t].output]); };
        const HeadsOperand query = q.at(args.in[0]), key = k.at(args.in[1]), value = v.at(args.in[2]),
                           slope = dy.at(args.in[4]), result = with_result ? y.at(args.in[5]) : HeadsOperand();
        if (kernels.grad)
          return kernels.grad({.grid = problem.heads, .block = kernels.threads, .shared = kernels.grad_shared}, problem,
                              query, key, value, result, slope, args.in[3], target(0), target(1), target(2));
        kernels.grad_queries(
            {.grid = kernels.query_blocks(problem), .block = kernels.threads, .shared = kernels.queries_shared},
            problem, query, key, value, result, slope, args.in[3], target(0), args.scratch);
        kernels.grad_keys(
            {.grid = kernels.key_blocks(problem), .block = kernels.threads, .shared = kernels.keys_shared}, problem,
            query, key, value, slope, args.in[3], args.scratch, target(1), target(2));
      },
      statistics);
}

// The attention whose gradient this is: then its result is at hand.
bool follows_attention(const ir::Node& gradient) {
  const ir::Value& lse = gradient.inputs[3];
  if (!lse.node->is("attention") || lse.index != 1 || lse.node->inputs.size() != 3) return false;
  return std::equal(lse.node->inputs.begin(), lse.node->inputs.end(), gradient.inputs.begin());
}

Claim gradient_claim(const Site& site, const char* more, backend::Prepare prepare) {
  const bool with_result = follows_attention(site.node());
  const AttentionPass pass = with_result ? AttentionPass::gradient_with_result : AttentionPass::gradient;
  Claim claim = Claim::of(kernel_name(site.node(), pass, site.choices().tf32) + more, site.root(), std::move(prepare));
  if (with_result) claim.inputs.push_back({site.node().inputs[3].node, 0});
  claim.memory.assign(claim.inputs.size(), backend::Memory::strided);
  claim.memory[3] = backend::Memory::contiguous;  // lse
  return claim;
}

void claim_attention_grad(const Site& site, std::vector<Claim>& claims) {
  const ir::Node& node = site.node();
  const std::string refusal = refusal_of(node);
  if (!refusal.empty()) return claims.push_back(Claim::no("heads attention_grad", refusal));
  const AttentionSizes sizes = sizes_of(node);
  const bool inside = node.attrs.flag("heads_inside"), tf32 = site.choices().tf32;
  if (const auto joined = backend::joined_after(site)) {
    Claim claim = gradient_claim(site, "+concat",
                                 [sizes, tf32, types = node.types, first = joined->columns](
                                     const std::vector<Port>& in, const std::vector<Port>& out) {
                                   const auto target = [&](std::size_t o) {
                                     return Target{Heads(backend::part_of(out[0], types[o]), true, first[o]), 0};
                                   };
                                   return make_gradient(sizes, true, tf32, in, {target(0), target(1), target(2)});
                                 });
    claim.nodes.push_back(joined->concat);
    claim.outputs = {{joined->concat, 0}};
    claims.push_back(std::move(claim));
  }
  claims.push_back(
      gradient_claim(site, "", [sizes, inside, tf32](const std::vector<Port>& in, const std::vector<Port>& out) {
        const auto target = [&](std::size_t o) { return Target{Heads(out[o], inside), o}; };
        return make_gradient(sizes, inside, tf32, in, {target(0), target(1), target(2)});
      }));
}

}  // namespace

void add_attention_claims(ClaimMap& map) {
  map["attention"].push_back(claim_attention);
  map["attention_grad"].push_back(claim_attention_grad);
}

}  // namespace varve::cuda
