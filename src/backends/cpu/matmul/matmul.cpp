// Who computes a matrix product; and the plain kernel, which takes every type and all strides.
#include "backends/cpu/common/loops.h"
#include "backends/cpu/common/team.h"
#include "backends/cpu/matmul/gemm/gemm.h"
#include "backends/cpu/matmul/matmul_claims.h"

namespace varve::cpu {
namespace {

using backend::Claim;
using backend::Memory;
using backend::Port;

void claim_plain_matmul(const backend::Site& site, std::vector<Claim>& claims) {
  Claim claim = Claim::of(
      "plain matmul", site.root(),
      [transposes = transposes_of(site.node()), setting = Setting::now()](const std::vector<Port>& in,
                                                                          const std::vector<Port>& out) {
        const DType dtype = out[0].type.dtype;
        plain::Gemm gemm(product_of(in[0], in[1], out[0], transposes),
                         {.in = dtype, .out = dtype, .workers = setting.threads});
        const std::size_t scratch = gemm.scratch_bytes();
        return backend::prepared(
            [gemm](const backend::RunArgs& args) { gemm.run(args.in[0], args.in[1], args.out[0], args.scratch); },
            scratch);
      });
  claim.memory = {Memory::strided, Memory::strided};
  claims.push_back(std::move(claim));
}

}  // namespace

void add_matmul_claims(ClaimMap& map) {
  std::vector<ClaimFn>& offers = map["matmul"];
  offers = {claim_update};
#ifdef VARVE_HAS_ONEDNN
  offers.insert(offers.end(), {claim_dnn_dense, claim_dnn_packed, claim_dnn_matmul});
#endif
  offers.push_back(claim_plain_matmul);
}

}  // namespace varve::cpu
