// Formulas as straight-line code, and what that code means.
#include <bit>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <utility>

#include "base/hash.h"
#include "base/text.h"
#include "ir/expr_eval.h"
#include "ir/expr_walk.h"
#include "varve/error.h"

namespace varve::expr {
namespace {

double python_mod(double a, double b) {
  const double remainder = std::fmod(a, b);  // has the sign of a
  if (remainder == 0) return std::copysign(0.0, b);
  return (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

double nan_or(double a, double b, double chosen) {
  return std::isnan(a) || std::isnan(b) ? std::numeric_limits<double>::quiet_NaN() : chosen;
}

double sign_of(double a) {
  if (std::isnan(a)) return a;
  return a > 0 ? 1 : a < 0 ? -1 : 0;
}

// Equal instructions have equal keys; constants are compared by their bits, so that -0 and NaN are values like others.
struct Key {
  Instr instr;

  friend bool operator==(const Key& x, const Key& y) {
    const Instr &a = x.instr, &b = y.instr;
    return a.prim == b.prim && a.a == b.a && a.b == b.b && a.c == b.c && a.input == b.input &&
           std::bit_cast<std::uint64_t>(a.value) == std::bit_cast<std::uint64_t>(b.value);
  }
};

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    const Instr& i = key.instr;
    std::uint64_t hash = hash_combine(static_cast<std::uint64_t>(i.prim), static_cast<std::uint64_t>(i.a));
    hash = hash_combine(hash, static_cast<std::uint64_t>(i.b));
    hash = hash_combine(hash, static_cast<std::uint64_t>(i.c));
    hash = hash_combine(hash, static_cast<std::uint64_t>(i.input));
    return hash_combine(hash, std::bit_cast<std::uint64_t>(i.value));
  }
};

class Flattener {
 public:
  explicit Flattener(int inputs) { code_.inputs = inputs; }

  void add_output(const Expr& root) {
    const auto done = [&](const ExprNode* node) { return place_.contains(node); };
    visit_operands_first(root, done, [&](const Expr& e) { place_[&e.node()] = emit(e.node()); });
    code_.outputs.push_back(place_.at(&root.node()));
  }

  Code take() { return std::move(code_); }

 private:
  int emit(const ExprNode& node) {
    if (node.prim == Prim::input && node.index >= code_.inputs) {
      throw Error(cat("expression: reads input ", node.index, ", but the formula has ", code_.inputs, " inputs."));
    }
    const auto operand = [&](std::size_t i) {
      return i < node.operands.size() ? place_.at(&node.operands[i].node()) : -1;
    };
    const Instr instr{
        .prim = node.prim, .a = operand(0), .b = operand(1), .c = operand(2), .input = node.index, .value = node.value};
    Key key{instr};
    if (is_commutative(node.prim) && key.instr.a > key.instr.b) std::swap(key.instr.a, key.instr.b);
    const auto [found, is_new] = known_.try_emplace(key, static_cast<int>(code_.instrs.size()));
    if (is_new) code_.instrs.push_back(instr);
    return found->second;
  }

  Code code_;
  std::unordered_map<const ExprNode*, int> place_;
  std::unordered_map<Key, int, KeyHash> known_;
};

}  // namespace

double apply(Prim prim, double a, double b, double c) {
  switch (prim) {
    case Prim::input:
    case Prim::constant:
      break;
    case Prim::add:
      return a + b;
    case Prim::sub:
      return a - b;
    case Prim::mul:
      return a * b;
    case Prim::div:
      return a / b;
    case Prim::pow:
      return std::pow(a, b);
    case Prim::min:
      return nan_or(a, b, a < b ? a : b);
    case Prim::max:
      return nan_or(a, b, a > b ? a : b);
    case Prim::mod:
      return python_mod(a, b);
    case Prim::atan2:
      return std::atan2(a, b);
    case Prim::lt:
      return a < b;
    case Prim::le:
      return a <= b;
    case Prim::eq:
      return a == b;
    case Prim::ne:
      return a != b;
    case Prim::logical_and:
      return a != 0 && b != 0;
    case Prim::logical_or:
      return a != 0 || b != 0;
    case Prim::select:
      return a != 0 ? b : c;
    case Prim::neg:
      return -a;
    case Prim::abs:
      return std::fabs(a);
    case Prim::sign:
      return sign_of(a);
    case Prim::floor:
      return std::floor(a);
    case Prim::ceil:
      return std::ceil(a);
    case Prim::round:
      return std::nearbyint(a);  // the default rounding mode: halves to even
    case Prim::trunc:
      return std::trunc(a);
    case Prim::exp:
      return std::exp(a);
    case Prim::expm1:
      return std::expm1(a);
    case Prim::log:
      return std::log(a);
    case Prim::log1p:
      return std::log1p(a);
    case Prim::sqrt:
      return std::sqrt(a);
    case Prim::rsqrt:
      return 1 / std::sqrt(a);
    case Prim::sin:
      return std::sin(a);
    case Prim::cos:
      return std::cos(a);
    case Prim::tan:
      return std::tan(a);
    case Prim::asin:
      return std::asin(a);
    case Prim::acos:
      return std::acos(a);
    case Prim::atan:
      return std::atan(a);
    case Prim::sinh:
      return std::sinh(a);
    case Prim::cosh:
      return std::cosh(a);
    case Prim::tanh:
      return std::tanh(a);
    case Prim::erf:
      return std::erf(a);
    case Prim::erfc:
      return std::erfc(a);
    case Prim::logical_not:
      return a == 0;
    case Prim::is_nan:
      return std::isnan(a);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

Code flatten(int inputs, const std::vector<Expr>& outputs) {
  Flattener flattener(inputs);
  for (const Expr& output : outputs) flattener.add_output(output);
  return flattener.take();
}

double evaluate(const Code& code, const double* inputs, int output) {
  const std::size_t last = static_cast<std::size_t>(code.outputs.at(static_cast<std::size_t>(output)));
  std::vector<double> values(last + 1);
  const auto operand = [&](int i) { return i < 0 ? 0.0 : values[static_cast<std::size_t>(i)]; };
  for (std::size_t i = 0; i <= last; ++i) {
    const Instr& instr = code.instrs[i];
    if (instr.prim == Prim::input)
      values[i] = inputs[instr.input];
    else if (instr.prim == Prim::constant)
      values[i] = instr.value;
    else
      values[i] = apply(instr.prim, operand(instr.a), operand(instr.b), operand(instr.c));
  }
  return values[last];
}

}  // namespace varve::expr
