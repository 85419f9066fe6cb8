// Operators that leave values as they are.
#include <algorithm>
#include <cmath>

#include "ops/rows_arithmetic.h"

namespace varve::test {

namespace {

void add_casts(std::vector<Row>& rows) {
  const auto row = [&](const std::string& label, DType to, std::function<double(double)> oracle,
                       std::vector<double> values, std::vector<DType> types) {
    rows.push_back(unary_row(
        "cast", [to](const Tensor& x) { return cast(x, to); }, std::move(oracle), std::move(values),
        [&](Row& r) {
          no_gradient(r);
          r.label = label;
          r.types = std::move(types);
          r.range = {-100, 100};
        }));
  };
  const auto same = [](double x) { return x; };
  const std::vector<double> values = {0, -0.0, 1, -2.75, 2.75, 1e4, kInfinity, kNaN};
  row("to_f64", f64, same, values, kEveryType);
  row("to_f32", f32, same, values, {f64, bf16, f16, i64, i32, i8, u8, boolean});
  row("to_f16", f16, same, values, {f32, f64, bf16, i64, u8, boolean});
  row("to_bf16", bf16, same, values, {f32, f64, f16, i64, u8, boolean});
  row("to_bool", boolean, [](double x) { return x != 0; }, values, {f32, f64, bf16, f16, i64, i32, i8, u8});
  // Truncated; past the ends the nearest end, NaN is 0.
  const auto within = [](double low, double high) {
    return [=](double x) { return std::isnan(x) ? 0 : std::trunc(std::clamp(x, low, high)); };
  };
  const std::vector<double> past = {0, -0.5, 0.99, -1.99, 2.5, 300, -300, 1e20, -1e20, kInfinity, -kInfinity, kNaN};
  row("to_i64", i64, within(-0x1p53, 0x1p53), {0, -0.5, 0.99, -1.99, 2.5, 300, -300}, kEveryType);
  row("to_i32", i32, within(-0x1p31, 0x1p31 - 1), past, {f32, f64, bf16, f16});
  row("to_i8", i8, within(-128, 127), past, {f32, f64, bf16, f16});
  row("to_u8", u8, within(0, 255), past, {f32, f64, bf16, f16});
  rows.push_back(unary_row(
      "cast", [](const Tensor& x) { return cast(x, f64); }, same, {},
      [](Row& r) {
        r.label = "gradient";
        r.types = {f32, bf16, f64};  // of f64 nothing happens, and that is what central differences look at
      }));
}

void add_marks(std::vector<Row>& rows) {
  const auto same = [](double x) { return x; };
  const std::vector<double> values = {0, -0.0, 1, kInfinity, kNaN};
  rows.push_back(unary_row(
      "identity", [](const Tensor& x) { return identity(x); }, same, values));
  rows.push_back(unary_row(
      "identity", [](const Tensor& x) { return identity(x); }, same, {},
      [](Row& r) {
        whole_numbers(r);
        r.label = "integers";
      }));
  rows.push_back(unary_row(
      "stop_gradient", [](const Tensor& x) { return stop_gradient(x); }, same, values, no_gradient));
  rows.push_back(unary_row("check_finite", [](const Tensor& x) { return check_finite(x, "x"); }, same, {0, -1, 1e4}));
  rows.push_back({.op = "barrier",
                  .call =
                      [](const Tensors& in) {
                        return barrier({in[0], in[1]});
                      },
                  .oracle =
                      [](const DoublesList& in) {
                        return DoublesList{in[0], in[1]};
                      },
                  .shapes = {{Shape{}, {2}}, {{0}, {3}}, {{3, 5}, {4, 1}}},
                  .values = values});
}

}  // namespace

std::vector<Row> cast_rows() {
  std::vector<Row> rows;
  add_casts(rows);
  add_marks(rows);
  return rows;
}

}  // namespace varve::test
