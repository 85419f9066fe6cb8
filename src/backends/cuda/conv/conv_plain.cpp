#include "backends/cuda/conv/conv_plain.h"

#include <algorithm>

#include "backends/cuda/device/context.h"
#include "backends/cuda/device/sizes.h"
#include "backends/cuda/device/status.h"
#include "base/text.h"

namespace varve::cuda {
namespace {

constexpr std::int64_t kPlainTile = 64, kPlainStep = 16;  // as in conv/conv_plain.cu

// The product that a pass is, for one group.
struct PassProduct {
  std::int64_t rows, columns, terms;
};
PassProduct product_of_pass(ConvPass pass, const ConvShape& s) {
  switch (pass) {
    case ConvPass::forward:
      return {s.out_pixels(), s.out_group(), s.taps() * s.in_group()};
    case ConvPass::input_grad:
      return {s.in_pixels(), s.in_group(), s.taps() * s.out_group()};
    case ConvPass::weight_grad:
      break;
  }
  return {s.out_group(), s.taps() * s.in_group(), s.out_pixels()};
}

// Whether every count that the kernel divides fits an int, with room for the last tile.
bool fits_int(const PassProduct& p) { return std::max({p.rows, p.columns, p.terms}) < (1 << 30); }

KernelText text_for(ConvPass pass, DType dtype, bool small) {
  return {"conv/conv_plain.cu",
          defines({{"T", type_name(dtype)}, {"INDEX", small ? "int" : "i64"}, {"PASS", cat(static_cast<int>(pass))}})};
}

std::size_t sum_bytes(DType dtype) { return dtype == f64 ? 8 : 4; }

}  // namespace

PlainConv::PlainConv(const ConvCall& call, DType dtype, ConvEpilogue epilogue, Begin begin)
    : call_(call), dtype_(dtype), epilogue_(epilogue) {
  if (call.empty) return;
  const PassProduct p = product_of_pass(call.pass, call.shape);
  tiles_ = call.shape.groups * ceil_div(p.rows, kPlainTile) * ceil_div(p.columns, kPlainTile);
  part_terms_ = p.terms;
  // Weights are few and the pixels behind each are many: their sums are cut, by sizes alone, so that bits stay the same
  // on every GPU.
  constexpr std::int64_t kBlocks = 512, kLeastTerms = 256;
  if (call.pass == ConvPass::weight_grad) {
    const std::int64_t parts = std::min(ceil_div(kBlocks, tiles_), ceil_div(p.terms, kLeastTerms));
    part_terms_ = ceil_div(ceil_div(p.terms, parts), kPlainStep) * kPlainStep;
    parts_ = ceil_div(p.terms, part_terms_);
  }
  const KernelText text = text_for(call.pass, dtype, fits_int(p));
  conv_ = Function("conv", text, begin);
  if (parts_ > 1) sum_ = Function("conv_sum", text, begin);
}

std::size_t PlainConv::scratch_bytes() const {
  return parts_ > 1 ? static_cast<std::size_t>(parts_ * call_.shape.weights()) * sum_bytes(dtype_) : 0;
}

void PlainConv::run(const ConvOperands& at, void* scratch) const {
  const bool weights = call_.pass == ConvPass::weight_grad;
  // The kernel reads dy before x for the gradient of the weights: rows of its product are filters.
  conv_({.grid = tiles_ * parts_}, weights ? at.second : at.first, weights ? at.first : at.second, at.bias, at.out,
        scratch, call_.shape, static_cast<int>(epilogue_.relu), part_terms_, parts_);
  if (parts_ == 1) return;
  const std::int64_t count = call_.shape.weights();
  sum_({.grid = ceil_div(count, 256)}, static_cast<const void*>(scratch), at.out, count, parts_);
}

}  // namespace varve::cuda
