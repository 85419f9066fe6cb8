// Matrix products: who offers them.
#include "backends/cuda/claims.h"
#include "backends/cuda/matmul_gemm.h"

namespace varve::cuda {
namespace {

using backend::Claim;
using backend::Memory;
using backend::Port;

Transposes transposes_of(const ir::Node& matmul) {
  return {matmul.attrs.flag("transpose_a"), matmul.attrs.flag("transpose_b")};
}

void claim_product(const backend::Site& site, std::vector<Claim>& claims) {
  const std::string refusal = blas_refusal(site.node().types[0].dtype);
  if (!refusal.empty()) claims.push_back(Claim::no("cublas matmul", refusal));
  Claim claim = Claim::of(
      refusal.empty() ? "cublas matmul" : "own matmul", site.root(),
      [transposes = transposes_of(site.node()), tf32 = site.choices().tf32](const std::vector<Port>& in,
                                                                            const std::vector<Port>& out) {
        const DType dtype = out[0].type.dtype;
        const Gemm gemm(
            {.product = product_of(in[0], in[1], out[0], transposes), .in = dtype, .out = dtype, .tf32 = tf32});
        return backend::prepared(
            [gemm](const backend::RunArgs& args) {
              gemm.run({.a = args.in[0], .b = args.in[1], .c = args.out[0], .scratch = args.scratch});
            },
            gemm.scratch_bytes());
      });
  claim.memory = {Memory::strided, Memory::strided};
  claims.push_back(std::move(claim));
}

}  // namespace

void add_matmul_claims(ClaimMap& map) { map["matmul"] = {claim_product}; }

}  // namespace varve::cuda
