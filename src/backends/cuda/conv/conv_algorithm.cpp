#include "backends/cuda/conv/conv_algorithm.h"

#include "backends/cuda/conv/conv_plain.h"
#include "backends/cuda/matmul/matmul_gemm.h"
#include "base/text.h"

namespace varve::cuda {

std::string ConvSpec::key() const {
  const ConvShape& s = call.shape;
  return cat(name(call.pass), epilogue.bias ? "+bias" : "", epilogue.relu ? "+relu" : "", " ", varve::name(dtype),
             tf32 ? " tf32" : "", " ", s.batch, "x", s.in_height, "x", s.in_width, "x", s.in_channels, " to ",
             s.out_height, "x", s.out_width, "x", s.out_channels, " by ", s.kernel_height, "x", s.kernel_width,
             " stride ", s.stride_height, ",", s.stride_width, " dilation ", s.dilation_height, ",", s.dilation_width,
             " pad ", s.pad_top, ",", s.pad_bottom, ",", s.pad_left, ",", s.pad_right, " groups ", s.groups);
}

const char* bits_name(DType dtype) {
  switch (size_of(dtype)) {
    case 2:
      return "u16";
    case 4:
      return "u32";
    default:
      return "u64";
  }
}

std::size_t scratch_piece(std::int64_t elements, DType dtype) {
  constexpr std::size_t kRound = 256;
  return (static_cast<std::size_t>(elements) * size_of(dtype) + kRound - 1) / kRound * kRound;
}

ConvAlgorithm plain_algorithm(const ConvSpec& spec, Begin begin) {
  PlainConv conv(spec.call, spec.dtype, spec.epilogue, begin);
  const std::size_t scratch = conv.scratch_bytes();
  return {"plain", scratch, true,
          [conv = std::move(conv)](const ConvOperands& at, void* memory) { conv.run(at, memory); }};
}

namespace {

// x [pixels,I]  w [O,I]  y [pixels,O]: y = x·wᵀ, dx = dy·w, dw = dyᵀ·x
Product pointwise_product(ConvPass pass, const ConvShape& s) {
  const std::int64_t pixels = s.out_pixels(), in = s.in_channels, out = s.out_channels;
  switch (pass) {
    case ConvPass::forward:
      return {{}, pixels, out, in, {{}, in, 1}, {{}, 1, in}, {{}, out, 1}};
    case ConvPass::input_grad:
      return {{}, pixels, in, out, {{}, out, 1}, {{}, in, 1}, {{}, in, 1}};
    case ConvPass::weight_grad:
      break;
  }
  return {{}, out, in, pixels, {{}, 1, out}, {{}, in, 1}, {{}, in, 1}};
}

}  // namespace

bool is_product(const ConvSpec& spec) {
  const ConvShape& s = spec.call.shape;
  return s.groups == 1 && s.taps() == 1 && s.stride_height == 1 && s.stride_width == 1 && s.pad_top == 0 &&
         s.pad_bottom == 0 && s.pad_left == 0 && s.pad_right == 0;
}

std::optional<ConvAlgorithm> product_algorithm(const ConvSpec& spec) {
  if (!is_product(spec)) return std::nullopt;
  const Gemm gemm({.product = pointwise_product(spec.call.pass, spec.call.shape),
                   .in = spec.dtype,
                   .out = spec.dtype,
                   .tf32 = spec.tf32,
                   .bias = spec.epilogue.bias,
                   .relu = spec.epilogue.relu});
  const bool weights = spec.call.pass == ConvPass::weight_grad;
  return ConvAlgorithm{"product", gemm.scratch_bytes(), true, [gemm, weights](const ConvOperands& at, void* scratch) {
                         gemm.run({.a = weights ? at.second : at.first,
                                   .b = weights ? at.first : at.second,
                                   .bias = at.bias,
                                   .c = at.out,
                                   .scratch = scratch});
                       }};
}

}  // namespace varve::cuda
