#include "backends/cuda/conv/conv_im2col.h"

#include "backends/cuda/device/arguments.h"
#include "backends/cuda/matmul/matmul_gemm.h"
#include "base/text.h"

namespace varve::cuda {
namespace {

// The matrix [pixels, terms], each row padded to 16 bytes.
struct Gathered {
  std::int64_t pixels, terms, padded;
  bool wide;  // 16 bytes never span two taps

  Gathered(const ConvShape& s, DType dtype) : pixels(s.out_pixels()), terms(s.taps() * s.in_channels) {
    const std::int64_t pack = 16 / static_cast<std::int64_t>(size_of(dtype));
    padded = (terms + pack - 1) / pack * pack;
    wide = s.in_channels % pack == 0;
  }
  bool has_padding() const { return padded != terms; }
};

// m [pixels,terms]  w [O,terms]  y [pixels,O], rows of m and w padded with zeros: y = m·wᵀ, dw = dyᵀ·m
Product gathered_product(ConvPass pass, const Gathered& m, std::int64_t outs) {
  if (pass == ConvPass::forward)
    return {{}, m.pixels, outs, m.padded, {{}, m.padded, 1}, {{}, 1, m.padded}, {{}, outs, 1}};
  return {{}, outs, m.padded, m.pixels, {{}, 1, outs}, {{}, m.padded, 1}, {{}, m.padded, 1}};
}

std::int64_t gather_blocks(std::int64_t threads) { return (threads + 255) / 256; }

class GatheredConv {
 public:
  explicit GatheredConv(const ConvSpec& spec)
      : shape_(spec.call.shape),
        forward_(spec.call.pass == ConvPass::forward),
        matrix_(shape_, spec.dtype),
        matrix_bytes_(scratch_piece(matrix_.pixels * matrix_.padded, spec.dtype)),
        weight_bytes_(matrix_.has_padding() ? scratch_piece(shape_.out_channels * matrix_.padded, spec.dtype) : 0),
        gemm_({.product = gathered_product(spec.call.pass, matrix_, shape_.out_channels),
               .in = spec.dtype,
               .out = spec.dtype,
               .tf32 = spec.tf32,
               .bias = spec.epilogue.bias,
               .relu = spec.epilogue.relu}) {
    const KernelText text{"conv/conv_im2col.cu",
                          defines({{"T", bits_name(spec.dtype)}, {"WIDE", matrix_.wide ? "1" : "0"}})};
    gather_ = Function("conv_im2col", text);
    if (!forward_ && matrix_.has_padding()) cut_ = Function("conv_cut", text);
    pack_ = 16 / static_cast<std::int64_t>(size_of(spec.dtype));
  }

  bool any_address() const { return !matrix_.wide; }
  std::size_t scratch_bytes() const { return matrix_bytes_ + weight_bytes_ + gemm_.scratch_bytes(); }

  void run(const ConvOperands& at, void* memory) const {
    auto* const matrix = static_cast<std::byte*>(memory);
    std::byte *const padded = matrix + matrix_bytes_, *const scratch = padded + weight_bytes_;
    const bool pads = matrix_.has_padding();
    gather(at.first, matrix, forward_ && pads ? at.second : nullptr, padded);
    if (forward_) {
      gemm_.run({.a = matrix, .b = pads ? padded : at.second, .bias = at.bias, .c = at.out, .scratch = scratch});
      return;
    }
    gemm_.run({.a = at.second, .b = matrix, .c = pads ? padded : at.out, .scratch = scratch});
    if (!pads) return;
    const std::int64_t rows = shape_.out_channels;
    cut_({.grid = gather_blocks(rows * matrix_.terms)}, static_cast<const void*>(padded), at.out, rows, matrix_.terms,
         matrix_.padded);
  }

 private:
  // As conv/conv_im2col.cu wants it.
  void gather(const void* images, void* to, const void* weights, void* to_weights) const {
    const ConvShape& s = shape_;
    const std::int64_t packs = matrix_.padded / pack_, pixel_packs = matrix_.pixels * packs;
    const std::int64_t all_packs = pixel_packs + (weights ? s.out_channels * packs : 0);
    Words words;
    for (const void* pointer : {images, static_cast<const void*>(to), weights, static_cast<const void*>(to_weights)})
      words.add(pointer);
    for (const std::int64_t size : {packs, s.out_width, s.out_height, s.kernel_width * s.in_channels, s.in_channels})
      words.add_extent(size, false);
    for (const std::int64_t number : {pixel_packs, all_packs, matrix_.terms, s.in_height, s.in_width * s.in_channels,
                                      s.stride_height, s.dilation_height, s.stride_width * s.in_channels,
                                      (s.dilation_width - 1) * s.in_channels, s.pad_top, s.pad_left * s.in_channels})
      words.add(number);
    words.start(gather_, {.grid = gather_blocks(all_packs)});
  }

  ConvShape shape_;
  bool forward_;
  Gathered matrix_;
  std::size_t matrix_bytes_, weight_bytes_;  // of the padded ones
  Gemm gemm_;
  Function gather_, cut_;
  std::int64_t pack_ = 0;
};

}  // namespace

bool pays_for_im2col(const ConvSpec& spec) {
  const ConvShape& s = spec.call.shape;
  if (spec.call.pass == ConvPass::input_grad || spec.call.empty || s.groups != 1) return false;
  const Gathered matrix(s, spec.dtype);
  const std::size_t bytes = scratch_piece(matrix.pixels * matrix.padded, spec.dtype);
  // A few channels leave most of what a library computes at once unused. With more the copy should stay in the cache.
  constexpr std::int64_t kFewChannels = 4;
  constexpr std::size_t kMostForFew = std::size_t{1} << 30, kMost = std::size_t{64} << 20;
  if (s.in_channels <= kFewChannels) return bytes <= kMostForFew;
  // Measured: forward in TF32 it never won.
  if (spec.dtype == f32 && spec.call.pass == ConvPass::forward) return false;
  return spec.tensor_cores() && bytes < kMost;
}

std::optional<ConvAlgorithm> im2col_algorithm(const ConvSpec& spec) {
  if (!pays_for_im2col(spec)) return std::nullopt;
  GatheredConv conv(spec);
  const std::size_t scratch = conv.scratch_bytes();
  const bool any_address = conv.any_address();
  return ConvAlgorithm{"im2col", scratch, any_address,
                       [conv = std::move(conv)](const ConvOperands& at, void* memory) { conv.run(at, memory); }};
}

}  // namespace varve::cuda
