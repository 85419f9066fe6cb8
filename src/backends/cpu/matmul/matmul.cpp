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
  if (site.node().types[0].dtype == bf16 && has_tiles()) claim.cost = plain_seconds(product_size(site.node()));
  claims.push_back(std::move(claim));
}

}  // namespace

ProductSize product_size(const ir::Node& matmul) {
  const Shape &a = matmul.inputs[0].type().shape, &c = matmul.types[0].shape;
  ProductSize size{.m = c[c.rank() - 2], .n = c[c.rank() - 1], .k = a[a.rank() - (transposes_of(matmul).a ? 2 : 1)]};
  for (int axis = 0; axis < c.rank() - 2; ++axis) size.count *= c[axis];
  return size;
}

void add_matmul_claims(ClaimMap& map) {
  std::vector<ClaimFn>& offers = map["matmul"];
  offers = {claim_update};
#ifdef VARVE_HAS_ONEDNN
  offers.insert(offers.end(), {claim_dnn_dense, claim_dnn_packed, claim_dnn_matmul});
#endif
  offers.push_back(claim_plain_matmul);
}

}  // namespace varve::cpu
