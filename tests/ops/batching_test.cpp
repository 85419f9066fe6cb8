// Every row called for three examples at once: what vmap gives is a stack of single calls, whichever inputs the
// examples have of their own. And tangents pushed forward agree with gradients pulled back.
#include <gtest/gtest.h>

#include <algorithm>

#include "ops/batching.h"
#include "ops/compare.h"
#include "ops/gradient_check.h"
#include "ops/row.h"
#include "ops/values.h"
#include "varve/transforms.h"

namespace varve::test {

namespace {

constexpr std::size_t kExamples = 3;

TEST(Batching, EveryOperatorHasARuleOrSaysWhyNot) {
  for (const OpRecord* op : operators()) {
    if (op->arity == 0) continue;  // nothing that could differ
    EXPECT_TRUE(can_batch(*op) || !op->never_batched.empty())
        << op->name << " has no batching rule, formula or decomposition, and never_batched does not say why";
    EXPECT_TRUE(op->never_batched.empty() || !op->batching) << op->name << " has a rule, and a reason against it";
  }
}

struct BatchedRow {
  const Row* row;
};

std::ostream& operator<<(std::ostream& out, const BatchedRow& p) { return out << p.row->op << " " << p.row->label; }

std::string row_name(const testing::TestParamInfo<BatchedRow>& info) {
  std::string text = info.param.row->op + (info.param.row->label.empty() ? "" : "_" + info.param.row->label);
  for (char& c : text)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return text;
}

bool is_batched(const Row& row) {
  const bool record =
      std::any_of(operators().begin(), operators().end(), [&](const auto* op) { return op->name == row.op; });
  return !record || find_operator(row.op).never_batched.empty();
}

std::vector<BatchedRow> batched_rows() {
  std::vector<BatchedRow> rows;
  for (const Row& row : table())
    if (is_batched(row)) rows.push_back({&row});
  return rows;
}

// Which inputs the examples have of their own: all, and each one alone.
std::vector<std::vector<bool>> subsets(std::size_t inputs) {
  std::vector<std::vector<bool>> all{std::vector<bool>(inputs, true)};
  for (std::size_t i = 0; inputs > 1 && i < inputs; ++i) {
    all.emplace_back(inputs, false);
    all.back()[i] = true;
  }
  return all;
}

class Batched : public testing::TestWithParam<BatchedRow> {
 protected:
  const Row& row() const { return *GetParam().row; }
  DType type() const { return row().types.front(); }

  std::string compare(const Tensors& together, const std::vector<DoublesList>& alone,
                      const std::vector<DoublesList>& inputs) const {
    for (std::size_t e = 0; e < alone.size(); ++e) {
      Tensors own;
      for (const Tensor& output : together) {
        const auto from = static_cast<std::int64_t>(e);
        const Tensor part = slice(output, {{from, from + 1}});
        own.push_back(part.reshape(Shape(Ints(part.shape().begin() + 1, part.shape().end()))));
      }
      const std::vector<Bound> bounds = bounds_of(row(), inputs[e], own);
      const DoublesList got = from_tensors(own);
      if (got.size() != alone[e].size()) return "another number of outputs";
      for (std::size_t o = 0; o < got.size(); ++o) {
        const std::string problem = difference(got[o], alone[e][o], bounds[o]);
        if (!problem.empty()) return "output " + std::to_string(o) + " of example " + std::to_string(e) + " " + problem;
      }
    }
    return "";
  }

