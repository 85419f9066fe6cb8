// One row of the operator table: how to call an operator, what it must give, and on which inputs.
// Every test of operators (conformance, gradients, hostile input, coverage) is driven by these rows.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "varve/ops.h"

namespace varve::test {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline const std::vector<DType> kEveryType = {f32, f64, bf16, f16, i64, i32, i8, u8, boolean};

// An input or output as the oracle sees it: in double, row-major.
struct Doubles {
  Shape shape;
  std::vector<double> data;
};

Doubles doubles(const Shape& shape, double fill = 0);                             // filled with one value
std::int64_t offset(const Shape& shape, const std::vector<std::int64_t>& index);  // row-major position of an index
// Calls `visit` with each index of the shape, in row-major order.
void each_index(const Shape& shape, const std::function<void(const std::vector<std::int64_t>&)>& visit);
inline double at(const Doubles& x, const std::vector<std::int64_t>& index) {
  return x.data[static_cast<std::size_t>(offset(x.shape, index))];
}
// Position in `shape` for an index of a shape that it broadcasts to, and the element there.
std::int64_t broadcast_offset(const Shape& shape, const std::vector<std::int64_t>& index);
double at_broadcast(const Doubles& x, const std::vector<std::int64_t>& index);

using Tensors = std::vector<Tensor>;
using DoublesList = std::vector<Doubles>;

// A function of several inputs: may return one result, a pair or a vector of them.
template <class T>
class Function {
 public:
  Function() = default;
  template <class F>
  requires(!std::is_same_v<std::decay_t<F>, Function>) Function(F f)
      : call_([f = std::move(f)](const std::vector<T>& in) { return pack(f(in)); }) {}
  explicit operator bool() const { return static_cast<bool>(call_); }
  std::vector<T> operator()(const std::vector<T>& in) const { return call_(in); }

 private:
  static std::vector<T> pack(T t) { return {std::move(t)}; }
  static std::vector<T> pack(std::vector<T> ts) { return ts; }
  static std::vector<T> pack(std::pair<T, T> ts) { return {std::move(ts.first), std::move(ts.second)}; }
  std::function<std::vector<T>(const std::vector<T>&)> call_;
};

// A number, or one that follows from the shapes of the inputs.
class Terms {
 public:
  Terms(double fixed) : count_([fixed](const std::vector<Shape>&) { return fixed; }) {}
  template <class F>
  requires std::is_invocable_r_v < double, F, const std::vector<Shape>
  & > Terms(F f) : count_(std::move(f)) {}
  double operator()(const std::vector<Shape>& shapes) const { return count_(shapes); }

 private:
  std::function<double(const std::vector<Shape>&)> count_;
};

using Range2 = std::pair<double, double>;

// Fields stand in the order in which a row is written (designated initialisers must follow it).
struct Row {
  std::string op;                        // record name
  std::string label = "";                // tells several rows of one operator apart; letters and digits
  std::vector<std::string> covers = {};  // further records it exercises (helpers of gradients, say)

  Function<Tensor> call;          // through the public API: inputs to outputs
  Function<Doubles> oracle = {};  // the same in plain C++ and double, independently written
  // In place of an oracle (random operators): looks at the outputs with gtest expectations.
  std::function<void(const DoublesList& in, const DoublesList& out)> check = {};

  // ---- inputs
  std::vector<std::vector<Shape>> shapes;            // each entry is one case: a shape for every input
  std::vector<double> values = {};                   // nasty values that fill the first elements (of floating inputs)
  Range2 range = {-2, 2};                            // the rest is random, uniform in here
  std::map<int, Range2> ranges = {};                 // other ranges for some inputs
  std::vector<DType> types = {f32, f64, bf16, f16};  // types under test, one at a time, of all ordinary inputs
  std::map<int, std::int64_t> integer_inputs = {};   // input i holds random integers in [0, n), as i64
  std::set<int> boolean_inputs = {};                 // random truth values, as bool
  std::map<int, DType> fixed_types = {};             // input i always has this type (values still from its range)
  bool distinct = false;                             // no two values of an input are close (max, sort): away from ties
  std::function<void(DoublesList& in)> adjust = {};  // last word on the values, before rounding to the type

  // ---- comparison
  // Longest sum behind one output element, K. Above 1 the error bound is c · ε · √K · magnitude, where magnitude is
  // the oracle of the inputs' absolute values (Σ|a·b| for sums of products) unless given here.
  Terms terms = 1;
  Function<Doubles> magnitude = {};
  double slack = 1;      // multiplies elementwise tolerances; more than 1 needs a reason
  int roundings = 0;     // of sums: intermediate results kept in the type itself (a product before its bias is added)
  bool bitwise = false;  // every backend must give the same bits

  // ---- gradients, in f64 against central differences
  bool gradient = true;
  bool second = true;                                    // second order too: only smooth operators
  std::vector<int> differentiable = {};                  // inputs; empty: all floating ones
  std::vector<int> differentiable_outputs = {};          // outputs; empty: all floating ones
  Range2 gradient_range = {0, 0};                        // in place of `range`, away from kinks; {0, 0}: `range`
  std::map<int, Range2> gradient_ranges = {};            // in place of `ranges`
  std::vector<std::vector<Shape>> gradient_shapes = {};  // in place of `shapes`, when those are too large

  // ---- other checks
  bool strided = true;   // views as inputs as well
  bool compiled = true;  // through compile() as well
};

// ---- short rows: elementwise operators over the usual shapes ({}, {0}, {7}, {3, 5} and broadcasts)

using Unary = std::function<Tensor(const Tensor&)>;
using Binary = std::function<Tensor(const Tensor&, const Tensor&)>;

// Everything else keeps its default unless `more` changes it: [](Row& r) { r.range = {0.1, 4}; }.
Row unary_row(const std::string& op, Unary call, std::function<double(double)> oracle, std::vector<double> values = {},
              const std::function<void(Row&)>& more = {});
Row binary_row(const std::string& op, Binary call, std::function<double(double, double)> oracle,
               std::vector<double> values = {}, const std::function<void(Row&)>& more = {});
// Comparisons, logic, rounding: gives no gradient, every type.
void no_gradient(Row& row);

// ---- the table

std::vector<Row> arithmetic_rows();
std::vector<Row> activation_rows();
std::vector<Row> reduce_rows();
std::vector<Row> shape_rows();
std::vector<Row> index_rows();
std::vector<Row> scatter_rows();
std::vector<Row> search_rows();
std::vector<Row> vision_rows();
std::vector<Row> matmul_rows();
std::vector<Row> conv_rows();
std::vector<Row> pool_rows();
std::vector<Row> norm_rows();
std::vector<Row> attention_rows();
std::vector<Row> recurrent_rows();
std::vector<Row> control_rows();
std::vector<Row> loss_rows();
std::vector<Row> random_rows();
std::vector<Row> optimizer_rows();
std::vector<Row> collective_rows();
std::vector<Row> compression_rows();
std::vector<Row> linalg_rows();
std::vector<Row> fft_rows();
std::vector<Row> sequence_loss_rows();

const std::vector<Row>& table();  // all of them

}  // namespace varve::test
