// Batch norm in training, with what surrounds it: the addition, perhaps of another norm, and ReLU that follow, and on
// the backward pass the gradient of that ReLU.
#include <algorithm>

#include "backends/cuda/claims.h"
#include "backends/cuda/matmul/matmul_match.h"
#include "backends/cuda/norm/batch_norm_kernels.h"
#include "base/text.h"

namespace varve::cuda {
namespace {

using backend::Claim;
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

struct Forward {
  std::vector<ir::NodePtr> followers;  // add, relu
  ir::Value added;
  ir::NodePtr other;  // the norm that gives it, where that is taken along
  bool relu = false;

  std::string text() const { return cat(other ? "+batch_norm" : "", added.node ? "+add" : "", relu ? "+relu" : ""); }
};

// The norm of the same shape whose result, which nobody else reads, is added.
ir::NodePtr norm_behind(const Site& site, const ir::Value& added) {
  if (!added.node->is("batch_norm_train") || added.index != 0 || !site.sole_user(added)) return nullptr;
  return match::is_computed_from({site.root(), 0}, added.node.get()) ? nullptr : added.node;
}

// Whether a byte can say of eight neighbours which are above 0.
bool has_bytes_of_signs(const TensorType& x) { return x.shape.back() % 8 == 0; }

// All that can follow, the longest first. Each step is the sole user of the one before.
std::vector<Forward> followers_of(const Site& site) {
  std::vector<Forward> found{{}};
  Forward so_far;
  ir::Value value{site.root(), 0};
  ir::NodePtr next = site.sole_user(value);
  if (next && next->is("add") && next->inputs[0].type() == value.type() && next->inputs[1].type() == value.type()) {
    so_far.added = next->inputs[next->inputs[0] == value ? 1 : 0];
    if (so_far.added == value || match::is_computed_from(so_far.added, site.root().get())) return found;
    so_far.followers.push_back(next);
    found.push_back(so_far);
    value = {next, 0};
    next = site.sole_user(value);
  }
  if (next && next->is("relu")) {
    so_far.followers.push_back(next);
    so_far.relu = true;
    found.push_back(so_far);
  }
  if (so_far.relu && so_far.added.node)
    if (ir::NodePtr other = norm_behind(site, so_far.added)) {
      so_far.other = std::move(other);
      found.push_back(so_far);
    }
  std::reverse(found.begin(), found.end());
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
  claim.nodes.insert(claim.nodes.end(), with.followers.begin(), with.followers.end());
  if (!with.followers.empty()) claim.outputs[0] = {with.followers.back(), 0};
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
  if (with.relu && has_bytes_of_signs(site.node().inputs[0].type())) claim.writes_signs = 0;
  return claim;
}

void claim_forward(const Site& site, std::vector<Claim>& claims) {
  if (const std::string refusal = refusal_of(site.node().inputs[0].type()); !refusal.empty())
    return claims.push_back(Claim::no("cuda batch_norm", refusal));
  for (const Forward& with : followers_of(site)) claims.push_back(forward_claim(site, with));
}

// ---- gradient; in: x, dy, scale, mean, variance (, output of the ReLU, or its signs, or shift) (, more); out: dx,
// dscale, dshift (, what passed the ReLU, or the output of the ReLU again)

struct Backward {
  std::vector<ir::NodePtr> before;  // relu_grad, add
  ir::Value dy, more;
  Passing passing = Passing::everywhere;
  ir::Value also;       // the output of the ReLU, or the shift that its input can be computed again with
  bool passes = false;  // others read what passed the ReLU

