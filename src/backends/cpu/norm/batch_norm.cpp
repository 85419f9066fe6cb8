// Batch norm in training, with what surrounds it: the addition and ReLU that follow, and in the backward pass the
// gradient of that ReLU. f32 and bf16; other types are decomposed.
#include "backend/batch_norm.h"
#include "backends/cpu/common/floats.h"
#include "backends/cpu/norm/batch_norm_kernels.h"

#include "backends/cpu/common/loops.h"

namespace varve::cpu {
namespace {

using backend::Claim;
using backend::NormFollowers;
using backend::NormSource;
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

Claim forward_claim(const Site& site, const NormFollowers& with) {
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
  claim.nodes.insert(claim.nodes.end(), with.nodes.begin(), with.nodes.end());
  if (!with.nodes.empty()) claim.outputs[0] = {with.nodes.back(), 0};
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
  for (const NormFollowers& with : backend::norm_followers(site)) claims.push_back(forward_claim(site, with));
}

// ---- gradient; in: x, dy, scale, mean, variance (, output of the ReLU or shift) (, more); out: dx, dscale, dshift (,
// g)

Passing passing_of(const NormSource& source) {
  if (source.nodes.empty()) return Passing::everywhere;
  return source.recomputes ? Passing::recomputed : Passing::output;
}

struct BackwardCall {
  BatchNormKernel kernel;
  Passing passing;
  bool more, passes;

  void operator()(const RunArgs& args) const {
    const bool output = passing == Passing::output, recomputed = passing == Passing::recomputed;
    kernel.backward({.x = args.in[0],
                     .from = {args.in[1], more ? args.in[6] : nullptr, passing, output ? args.in[5] : nullptr},
                     .scale = floats(args.in[2]),
                     .mean = floats(args.in[3]),
                     .var = floats(args.in[4]),
                     .shift = recomputed ? floats(args.in[5]) : nullptr,
                     .dx = args.out[0],
                     .dscale = floats(args.out[1]),
                     .dshift = floats(args.out[2]),
                     .passed = passes ? args.out[3] : nullptr},
                    args.scratch);
  }
};

Claim backward_claim(const Site& site, const NormSource& with) {
  const BackwardCall call{kernel_for(site.node()), passing_of(with), with.more.node != nullptr, with.passes};
  Claim claim = Claim::of(cat("cpu batch_norm gradient", with.text()), site.root(),
                          [call](const std::vector<Port>&, const std::vector<Port>&) {
                            return backend::prepared(call, call.kernel.scratch_bytes());
                          });
  with.cover(claim);
  return claim;
}

void claim_backward(const Site& site, std::vector<Claim>& claims) {
  if (const std::string refusal = refusal_of(site.node().inputs[0].type()); !refusal.empty())
    return claims.push_back(Claim::no("cpu batch_norm gradient", refusal));
  for (const NormSource& with : backend::norm_sources(site)) claims.push_back(backward_claim(site, with));
}

}  // namespace

void add_batch_norm_claims(ClaimMap& map) {
  map["batch_norm_train"].push_back(claim_forward);
  map["batch_norm_train_grad"].push_back(claim_backward);
}

}  // namespace varve::cpu
