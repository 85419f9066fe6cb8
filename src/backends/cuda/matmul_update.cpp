#include "backends/cuda/matmul_update.h"

#include <algorithm>

#include "backends/cuda/matmul_gemm.h"
#include "backends/cuda/matmul_match.h"
#include "base/levers.h"
#include "base/text.h"

namespace varve::cuda {
namespace {

using backend::Claim;
using backend::Memory;
using backend::Port;
using backend::Prepared;
using backend::RunArgs;
using backend::Site;
using match::is_scalar;

constexpr const char* kName = "matmul+sgd_update";

// The gradient, whether it is used in the type of the product or in that of the master weights.
struct Gradient {
  ir::NodePtr cast;  // may be null
  ir::Value value;
  ir::NodePtr update;
};

Gradient gradient_of(const Site& site) {
  Gradient g{nullptr, {site.root(), 0}, nullptr};
  g.update = site.sole_user(g.value);
  if (!g.update || !g.update->is("cast")) return g;
  g.cast = g.update;
  g.value = {g.cast, 0};
  g.update = site.sole_user(g.value);
  return g;
}

std::string refusal_of(const Site& site, const Gradient& g) {
  const TensorType& type = g.value.type();
  if (!g.update->is("sgd_update")) return "its moments are for a group";
  if (type.dtype != f32 && type.dtype != f64) return name(type.dtype);
  if (g.cast && (type.dtype != f32 || size_of(site.node().types[0].dtype) != 2)) return "a cast between them";
  if (type.shape.rank() != 2) return "not a matrix";
  if (std::count(g.update->inputs.begin(), g.update->inputs.end(), g.value) != 1)
    return "the gradient stands there twice";
  if (!(g.update->inputs[0].type() == type) || !(g.update->inputs[1] == g.value)) return "operands of another shape";
  for (const std::size_t scalar : {2u, 3u})
    if (!is_scalar(g.update->inputs[scalar])) return "operands of another shape";
  for (const ir::Value& operand : site.node().inputs)
    if (match::behind_views(operand) == match::behind_views(g.update->inputs[0]))
      return "what it updates is an operand of the gradient";
  return "";
}

// A scalar of the step: a number, or where the claim reads it.
struct Scalar {
  double number = 0;
  int operand = -1;
  const void* address(const RunArgs& args) const { return operand < 0 ? nullptr : args.in[operand]; }
};

struct Step {
  Transposes transposes;
  Scalar rate, decay;
  bool tf32 = false;
  bool known() const { return rate.operand < 0 && decay.operand < 0; }
};

constexpr std::size_t kScaleBytes = 256;  // before the product's own scratch memory

Prepared prepare_step(const Step& step, const std::vector<Port>& in, const std::vector<Port>& out) {
  const DType dtype = out[0].type.dtype;
  GemmSpec spec{.product = product_of(in[0], in[1], out[0], step.transposes),
                .in = in[0].type.dtype,
                .out = dtype,
                .tf32 = step.tf32,
                .adds = true,
                .scaled = !step.known(),
                .alpha = -step.rate.number,
                .beta = 1 - step.rate.number * step.decay.number};
  const Gemm gemm(spec);
  const auto multiply = [gemm](const RunArgs& args, const void* scale, void* scratch) {
    gemm.run(
        {.a = args.in[0], .b = args.in[1], .c0 = args.in[2], .scale = scale, .c = args.out[0], .scratch = scratch});
  };
  if (spec.product.empty()) return backend::prepared([](const RunArgs&) {});
  if (step.known())
    return backend::prepared([multiply](const RunArgs& args) { multiply(args, nullptr, args.scratch); },
                             gemm.scratch_bytes());
  const Function scale("update_scale", defines({{"WIDE", type_name(dtype)}}) + kernel_text("matmul_scale"));
  return backend::prepared(
      [multiply, scale, step, dtype](const RunArgs& args) {
        const void *rate = step.rate.address(args), *decay = step.decay.address(args);
        const auto start = [&](auto rate_now, auto decay_now) {
          scale({.block = 1}, rate, decay, rate_now, decay_now, args.scratch);
        };
        if (dtype == f64)
          start(step.rate.number, step.decay.number);
        else
          start(static_cast<float>(step.rate.number), static_cast<float>(step.decay.number));
        multiply(args, args.scratch, static_cast<std::byte*>(args.scratch) + kScaleBytes);
      },
      kScaleBytes + gemm.scratch_bytes());
}

Scalar scalar_of(const ir::Value& value, Claim& claim) {
  if (const auto number = match::number_of(value)) return {*number};
  claim.inputs.push_back(value);
  return {0, static_cast<int>(claim.inputs.size()) - 1};
}

}  // namespace

void claim_update(const Site& site, std::vector<Claim>& claims) {
  const Gradient g = gradient_of(site);
  if (!g.update || g.update->op->family != "optimizer" || !g.update->op->elementwise()) return;
  if (!lever("update-in-gemm")) return claims.push_back(Claim::no(kName, kLeftOut));
  if (const std::string refusal = refusal_of(site, g); !refusal.empty())
    return claims.push_back(Claim::no(kName, refusal));
  Claim claim = Claim::of(cat(blas_refusal(g.value.type().dtype).empty() ? "cublas " : "own ", kName), site.root(), {});
  claim.nodes.push_back(g.update);
  if (g.cast) claim.nodes.push_back(g.cast);
  claim.memory = {Memory::strided, Memory::strided};
  claim.inputs.push_back(g.update->inputs[0]);
  claim.outputs = {{g.update, 0}};
  claim.in_place = {{0, 2}};
  Step step{.transposes = match::transposes_of(site.node()), .tf32 = site.choices().tf32};
  step.rate = scalar_of(g.update->inputs[2], claim);
  step.decay = scalar_of(g.update->inputs[3], claim);
  claim.prepare = [step](const std::vector<Port>& in, const std::vector<Port>& out) {
    return prepare_step(step, in, out);
  };
  claims.push_back(std::move(claim));
}

}  // namespace varve::cuda
