// Arithmetic of one tensor.
#include <cmath>

#include "ops/rows_arithmetic.h"

namespace varve::test {

namespace {

using Real = double (*)(double);

const std::vector<double> kAnywhere = {0, -0.0, 1, -1, 0.5, 1e-3, -20, 40, kInfinity, -kInfinity, kNaN};
const std::vector<double> kPositive = {0, 1, 1e-4, 100, 1e20, 1e-30, kInfinity, -1, -kInfinity, kNaN};

double signum(double x) { return std::isnan(x) ? x : (x > 0) - (x < 0); }

void add_exact(std::vector<Row>& rows) {
  const auto both = [&](const OpDef& op, std::function<double(double)> oracle, void (*how)(Row&)) {
    const Unary call = [&op](const Tensor& x) { return op(x); };
    rows.push_back(unary_row(op.name(), call, oracle, kAnywhere, how));
    rows.push_back(unary_row(op.name(), call, oracle, {}, [](Row& r) {
      whole_numbers(r);
      r.label = "integers";
    }));
  };
  both(
      negative, [](double x) { return -x; }, nullptr);
  both(
      square, [](double x) { return x * x; }, nullptr);
  both(
      abs, [](double x) { return std::abs(x); }, kinked);
  both(sign, signum, no_gradient);
  // Halves go to the even neighbour.
  const auto step = [&](const OpDef& op, Real oracle) {
    both(op, oracle, no_gradient);
    rows.push_back(unary_row(
        op.name(), [&op](const Tensor& x) { return op(x); }, oracle,
        {0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49, -0.99, 3, 1e6},
        [](Row& r) {
          no_gradient(r);
          r.label = "halves";
        }));
  };
  step(floor, std::floor);
  step(ceil, std::ceil);
  step(round, std::nearbyint);
  step(trunc, std::trunc);
}

void add_powers_and_logarithms(std::vector<Row>& rows) {
  const auto row = [&](const OpDef& op, Real oracle, std::vector<double> values, Range2 range) {
    rows.push_back(unary_row(
        op.name(), [&op](const Tensor& x) { return op(x); }, oracle, std::move(values),
        [range](Row& r) { r.range = range; }));
  };
  row(reciprocal, [](double x) { return 1 / x; }, {1, -1, 4, 1e4, -1e-4, kInfinity, kNaN, 0}, {0.3, 3});
  row(exp, std::exp, {0, 1, -1, 10, -50, 88, 1000, -1000, kInfinity, -kInfinity, kNaN}, {-3, 3});
  row(exp2, std::exp2, {0, 1, -1, 10, -30, 100, 2000, -2000, kInfinity, -kInfinity, kNaN}, {-3, 3});
  row(expm1, std::expm1, {0, -0.0, 1, 1e-4, -1e-4, 20, -50, 1000, kInfinity, -kInfinity, kNaN}, {-2, 2});
  row(log, std::log, kPositive, {0.2, 4});
  row(log2, std::log2, kPositive, {0.2, 4});
  row(log10, std::log10, kPositive, {0.2, 4});
  row(log1p, std::log1p, {0, 1e-5, -1e-5, -0.99, -1, 1e20, -2, kInfinity, kNaN}, {-0.7, 3});
  row(sqrt, std::sqrt, kPositive, {0.2, 4});
  row(rsqrt, [](double x) { return 1 / std::sqrt(x); }, kPositive, {0.2, 4});
  row(cbrt, std::cbrt, {0, -0.0, 1, -1, 8, -27, 1e20, -1e-20, kInfinity, -kInfinity, kNaN}, {0.2, 4});
  row(cbrt, std::cbrt, {}, {-4, -0.2});
  rows.back().label = "negative";
  rows.push_back(unary_row(
      "sqrt", [](const Tensor& x) { return sqrt(x); }, [](double x) { return std::sqrt(x); }, {},
      [](Row& r) {
        whole_numbers(r);
        r.label = "integers";
        r.range = {0, 100};
        r.values = {0, 1, 4};
      }));
}

void add_angles(std::vector<Row>& rows) {
  const auto row = [&](const OpDef& op, Real oracle, std::vector<double> values, Range2 range) {
    rows.push_back(unary_row(
        op.name(), [&op](const Tensor& x) { return op(x); }, oracle, std::move(values),
        [range](Row& r) { r.range = range; }));
  };
  const std::vector<double> angles = {0, -0.0, 1, -1, 0.001, 3, -100, 1000, kInfinity, kNaN};
  const std::vector<double> within_one = {0, -0.0, 1, -1, 0.5, 0.001, 0.999, 1.5, -1.5, kInfinity, kNaN};
  row(sin, std::sin, angles, {-4, 4});
  row(cos, std::cos, angles, {-4, 4});
  row(tan, std::tan, angles, {-1.2, 1.2});
  row(asin, std::asin, within_one, {-0.9, 0.9});
  row(acos, std::acos, within_one, {-0.9, 0.9});
  row(atan, std::atan, kAnywhere, {-4, 4});
  row(sinh, std::sinh, kAnywhere, {-3, 3});
  row(cosh, std::cosh, kAnywhere, {-3, 3});
  row(tanh, std::tanh, kAnywhere, {-2, 2});
  row(asinh, std::asinh, {0, -0.0, 1, -1, 1e-4, 1e4, -1e9, 1e20, kInfinity, -kInfinity, kNaN}, {-4, 4});
  row(acosh, std::acosh, {1, 1.001, 2, 1e4, 1e9, 1e20, 0.5, -2, -1e9, kInfinity, -kInfinity, kNaN}, {1.3, 4});
  row(atanh, std::atanh, within_one, {-0.8, 0.8});
  row(erf, std::erf, kAnywhere, {-2, 2});
  row(erfc, std::erfc, {0, 1, -1, 3, -5, 6, 9, -9, kInfinity, -kInfinity, kNaN}, {-2, 2});
}

}  // namespace

std::vector<Row> unary_rows() {
  std::vector<Row> rows;
  add_exact(rows);
  add_powers_and_logarithms(rows);
  add_angles(rows);
  return rows;
}

}  // namespace varve::test
