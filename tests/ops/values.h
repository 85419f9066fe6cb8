// Values of test tensors: made from a row, moved between double and a tensor's type, viewed through strides, compared.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/row.h"

namespace varve::test {

// A small deterministic generator: the same values on every machine.
class Random {
 public:
  explicit Random(const std::string& seed);
  std::uint64_t bits();
  double uniform(double low, double high);
  std::int64_t below(std::int64_t n);

 private:
  std::uint64_t state_;
};

// ---- inputs of a row

enum class Purpose : std::uint8_t { values, gradient };

DType input_type(const Row& row, int input, DType tested);
DoublesList make_inputs(const Row& row, const std::vector<Shape>& shapes, DType tested, Purpose purpose,
                        std::size_t case_number = 0);

// ---- between double and tensors

Tensor to_tensor(const Doubles& values, DType dtype);  // rounded to the type
Doubles from_tensor(const Tensor& tensor);             // evaluates it
Tensors to_tensors(const Row& row, const DoublesList& inputs, DType tested);
DoublesList from_tensors(const Tensors& tensors);
double quantize(double value, DType dtype);  // the nearest whole number that an integer type holds
double round_to(double value, DType dtype);  // the nearest value of the type; infinite past its end
Doubles random_like(const Shape& shape, Random& random, double low = -1, double high = 1);

// ---- strides

enum class View : std::uint8_t { transposed, stepped, flipped, offset };
inline constexpr View kViews[] = {View::transposed, View::stepped, View::flipped, View::offset};
const char* name(View view);
// The same values seen through a view of other memory; `evaluated` makes it a strided value, else it stays a node.
Tensor through_view(const Doubles& values, DType dtype, View view, bool evaluated);

std::vector<std::string> executing_backends();  // that can run on this machine, "reference" first

}  // namespace varve::test
