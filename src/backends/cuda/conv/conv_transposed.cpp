#include "backends/cuda/conv/conv_transposed.h"

#include <algorithm>

#include "backends/cuda/device/function.h"

namespace varve::cuda {
namespace {

// dx [N,H,W,I] = dy [N,OH,OW,O] by wᵀ [I,KH,KW,O]: what was a tap to the left is one to the right.
ConvShape transposed(const ConvShape& s) {
  ConvShape t = s;
  std::swap(t.in_height, t.out_height);
  std::swap(t.in_width, t.out_width);
  std::swap(t.in_channels, t.out_channels);
  const std::int64_t high = (s.kernel_height - 1) * s.dilation_height, wide = (s.kernel_width - 1) * s.dilation_width;
  t.pad_top = high - s.pad_top;
  t.pad_bottom = high - s.pad_bottom;
  t.pad_left = wide - s.pad_left;
  t.pad_right = wide - s.pad_right;
  return t;
}

class TransposedWeights {
 public:
  TransposedWeights(const ConvShape& shape, DType dtype)
      : shape_(shape), function_("conv_transposed", {"conv/conv_transposed.cu", defines({{"T", bits_name(dtype)}})}) {}

  void run(const void* from, void* to) const {
    const std::int64_t outs = shape_.out_channels, ins = shape_.in_channels, taps = shape_.taps();
    const std::int64_t out_squares = squares(outs), in_squares = squares(ins);
    function_({.grid = out_squares * in_squares * taps}, from, to, outs, taps, ins, out_squares, in_squares);
  }

 private:
  static std::int64_t squares(std::int64_t channels) {
    constexpr std::int64_t kSide = 32;  // as in conv/conv_transposed.cu
    return (channels + kSide - 1) / kSide;
  }
  ConvShape shape_;
  Function function_;
};

}  // namespace

std::optional<ConvSpec> transposed_spec(const ConvSpec& spec) {
  const ConvShape& s = spec.call.shape;
  if (spec.call.pass != ConvPass::input_grad || spec.call.empty || s.groups != 1) return std::nullopt;
  if (s.stride_height != 1 || s.stride_width != 1) return std::nullopt;
  const ConvShape t = transposed(s);
  // Padding by more than the kernel reaches: the gradient is a part of the convolution only.
  if (std::min({t.pad_top, t.pad_bottom, t.pad_left, t.pad_right}) < 0) return std::nullopt;
  return ConvSpec{{ConvPass::forward, t, false}, spec.dtype, {}, spec.tf32};
}

ConvAlgorithm transposed_algorithm(const ConvSpec& spec, ConvAlgorithm forward) {
  const std::size_t weights = scratch_piece(spec.call.shape.weights(), spec.dtype);
  const std::size_t scratch = weights + forward.scratch_bytes;
  const bool any_address = forward.any_address;
  return {"transposed", scratch, any_address,
          [turning = TransposedWeights(spec.call.shape, spec.dtype), forward = std::move(forward), weights](
              const ConvOperands& at, void* memory) {
            turning.run(at.second, memory);
            forward.run({at.first, memory, nullptr, at.out}, static_cast<std::byte*>(memory) + weights);
          }};
}

}  // namespace varve::cuda
