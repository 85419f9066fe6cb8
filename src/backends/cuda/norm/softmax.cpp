// Softmax over rows of the last axis, and its gradient. Other axes are decomposed.
#include "backends/cuda/device/context.h"
#include "backends/cuda/norm/rows.h"
#include "base/text.h"

namespace varve::cuda {
namespace {

using backend::Claim;
using backend::Port;
using backend::Prepared;
using backend::RunArgs;
using backend::Site;

// Offers a kernel for rows of the last axis.
void offer_rows(const Site& site, std::vector<Claim>& claims, Prepared (*prepare)(const Matrix&, DType, bool log)) {
  const ir::Node& node = site.node();
  const TensorType& type = node.types[0];
  const std::string kernel = cat("rows ", node.op->name);
  std::string refusal = row_refusal(type);
  if (refusal.empty() && node.attrs.integer("axis") != type.shape.rank() - 1) refusal = "not the last axis";
  if (!refusal.empty()) return claims.push_back(Claim::no(kernel, refusal));
  claims.push_back(
      Claim::of(kernel, site.root(),
                [prepare, matrix = matrix_of(type.shape), dtype = type.dtype, log = node.is("log_softmax")](
                    const std::vector<Port>&, const std::vector<Port>&) { return prepare(matrix, dtype, log); }));
}

Prepared prepare_softmax(const Matrix& matrix, DType dtype, bool log) {
  const Team team = team_for(matrix, dtype);
  const Function function("softmax_rows", row_text("norm/softmax.cu", team, dtype, {{"LOG", log ? "1" : "0"}}));
  return backend::prepared([=](const RunArgs& args) {
    function({.grid = team.blocks(matrix.rows), .block = team.block}, args.in[0], args.out[0], matrix.rows,
             matrix.columns, aligned({args.in[0], args.out[0]}));
  });
}

Prepared prepare_softmax_grad(const Matrix& matrix, DType dtype, bool) {
  const Team team = team_for(matrix, dtype);
  const Function function("softmax_rows_grad", row_text("norm/softmax.cu", team, dtype, {{"LOG", "0"}}));
  return backend::prepared([=](const RunArgs& args) {
    function({.grid = team.blocks(matrix.rows), .block = team.block}, args.in[0], args.in[1], args.out[0], matrix.rows,
             matrix.columns, aligned({args.in[0], args.in[1], args.out[0]}));
  });
}

void claim_softmax(const Site& site, std::vector<Claim>& claims) { offer_rows(site, claims, prepare_softmax); }
void claim_softmax_grad(const Site& site, std::vector<Claim>& claims) {
  offer_rows(site, claims, prepare_softmax_grad);
}

}  // namespace

void add_softmax_claims(ClaimMap& map) {
  map["softmax"].push_back(claim_softmax);
  map["log_softmax"].push_back(claim_softmax);
  map["softmax_grad"].push_back(claim_softmax_grad);
}

}  // namespace varve::cuda
