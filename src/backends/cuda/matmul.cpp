// Matrix products: who offers them.
#include "backends/cuda/claims.h"
#include "backends/cuda/matmul_own.h"

namespace varve::cuda {
namespace {

using backend::Claim;
using backend::Memory;
using backend::Port;

Transposes transposes_of(const ir::Node& matmul) {
  return {matmul.attrs.flag("transpose_a"), matmul.attrs.flag("transpose_b")};
}

void claim_own(const backend::Site& site, std::vector<Claim>& claims) {
  Claim claim = Claim::of(
      "own matmul", site.root(),
      [transposes = transposes_of(site.node())](const std::vector<Port>& in, const std::vector<Port>& out) {
        const DType dtype = out[0].type.dtype;
        const OwnGemm gemm({.product = product_of(in[0], in[1], out[0], transposes), .in = dtype, .out = dtype});
        return backend::prepared(
            [gemm](const backend::RunArgs& args) { gemm.run({.a = args.in[0], .b = args.in[1], .c = args.out[0]}); });
      });
  claim.memory = {Memory::strided, Memory::strided};
  claims.push_back(std::move(claim));
}

}  // namespace

void add_matmul_claims(ClaimMap& map) { map["matmul"] = {claim_own}; }

}  // namespace varve::cuda
