// MatrixStrides products by oneDNN, with what follows them: bias, activation, the update of a weight.
#ifdef VARVE_HAS_ONEDNN

#include <optional>

#include "backends/cpu/dnn_product.h"
#include "backends/cpu/loops.h"
#include "backends/cpu/matmul_claims.h"
#include "backends/cpu/patterns.h"
#include "backends/cpu/plain/gemm.h"
#include "base/levers.h"

namespace varve::cpu {
namespace {

using backend::Claim;
using backend::Memory;
using backend::Port;
using backend::Prepared;
using backend::RunArgs;
using backend::Site;

constexpr std::size_t kLine = 64;

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
  return {product, {.in = dtype, .out = dtype, .lanes = setting.threads}};
}

// For operands that the library cannot read as they lie: our own product, then what follows as a pass over the result.
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

Prepared prepare_dense(const std::vector<Port>& in, const std::vector<Port>& out, const Dense& d) {
  const Product product = product_of(in[0], in[1], out[0], d.transposes);
  if (product.empty()) return nothing();
  const DType dtype = out[0].type.dtype;
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

Claim dense_claim(const Site& site, const Epilogue& epilogue) {
  Claim claim = Claim::of(
      "onednn matmul" + epilogue.text(), site.root(),
      [dense = Dense{transposes_of(site.node()), epilogue.without_nodes()}](
          const std::vector<Port>& in, const std::vector<Port>& out) { return prepare_dense(in, out, dense); });
  claim.memory = {Memory::strided, Memory::strided};
  epilogue.cover(claim);
  return claim;
}

// ---- gradient and update: w - rate · xᵀ·dy

// The value behind views.
const ir::Value& behind(const ir::Value& value) { return value.node->op->view ? behind(value.node->inputs[0]) : value; }

std::string update_refusal(const Site& site, const ir::NodePtr& update) {
  const ir::Value gradient{site.root(), 0};
  const std::vector<ir::Value>& in = update->inputs;
  if (in[1] != gradient) return "the product is not the gradient of the update";
  if (gradient.type().dtype != f32) return name(gradient.type().dtype);
  if (in[0].type() != gradient.type() || gradient.type().shape.rank() != 2) return "not a matrix";
  if (!site.is_state(in[0])) return "the weight is no state of the program";
  if (!in[3].node->is("fill") || in[3].node->attrs.number("value") != 0) return "weight decay";
  for (const ir::Value& operand : site.node().inputs)
    if (behind(operand) == in[0]) return "the weight is an operand of its own gradient";
  return "";
}

struct Update {
  Transposes transposes;
  Setting setting = Setting::now();
};

// Our own product into scratch, then the update as a pass over the weights.
Prepared prepare_update_without_library(const Product& product, const Update& u) {
  plain::Gemm gemm = plain_gemm(product, f32, u.setting);
  const std::int64_t count = product.m * product.n;
  const std::size_t gradient = (static_cast<std::size_t>(count) * sizeof(float) + kLine - 1) / kLine * kLine;
  const std::size_t scratch = gradient + gemm.scratch_bytes();
  return backend::prepared(
      [=](const RunArgs& args) {
        auto* g = static_cast<float*>(args.scratch);
        gemm.run(args.in[0], args.in[1], g, at(args.scratch, static_cast<std::int64_t>(gradient)));
        const auto* w = static_cast<const float*>(args.in[2]);
        auto* next = static_cast<float*>(args.out[0]);
        const float rate = *static_cast<const float*>(args.in[3]);
        parallel_for(count, kCopyBlock / 4, [=](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) next[i] = w[i] - rate * g[i];
        });
      },
      scratch);
}

Prepared prepare_update(const std::vector<Port>& in, const std::vector<Port>& out, const Update& u) {
  const Product product = product_of(in[0], in[1], out[0], u.transposes);
  if (product.empty()) return nothing();
  auto offered = DnnProduct::prepare(product, {.beta = 1, .scaled = true}, u.setting);
  if (!offered) return prepare_update_without_library(product, u);
  const std::size_t scratch = kLine + offered->scratch_bytes();
  return backend::prepared(
      [matmul = std::move(*offered), bytes = product.m * product.n * 4](const RunArgs& args) {
        auto* alpha = static_cast<float*>(args.scratch);
        *alpha = -*static_cast<const float*>(args.in[3]);
        // In place as a rule; a copy only where a reader of the old weights comes later.
        copy_bytes(args.out[0], args.in[2], bytes);
        matmul.run(
            {.a = args.in[0], .b = args.in[1], .alpha = alpha, .c = args.out[0], .scratch = at(args.scratch, kLine)});
      },
      scratch);
}

}  // namespace

backend::Prepare dense_prepare(const ir::Node& node) {
  return [dense = Dense{transposes_of(node), Epilogue{}.without_nodes()}](
             const std::vector<Port>& in, const std::vector<Port>& out) { return prepare_dense(in, out, dense); };
}

void claim_dnn_update(const Site& site, std::vector<Claim>& claims) {
  const ir::NodePtr update = site.sole_user({site.root(), 0});
  if (!update || !update->is("sgd_update")) return;
  const char* const kernel = "onednn matmul+sgd";
  if (!lever("update-in-gemm")) return claims.push_back(Claim::no(kernel, kLeftOut));
  if (const std::string refusal = update_refusal(site, update); !refusal.empty()) {
    claims.push_back(Claim::no(kernel, refusal));
    return;
  }
  Claim claim =
      Claim::of(kernel, site.root(),
                [u = Update{transposes_of(site.node())}](const std::vector<Port>& in, const std::vector<Port>& out) {
                  return prepare_update(in, out, u);
                });
  claim.nodes.push_back(update);
  claim.inputs.push_back(update->inputs[0]);
  claim.inputs.push_back(update->inputs[2]);
  claim.outputs = {{update, 0}};
  claim.memory = {Memory::strided, Memory::strided};
  claim.in_place = {{0, 2}};
  claims.push_back(std::move(claim));
}

void claim_dnn_dense(const Site& site, std::vector<Claim>& claims) {
  if (site.node().types[0].dtype != f32) return;
  const Shape& a = site.node().inputs[0].type().shape;
  const std::int64_t terms = a[a.rank() - (transposes_of(site.node()).a ? 2 : 1)];
  for (const Epilogue& epilogue : epilogues_after(site, terms)) claims.push_back(dense_claim(site, epilogue));
}

void claim_dnn_matmul(const Site& site, std::vector<Claim>& claims) {
  const std::string refusal = type_refusal(site.node().types[0].dtype);
  claims.push_back(refusal.empty() ? dense_claim(site, {}) : Claim::no("onednn matmul", refusal));
}

}  // namespace varve::cpu

#endif  // VARVE_HAS_ONEDNN
