// Activations, elementwise. Those along an axis are in softmax.cpp.
#include <numbers>

#include "base/text.h"
#include "ops/families.h"
#include "tensor/record.h"
#include "varve/ops.h"

namespace varve::expr {
namespace {

constexpr double kInvSqrt2 = 1 / std::numbers::sqrt2;
constexpr double kInvSqrt2Pi = std::numbers::inv_sqrtpi * kInvSqrt2;
constexpr double kSqrt2OverPi = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
constexpr double kSeluScale = 1.0507009873554804934193349852946;
constexpr double kSeluAlpha = 1.6732632423543772848170429916717;

Expr relu_formula(Expr x) { return max(x, 0.0); }
Expr relu6_formula(Expr x) { return min(max(x, 0.0), 6.0); }
Expr hardtanh_formula(Expr x) { return min(max(x, -1.0), 1.0); }
Expr leaky_relu_formula(Expr x, Expr slope) { return select(x > 0.0, x, slope * x); }
Expr elu_formula(Expr x, Expr alpha) { return select(x > 0.0, x, alpha * expm1(x)); }
Expr selu_formula(Expr x) { return select(x > 0.0, kSeluScale * x, (kSeluScale * kSeluAlpha) * expm1(x)); }

Expr gelu_formula(Expr x) { return 0.5 * x * erfc(-x * kInvSqrt2); }
// Φ(x) + x · φ(x)
Expr gelu_slope_formula(Expr x) { return 0.5 * erfc(-x * kInvSqrt2) + kInvSqrt2Pi * x * exp(-0.5 * x * x); }
// ½(1 + tanh u) is σ(2u), which keeps its digits where tanh u is near -1.
Expr gelu_tanh_formula(Expr x) { return x * sigmoid((2 * kSqrt2OverPi) * (x + 0.044715 * x * x * x)); }
Expr silu_formula(Expr x) { return x * sigmoid(x); }

// Past 40 the rest, e⁻⁴⁰, is below the last digit even in double, and exp might overflow.
Expr softplus_formula(Expr x) { return select(x > 40.0, x, log1p(exp(x))); }
Expr mish_formula(Expr x) { return x * tanh(softplus_formula(x)); }
Expr mish_derivative(Expr x, Expr) {
  const Expr t = tanh(softplus_formula(x));
  return t + x * (1.0 - t * t) * sigmoid(x);
}

Expr hardsigmoid_formula(Expr x) { return min(max(x / 6.0 + 0.5, 0.0), 1.0); }
Expr hardsigmoid_derivative(Expr x, Expr) { return select(-3.0 < x && x < 3.0, 1.0 / 6.0, 0.0); }
Expr hardswish_formula(Expr x) { return x * hardsigmoid_formula(x); }
Expr hardswish_derivative(Expr x, Expr) { return select(x <= -3.0, 0.0, select(x < 3.0, x / 3.0 + 0.5, 1.0)); }

}  // namespace
}  // namespace varve::expr

