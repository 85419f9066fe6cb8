// What works on one row of the last axis at a time, in f32: softmax and its losses, layer norm and RMS norm. Other axes
// and types are decomposed.
#include "backends/cpu/loops.h"
#include "backends/cpu/reach.h"
#include "backends/cpu/tile/norm_kernels.h"
#include "backends/cpu/tile/softmax_kernels.h"

namespace varve::cpu {
namespace {

using backend::Claim;
using backend::Port;
using backend::Prepared;
using backend::RunArgs;
using backend::Site;

// Rows of the last axis. Not for empty tensors.
Matrix matrix_of(const Shape& shape) { return {shape.numel() / shape.back(), shape.back()}; }

// Why rows of this type are none of ours; empty: they are.
std::string refusal_of(const TensorType& type) {
  if (type.dtype != f32) return name(type.dtype);
  if (type.shape.rank() == 0) return "a scalar";
  return type.shape.numel() == 0 ? "an empty tensor" : "";
}

const float* floats(const void* data) { return static_cast<const float*>(data); }
float* floats(void* data) { return static_cast<float*>(data); }

// Offers a kernel for rows of the last axis.
void offer_rows(ClaimMap& map, const std::string& op, Maker make) {
  map[op].push_back([make](const Site& site, std::vector<Claim>& claims) {
    const ir::Node& node = site.node();
    const std::string kernel = cat("rows ", node.op->name);
    std::string refusal = refusal_of(node.inputs[0].type());
    if (refusal.empty() && node.attrs.has("axis") && node.attrs.integer("axis") != node.types[0].shape.rank() - 1)
      refusal = "not the last axis";
    if (!refusal.empty()) return claims.push_back(Claim::no(kernel, refusal));
    claims.push_back(Claim::of(
        kernel, site.root(),
        [make, op = node.op->name, attrs = node.attrs](const std::vector<Port>& in, const std::vector<Port>& out) {
          return make({op, attrs, in, out});
        }));
  });
}

Prepared make_softmax(const Task& task) {
  const auto run = task.op == "softmax" ? &softmax : &log_softmax;
  return backend::prepared([run, shape = matrix_of(task.shape_out())](const RunArgs& args) {
    run(floats(args.in[0]), floats(args.out[0]), shape);
  });
}

Prepared make_layer_norm(const Task& task) {
  return backend::prepared([shape = matrix_of(task.shape_out()),
                            epsilon = static_cast<float>(task.attrs.number("epsilon"))](const RunArgs& args) {
    layer_norm(floats(args.in[0]), {floats(args.in[1]), floats(args.in[2]), epsilon}, floats(args.out[0]),
               floats(args.out[1]), floats(args.out[2]), shape);
  });
}

Prepared make_rms_norm(const Task& task) {
  return backend::prepared([shape = matrix_of(task.shape_out()),
                            epsilon = static_cast<float>(task.attrs.number("epsilon"))](const RunArgs& args) {
    rms_norm(floats(args.in[0]), {.gain = floats(args.in[1]), .epsilon = epsilon}, floats(args.out[0]),
             floats(args.out[1]), shape);
  });
}

// ---- gradient of layer norm, and of what runs beside it: the two are added on the way

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
  const std::string refusal = refusal_of(type);
  if (!refusal.empty()) return claims.push_back(Claim::no("rows layer_norm_grad", refusal));
  const auto offer = [&](bool added) {
    Claim claim = Claim::of(cat("rows layer_norm_grad", added ? "+add" : ""), site.root(),
                            [added, shape = matrix_of(type.shape)](const std::vector<Port>&, const std::vector<Port>&) {
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

// ---- cross entropy of logits and labels, its gradient, and both at once

struct CrossEntropy {
  Matrix shape;
  DType labels;
  std::string text;  // of the complaint about a label

  explicit CrossEntropy(const ir::Node& node)
      : shape(matrix_of(node.inputs[0].type().shape)),
        labels(node.inputs[1].type().dtype),
        text(cat("cross_entropy: a label is out of range [0, ", shape.columns, ").")) {}

  void complain(std::int64_t row, const RunArgs& args) const {
    if (row >= 0) args.errors->note(text, load_i(args.in[1], labels, row));
  }
  std::int64_t loss(const RunArgs& args, float* losses, float* lse) const {
    return softmax_cross_entropy(floats(args.in[0]), {args.in[1], labels}, losses, lse, shape);
  }
  void gradient(const RunArgs& args, const float* lse, void* out) const {
    softmax_cross_entropy_grad(floats(args.in[0]), lse, {args.in[1], labels}, {floats(args.in[2]), true}, floats(out),
                               shape);
  }
};

std::size_t bytes_of(std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(float); }

void claim_loss(const Site& site, std::vector<Claim>& claims) {
  const std::string refusal = refusal_of(site.node().inputs[0].type());
  if (!refusal.empty()) return claims.push_back(Claim::no("rows cross_entropy", refusal));
  claims.push_back(Claim::of("rows cross_entropy", site.root(),
                             [op = CrossEntropy(site.node())](const std::vector<Port>&, const std::vector<Port>&) {
                               return backend::prepared([op](const RunArgs& args) {
                                 op.complain(op.loss(args, floats(args.out[0]), nullptr), args);
                               });
                             }));
}

void claim_gradient(const Site& site, std::vector<Claim>& claims) {
  const std::string refusal = refusal_of(site.node().inputs[0].type());
  if (!refusal.empty()) return claims.push_back(Claim::no("rows cross_entropy gradient", refusal));
  Claim claim = Claim::of("rows cross_entropy gradient", site.root(),
                          [op = CrossEntropy(site.node())](const std::vector<Port>&, const std::vector<Port>&) {
                            return backend::prepared(
                                [op](const RunArgs& args) {
                                  float* lse = floats(args.scratch);
                                  op.complain(op.loss(args, lse + op.shape.rows, lse), args);
                                  op.gradient(args, lse, args.out[0]);
                                },
                                bytes_of(2 * op.shape.rows));
                          });
  claim.in_place = {{0, 0}};
  claims.push_back(std::move(claim));
}

// A step wants loss and gradient of the same logits: the sums of exponentials are taken once.
void claim_loss_with_gradient(const Site& site, std::vector<Claim>& claims) {
  const ir::Node& loss = site.node();
  if (!refusal_of(loss.inputs[0].type()).empty()) return;
  ir::NodePtr gradient;
  for (const ir::Use& use : site.users(loss.inputs[0]))
    if (use.user->is("softmax_cross_entropy_grad") && use.input == 0 && use.user->inputs[1] == loss.inputs[1])
      gradient = use.user;
  if (!gradient || depends_on(gradient->inputs[2], &loss)) return;
  Claim claim = Claim::of("rows cross_entropy+gradient", site.root(),
                          [op = CrossEntropy(loss)](const std::vector<Port>&, const std::vector<Port>&) {
                            return backend::prepared(
                                [op](const RunArgs& args) {
                                  float* lse = floats(args.scratch);
                                  op.complain(op.loss(args, floats(args.out[0]), lse), args);
                                  op.gradient(args, lse, args.out[1]);
                                },
                                bytes_of(op.shape.rows));
                          });
  claim.nodes.push_back(gradient);
  claim.inputs.push_back(gradient->inputs[2]);
  claim.outputs.push_back({gradient, 0});
  claim.in_place = {{1, 0}};
  claims.push_back(std::move(claim));
}

// ---- gradient of softmax, y · (dy - Σ dy·y), as its operators record it

bool sums_rows(const ir::Node& node) {
  const Ints& axes = node.attrs.ints("axes");
  return node.is("sum") && axes.size() == 1 && axes[0] == node.inputs[0].type().shape.rank() - 1 &&
         node.types[0].shape.rank() == node.inputs[0].type().shape.rank();
}

bool is_pair(const ir::Node& node, const ir::Value& a, const ir::Value& b) {
  return (node.inputs[0] == a && node.inputs[1] == b) || (node.inputs[0] == b && node.inputs[1] == a);
}

void claim_softmax_gradient(const Site& site, std::vector<Claim>& claims) {
  const ir::Node& product = site.node();
  const TensorType& type = product.types[0];
  if (!refusal_of(type).empty() || product.inputs[0].type() != type || product.inputs[1].type() != type) return;
  const ir::NodePtr sum = site.sole_user({site.root(), 0});
  if (!sum || !sum->is("sum") || !sums_rows(*sum)) return;
  const ir::NodePtr difference = site.sole_user({sum, 0});
  if (!difference || !difference->is("subtract") || difference->inputs[1] != ir::Value{sum, 0}) return;
  const ir::NodePtr result = site.sole_user({difference, 0});
  if (!result || !result->is("multiply") || result->types[0] != type) return;
  const ir::Value dy = difference->inputs[0];
  const ir::Value y = product.inputs[product.inputs[0] == dy ? 1 : 0];
  if (!is_pair(product, y, dy) || !is_pair(*result, y, {difference, 0})) return;
  Claim claim;
  claim.kernel = "rows softmax gradient";
  claim.nodes = {site.root(), sum, difference, result};
  claim.inputs = {y, dy};
  claim.outputs = {{result, 0}};
  claim.in_place = {{0, 0}, {0, 1}};
  claim.prepare = [shape = matrix_of(type.shape)](const std::vector<Port>&, const std::vector<Port>&) {
    return backend::prepared([shape](const RunArgs& args) {
      softmax_grad(floats(args.in[0]), floats(args.in[1]), floats(args.out[0]), shape);
    });
  };
  claims.push_back(std::move(claim));
}

}  // namespace

void add_row_claims(ClaimMap& map) {
  offer_rows(map, "softmax", make_softmax);
  offer_rows(map, "log_softmax", make_softmax);
  offer_rows(map, "layer_norm", make_layer_norm);
  offer_rows(map, "rms_norm", make_rms_norm);
  map["layer_norm_grad"] = {claim_layer_norm_grad};
  map["softmax_cross_entropy"] = {claim_loss_with_gradient, claim_loss};
  map["softmax_cross_entropy_grad"] = {claim_gradient};
  map["multiply"].push_back(claim_softmax_gradient);
}

}  // namespace varve::cpu
