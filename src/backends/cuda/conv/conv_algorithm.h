// A convolution with what follows it, and the algorithms that are timed against each other.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "backends/cuda/conv/conv_shape.h"
#include "backends/cuda/device/function.h"

namespace varve::cuda {

// What follows a convolution within its kernel.
struct ConvEpilogue {
  bool bias = false, relu = false;
  bool empty() const { return !bias && !relu; }
};

struct ConvSpec {
  ConvCall call;
  DType dtype;
  ConvEpilogue epilogue;
  bool tf32 = false;  // f32 may be rounded to it

  bool tensor_cores() const { return tf32 || dtype != f32; }
  std::string key() const;  // everything that decides how it is best computed
};

// In the operator's order; `bias` null where the epilogue has none.
struct ConvOperands {
  const void *first, *second, *bias;
  void* out;
};

struct ConvAlgorithm {
  std::string tag;  // the same in every process
  std::size_t scratch_bytes = 0;
  bool any_address = true;  // false: operands must lie at multiples of 16 bytes
  std::function<void(const ConvOperands& operands, void* scratch)> run;
};

// What algorithms share: the type of kernels that only move elements, and the aligned bytes of a piece of scratch
// memory.
const char* bits_name(DType dtype);
std::size_t scratch_piece(std::int64_t elements, DType dtype);

ConvAlgorithm plain_algorithm(const ConvSpec& spec, Begin begin = Begin::now);  // the plain kernel
// As a matrix product; nothing unless the kernel is a single tap on every pixel.
bool is_product(const ConvSpec& spec);
std::optional<ConvAlgorithm> product_algorithm(const ConvSpec& spec);

}  // namespace varve::cuda