  std::string check(const std::vector<Shape>& shapes, std::size_t number, const std::vector<bool>& own) const {
    std::vector<DoublesList> inputs;
    std::vector<DoublesList> alone;
    std::vector<Tensors> tensors;
    for (std::size_t e = 0; e < kExamples; ++e) {
      inputs.push_back(make_inputs(row(), shapes, type(), Purpose::values, number + 100 * e));
      for (std::size_t i = 0; i < own.size(); ++i)
        if (!own[i]) inputs[e][i] = inputs[0][i];
      tensors.push_back(to_tensors(row(), inputs[e], type()));
      alone.push_back(from_tensors(row().call(tensors[e])));
    }
    Tensors together;
    VmapOptions options{.randomness = Randomness::same};
    for (std::size_t i = 0; i < own.size(); ++i) {
      Tensors parts;
      for (const Tensors& example : tensors) parts.push_back(example[i]);
      together.push_back(own[i] ? stack(parts, 0) : parts[0]);
      options.in_axes.push_back(own[i] ? std::optional<std::int64_t>(0) : std::nullopt);
    }
    return compare(detail::vmap([this](const Tensors& in) { return row().call(in); }, together, options), alone,
                   inputs);
  }
};

TEST_P(Batched, IsAStackOfSingleCalls) {
  for (std::size_t number = 0; number < row().shapes.size(); ++number) {
    const std::vector<Shape>& shapes = row().shapes[number];
    if (shapes.empty()) continue;
    for (const std::vector<bool>& own : subsets(shapes.size())) {
      std::string which;
      for (const bool batched : own) which += batched ? '1' : '0';
      try {
        const std::string problem = check(shapes, number, own);
        if (!problem.empty()) ADD_FAILURE() << print(shapes) << ", batched " << which << ": " << problem;
      } catch (const std::exception& e) {
        ADD_FAILURE() << print(shapes) << ", batched " << which << " threw: " << e.what();
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Table, Batched, testing::ValuesIn(batched_rows()), row_name);

// ---- ⟨u, J·v⟩ = ⟨Jᵀ·u, v⟩

double dot(const Tensors& a, const Tensors& b) {
  double total = 0;
  for (std::size_t i = 0; i < a.size(); ++i) total += sum(a[i].to(f64) * b[i].to(f64)).item<double>();
  return total;
}

std::vector<BatchedRow> differentiable_rows() {
  std::vector<BatchedRow> rows;
  for (const Row& row : table())
    if (row.gradient && std::count(row.types.begin(), row.types.end(), f64)) rows.push_back({&row});
  return rows;
}

class Tangents : public testing::TestWithParam<BatchedRow> {};

TEST_P(Tangents, AgreeWithGradients) {
  const Row& row = *GetParam().row;
  const auto& all_shapes = gradient_shapes(row);
  for (std::size_t number = 0; number < all_shapes.size(); ++number) {
    const GradientCase c = gradient_case(row, all_shapes[number], number, f64);
    const Tensors all = to_tensors(row, c.inputs, f64);
    Tensors wrt, along, weights;
    Random random(row.op);
    for (const int i : c.wrt) {
      wrt.push_back(all[static_cast<std::size_t>(i)]);
      along.push_back(to_tensor(random_like(wrt.back().shape(), random), f64));
    }
    const auto f = [&](const Tensors& in) {
      Tensors given = all;
      for (std::size_t i = 0; i < in.size(); ++i) given[static_cast<std::size_t>(c.wrt[i])] = in[i];
      const Tensors out = row.call(given);
      Tensors chosen;
      for (const int o : c.outputs) chosen.push_back(out[static_cast<std::size_t>(o)]);
      return chosen;
    };
    try {
      const Jvp pushed = jvp(f, wrt, along);
      for (const Tensor& y : pushed.outputs)
        weights.push_back(to_tensor(random_like(y.shape(), random), f64).to(y.dtype()));
      const double forward = dot(pushed.tangents, weights), backward = dot(vjp(f, wrt).pull(weights), along);
      EXPECT_NEAR(forward, backward, 1e-8 * (1 + std::abs(backward))) << print(all_shapes[number]);
    } catch (const std::exception& e) {
      ADD_FAILURE() << print(all_shapes[number]) << " threw: " << e.what();
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Table, Tangents, testing::ValuesIn(differentiable_rows()), row_name);

}  // namespace

}  // namespace varve::test
