// Formulas: the mathematics of an elementwise operator, written once on symbols.
// The reference loop, the CPU's tile instructions, CUDA text and the derivative all follow from it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace varve::expr {

// What a backend must be able to compute on one element. Comparisons and logic give 0 or 1.
enum class Prim : std::uint8_t {
  input,
  constant,
  add,
  sub,
  mul,
  div,
  pow,
  min,
  max,
  mod,
  atan2,  // mod has the sign of the divisor, as in Python
  lt,
  le,
  eq,
  ne,
  logical_and,
  logical_or,
  select,  // select(c, a, b): c != 0 ? a : b
  neg,
  abs,
  sign,
  floor,
  ceil,
  round,
  trunc,  // round: halves to even
  exp,
  expm1,
  log,
  log1p,
  sqrt,
  rsqrt,
  sin,
  cos,
  tan,
  asin,
  acos,
  atan,
  sinh,
  cosh,
  tanh,
  erf,
  erfc,
  logical_not,
  is_nan,
};

const char* name(Prim);
int arity(Prim);  // 0 for input and constant

struct ExprNode;

class Expr {
 public:
  Expr(double constant);
  template <class T>
  requires std::is_arithmetic_v<T> Expr(T constant) : Expr(static_cast<double>(constant)) {}
  static Expr input(int index);
  static Expr make(Prim prim, const Expr* operands, int count);  // folds constants, applies x·1, x+0

  const ExprNode& node() const { return *node_; }
  const std::shared_ptr<const ExprNode>& ptr() const { return node_; }

 private:
  explicit Expr(std::shared_ptr<const ExprNode> node) : node_(std::move(node)) {}
  std::shared_ptr<const ExprNode> node_;
};

struct ExprNode {
  Prim prim;
  int index = 0;     // of an input
  double value = 0;  // of a constant
  std::vector<Expr> operands;
};

Expr operator+(Expr a, Expr b);
Expr operator-(Expr a, Expr b);
Expr operator*(Expr a, Expr b);
Expr operator/(Expr a, Expr b);
Expr operator-(Expr a);
Expr operator<(Expr a, Expr b);
Expr operator<=(Expr a, Expr b);
Expr operator>(Expr a, Expr b);
Expr operator>=(Expr a, Expr b);
Expr operator==(Expr a, Expr b);
Expr operator!=(Expr a, Expr b);
Expr operator&&(Expr a, Expr b);
Expr operator||(Expr a, Expr b);
Expr operator!(Expr a);
Expr select(Expr condition, Expr a, Expr b);
Expr min(Expr a, Expr b);
Expr max(Expr a, Expr b);
Expr pow(Expr a, Expr b);
Expr mod(Expr a, Expr b);
Expr atan2(Expr a, Expr b);
Expr abs(Expr x);
Expr sign(Expr x);
Expr floor(Expr x);
Expr ceil(Expr x);
Expr round(Expr x);
Expr trunc(Expr x);
Expr exp(Expr x);
Expr expm1(Expr x);
Expr log(Expr x);
Expr log1p(Expr x);
Expr sqrt(Expr x);
Expr rsqrt(Expr x);
Expr sin(Expr x);
Expr cos(Expr x);
Expr tan(Expr x);
Expr asin(Expr x);
Expr acos(Expr x);
Expr atan(Expr x);
Expr sinh(Expr x);
Expr cosh(Expr x);
Expr tanh(Expr x);
Expr erf(Expr x);
Expr erfc(Expr x);
Expr is_nan(Expr x);
Expr sigmoid(Expr x);  // 1 / (1 + exp(-x))
Expr square(Expr x);

// A formula of several inputs and outputs as straight-line code: each instruction reads earlier ones.
struct Instr {
  Prim prim;
  int a = -1, b = -1, c = -1;  // operands: indices of earlier instructions
  int input = 0;               // of Prim::input
  double value = 0;            // of Prim::constant
};
struct Code {
  int inputs = 0;
  std::vector<Instr> instrs;
  std::vector<int> outputs;  // indices of instructions
};

Code flatten(int inputs, const std::vector<Expr>& outputs);          // shared and equal subtrees once
double evaluate(const Code&, const double* inputs, int output = 0);  // the plain meaning, for oracles and folding
Expr derivative(const Expr& of, int input);                          // ∂of/∂input, symbolically
Expr substitute(const Expr& in, const std::vector<Expr>& inputs);    // inputs replaced by expressions
std::string print(const Expr&);                                      // "x0 * sigmoid(2 * x0)" like text

// A function on symbols: of any number of inputs, one or several outputs.
class Formula {
 public:
  Formula() = default;
  template <class F>
  requires(!std::is_same_v<std::decay_t<F>, Formula>) Formula(F f) {
    bind<F, 0>(std::move(f));
  }  // Expr(Expr, …) or std::vector<Expr>(Expr, …)

  explicit operator bool() const { return static_cast<bool>(call_); }
  int arity() const { return arity_; }
  std::vector<Expr> operator()(const std::vector<Expr>& inputs) const { return call_(inputs); }
  std::vector<Expr> on_inputs() const;  // applied to input(0), input(1), …

 private:
  struct AnyExpr {
    operator Expr() const;
  };
  template <std::size_t>
  using Arg = AnyExpr;
  template <class F, std::size_t... I>
  static constexpr bool callable(std::index_sequence<I...>) {
    return std::is_invocable_v<F, Arg<I>...>;
  }

  template <class F, std::size_t N>
  void bind(F f) {
    static_assert(N <= 12, "a formula is a function of Expr arguments");
    if constexpr (callable<F>(std::make_index_sequence<N>())) {
      arity_ = static_cast<int>(N);
      call_ = [f](const std::vector<Expr>& in) { return collect(apply(f, in, std::make_index_sequence<N>())); };
    } else {
      bind<F, N + 1>(std::move(f));
    }
  }
  template <class F, std::size_t... I>
  static auto apply(const F& f, const std::vector<Expr>& in, std::index_sequence<I...>) {
    return f(in[I]...);
  }
  static std::vector<Expr> collect(Expr e) { return {std::move(e)}; }
  static std::vector<Expr> collect(std::vector<Expr> es) { return es; }

  int arity_ = 0;
  std::function<std::vector<Expr>(const std::vector<Expr>&)> call_;
};

}  // namespace varve::expr

namespace varve {
using expr::Expr;
}
