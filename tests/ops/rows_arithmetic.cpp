// Arithmetic of two and three tensors, comparisons and logic.
#include "ops/rows_arithmetic.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace varve::test {

void whole_numbers(Row& row) {
  no_gradient(row);
  row.types = {i64, i32, i8, u8};
  row.range = {-9, 9};
  row.values = {0, 1, -1, 2, 7, -7};
}

void kinked(Row& row) { row.second = false; }

namespace {

const std::vector<double> kOrdinary = {0, -0.0, 1, -1, 0.5, 3, -7, 1e4, kInfinity, -kInfinity, kNaN};

// As CPython divides floats.
std::pair<double, double> python_divmod(double a, double b) {
  double mod = std::fmod(a, b);
  double quotient = (a - mod) / b;
  if (mod != 0 && (b < 0) != (mod < 0)) {
    mod += b;
    quotient -= 1;
  }
  return {std::round(quotient), mod};
}

double python_floor_divide(double a, double b) { return b == 0 ? a / b : python_divmod(a, b).first; }
double python_mod(double a, double b) { return b == 0 ? kNaN : python_divmod(a, b).second; }
double nan_max(double a, double b) { return std::isnan(a) || std::isnan(b) ? kNaN : std::max(a, b); }
double nan_min(double a, double b) { return std::isnan(a) || std::isnan(b) ? kNaN : std::min(a, b); }

void labelled_integers(Row& row) {
  whole_numbers(row);
  row.label = "integers";
}

void add_sums_and_products(std::vector<Row>& rows) {
  const auto both = [&](const char* op, Binary call, std::function<double(double, double)> oracle) {
    rows.push_back(binary_row(op, call, oracle, kOrdinary));
    rows.push_back(binary_row(op, call, oracle, {}, labelled_integers));
  };
  both(
      "add", [](const Tensor& a, const Tensor& b) { return a + b; }, [](double a, double b) { return a + b; });
  both(
      "subtract", [](const Tensor& a, const Tensor& b) { return a - b; }, [](double a, double b) { return a - b; });
  both(
      "multiply", [](const Tensor& a, const Tensor& b) { return a * b; }, [](double a, double b) { return a * b; });
  const auto quotient = [](const Tensor& a, const Tensor& b) { return a / b; };
  const auto divided = [](double a, double b) { return a / b; };
  rows.push_back(binary_row("divide", quotient, divided, kOrdinary, [](Row& r) { r.gradient_ranges[1] = {0.5, 2}; }));
  rows.push_back(binary_row("divide", quotient, divided, {}, labelled_integers));
}

void add_powers(std::vector<Row>& rows) {
  const auto call = [](const Tensor& a, const Tensor& b) { return power(a, b); };
  const auto oracle = [](double a, double b) { return std::pow(a, b); };
  rows.push_back(binary_row("power", call, oracle, {0, 1, -1, 2, 0.5, -3, 3, 0.9, kInfinity, kNaN}, [](Row& r) {
    r.range = {0.2, 3};
    r.gradient_range = {0.5, 2};
  }));
  rows.push_back(binary_row("power", call, oracle, {}, [](Row& r) {
    whole_numbers(r);
    r.label = "integers";
    r.ranges = {{0, {-3, 3}}, {1, {0, 4}}};
    r.values = {};
  }));
}

void add_division_with_rest(std::vector<Row>& rows) {
  const auto divide_call = [](const Tensor& a, const Tensor& b) { return floor_divide(a, b); };
  const auto rest_call = [](const Tensor& a, const Tensor& b) { return a % b; };
  const std::vector<double> values = {0, 1, -1, 0.25, -2, 7.5, -7.5, kInfinity, -kInfinity, kNaN};
  rows.push_back(binary_row("floor_divide", divide_call, python_floor_divide, values, no_gradient));
  rows.push_back(binary_row("floor_divide", divide_call, python_floor_divide, {}, labelled_integers));
  // Between two multiples: at one of them the rest jumps.
  rows.push_back(binary_row("remainder", rest_call, python_mod, values, [](Row& r) {
    kinked(r);
    r.gradient_ranges = {{0, {2.1, 2.9}}, {1, {1, 1.04}}};
  }));
  rows.push_back(binary_row("remainder", rest_call, python_mod, {}, [](Row& r) {
    labelled_integers(r);
    r.ranges[1] = {1, 9};
    r.values = {};
  }));
}

void add_extremes_and_angles(std::vector<Row>& rows) {
  const auto larger = [](const Tensor& a, const Tensor& b) { return maximum(a, b); };
  const auto smaller = [](const Tensor& a, const Tensor& b) { return minimum(a, b); };
  rows.push_back(binary_row("maximum", larger, nan_max, kOrdinary, kinked));
  rows.push_back(binary_row("minimum", smaller, nan_min, kOrdinary, kinked));
  rows.push_back(binary_row("maximum", larger, nan_max, {}, labelled_integers));
  rows.push_back(binary_row("minimum", smaller, nan_min, {}, labelled_integers));
  rows.push_back(binary_row(
      "atan2", [](const Tensor& a, const Tensor& b) { return atan2(a, b); },
      [](double a, double b) { return std::atan2(a, b); }, {0, 1, -1, 30, -0.001, kInfinity, -kInfinity, kNaN},
      [](Row& r) {
        r.gradient_ranges[1] = {0.5, 2};
      }));
}

void add_comparisons(std::vector<Row>& rows) {
  const auto compare = [&](const char* op, Binary call, std::function<double(double, double)> oracle) {
    rows.push_back(binary_row(op, std::move(call), std::move(oracle), kOrdinary, [](Row& r) {
      no_gradient(r);
      r.types = {f32, f64, bf16, f16, i64, i32, i8, u8, boolean};
    }));
  };
  compare(
      "less", [](const Tensor& a, const Tensor& b) { return a < b; }, std::less<>());
  compare(
      "less_equal", [](const Tensor& a, const Tensor& b) { return a <= b; }, std::less_equal<>());
  compare(
      "greater", [](const Tensor& a, const Tensor& b) { return a > b; }, std::greater<>());
  compare(
      "greater_equal", [](const Tensor& a, const Tensor& b) { return a >= b; }, std::greater_equal<>());
  compare(
      "equal", [](const Tensor& a, const Tensor& b) { return a == b; }, std::equal_to<>());
  compare(
      "not_equal", [](const Tensor& a, const Tensor& b) { return a != b; }, std::not_equal_to<>());
  compare(
      "logical_and", [](const Tensor& a, const Tensor& b) { return a && b; },
      [](double a, double b) { return a != 0 && b != 0; });
  compare(
      "logical_or", [](const Tensor& a, const Tensor& b) { return a || b; },
      [](double a, double b) { return a != 0 || b != 0; });
}

void add_tests_of_one(std::vector<Row>& rows) {
  const auto test = [&](const char* op, Unary call, std::function<double(double)> oracle) {
    rows.push_back(unary_row(op, std::move(call), std::move(oracle), kOrdinary, [](Row& r) {
      no_gradient(r);
      r.types = {f32, f64, bf16, f16, i64, i32, u8, boolean};
    }));
  };
  test(
      "logical_not", [](const Tensor& x) { return !x; }, [](double x) { return x == 0; });
  test(
      "is_nan", [](const Tensor& x) { return is_nan(x); }, [](double x) { return std::isnan(x); });
  test(
      "is_inf", [](const Tensor& x) { return is_inf(x); }, [](double x) { return std::isinf(x); });
  test(
      "is_finite", [](const Tensor& x) { return is_finite(x); }, [](double x) { return std::isfinite(x); });
}

Doubles ternary(const DoublesList& in, const std::function<double(double, double, double)>& f) {
  Doubles out = doubles(broadcast(broadcast(in[0].shape, in[1].shape, "oracle"), in[2].shape, "oracle"));
  std::size_t next = 0;
  each_index(out.shape, [&](const std::vector<std::int64_t>& index) {
    out.data[next++] = f(at_broadcast(in[0], index), at_broadcast(in[1], index), at_broadcast(in[2], index));
  });
  return out;
}

void add_choices(std::vector<Row>& rows) {
  const std::vector<std::vector<Shape>> shapes = {
      {Shape{}, Shape{}, Shape{}}, {{0}, {0}, {0}},          {{7}, {7}, {7}},
      {{5}, {3, 1}, Shape{}},      {{3, 1}, {5}, {2, 1, 1}}, {{130}, {130}, {130}}};
  const auto chosen = [](double c, double a, double b) { return c != 0 ? a : b; };
  rows.push_back({.op = "where",
                  .call = [](const Tensors& in) { return where(in[0], in[1], in[2]); },
                  .oracle = [=](const DoublesList& in) { return ternary(in, chosen); },
                  .shapes = shapes,
                  .values = kOrdinary,
                  .types = {f32, f64, bf16, f16, i64, i32, u8, boolean},
                  .boolean_inputs = {0},
                  .second = false});
  const auto clipped = [](double x, double low, double high) {
    return std::isnan(x) || std::isnan(low) || std::isnan(high) ? kNaN : std::min(std::max(x, low), high);
  };
  rows.push_back({.op = "clip",
                  .call = [](const Tensors& in) { return clip(in[0], in[1], in[2]); },
                  .oracle = [=](const DoublesList& in) { return ternary(in, clipped); },
                  .shapes = shapes,
                  .values = {0, 1, -1, 0.5, kInfinity, -kInfinity, kNaN},
                  .types = {f32, f64, bf16, f16, i64, i32},
                  .second = false,
                  .gradient_ranges = {{0, {-2, 2}}, {1, {-1, -0.5}}, {2, {0.5, 1}}}});
  rows.push_back(unary_row(
      "clip", [](const Tensor& x) { return clip(x, -1, 1); }, [=](double x) { return clipped(x, -1, 1); }, kOrdinary,
      [](Row& r) {
        r.label = "numbers";
        kinked(r);
      }));
}

}  // namespace

std::vector<Row> arithmetic_rows() {
  std::vector<Row> rows;
  add_sums_and_products(rows);
  add_powers(rows);
  add_division_with_rest(rows);
  add_extremes_and_angles(rows);
  add_comparisons(rows);
  add_tests_of_one(rows);
  add_choices(rows);
  for (auto part : {unary_rows, cast_rows, create_rows}) {
    std::vector<Row> more = part();
    rows.insert(rows.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
  return rows;
}

}  // namespace varve::test
