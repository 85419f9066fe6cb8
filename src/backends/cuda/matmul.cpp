// Matrix products: who offers them, with what follows them in the graph.
#include "backends/cuda/claims.h"
#include "backends/cuda/matmul_gemm.h"
#include "backends/cuda/matmul_match.h"
#include "backends/cuda/matmul_update.h"

namespace varve::cuda {
namespace {

using backend::Claim;
using backend::Memory;
using backend::Port;
using backend::Site;

// What the product does before it stores: a bias for each column, then relu. Other functions are a group's; the
// library's GELU, for one, is another one than ours.
struct Epilogue {
  std::vector<ir::NodePtr> nodes;
  ir::Value bias;
  bool biased = false, relu = false;
};

// The longest first, and last the product alone.
std::vector<Epilogue> epilogues_after(const Site& site) {
  std::vector<Epilogue> found{{}};
  const DType dtype = site.node().types[0].dtype;
  if (dtype != f32 && dtype != bf16 && dtype != f16) return found;
  Epilogue so_far;
  ir::Value value{site.root(), 0};
  if (const auto add = match::bias_after(site, value)) {
    so_far.nodes.push_back(add->node);
    so_far.bias = add->bias;
    so_far.biased = true;
    found.insert(found.begin(), so_far);
    value = {add->node, 0};
  }
  const ir::NodePtr next = site.sole_user(value);
  if (!next || !next->is("relu") || next->types[0] != value.type()) return found;
  so_far.nodes.push_back(next);
  so_far.relu = true;
  found.insert(found.begin(), so_far);
  return found;
}

Claim make_claim(const Site& site, const Epilogue& epilogue, const std::string& who) {
  const bool biased = epilogue.biased, relu = epilogue.relu, tf32 = site.choices().tf32;
  Claim claim = Claim::of(
      who + " matmul" + (biased ? "+bias" : "") + (relu ? "+relu" : ""), site.root(),
      [=, transposes = match::transposes_of(site.node())](const std::vector<Port>& in, const std::vector<Port>& out) {
        const DType dtype = out[0].type.dtype;
        const Gemm gemm({.product = product_of(in[0], in[1], out[0], transposes),
                         .in = dtype,
                         .out = dtype,
                         .tf32 = tf32,
                         .bias = biased,
                         .relu = relu});
        return backend::prepared(
            [gemm, biased](const backend::RunArgs& args) {
              gemm.run({.a = args.in[0],
                        .b = args.in[1],
                        .bias = biased ? args.in[2] : nullptr,
                        .c = args.out[0],
                        .scratch = args.scratch});
            },
            gemm.scratch_bytes());
      });
  claim.memory = {Memory::strided, Memory::strided};
  if (biased) claim.inputs.push_back(epilogue.bias);
  if (!epilogue.nodes.empty()) claim.outputs = {{epilogue.nodes.back(), 0}};
  claim.nodes.insert(claim.nodes.end(), epilogue.nodes.begin(), epilogue.nodes.end());
  return claim;
}

void claim_product(const Site& site, std::vector<Claim>& claims) {
  const std::string refusal = blas_refusal(site.node().types[0].dtype);
  if (!refusal.empty()) claims.push_back(Claim::no("cublas matmul", refusal));
  for (const Epilogue& epilogue : epilogues_after(site))
    claims.push_back(make_claim(site, epilogue, refusal.empty() ? "cublas" : "own"));
}

}  // namespace

void add_matmul_claims(ClaimMap& map) { map["matmul"] = {claim_update, claim_product}; }

}  // namespace varve::cuda
