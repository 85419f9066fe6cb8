// Batch norm in training, with what surrounds it: the addition, perhaps of another norm, and ReLU that follow, and on
// the backward pass the gradient of that ReLU.
#include <algorithm>

#include "backend/batch_norm.h"
#include "backend/match.h"
#include "backends/cuda/claims.h"
#include "backends/cuda/norm/batch_norm_kernels.h"
#include "base/text.h"

namespace varve::cuda {
namespace {

using backend::Claim;
using backend::NormFollowers;
using backend::NormSource;
using backend::Port;
using backend::RunArgs;
using backend::Site;

std::string refusal_of(const TensorType& x) {
  constexpr std::int64_t kMostChannels = 1 << 30;  // kernels count them in 32 bits
  if (x.shape.back() > kMostChannels) return "more than 2^30 channels";
  return x.shape.numel() == 0 ? "an empty tensor" : "";
}

NormShape shape_of(const ir::Node& node) {
  const TensorType& x = node.inputs[0].type();
  return {x.shape.numel() / x.shape.back(), x.shape.back(), x.dtype, node.attrs.number("epsilon")};
}

// ---- forward; in: x, scale, shift (, added (, scale, shift)); out: y, mean, variance (, mean, variance) (, signs of
// y)

struct Forward : NormFollowers {
  ir::NodePtr other;  // the norm that gives `added`, where that is taken along

  std::string text() const { return cat(other ? "+batch_norm" : "", NormFollowers::text()); }
};

// The norm of the same shape whose result, which nobody else reads, is added.
ir::NodePtr norm_behind(const Site& site, const ir::Value& added) {
  if (!added.node->is("batch_norm_train") || added.index != 0 || !site.sole_user(added)) return nullptr;
  return backend::depends_on({site.root(), 0}, added.node.get()) ? nullptr : added.node;
}

// Whether a byte can say of eight neighbours which are above 0.
bool has_bytes_of_signs(const TensorType& x) { return x.shape.back() % 8 == 0; }

// All that can follow, the longest first.
std::vector<Forward> followers_of(const Site& site) {
  std::vector<Forward> found;
  for (NormFollowers& followers : backend::norm_followers(site)) found.push_back({std::move(followers), nullptr});
  if (found.front().relu && found.front().added.node)
    if (ir::NodePtr other = norm_behind(site, found.front().added)) {
      found.insert(found.begin(), found.front());
      found.front().other = std::move(other);
    }
  return found;
}

struct ForwardCall {
  NormForwardKernel kernel;
  NormAfter after;