  std::string text() const { return cat(more.node ? "+add" : "", before.empty() ? "" : "+relu_grad"); }
};

// The norm whose gradient this is, when nothing stood between it and the ReLU that gave `output`.
ir::NodePtr norm_before(const ir::Value& output, const ir::Node& gradient) {
  if (!output.node->is("relu")) return nullptr;
  const ir::Value& y = output.node->inputs[0];
  if (!y.node->is("batch_norm_train") || y.index != 0) return nullptr;
  const std::vector<ir::Value>& in = gradient.inputs;
  const bool same = y.node->inputs[0] == in[0] && y.node->inputs[1] == in[2] && in[3] == ir::Value{y.node, 1} &&
                    in[4] == ir::Value{y.node, 2} &&
                    y.node->attrs.number("epsilon") == gradient.attrs.number("epsilon");
  return same ? y.node : nullptr;
}

// What can be taken along, the most first.
std::vector<Backward> sources_of(const Site& site) {
  const ir::Node& node = site.node();
  Backward plain{.dy = node.inputs[1]};
  const ir::NodePtr& relu = node.inputs[1].node;
  if (!relu->is("relu_grad") || relu->inputs[0].type() != node.inputs[0].type() ||
      relu->inputs[1].type() != node.inputs[0].type())
    return {plain};
  for (const std::size_t i : {0u, 2u, 3u, 4u})
    if (match::is_computed_from(node.inputs[i], relu.get())) return {plain};
  Backward with{{relu}, relu->inputs[1], {}, Passing::output, relu->inputs[0], !site.sole_user({relu, 0})};
  if (const ir::NodePtr norm = norm_before(relu->inputs[0], node); norm && !with.passes) {
    with.passing = Passing::again;
    with.also = norm->inputs[2];
  }
  std::vector<Backward> found{with, plain};
  const ir::NodePtr& sum = with.dy.node;
  if (with.passes && sum->is("add") && sum->inputs[0].type() == with.dy.type() &&
      sum->inputs[1].type() == with.dy.type() && site.sole_user(with.dy)) {
    Backward longer = with;
    longer.before.push_back(sum);
    longer.dy = sum->inputs[0];
    longer.more = sum->inputs[1];
    found.insert(found.begin(), longer);
  }
  return found;
}

struct BackwardCall {
  NormBackwardKernel kernel;
  NormSource source;

  void operator()(const RunArgs& args) const {
    const bool output = source.passing == Passing::output || source.passing == Passing::signs;
    const bool again = source.passing == Passing::again;
    kernel.run({.x = args.in[0],
                .dy = args.in[1],
                .more = source.more ? args.in[6] : nullptr,
                .y = output ? args.in[5] : nullptr,
                .mean = args.in[3],
                .var = args.in[4],
                .scale = args.in[2],
                .shift = again ? args.in[5] : nullptr,
                .dx = args.out[0],
                .dscale = args.out[1],
                .dshift = args.out[2],
                .passed = source.passes ? args.out[3] : nullptr,
                .again = source.again ? args.out[3] : nullptr},
               args.scratch);
  }
};

Claim backward_claim(const Site& site, const Backward& with) {
  const NormSource source{with.passing, with.more.node != nullptr, with.passes};
  const auto prepare = [shape = shape_of(site.node()), source](const std::vector<Port>& in,
                                                               const std::vector<Port>& out) {
    NormSource asked = source;
    if (source.passing == Passing::output && in[5].type.dtype == u8) asked.passing = Passing::signs;
    asked.again = source.passing == Passing::again && out.size() > 3;
    BackwardCall call{NormBackwardKernel(shape, asked), asked};
    const std::size_t scratch = call.kernel.scratch_bytes();
    return backend::prepared(std::move(call), scratch);
  };
  Claim claim = Claim::of(cat("cuda batch_norm gradient", with.text()), site.root(), prepare);
  claim.nodes.insert(claim.nodes.end(), with.before.begin(), with.before.end());
  claim.inputs[1] = with.dy;
  claim.in_place = {{0, 1}, {0, 0}};
  if (with.passing != Passing::everywhere) claim.inputs.push_back(with.also);
  if (with.passing == Passing::output && has_bytes_of_signs(site.node().inputs[0].type())) claim.reads_signs = 5;
  if (with.passing == Passing::again) claim.again = with.before.front()->inputs[0];
  if (with.more.node) claim.inputs.push_back(with.more);
  if (with.passes) {
    claim.outputs.push_back({with.before.front(), 0});
    claim.in_place.insert(claim.in_place.begin(), {3, 1});
    if (with.more.node) claim.in_place.push_back({3, 6});
    if (with.more.node) claim.in_place.push_back({0, 6});
  }
  return claim;
}

void claim_backward(const Site& site, std::vector<Claim>& claims) {
  if (const std::string refusal = refusal_of(site.node().inputs[0].type()); !refusal.empty())
    return claims.push_back(Claim::no("cuda batch_norm gradient", refusal));
  for (const Backward& with : sources_of(site)) claims.push_back(backward_claim(site, with));
}

}  // namespace

void add_batch_norm_claims(ClaimMap& map) {
  map["batch_norm_train"].push_back(claim_forward);
  map["batch_norm_train_grad"].push_back(claim_backward);
}

}  // namespace varve::cuda
