// Gradients of a row, first and second order, and the central differences they must agree with.
#pragma once

#include <vector>

#include "ops/row.h"

namespace varve::test {

// One case of a row's gradient check: the loss Σ seed · output as a function of some of the inputs.
struct GradientCase {
  const Row& row;
  DoublesList inputs;
  DType type;                // of ordinary inputs
  std::vector<int> wrt;      // differentiable inputs
  std::vector<int> outputs;  // that the loss reads
  DoublesList seeds;         // of those
};

GradientCase gradient_case(const Row& row, const std::vector<Shape>& shapes, std::size_t number, DType type);
const std::vector<std::vector<Shape>>& gradient_shapes(const Row& row);

// On the current device: ∂loss/∂input for each of `wrt`.
DoublesList first_order(const GradientCase& c);
DoublesList random_directions(const GradientCase& c);  // one value for each element of `wrt`, always the same
// ∂/∂input of Σ direction · ∂(Σ seed · (y + y²/2))/∂input: the square lets the incoming gradient depend on the inputs.
DoublesList second_order(const GradientCase& c, const DoublesList& directions);

// Each says nothing when gradients and differences agree; else which input, index, expected and got.
std::string check_first_order(const GradientCase& c);
std::string check_second_order(const GradientCase& c);

}  // namespace varve::test
