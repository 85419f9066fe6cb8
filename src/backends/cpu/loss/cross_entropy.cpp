// Softmax cross entropy of logits and labels, its gradient, and both at once.
#include "backend/match.h"
#include "backends/cpu/norm/rows.h"
#include "backends/cpu/norm/softmax_kernels.h"

namespace varve::cpu {
namespace {

using backend::Claim;
using backend::depends_on;
using backend::Port;
using backend::RunArgs;
using backend::Site;

struct CrossEntropy {
  Matrix shape;
  DType labels;
  std::string text;  // of the complaint about a label

  explicit CrossEntropy(const ir::Node& node)
      : shape(rows_of(node.inputs[0].type().shape)),
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
  const std::string refusal = row_refusal(site.node().inputs[0].type());
  if (!refusal.empty()) return claims.push_back(Claim::no("rows cross_entropy", refusal));
  claims.push_back(Claim::of("rows cross_entropy", site.root(),
                             [op = CrossEntropy(site.node())](const std::vector<Port>&, const std::vector<Port>&) {
                               return backend::prepared([op](const RunArgs& args) {
                                 op.complain(op.loss(args, floats(args.out[0]), nullptr), args);
                               });
                             }));
}

void claim_cross_entropy_gradient(const Site& site, std::vector<Claim>& claims) {
  const std::string refusal = row_refusal(site.node().inputs[0].type());
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
  if (!row_refusal(loss.inputs[0].type()).empty()) return;
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

}  // namespace

void add_cross_entropy_claims(ClaimMap& map) {
  map["softmax_cross_entropy"] = {claim_loss_with_gradient, claim_loss};
  map["softmax_cross_entropy_grad"] = {claim_cross_entropy_gradient};
}

}  // namespace varve::cpu
