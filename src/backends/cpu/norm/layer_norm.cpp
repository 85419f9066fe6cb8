// Layer norm and RMS norm of rows, and the gradient of layer norm.
#include "backend/match.h"
#include "backends/cpu/norm/layer_norm_kernels.h"
#include "backends/cpu/norm/rows.h"

namespace varve::cpu {
namespace {

using backend::Claim;
using backend::depends_on;
using backend::Port;
using backend::Prepared;
using backend::RunArgs;
using backend::Site;

Prepared make_layer_norm(const Task& task) {
  return backend::prepared([shape = rows_of(task.shape_out()),
                            epsilon = static_cast<float>(task.attrs.number("epsilon"))](const RunArgs& args) {
    layer_norm(floats(args.in[0]), {floats(args.in[1]), floats(args.in[2]), epsilon}, floats(args.out[0]),
               floats(args.out[1]), floats(args.out[2]), shape);
  });
}

Prepared make_rms_norm(const Task& task) {
  return backend::prepared([shape = rows_of(task.shape_out()),
                            epsilon = static_cast<float>(task.attrs.number("epsilon"))](const RunArgs& args) {
    rms_norm(floats(args.in[0]), {.gain = floats(args.in[1]), .epsilon = epsilon}, floats(args.out[0]),
             floats(args.out[1]), shape);
  });
}

// ---- gradient of layer norm; where it is added to the gradient of a residual branch, the sum too

Prepared make_layer_norm_grad(Matrix shape, bool added) {
  return backend::prepared(
      [shape, added](const RunArgs& args) {
        layer_norm_grad({.dy = floats(args.in[1]),
                         .x = floats(args.in[0]),
                         .mean = floats(args.in[3]),
                         .rstd = floats(args.in[4]),
                         .gain = floats(args.in[2]),
                         .plus = added ? floats(args.in[5]) : nullptr,
                         .dx = floats(args.out[0]),
                         .dgain = floats(args.out[1]),
                         .dbias = floats(args.out[2])},
                        shape, args.scratch);
      },
      layer_norm_grad_scratch(shape));
}

void claim_layer_norm_grad(const Site& site, std::vector<Claim>& claims) {
  const TensorType& type = site.node().types[0];
  const std::string refusal = row_refusal(type);
  if (!refusal.empty()) return claims.push_back(Claim::no("rows layer_norm_grad", refusal));
  const auto offer = [&](bool added) {
    Claim claim = Claim::of(cat("rows layer_norm_grad", added ? "+add" : ""), site.root(),
                            [added, shape = rows_of(type.shape)](const std::vector<Port>&, const std::vector<Port>&) {
                              return make_layer_norm_grad(shape, added);
                            });
    claim.in_place = {{0, 0}, {0, 1}};
    return claim;
  };
  const ir::Value dx{site.root(), 0};
  if (const ir::NodePtr add = site.sole_user(dx); add && add->is("add") && add->types[0] == type) {
    const ir::Value& other = add->inputs[add->inputs[0] == dx ? 1 : 0];
    if (other != dx && other.type() == type && !depends_on(other, &site.node())) {
      Claim claim = offer(true);
      claim.nodes.push_back(add);
      claim.inputs.push_back(other);
      claim.outputs[0] = {add, 0};
      claim.in_place.push_back({0, 5});
      claims.push_back(std::move(claim));
    }
  }
  claims.push_back(offer(false));
}

}  // namespace

void add_layer_norm_claims(ClaimMap& map) {
  offer_rows(map, "layer_norm", make_layer_norm);
  offer_rows(map, "rms_norm", make_rms_norm);
  map["layer_norm_grad"] = {claim_layer_norm_grad};
}

}  // namespace varve::cpu
