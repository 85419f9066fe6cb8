// Softmax over rows of the last axis, and its gradient. Other axes are decomposed.
#include "backends/cuda/device/context.h"
#include "backends/cuda/norm/rows.h"
#include "base/text.h"

namespace varve::cuda {
namespace {

using backend::Claim;
using backend::Port;
using backend::RunArgs;
using backend::Site;

void claim_softmax(const Site& site, std::vector<Claim>& claims) {
  const ir::Node& node = site.node();
  const TensorType& type = node.types[0];
  const std::string kernel = cat("rows ", node.op->name);
  std::string refusal = row_refusal(type);
  if (refusal.empty() && node.attrs.integer("axis") != type.shape.rank() - 1) refusal = "not the last axis";
  if (!refusal.empty()) return claims.push_back(Claim::no(kernel, refusal));
  claims.push_back(Claim::of(
      kernel, site.root(),
      [matrix = matrix_of(type.shape), dtype = type.dtype, log = node.is("log_softmax")](const std::vector<Port>&,
                                                                                         const std::vector<Port>&) {
        const Team team = team_for(matrix, dtype);
        const Function function("softmax_rows", row_text("norm/softmax.cu", team, dtype, {{"LOG", log ? "1" : "0"}}));
        return backend::prepared([=](const RunArgs& args) {
          function({.grid = team.blocks(matrix.rows), .block = team.block}, args.in[0], args.out[0], matrix.rows,
                   matrix.columns, aligned({args.in[0], args.out[0]}));
        });
      }));
}

// ---- gradient of softmax, y · (dy - Σ dy·y), as its operators record it

bool sums_rows(const ir::Node& node) {
  if (!node.is("sum")) return false;
  const Ints& axes = node.attrs.ints("axes");
  return axes.size() == 1 && axes[0] == node.inputs[0].type().shape.rank() - 1 &&
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
  if (!sum || !sums_rows(*sum)) return;
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
  claim.prepare = [matrix = matrix_of(type.shape), dtype = type.dtype](const std::vector<Port>&,
                                                                       const std::vector<Port>&) {
    const Team team = team_for(matrix, dtype);
    const Function function("softmax_rows_grad", row_text("norm/softmax.cu", team, dtype, {{"LOG", "0"}}));
    return backend::prepared([=](const RunArgs& args) {
      function({.grid = team.blocks(matrix.rows), .block = team.block}, args.in[0], args.in[1], args.out[0],
               matrix.rows, matrix.columns, aligned({args.in[0], args.in[1], args.out[0]}));
    });
  };
  claims.push_back(std::move(claim));
}

}  // namespace

void add_softmax_claims(ClaimMap& map) {
  map["softmax"].push_back(claim_softmax);
  map["log_softmax"].push_back(claim_softmax);
  map["multiply"].push_back(claim_softmax_gradient);
}

}  // namespace varve::cuda
