// Matrix products: who offers them, with what follows them in the graph.
#include <algorithm>
#include <cmath>

#include "backends/cuda/claims.h"
#include "backends/cuda/matmul/matmul_gemm.h"
#include "backends/cuda/matmul/matmul_match.h"
#include "backends/cuda/matmul/matmul_tma.h"
#include "backends/cuda/matmul/matmul_update.h"

namespace varve::cuda {
namespace {

using backend::Claim;
using backend::Memory;
using backend::Port;
using backend::Site;

// What the product does before it stores: a bias for each column, then relu, or where it streams another function of
// one number. Elsewhere those are a group's; the library's GELU, for one, is another one than ours.
struct Epilogue {
  std::vector<ir::NodePtr> nodes;
  ir::Value bias;
  bool biased = false, relu = false;
  ir::NodePtr function;
};

// Who reads the weights: `wide` is f32 that is rounded as it is loaded, as node() has it cast before.
GemmSpec spec_at(const Site& site, const Product& product, const Epilogue& epilogue, bool wide) {
  const DType dtype = site.node().types[0].dtype;
  const ir::Value& weights = site.node().inputs[1];
  return {.product = product,
          .in = dtype,
          .out = dtype,
          .tf32 = site.choices().tf32,
          .bias = epilogue.biased,
          .relu = epilogue.relu,
          .wide_b = wide,
          .early = wide || site.is_state(weights)};
}

// Whether a TmaGemm takes it, whatever becomes of it. Contiguous operands always may.
bool streams(const Site& site, const Epilogue& epilogue, bool wide) {
  const auto port = [](const TensorType& type) { return Port{type, contiguous(type.shape), nullptr}; };
  const std::vector<ir::Value>& in = site.node().inputs;
  for (const ir::Value& factor : in)
    if (factor.node->op->view) return false;
  const GemmSpec spec = spec_at(
      site,
      folded_product(port(in[0].type()), port(in[1].type()), port(site.node().types[0]), transposes_of(site.node())),
      epilogue, wide);
  return TmaGemm::is_worth_trying(spec) && TmaGemm::refusal(spec).empty();
}

bool is_function(const ir::Node& node, const TensorType& type) {
  if (node.inputs.size() != 1 || node.op->exprs.size() != 1 || node.is("cast") || node.types[0] != type) return false;
  const std::vector<expr::Instr> instrs = expr::flatten(1, node.op->exprs).instrs;
  return std::all_of(instrs.begin(), instrs.end(), [](const expr::Instr& instr) {
    return instr.prim != expr::Prim::constant || std::isfinite(instr.value);
  });
}

// A product that can read the f32 weights behind the cast.
bool may_read_wide(const Site& site) {
  return match::state_behind_cast(site, site.node().inputs[1]) && match::is_computed(site.node().inputs[0]) &&
         streams(site, {}, true);
}

// Such a product, where all others that the cast is for are so too: then nobody casts.
bool reads_wide(const Site& site) {
  const ir::Value& weights = site.node().inputs[1];
  if (!may_read_wide(site) || site.is_output(weights)) return false;
  const std::vector<ir::Use>& uses = site.users(weights);
  return std::all_of(uses.begin(), uses.end(), [&](const ir::Use& use) {
    if (!use.user->is("matmul") || use.input != 1) return false;
    return has_back_claim(site.at(use.user)) || may_read_wide(site.at(use.user));
  });
}

// The longest first, and last the product alone.
std::vector<Epilogue> epilogues_after(const Site& site, bool wide) {
  std::vector<Epilogue> found{{}};
  const DType dtype = site.node().types[0].dtype;
  if (dtype != f32 && dtype != bf16 && dtype != f16) return found;
  Epilogue so_far;
  ir::Value value{site.root(), 0};
  if (const auto add = backend::bias_after(site, value)) {
    so_far.nodes.push_back(add->node);
    so_far.bias = add->bias;
    so_far.biased = true;
    found.insert(found.begin(), so_far);
    value = {add->node, 0};
  }
  const ir::NodePtr next = site.sole_user(value);
  if (!next || !is_function(*next, value.type())) return found;
  if (!next->is("relu") && !streams(site, so_far, wide)) return found;
  so_far.nodes.push_back(next);
  so_far.relu = next->is("relu");
  if (!so_far.relu) so_far.function = next;
  found.insert(found.begin(), so_far);
  return found;
}

Claim make_claim(const Site& site, const Epilogue& epilogue, const std::string& who, bool wide, Tail tail = {}) {
  const bool biased = epilogue.biased, relu = epilogue.relu;
  const ir::NodePtr& function = epilogue.function;
  if (function) tail.function = function_text(expr::flatten(1, function->op->exprs));
  Claim claim = Claim::of(who + " matmul" + (biased ? "+bias" : "") +
                              (relu       ? "+relu"
                               : function ? "+" + function->op->name
                                          : ""),
                          site.root(),
                          [tail, spec = spec_at(site, {}, epilogue, wide), transposes = transposes_of(site.node())](
                              const std::vector<Port>& in, const std::vector<Port>& out) {
                            GemmSpec full = spec;
                            full.product = folded_product(in[0], in[1], out[0], transposes);
                            return prepare_product(full, in, out, tail);
                          });
  if (wide)
    claim.inputs[1] = site.node().inputs[1].node->inputs[0];
  else if (tail.function.empty())
    claim.memory = {Memory::strided, Memory::strided};
  if (biased) claim.inputs.push_back(epilogue.bias);
  if (!epilogue.nodes.empty()) claim.outputs = {{epilogue.nodes.back(), 0}};
  claim.nodes.insert(claim.nodes.end(), epilogue.nodes.begin(), epilogue.nodes.end());
  claim.measures = true;
  return claim;
}

// With a function of the product and of other matrices, as the gradient of an activation is. Nothing where there is
// none, or no TmaGemm takes the product.
void claim_with_tail(const Site& site, const std::string& who, bool wide, std::vector<Claim>& claims) {
  const auto following = match::following(site, {site.root(), 0}, kMostTailOperands);
  if (!following || match::tail_of(*following).is_simple() || !streams(site, {}, wide)) return;
  Claim claim = make_claim(site, {}, who, wide, match::tail_of(*following));
  match::take_in(*following, claim);
  claims.push_back(std::move(claim));
}

void claim_product(const Site& site, std::vector<Claim>& claims) {
  const std::string refusal = blas_refusal(site.node().types[0].dtype);
  if (!refusal.empty()) claims.push_back(Claim::no("cublas matmul", refusal));
  const std::string who = refusal.empty() ? "cublas" : "plain";
  if (reads_wide(site)) {
    claim_with_tail(site, "tma", true, claims);
    for (const Epilogue& epilogue : epilogues_after(site, true))
      claims.push_back(make_claim(site, epilogue, "tma", true));
  }
  claim_with_tail(site, who, false, claims);
  for (const Epilogue& epilogue : epilogues_after(site, false))
    claims.push_back(make_claim(site, epilogue, who, false));
}

}  // namespace

void add_matmul_claims(ClaimMap& map) { map["matmul"] = {claim_back, claim_update, claim_product}; }

}  // namespace varve::cuda
