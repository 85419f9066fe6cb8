#include "backends/cpu/conv/winograd/winograd.h"

#include "backends/cpu/conv/winograd/passes.h"
#include "backends/cpu/conv/winograd/tiles.h"

namespace varve::cpu::plain {

std::string winograd_refusal(const ConvShape& s, WinogradSize size, DType dtype) {
  if (dtype != f32 && dtype != bf16) return name(dtype);
  if (s.groups != 1) return "groups";
  if (s.stride_height != 1 || s.stride_width != 1) return "strides";
  if (s.dilation_height != 1 || s.dilation_width != 1) return "dilation";
  if (s.kernel_height != size.kernel() || s.kernel_width != size.kernel()) return "another kernel";
  return winograd_kernels(size, dtype).multiply ? "" : "no such tiles";
}

std::unique_ptr<BiasedConvolution> winograd(ConvPass pass, const ConvShape& shape, const WinogradOptions& options) {
  if (pass == ConvPass::weight_grad) return winograd_weight_gradient(shape, options);
  const bool backward = pass == ConvPass::input_grad;
  if (backward && transposes(shape, options.size)) return winograd_transposed(shape, options);
  const std::int64_t results = backward ? shape.in_channels : shape.out_channels;
  if (results >= result_grid(shape, backward, options.size).count()) return winograd_by_panels(pass, shape, options);
  return winograd_by_tiles(pass, shape, options);
}

}  // namespace varve::cpu::plain
