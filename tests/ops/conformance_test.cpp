// Every row on every backend in every type: against the oracle, through views, compiled, and its gradients.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ops/compare.h"
#include "ops/gradient_check.h"
#include "ops/row.h"
#include "ops/values.h"
#include "varve/compile.h"

namespace varve::test {

namespace {

struct Param {
  const Row* row;
  std::string backend;
  DType type;
};

std::ostream& operator<<(std::ostream& out, const Param& p) {
  return out << p.row->op << (p.row->label.empty() ? "" : " " + p.row->label) << " on " << p.backend << " in "
             << name(p.type);
}

std::string test_name(const testing::TestParamInfo<Param>& info) {
  const Param& p = info.param;
  std::string text =
      p.row->op + (p.row->label.empty() ? "" : "_" + p.row->label) + "_" + p.backend + "_" + name(p.type);
  for (char& c : text)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return text;
}

std::vector<Param> value_params() {
  std::vector<Param> params;
  for (const Row& row : table())
    for (const std::string& backend : executing_backends())
      for (DType type : row.types) params.push_back({&row, backend, type});
  return params;
}

std::vector<Param> gradient_params() {
  std::vector<Param> params;
  for (const Row& row : table()) {
    if (!row.gradient) continue;
    params.push_back({&row, "reference", f64});
    for (const std::string& backend : executing_backends())
      for (DType type : {f64, f32, bf16})
        if (backend != "reference" && std::count(row.types.begin(), row.types.end(), type))
          params.push_back({&row, backend, type});
  }
  return params;
}

// Runs what follows on one device.
class OnDevice {
 public:
  explicit OnDevice(const std::string& name) : before_(device()) { set_device(name); }
  ~OnDevice() { set_device(before_); }

 private:
  std::string before_;
};

class Conformance : public testing::TestWithParam<Param> {
 protected:
  const Row& row() const { return *GetParam().row; }
  DType type() const { return GetParam().type; }

  // Runs `body` for one case; an Error is a failure that shows the case.
  template <class F>
  void on_case(const std::vector<Shape>& shapes, const std::string& how, F body) {
    const std::string where = print(shapes) + (how.empty() ? "" : ", " + how);
    try {
      const std::string problem = body();
      if (!problem.empty()) ADD_FAILURE() << row().op << " " << row().label << " of " << where << ": " << problem;
    } catch (const std::exception& e) {
      ADD_FAILURE() << row().op << " " << row().label << " of " << where << " threw: " << e.what();
    }
  }

  std::string compare(const DoublesList& got, const DoublesList& want, const std::vector<Bound>& bounds) const {
    if (got.size() != want.size())
      return std::to_string(got.size()) + " outputs, expected " + std::to_string(want.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      const std::string problem = difference(got[i], want[i], bounds[i]);
      if (!problem.empty()) return "output " + std::to_string(i) + " " + problem;
    }
    return "";
  }

  std::string against_oracle(const DoublesList& in, const DoublesList& got, const std::vector<Bound>& bounds) const {
    if (row().check) row().check(in, got);
    if (row().oracle) return compare(got, row().oracle(in), bounds);
    return row().check ? "" : "the row has neither oracle nor check";
  }

  DoublesList on_reference(const DoublesList& in) const {
    const OnDevice reference("reference");
    return from_tensors(row().call(to_tensors(row(), in, type())));
  }

  std::string same_bits(const DoublesList& got, const DoublesList& want) const {
    for (std::size_t i = 0; i < got.size(); ++i) {
      const std::string problem = difference_in_bits(got[i], want[i]);
      if (!problem.empty()) return "output " + std::to_string(i) + " differs from reference " + problem;
    }
    return "";
  }

  DoublesList compiled(const Tensors& in) const {
    const auto program = detail::compile([this](const Tensors& args) { return row().call(args); },
                                         {.device = GetParam().backend, .name = row().op});
    std::vector<const Tensor*> arguments;
    for (const Tensor& t : in) arguments.push_back(&t);
    Tensors results;
    for (int replay = 0; replay < 2; ++replay) detail::call(*program, arguments.data(), arguments.size(), results);
    return from_tensors(results);
  }

