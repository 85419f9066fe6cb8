// Batch norm in training, with what surrounds it: the addition and ReLU that follow, and in the backward pass the
// gradient of that ReLU. f32 and bf16; other types are decomposed.
#include "backends/cpu/common/floats.h"
#include "backends/cpu/norm/batch_norm_kernels.h"

#include "backends/cpu/common/loops.h"
#include "backends/cpu/common/reach.h"

namespace varve::cpu {
namespace {

using backend::Claim;
using backend::Port;
using backend::RunArgs;
using backend::Site;

std::string refusal_of(const TensorType& x) {
  if (x.dtype != f32 && x.dtype != bf16) return name(x.dtype);
  return x.shape.numel() == 0 ? "an empty tensor" : "";
}

BatchNormKernel kernel_for(const ir::Node& node) {
  const TensorType& x = node.inputs[0].type();
  return {{x.shape.numel() / x.shape.back(), x.shape.back()}, x.dtype, node.attrs.number("epsilon")};
}

// ---- forward; in: x, scale, shift (, added); out: y, mean, variance

struct Forward {
  std::vector<ir::NodePtr> followers;  // add, relu
  ir::Value added;
  bool relu = false;

  std::string text() const { return cat(added.node ? "+add" : "", relu ? "+relu" : ""); }
};

// All that can follow, the longest first. Each step is the sole user of the one before.
std::vector<Forward> followers_of(const Site& site) {
  std::vector<Forward> found{{}};
  Forward so_far;
  ir::Value value{site.root(), 0};
  ir::NodePtr next = site.sole_user(value);
  if (next && next->is("add") && next->inputs[0].type() == value.type() && next->inputs[1].type() == value.type()) {
    so_far.added = next->inputs[next->inputs[0] == value ? 1 : 0];
    if (so_far.added == value || depends_on(so_far.added, site.root().get())) return found;
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
  std::reverse(found.begin(), found.end());
  return found;
}

Claim forward_claim(const Site& site, const Forward& with) {
  Claim claim =
      Claim::of(cat("cpu batch_norm", with.text()), site.root(),
                [kernel = kernel_for(site.node()), relu = with.relu, adds = with.added.node != nullptr](
                    const std::vector<Port>&, const std::vector<Port>&) {
                  return backend::prepared(
                      [kernel, relu, adds](const RunArgs& args) {
                        kernel.forward({args.in[0], adds ? args.in[3] : nullptr, floats(args.in[1]), floats(args.in[2]),
                                        relu, args.out[0], floats(args.out[1]), floats(args.out[2])},
                                       args.scratch);
                      },
                      kernel.scratch_bytes());
                });
  claim.nodes.insert(claim.nodes.end(), with.followers.begin(), with.followers.end());
  if (!with.followers.empty()) claim.outputs[0] = {with.followers.back(), 0};
  claim.in_place = {{0, 0}};
  if (with.added.node) {
    claim.inputs.push_back(with.added);
    claim.in_place.push_back({0, 3});
  }
  return claim;
}

void claim_forward(const Site& site, std::vector<Claim>& claims) {
  if (const std::string refusal = refusal_of(site.node().inputs[0].type()); !refusal.empty())
    return claims.push_back(Claim::no("cpu batch_norm", refusal));
  for (const Forward& with : followers_of(site)) claims.push_back(forward_claim(site, with));
}

// ---- gradient; in: x, dy, scale, mean, variance (, output of the ReLU or shift) (, more); out: dx, dscale, dshift (,
// g)

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
    if (depends_on(node.inputs[i], relu.get())) return {plain};
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
  BatchNormKernel kernel;
  Passing passing;
  bool more, passes;

  void operator()(const RunArgs& args) const {
    const bool output = passing == Passing::output, again = passing == Passing::again;
    kernel.backward({.x = args.in[0],
                     .from = {args.in[1], more ? args.in[6] : nullptr, passing, output ? args.in[5] : nullptr},
                     .scale = floats(args.in[2]),
                     .mean = floats(args.in[3]),
                     .var = floats(args.in[4]),
                     .shift = again ? floats(args.in[5]) : nullptr,
                     .dx = args.out[0],
                     .dscale = floats(args.out[1]),
                     .dshift = floats(args.out[2]),
                     .passed = passes ? args.out[3] : nullptr},
                    args.scratch);
  }
};

Claim backward_claim(const Site& site, const Backward& with) {
  const BackwardCall call{kernel_for(site.node()), with.passing, with.more.node != nullptr, with.passes};
  Claim claim = Claim::of(cat("cpu batch_norm gradient", with.text()), site.root(),
                          [call](const std::vector<Port>&, const std::vector<Port>&) {
                            return backend::prepared(call, call.kernel.scratch_bytes());
                          });
  claim.nodes.insert(claim.nodes.end(), with.before.begin(), with.before.end());
  claim.inputs[1] = with.dy;
  claim.in_place = {{0, 1}, {0, 0}};
  if (with.passing != Passing::everywhere) claim.inputs.push_back(with.also);
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
    return claims.push_back(Claim::no("cpu batch_norm gradient", refusal));
  for (const Backward& with : sources_of(site)) claims.push_back(backward_claim(site, with));
}

}  // namespace

void add_batch_norm_claims(ClaimMap& map) {
  map["batch_norm_train"].push_back(claim_forward);
  map["batch_norm_train_grad"].push_back(claim_backward);
}

}  // namespace varve::cpu
