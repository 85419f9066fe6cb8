// Matrix products by oneDNN, with what follows them: bias, activation.
#ifdef VARVE_HAS_ONEDNN

#include <optional>

#include "backends/cpu/common/epilogue.h"
#include "backends/cpu/common/loops.h"
#include "backends/cpu/matmul/gemm/gemm.h"
#include "backends/cpu/matmul/matmul_claims.h"
#include "backends/cpu/matmul/matmul_onednn.h"

namespace varve::cpu {
namespace {

using backend::Claim;
using backend::Followers;
using backend::Memory;
using backend::Port;
using backend::Prepared;
using backend::RunArgs;
using backend::Site;

// Why oneDNN will not multiply this type; empty: it will.
std::string type_refusal(DType dtype) {
  if (dtype == f32 || (dtype == bf16 && dnn::has_bf16())) return "";
  return dtype == bf16 ? "bf16, which this CPU does not multiply" : name(dtype);
}

struct Dense {
  Transposes transposes;
  Epilogue epilogue;
  Setting setting = Setting::now();
};

plain::Gemm plain_gemm(const Product& product, DType dtype, const Setting& setting) {
  return {product, {.in = dtype, .out = dtype, .workers = setting.threads}};
}

// For operands that the library cannot read as they lie: the plain product, then what follows as a pass over the
// result.
Prepared prepare_without_library(const Product& p, DType dtype, const Dense& d) {
  plain::Gemm gemm = plain_gemm(p, dtype, d.setting);
  const std::size_t scratch = gemm.scratch_bytes();
  if (d.epilogue.empty())
    return backend::prepared(
        [gemm](const RunArgs& args) { gemm.run(args.in[0], args.in[1], args.out[0], args.scratch); }, scratch);
  return backend::prepared(
      [gemm, rest = d.epilogue.alone(p.count() * p.m, p.n), bias = d.epilogue.biased](const RunArgs& args) {
        gemm.run(args.in[0], args.in[1], args.out[0], args.scratch);
        rest.run({.bias = bias ? static_cast<const float*>(args.in[2]) : nullptr, .c = args.out[0]});
      },
      scratch);
}

// y·wᵀ and xᵀ·dy with large w: what a dense layer's gradients are. The library reads transposed operands slowly.
bool is_gradient(const Product& p) {
  const bool transposed_a = p.a.row == 1 && p.a.col != 1, transposed_b = p.b.row == 1 && p.b.col != 1;
  return p.batch.empty() && (transposed_a || transposed_b);
}

Prepared prepare_dense(const std::vector<Port>& in, const std::vector<Port>& out, const Dense& d) {
  const Product product = product_of(in[0], in[1], out[0], d.transposes);
  if (product.empty()) return nothing();
  const DType dtype = out[0].type.dtype;
  if (dtype == f32 && d.epilogue.empty() && is_gradient(product)) return prepare_without_library(product, dtype, d);
  auto offered = DnnProduct::prepare(product,
                                     {.type = dtype == bf16 ? dnn::Type::bf16 : dnn::Type::f32,
                                      .bias = d.epilogue.biased,
                                      .activation = d.epilogue.activation},
                                     d.setting);
  if (!offered) return prepare_without_library(product, dtype, d);
  const std::size_t scratch = offered->scratch_bytes();
  return backend::prepared(
      [matmul = std::move(*offered), bias = d.epilogue.biased](const RunArgs& args) {
        matmul.run({.a = args.in[0],
                    .b = args.in[1],
                    .bias = bias ? static_cast<const float*>(args.in[2]) : nullptr,
                    .c = args.out[0],
                    .scratch = args.scratch});
      },
      scratch);
}

Claim dense_claim(const Site& site, const Followers& with) {
  Claim claim = Claim::of(
      "onednn matmul" + with.text(), site.root(),
      [dense = Dense{transposes_of(site.node()), Epilogue(with)}](
          const std::vector<Port>& in, const std::vector<Port>& out) { return prepare_dense(in, out, dense); });
  claim.memory = {Memory::strided, Memory::strided};
  if (site.node().types[0].dtype == bf16 && has_tiles()) claim.cost = tile_seconds(product_size(site.node()));
  with.cover(claim);
  return claim;
}

}  // namespace

backend::Prepare dense_prepare(const ir::Node& node) {
  return [dense = Dense{transposes_of(node), Epilogue()}](const std::vector<Port>& in, const std::vector<Port>& out) {
    return prepare_dense(in, out, dense);
  };
}

void claim_dnn_dense(const Site& site, std::vector<Claim>& claims) {
  if (site.node().types[0].dtype != f32) return;
  const Shape& a = site.node().inputs[0].type().shape;
  const std::int64_t terms = a[a.rank() - (transposes_of(site.node()).a ? 2 : 1)];
  for (const Followers& with : followers_of(site, terms)) claims.push_back(dense_claim(site, with));
}

void claim_dnn_matmul(const Site& site, std::vector<Claim>& claims) {
  const std::string refusal = type_refusal(site.node().types[0].dtype);
  claims.push_back(refusal.empty() ? dense_claim(site, {}) : Claim::no("onednn matmul", refusal));
}

}  // namespace varve::cpu

#endif  // VARVE_HAS_ONEDNN
