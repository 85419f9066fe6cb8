// Where parameters start.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "varve/ops.h"

namespace varve::nn {

// How many inputs an output sums over, and how many outputs an input reaches.
struct Fans {
  std::int64_t in = 0, out = 0;
};

// Initial values of a shape; random ones are pure in the options' seed and stream.
using Initializer = std::function<Tensor(const Shape& shape, const Fans& fans, const RandomOptions& random)>;

namespace init {

Initializer zeros();
Initializer ones();
Initializer constant(double value);
Initializer normal(double deviation = 0.01);
Initializer truncated_normal(double deviation = 0.02);  // within two deviations
Initializer uniform(double limit = 0.05);               // in ±limit
Initializer glorot_uniform();                           // ±√(6 / (in + out)): tanh, sigmoid
Initializer glorot_normal();
Initializer he_uniform();  // ±√(6 / in): relu
Initializer he_normal();
Initializer lecun_normal();    // √(1 / in): selu
Initializer fan_in_uniform();  // ±√(1 / in): what PyTorch starts dense, convolution and biases with
Initializer orthogonal(double gain = 1);
Initializer gates(Initializer each, std::int64_t count);  // [.., count·H]: each gate's block on its own
Initializer forget_bias(double value = 1);                // of an LSTM's [4H] bias: zeros, but the forget gate's part
Initializer from(const Tensor& values);                   // these

Initializer by_name(const std::string& name);  // "he_normal"; Error with the nearest name

}  // namespace init
}  // namespace varve::nn
