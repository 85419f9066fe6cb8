// Steps of a masked batch, for layers that look at several of them at once.
#pragma once

#include "varve/nn/mask.h"

namespace varve::nn {

// x with zeros where steps are not valid. x: [N, T, ..]
Tensor zero_padding(const Tensor& x, const Mask& mask);

// Valid steps moved to the left, in their order: what recurrent operators read. Padding on the right stays as it is.
class PackedSteps {
 public:
  PackedSteps(const Tensor& x, const Mask& mask);  // [N, T, C], mask may be undefined
  const Tensor& time_major() const { return x_; }  // [T, N, C]
  const Tensor& lengths() const { return lengths_; }
  Tensor unpacked(const Tensor& y) const;  // [T, N, H] to [N, T, H], each step where it was

 private:
  Tensor x_, lengths_;
  Tensor place_;  // i64 [N, T]: where each step is now; undefined: where it was
};

// i64 [N, T]: which valid step each is, counted from 0; of padding anything from 0 to T - 1.
Tensor positions(const Mask& mask);

// [N, T, C] to [N, C]. Zeros where a sequence has no valid step.
Tensor last_valid(const Tensor& x, const Mask& mask);
Tensor mean_valid(const Tensor& x, const Mask& mask);
Tensor max_valid(const Tensor& x, const Mask& mask);

}  // namespace varve::nn