  void check_views(const std::vector<Shape>& shapes, const DoublesList& in, const DoublesList& want,
                   const std::vector<Bound>& bounds) {
    for (View view : kViews)
      on_case(shapes, std::string(varve::test::name(view)) + " inputs", [&] {
        Tensors views;
        for (std::size_t i = 0; i < in.size(); ++i)
          views.push_back(through_view(in[i], input_type(row(), static_cast<int>(i), type()), view, i % 2 == 0));
        return compare(from_tensors(row().call(views)), want, bounds);
      });
  }
};

TEST_P(Conformance, Values) {
  const OnDevice scope(GetParam().backend);
  for (std::size_t number = 0; number < row().shapes.size(); ++number) {
    const std::vector<Shape>& shapes = row().shapes[number];
    on_case(shapes, "", [&]() -> std::string {
      const DoublesList in = make_inputs(row(), shapes, type(), Purpose::values, number);
      const Tensors tensors = to_tensors(row(), in, type()), out = row().call(tensors);
      const std::vector<Bound> bounds = bounds_of(row(), in, out);
      const DoublesList got = from_tensors(out);
      const std::string problem = against_oracle(in, got, bounds);
      if (!problem.empty()) return problem;
      if (row().bitwise && GetParam().backend != "reference") {
        const std::string other = same_bits(got, on_reference(in));
        if (!other.empty()) return other;
      }
      if (row().compiled) on_case(shapes, "compiled", [&] { return compare(compiled(tensors), got, bounds); });
      if (row().strided && !shapes.empty()) check_views(shapes, in, got, bounds);
      return "";
    });
  }
}
INSTANTIATE_TEST_SUITE_P(Table, Conformance, testing::ValuesIn(value_params()), test_name);

// ---- gradients

class Gradient : public Conformance {};

// Relative to the largest entry: entries of a gradient cancel, their sums are longer than the forward ones.
double gradient_tolerance(DType type) { return type == f64 ? 1e-9 : type == f32 ? 1e-4 : 5e-2; }

std::string compare_gradients(const DoublesList& got, const DoublesList& want, DType type) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    double largest = 1e-3;
    for (double v : want[i].data)
      if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
    const Bound bound{.dtype = f64, .slack = gradient_tolerance(type) * largest / tolerance_of(f64).absolute};
    const std::string problem = difference(got[i], want[i], bound);
    if (!problem.empty()) return "gradient of input " + std::to_string(i) + " " + problem;
  }
  return "";
}

TEST_P(Gradient, Agrees) {
  const auto& all_shapes = gradient_shapes(row());
  for (std::size_t number = 0; number < all_shapes.size(); ++number) {
    on_case(all_shapes[number], "gradient", [&]() -> std::string {
      const OnDevice scope("reference");
      const GradientCase c = gradient_case(row(), all_shapes[number], number, type());
      if (GetParam().backend == "reference") {
        const std::string problem = check_first_order(c);
        return problem.empty() && row().second ? check_second_order(c) : problem;
      }
      GradientCase exact = c;  // the same values, rounded already, in double
      exact.type = f64;
      const bool second = row().second && type() == f64;
      const DoublesList directions = random_directions(c);
      const DoublesList want = first_order(exact),
                        want_second = second ? second_order(exact, directions) : DoublesList{};
      const OnDevice other(GetParam().backend);
      const std::string problem = compare_gradients(first_order(c), want, type());
      if (!problem.empty() || !second) return problem;
      return compare_gradients(second_order(c, directions), want_second, type());
    });
  }
}
INSTANTIATE_TEST_SUITE_P(Table, Gradient, testing::ValuesIn(gradient_params()), test_name);

}  // namespace

}  // namespace varve::test
