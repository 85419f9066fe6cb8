#include "backends/cuda/matmul/matmul_update_plain.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "backends/cuda/device/context.h"
#include "backends/cuda/device/sizes.h"
#include "base/text.h"

namespace varve::cuda {
namespace {

using expr::Instr;
using expr::Prim;

constexpr std::size_t kTensors = 4, kScalars = 10, kResults = 4;

// As matmul/matmul_update_plain.cu reads it.
struct UpdateOperands {
  const void* tensors[kTensors] = {};
  const void* scalars[kScalars] = {};
  void* results[kResults] = {};
};

std::string constant(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "(float)%.17g", value);
  return text;
}

// "x[2]" or "s[0]": which tensor or scalar an input is, or the gradient.
std::string input_text(int input, const std::vector<bool>& scalar) {
  if (input == 0) return "g";
  const auto own = scalar.begin() + input - 1;
  return cat(*own ? "s[" : "x[", std::count(scalar.begin(), own, *own), "]");
}

std::string statement(const expr::Code& code, std::size_t i, const std::vector<bool>& scalar) {
  const Instr& instr = code.instrs[i];
  std::string value;
  if (instr.prim == Prim::input) {
    value = input_text(instr.input, scalar);
  } else if (instr.prim == Prim::constant) {
    value = constant(instr.value);
  } else {
    value = cat("p_", expr::name(instr.prim), "(t", instr.a);
    for (const int operand : {instr.b, instr.c})
      if (operand >= 0) value += cat(", t", operand);
    value += ")";
  }
  return cat("  const float t", i, " = ", value, ";\n");
}

std::string formula_text(const expr::Code& code, const std::vector<bool>& scalar) {
  std::string text = "__device__ __forceinline__ void update(float g, const float* x, const float* s, float* y) {\n";
  for (std::size_t i = 0; i < code.instrs.size(); ++i) text += statement(code, i, scalar);
  for (std::size_t o = 0; o < code.outputs.size(); ++o) text += cat("  y[", o, "] = t", code.outputs[o], ";\n");
  return text + "}\n";
}

const std::string kFormula = "#include \"kernels/formula.cuh\"\n";  // what generated formulas call

int mode_of(const UpdateSpec& spec) {
  if (spec.in == bf16) return 2;
  if (spec.in == f16) return 3;
  return spec.tf32 ? 1 : 0;
}

}  // namespace

std::int64_t most_update_terms(DType in, bool tf32) { return in == f32 && !tf32 ? 128 : 512; }

std::string update_refusal(const UpdateSpec& spec) {
  const auto scalars = static_cast<std::size_t>(std::count(spec.scalar.begin(), spec.scalar.end(), true));
  if (spec.scalar.size() - scalars > kTensors || scalars > kScalars || spec.code.outputs.size() > kResults)
    return "too many operands";
  if (spec.scalar.size() == scalars) return "nothing but scalars beside the gradient";
  for (const Instr& instr : spec.code.instrs)
    if (instr.prim == Prim::constant && !std::isfinite(instr.value)) return "a constant without end";
  return "";
}

bool takes_layout(const Product& p) {
  return p.batch.empty() && (p.a.row == 1 || p.m == 1) && (p.b.col == 1 || p.n == 1);
}

PlainUpdate::PlainUpdate(const UpdateSpec& spec) : spec_(spec) {
  const Product& p = spec.product;
  const auto tiles = [&](std::int64_t side) { return (p.m + side - 1) / side * ((p.n + side - 1) / side); };
  side_ = tiles(128) >= gpu().multiprocessors ? 128 : 64;
  if (p.m % 4 == 0 && p.n % 4 == 0 && p.a.col % 4 == 0 && p.b.row % 4 == 0)
    wide_ = Function("matmul_update", text(4));
  else
    narrow_ = Function("matmul_update", text(1));
}

std::string update_text(const UpdateSpec& spec) {
  const auto scalars = std::count(spec.scalar.begin(), spec.scalar.end(), true);
  return kFormula +
         defines({{"TENSORS", cat(static_cast<std::int64_t>(spec.scalar.size()) - scalars)},
                  {"SCALARS", cat(scalars)},
                  {"RESULTS", cat(spec.code.outputs.size())}}) +
         formula_text(spec.code, spec.scalar);
}

std::string function_text(const expr::Code& code, std::size_t more) {
  return kFormula + formula_text(code, std::vector<bool>(more, false));
}

KernelText PlainUpdate::text(int vector) const {
  const Constants constants{
      {"MODE", cat(mode_of(spec_))}, {"IN", type_name(spec_.in)}, {"SIDE", cat(side_)}, {"VEC", cat(vector)}};
  return {"matmul/matmul_update_plain.cu", update_text(spec_) + defines(constants)};
}

void PlainUpdate::run(const void* const* in, void* const* out) {
  const Product& p = spec_.product;
  UpdateOperands operands;
  bool aligned = on_16_bytes(in[0]) && on_16_bytes(in[1]);
  std::size_t tensors = 0, scalars = 0;
  for (std::size_t i = 0; i < spec_.scalar.size(); ++i) {
    if (spec_.scalar[i]) {
      operands.scalars[scalars++] = in[i + 2];
    } else {
      operands.tensors[tensors++] = in[i + 2];
      aligned = aligned && on_16_bytes(in[i + 2]);
    }
  }
  for (std::size_t o = 0; o < spec_.code.outputs.size(); ++o) {
    operands.results[o] = out[o];
    aligned = aligned && on_16_bytes(out[o]);
  }
  const bool wide = aligned && wide_;
  if (!wide && !narrow_) narrow_ = Function("matmul_update", text(1));
  const std::int64_t tiles = (p.m + side_ - 1) / side_ * ((p.n + side_ - 1) / side_);
  (wide ? wide_ : narrow_)({.grid = tiles, .block = static_cast<int>(side_ / 32 * side_)}, in[0], in[1], p.m, p.n, p.k,
                           p.a.col, p.b.row, operands);
}

}  // namespace varve::cuda