namespace varve {
namespace {

OpDef smooth(std::string name, std::string doc, expr::Formula formula, expr::Formula derivative = {}) {
  return elementwise({.name = std::move(name),
                      .doc = std::move(doc),
                      .formula = std::move(formula),
                      .derivative = std::move(derivative),
                      .result = ResultType::floating,
                      .family = "activation"});
}

OpDef kinked(std::string name, std::string doc, expr::Formula formula, expr::Formula derivative = {},
             ResultType result = ResultType::floating) {
  return elementwise({.name = std::move(name),
                      .doc = std::move(doc),
                      .formula = std::move(formula),
                      .derivative = std::move(derivative),
                      .result = result,
                      .smooth = false,
                      .family = "activation"});
}

// Derivatives in terms of the output where it tells as much: the next layer keeps it anyway, so the input can go.
const OpDef leaky_relu_op = kinked("leaky_relu", "x where x > 0, else slope · x", expr::leaky_relu_formula);
const OpDef relu_grad_op = kinked(
    "relu_grad", "dy where y > 0, else 0: y is what relu gave",
    [](Expr y, Expr dy) { return expr::select(y > 0.0, dy, 0.0); }, {}, ResultType::promoted);
const OpDef gelu_slope_op = smooth("gelu_slope", "the derivative of gelu", expr::gelu_slope_formula);
const OpDef elu_op = kinked("elu", "x where x > 0, else alpha · (eˣ - 1)", expr::elu_formula);

}  // namespace

// The gradient as one operator, so that kernels recognise it; from the output, as above.
const OpDef relu = define(OpRecord{
    .name = "relu",
    .doc = "max(x, 0)",
    .family = "activation",
    .gradient = [](const Vjp& v) -> std::vector<Tensor> { return {relu_grad_op(v.out[0], v.dy)}; },
    .formula = expr::relu_formula,
    .smooth = false,
});
const OpDef relu6 = kinked(
    "relu6", "min(max(x, 0), 6)", expr::relu6_formula,
    [](Expr, Expr y) { return expr::select(0.0 < y && y < 6.0, 1.0, 0.0); }, ResultType::promoted);
const OpDef hardtanh = kinked(
    "hardtanh", "min(max(x, -1), 1)", expr::hardtanh_formula,
    [](Expr, Expr y) { return expr::select(-1.0 < y && y < 1.0, 1.0, 0.0); }, ResultType::promoted);
const OpDef hardsigmoid =
    kinked("hardsigmoid", "min(max(x/6 + ½, 0), 1)", expr::hardsigmoid_formula, expr::hardsigmoid_derivative);
const OpDef hardswish = kinked("hardswish", "x · hardsigmoid(x)", expr::hardswish_formula, expr::hardswish_derivative);
const OpDef selu = kinked("selu", "λx where x > 0, else λα(eˣ - 1): keeps mean 0 and variance 1", expr::selu_formula);
const OpDef softsign = kinked(
    "softsign", "x / (1 + |x|)", [](Expr x) { return x / (1.0 + expr::abs(x)); },
    [](Expr x, Expr) { return 1.0 / expr::square(1.0 + expr::abs(x)); });

const OpDef sigmoid = smooth("sigmoid", "1 / (1 + e⁻ˣ)", expr::sigmoid, [](Expr, Expr y) { return y * (1.0 - y); });
const OpDef log_sigmoid = smooth(
    "log_sigmoid", "log σ(x), without overflow", [](Expr x) { return -expr::softplus_formula(-x); },
    [](Expr x, Expr) { return expr::sigmoid(-x); });
const OpDef softplus = smooth("softplus", "log(1 + eˣ), without overflow", expr::softplus_formula,
                              [](Expr x, Expr) { return expr::sigmoid(x); });
// The slope as an operator of its own: a kernel may compute it with the result, and the input can go.
const OpDef gelu = define(OpRecord{
    .name = "gelu",
    .doc = "x · Φ(x), exact",
    .family = "activation",
    .gradient = [](const Vjp& v) -> std::vector<Tensor> { return {v.dy * gelu_slope_op(v.in[0])}; },
    .formula = expr::gelu_formula,
    .result = ResultType::floating,
});
const OpDef gelu_tanh = smooth("gelu_tanh", "x · Φ(x), Φ by the tanh approximation", expr::gelu_tanh_formula);
const OpDef silu = smooth("silu", "x · σ(x)", expr::silu_formula);
const OpDef mish = smooth("mish", "x · tanh(softplus(x))", expr::mish_formula, expr::mish_derivative);

Tensor leaky_relu(const Tensor& x, const Operand& slope) { return leaky_relu_op(x, slope); }
Tensor elu(const Tensor& x, const Operand& alpha) { return elu_op(x, alpha); }

Tensor prelu(const Tensor& x, const Tensor& slope) {
  if (broadcast(x.shape(), slope.shape(), "prelu") != x.shape())
    throw Error(cat("prelu: a slope of shape ", slope.shape(), " does not broadcast to the input's ", x.shape(), "."));
  return leaky_relu_op(x, slope);
}

std::vector<const OpRecord*> activation_ops() {
  std::vector<const OpRecord*> list;
  for (const OpDef* op :
       {&relu, &relu_grad_op, &relu6, &leaky_relu_op, &elu_op, &selu, &gelu, &gelu_slope_op, &gelu_tanh, &silu, &mish,
        &softplus, &softsign, &sigmoid, &log_sigmoid, &hardsigmoid, &hardswish, &hardtanh})
    list.push_back(&op->record());
  return list;
}

}  // namespace varve
