// Tensors from nothing.
#include <cmath>

#include "ops/rows_arithmetic.h"

namespace varve::test {

namespace {

Row without_inputs(const std::string& op, const std::string& label, std::function<Tensor()> call,
                   std::function<Doubles()> oracle) {
  Row row{.op = op,
          .label = label,
          .call = [call = std::move(call)](const Tensors&) { return call(); },
          .oracle = [oracle = std::move(oracle)](const DoublesList&) { return oracle(); },
          .shapes = std::vector<std::vector<Shape>>(1),
          .types = {f32}};
  no_gradient(row);
  return row;
}

Doubles counted(std::int64_t count, const std::function<double(double)>& f) {
  Doubles out = doubles({count});
  for (std::int64_t i = 0; i < count; ++i) out.data[static_cast<std::size_t>(i)] = f(static_cast<double>(i));
  return out;
}

void add_fills(std::vector<Row>& rows) {
  const auto row = [&](const std::string& label, std::function<Tensor()> call, const Shape& shape, double value) {
    rows.push_back(without_inputs("fill", label, std::move(call), [=] { return doubles(shape, value); }));
  };
  row(
      "f32",
      [] {
        return full({2, 3}, 1.5);
      },
      {2, 3}, 1.5);
  row(
      "scalar", [] { return full({}, -0.25, f64); }, {}, -0.25);
  row(
      "empty",
      [] {
        return full({0, 4}, 7, bf16);
      },
      {0, 4}, 7);
  row(
      "nan", [] { return full({5}, kNaN, f16); }, {5}, kNaN);
  row(
      "infinite", [] { return full({5}, -kInfinity); }, {5}, -kInfinity);
  row(
      "integers", [] { return full_int({131}, -7, i64); }, {131}, -7);
  row(
      "truncated", [] { return full({3}, 2.75, i32); }, {3}, 2);
  row(
      "saturated", [] { return full({3}, 300, u8); }, {3}, 255);
  row(
      "truth", [] { return full({3}, 0.5, boolean); }, {3}, 1);
  row(
      "zeros",
      [] {
        return zeros({3, 5}, u8);
      },
      {3, 5}, 0);
  row(
      "ones",
      [] {
        return ones({3, 5}, f16);
      },
      {3, 5}, 1);
}

void add_ranges(std::vector<Row>& rows) {
  const auto row = [&](const std::string& label, std::function<Tensor()> call, std::int64_t count,
                       std::function<double(double)> f) {
    rows.push_back(without_inputs("iota", label, std::move(call), [=] { return counted(count, f); }));
  };
  row(
      "whole", [] { return arange(1031); }, 1031, [](double i) { return i; });
  row(
      "empty", [] { return arange(0); }, 0, [](double i) { return i; });
  row(
      "nothing", [] { return arange(3, 1); }, 0, [](double i) { return i; });
  row(
      "steps", [] { return arange(-1, 2, 0.25); }, 12, [](double i) { return -1 + 0.25 * i; });
  row(
      "down", [] { return arange(5, 0, -2, i32); }, 3, [](double i) { return 5 - 2 * i; });
  row(
      "uneven", [] { return arange(0, 1, 0.3, f64); }, 4, [](double i) { return 0.3 * i; });
  row(
      "narrow", [] { return arange(0, 200, 1, u8); }, 200, [](double i) { return i; });
  row(
      "linspace", [] { return linspace(-3, 7, 101, f64); }, 101, [](double i) { return -3 + i / 10; });
  row(
      "one", [] { return linspace(2, 9, 1); }, 1, [](double) { return 2.0; });
  row(
      "level", [] { return linspace(2, 2, 5, bf16); }, 5, [](double) { return 2.0; });
  rows.push_back(without_inputs(
      "eye", "", [] { return eye(5); },
      [] {
        Doubles out = doubles({5, 5});
        for (std::size_t i = 0; i < 5; ++i) out.data[6 * i] = 1;
        return out;
      }));
}

}  // namespace

std::vector<Row> create_rows() {
  std::vector<Row> rows;
  add_fills(rows);
  add_ranges(rows);
  return rows;
}

}  // namespace varve::test
