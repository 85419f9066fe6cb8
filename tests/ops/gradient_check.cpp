#include "ops/gradient_check.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/values.h"
#include "varve/autodiff.h"

namespace varve::test {

namespace {

constexpr double kStep = 1e-6, kRelative = 1e-3, kAbsolute = 1e-5;
constexpr std::size_t kSamples = 40;  // elements of an input that are checked one by one

bool contains(const std::vector<int>& list, int i) { return std::find(list.begin(), list.end(), i) != list.end(); }

// The row's call with only the differentiable inputs free, and only the outputs that the loss reads.
detail::TensorFn restricted(const GradientCase& c) {
  return [&c, fixed = to_tensors(c.row, c.inputs, c.type)](const Tensors& free) {
    Tensors in = fixed;
    for (std::size_t i = 0; i < c.wrt.size(); ++i) in[static_cast<std::size_t>(c.wrt[i])] = free[i];
    const Tensors all = c.row.call(in);
    Tensors read;
    for (int output : c.outputs) read.push_back(all[static_cast<std::size_t>(output)]);
    return read;
  };
}

Tensors free_inputs(const GradientCase& c) {
  Tensors free;
  for (int i : c.wrt) free.push_back(to_tensor(c.inputs[static_cast<std::size_t>(i)], c.type));
  return free;
}

double weighted_sum(const DoublesList& values, const DoublesList& weights) {
  double total = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    total += std::inner_product(values[i].data.begin(), values[i].data.end(), weights[i].data.begin(), 0.0);
  return total;
}

// The loss by the oracle where there is one: independent of what is tested, and fast.
double loss(const GradientCase& c, const DoublesList& inputs) {
  const DoublesList all =
      c.row.oracle ? c.row.oracle(inputs) : from_tensors(c.row.call(to_tensors(c.row, inputs, c.type)));
  DoublesList read;
  for (int output : c.outputs) read.push_back(all[static_cast<std::size_t>(output)]);
  return weighted_sum(read, c.seeds);
}

DoublesList make_directions(const GradientCase& c, Random& random) {
  DoublesList directions;
  for (int i : c.wrt) directions.push_back(random_like(c.inputs[static_cast<std::size_t>(i)].shape, random));
  return directions;
}

bool agree(double got, double want) { return std::abs(got - want) <= kAbsolute + kRelative * std::abs(want); }

std::string complaint(const std::string& where, double want, double got) {
  return where + ": difference quotient " + std::to_string(want) + ", gradient " + std::to_string(got);
}

}  // namespace

const std::vector<std::vector<Shape>>& gradient_shapes(const Row& row) {
  return row.gradient_shapes.empty() ? row.shapes : row.gradient_shapes;
}

GradientCase gradient_case(const Row& row, const std::vector<Shape>& shapes, std::size_t number, DType type) {
  GradientCase c{.row = row,
                 .inputs = make_inputs(row, shapes, type, Purpose::gradient, number),
                 .type = type,
                 .wrt = row.differentiable,
                 .outputs = {},
                 .seeds = {}};
  if (c.wrt.empty())
    for (int i = 0; i < static_cast<int>(shapes.size()); ++i)
      if (!row.fixed_types.count(i) && is_floating(input_type(row, i, type))) c.wrt.push_back(i);
  Random random("seeds of " + row.op);
  const Tensors out = row.call(to_tensors(row, c.inputs, type));
  for (int i = 0; i < static_cast<int>(out.size()); ++i) {
    const Tensor& y = out[static_cast<std::size_t>(i)];
    if (!is_floating(y.dtype())) continue;
    if (!row.differentiable_outputs.empty() && !contains(row.differentiable_outputs, i)) continue;
    c.outputs.push_back(i);
    c.seeds.push_back(random_like(y.shape(), random));
  }
  return c;
}

DoublesList first_order(const GradientCase& c) {
  const Pullback back = vjp(restricted(c), free_inputs(c));
  Tensors seeds;
  for (std::size_t i = 0; i < c.seeds.size(); ++i) seeds.push_back(to_tensor(c.seeds[i], back.outputs[i].dtype()));
  return from_tensors(back.pull(seeds));
}

DoublesList random_directions(const GradientCase& c) {
  Random random("weights of " + c.row.op);
  return make_directions(c, random);
}

DoublesList second_order(const GradientCase& c, const DoublesList& directions) {
  const detail::TensorFn f = restricted(c);
  const auto gradient = [&](const Tensors& in) {
    const Pullback back = vjp(f, in);
    Tensors seeds;
    for (std::size_t i = 0; i < c.seeds.size(); ++i)
      seeds.push_back(to_tensor(c.seeds[i], back.outputs[i].dtype()) * (back.outputs[i] + 1));
    return back.pull(seeds);
  };
  const Pullback back = vjp(gradient, free_inputs(c));
  Tensors seeds;
  for (const Doubles& direction : directions) seeds.push_back(to_tensor(direction, c.type));
  return from_tensors(back.pull(seeds));
}

std::string check_first_order(const GradientCase& c) {
  const DoublesList gradient = first_order(c);
  Random random("samples of " + c.row.op);
  for (std::size_t k = 0; k < c.wrt.size(); ++k) {
    const auto input = static_cast<std::size_t>(c.wrt[k]);
    const std::string name = "gradient of input " + std::to_string(input);
    if (!(gradient[k].shape == c.inputs[input].shape))
      return name + " has shape " + gradient[k].shape.str() + ", not " + c.inputs[input].shape.str();
    const std::size_t count = c.inputs[input].data.size();
    for (std::size_t n = 0; n < std::min(count, kSamples); ++n) {
      const std::size_t i =
          count <= kSamples ? n : static_cast<std::size_t>(random.below(static_cast<std::int64_t>(count)));
      DoublesList moved = c.inputs;
      moved[input].data[i] = c.inputs[input].data[i] + kStep;
      const double up = loss(c, moved);
      moved[input].data[i] = c.inputs[input].data[i] - kStep;
      const double want = (up - loss(c, moved)) / (2 * kStep);
      if (!agree(gradient[k].data[i], want))
        return complaint(name + ", element " + std::to_string(i), want, gradient[k].data[i]);
    }
  }
  return "";
}

// Along whole directions, not element by element: two evaluations see every entry of the second derivative.
std::string check_second_order(const GradientCase& c) {
  const DoublesList weights = random_directions(c);
  const DoublesList second = second_order(c, weights);
  const auto weighted_gradient = [&](const DoublesList& direction, double step) {
    GradientCase moved = c;
    for (std::size_t k = 0; k < c.wrt.size(); ++k)
      for (std::size_t i = 0; i < direction[k].data.size(); ++i)
        moved.inputs[static_cast<std::size_t>(c.wrt[k])].data[i] += step * direction[k].data[i];
    const Tensors out = moved.row.call(to_tensors(moved.row, moved.inputs, moved.type));
    for (std::size_t n = 0; n < c.outputs.size(); ++n) {
      const Doubles y = from_tensor(out[static_cast<std::size_t>(c.outputs[n])]);
      for (std::size_t i = 0; i < y.data.size(); ++i) moved.seeds[n].data[i] *= y.data[i] + 1;
    }
    return weighted_sum(first_order(moved), weights);
  };
  Random random("directions of " + c.row.op);
  for (int trial = 0; trial < 3; ++trial) {
    const DoublesList direction = make_directions(c, random);
    const double want = (weighted_gradient(direction, kStep) - weighted_gradient(direction, -kStep)) / (2 * kStep);
    const double got = weighted_sum(second, direction);
    if (!agree(got, want)) return complaint("second order, direction " + std::to_string(trial), want, got);
  }
  return "";
}

}  // namespace varve::test
