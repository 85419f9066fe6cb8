// Matrix products: who offers them, with what follows them in the graph.
#include <algorithm>

#include "backends/cuda/claims.h"
#include "backends/cuda/cublas_tuning.h"
#include "backends/cuda/matmul_gemm.h"
#include "backends/cuda/matmul_match.h"
#include "backends/cuda/matmul_stream.h"
#include "backends/cuda/matmul_update.h"
#include "base/text.h"

namespace varve::cuda {
namespace {

using backend::Claim;
using backend::Memory;
using backend::Port;
using backend::Prepared;
using backend::RunArgs;
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

GemmOperands operands_of(const RunArgs& args, const GemmSpec& spec) {
  return {.a = args.in[0],
          .b = args.in[1],
          .bias = spec.bias ? args.in[2] : nullptr,
          .c = args.out[0],
          .scratch = args.scratch};
}

// By whoever can do it, or where few rows meet large weights by the faster of two.
Prepared prepare_product(const GemmSpec& spec, const std::vector<Port>& in, const std::vector<Port>& out) {
  const Gemm gemm(spec);
  const auto run = [gemm, spec](const RunArgs& args) { gemm.run(operands_of(args, spec)); };
  if (!StreamGemm::is_worth_trying(spec) || !StreamGemm::refusal(spec).empty())
    return backend::prepared(run, gemm.scratch_bytes());
  const StreamGemm stream(spec);
  Prepared streamed = backend::prepared(
      [run, stream, spec](const RunArgs& args) {
        const GemmOperands operands = operands_of(args, spec);
        StreamGemm::takes(operands) ? stream.run(operands) : run(args);
      },
      std::max(stream.scratch_bytes(), gemm.scratch_bytes()));
  Prepared plain = backend::prepared(run, gemm.scratch_bytes());
  const std::string key = cat("stream", spec.bias ? " bias" : "", spec.relu ? " relu " : " ", name_of(spec.product));
  return first_is_faster(key, {&streamed, &plain, &in, &out}) ? std::move(streamed) : std::move(plain);
}

Claim make_claim(const Site& site, const Epilogue& epilogue, const std::string& who) {
  const bool biased = epilogue.biased, relu = epilogue.relu, tf32 = site.choices().tf32;
  Claim claim = Claim::of(
      who + " matmul" + (biased ? "+bias" : "") + (relu ? "+relu" : ""), site.root(),
      [=, transposes = match::transposes_of(site.node())](const std::vector<Port>& in, const std::vector<Port>& out) {
        const DType dtype = out[0].type.dtype;
        return prepare_product({.product = product_of(in[0], in[1], out[0], transposes),
                                .in = dtype,
                                .out = dtype,
                                .tf32 = tf32,
                                .bias = biased,
                                .relu = relu},
                               in, out);
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
