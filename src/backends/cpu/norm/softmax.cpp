// Softmax and log-softmax of rows, and the gradient of softmax.
#include "backends/cpu/norm/rows.h"
#include "backends/cpu/norm/softmax_kernels.h"

namespace varve::cpu {
namespace {

using backend::Claim;
using backend::Port;
using backend::Prepared;
using backend::RunArgs;
using backend::Site;

Prepared make_softmax(const Task& task) {
  const auto run = task.op == "softmax" ? &softmax : &log_softmax;
  return backend::prepared([run, shape = rows_of(task.shape_out())](const RunArgs& args) {
    run(floats(args.in[0]), floats(args.out[0]), shape);
  });
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
  if (!row_refusal(type).empty() || product.inputs[0].type() != type || product.inputs[1].type() != type) return;
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
  claim.prepare = [shape = rows_of(type.shape)](const std::vector<Port>&, const std::vector<Port>&) {
    return backend::prepared([shape](const RunArgs& args) {
      softmax_grad(floats(args.in[0]), floats(args.in[1]), floats(args.out[0]), shape);
    });
  };
  claims.push_back(std::move(claim));
}

}  // namespace

void add_softmax_claims(ClaimMap& map) {
  offer_rows(map, "softmax", make_softmax);
  offer_rows(map, "log_softmax", make_softmax);
  map["multiply"].push_back(claim_softmax_gradient);
}

}  // namespace varve::cpu