  void operator()(const RunArgs& args) const {
    const bool adds = after.adds != NormAfter::nothing, two = after.adds == NormAfter::norm;
    NormForward call{.x = args.in[0],
                     .added = adds ? args.in[3] : nullptr,
                     .norm = {args.in[1], args.in[2], args.out[1], args.out[2]},
                     .other = {},
                     .y = args.out[0],
                     .signs = after.signs ? args.out[two ? 5 : 3] : nullptr};
    if (two) call.other = {args.in[4], args.in[5], args.out[3], args.out[4]};
    kernel.run(call, args.scratch);
  }
};

Claim forward_claim(const Site& site, const Forward& with) {
  NormAfter after{.relu = with.relu};
  if (with.added.node) after.adds = with.other ? NormAfter::norm : NormAfter::value;
  if (with.other) after.other_epsilon = with.other->attrs.number("epsilon");
  Claim claim =
      Claim::of(cat("cuda batch_norm", with.text()), site.root(),
                [shape = shape_of(site.node()), after](const std::vector<Port>&, const std::vector<Port>& out) {
                  NormAfter asked = after;
                  asked.signs = out.back().type.dtype == u8;
                  ForwardCall call{NormForwardKernel(shape, asked), asked};
                  const std::size_t scratch = call.kernel.scratch_bytes();
                  return backend::prepared(std::move(call), scratch);
                });
  claim.nodes.insert(claim.nodes.end(), with.nodes.begin(), with.nodes.end());
  if (!with.nodes.empty()) claim.outputs[0] = {with.nodes.back(), 0};
  claim.in_place = {{0, 0}};
  if (with.added.node) {
    claim.inputs.push_back(with.other ? with.other->inputs[0] : with.added);
    claim.in_place.push_back({0, 3});
  }
  if (with.other) {
    claim.nodes.push_back(with.other);
    claim.inputs.insert(claim.inputs.end(), {with.other->inputs[1], with.other->inputs[2]});
    claim.outputs.insert(claim.outputs.end(), {{with.other, 1}, {with.other, 2}});
  }
  if (with.relu && has_bytes_of_signs(site.node().inputs[0].type())) claim.sign_bits.output = 0;
  return claim;
}

void claim_forward(const Site& site, std::vector<Claim>& claims) {
  if (const std::string refusal = refusal_of(site.node().inputs[0].type()); !refusal.empty())
    return claims.push_back(Claim::no("cuda batch_norm", refusal));
  for (const Forward& with : followers_of(site)) claims.push_back(forward_claim(site, with));
}

// ---- gradient; in: x, dy, scale, mean, variance (, output of the ReLU, or its signs, or shift) (, more); out: dx,
// dscale, dshift (, what passed the ReLU, or the output of the ReLU again)

Passing passing_of(const NormSource& source) {
  if (source.nodes.empty()) return Passing::everywhere;
  return source.recomputes ? Passing::recomputed : Passing::output;
}

struct BackwardCall {
  NormBackwardKernel kernel;
  NormGradient source;

  void operator()(const RunArgs& args) const {
    const bool output = source.passing == Passing::output || source.passing == Passing::signs;
    const bool recomputed = source.passing == Passing::recomputed;
    kernel.run({.x = args.in[0],
                .dy = args.in[1],
                .more = source.more ? args.in[6] : nullptr,
                .y = output ? args.in[5] : nullptr,
                .mean = args.in[3],
                .var = args.in[4],
                .scale = args.in[2],
                .shift = recomputed ? args.in[5] : nullptr,
                .dx = args.out[0],
                .dscale = args.out[1],
                .dshift = args.out[2],
                .passed = source.passes ? args.out[3] : nullptr,
                .again = source.again ? args.out[3] : nullptr},
               args.scratch);
  }
};

Claim backward_claim(const Site& site, const NormSource& with) {
  const NormGradient source{passing_of(with), with.more.node != nullptr, with.passes};
  const auto prepare = [shape = shape_of(site.node()), source](const std::vector<Port>& in,
                                                               const std::vector<Port>& out) {
    NormGradient asked = source;
    if (source.passing == Passing::output && in[5].type.dtype == u8) asked.passing = Passing::signs;
    asked.again = source.passing == Passing::recomputed && out.size() > 3;
    BackwardCall call{NormBackwardKernel(shape, asked), asked};
    const std::size_t scratch = call.kernel.scratch_bytes();
    return backend::prepared(std::move(call), scratch);
  };
  Claim claim = Claim::of(cat("cuda batch_norm gradient", with.text()), site.root(), prepare);
  with.cover(claim);
  if (source.passing == Passing::output && has_bytes_of_signs(site.node().inputs[0].type())) claim.sign_bits.input = 5;
  if (with.recomputes) claim.recomputes = with.nodes.front()->inputs[0];
  return claim;
}

void claim_backward(const Site& site, std::vector<Claim>& claims) {
  if (const std::string refusal = refusal_of(site.node().inputs[0].type()); !refusal.empty())
    return claims.push_back(Claim::no("cuda batch_norm gradient", refusal));
  for (const NormSource& with : backend::norm_sources(site)) claims.push_back(backward_claim(site, with));
}

}  // namespace

void add_batch_norm_claims(ClaimMap& map) {
  map["batch_norm_train"].push_back(claim_forward);
  map["batch_norm_train_grad"].push_back(claim_backward);
}

}  // namespace varve::cuda
