#include "backends/cuda/conv/conv_weight_grad_3x3.h"

#include <algorithm>

#include "backends/cuda/device/context.h"
#include "backends/cuda/device/sizes.h"
#include "backends/cuda/device/tensor_map.h"
#include "backends/cuda/matmul/split_k.h"
#include "base/levers.h"
#include "base/text.h"

namespace varve::cuda {
namespace {

constexpr std::int64_t kSide = 64;                          // channels of a block, on both sides
constexpr std::int64_t kPlacesAtOnce = 32;                  // places at a time
constexpr std::int64_t kTiles = 4;                          // steps whose x is transposed
constexpr std::int64_t kFewestStages = 5, kMostStages = 8;  // steps in flight, those among them
constexpr std::int64_t kFewestSteps = 16;

// All rows of all images as one line of places, with padding that neighbours share, as conv/conv_weight_grad_3x3.cu has
// it.
struct Line {
  std::int64_t pitch, image, places;  // places of a row, rows of an image, places of everything
  std::int64_t rows;                  // that come at a time, a strip: one, or all of a small image
  explicit Line(const ConvShape& s)
      : pitch(s.in_width + std::max(s.pad_left, s.pad_right)),
        image(s.in_height + std::max(s.pad_top, s.pad_bottom)),
        places(s.batch * image * pitch),
        rows(image * pitch <= kSmall ? image : 1) {}
  std::int64_t strip() const { return pitch * rows; }  // places

 private:
  static constexpr std::int64_t kSmall = 100;  // places: TMA takes its time for each strip
};

// Stride 1, no groups, padding within the kernel's reach, and sizes that tiles of TMA can have.
bool has_line(const ConvShape& s) {
  if (s.groups != 1 || s.stride_height != 1 || s.stride_width != 1 || s.dilation_height != 1 || s.dilation_width != 1)
    return false;
  if (std::max(s.pad_top, s.pad_bottom) >= s.kernel_height || std::max(s.pad_left, s.pad_right) >= s.kernel_width)
    return false;
  constexpr std::int64_t kWidest = 256, kMost = std::int64_t{1} << 30;
  const Line line(s);
  return line.pitch <= kWidest && line.places < kMost;
}

class TiledWeights {
 public:
  explicit TiledWeights(const ConvShape& shape)
      : shape_(shape), line_(shape), steps_(ceil_div(line_.places, kPlacesAtOnce)) {
    while (stages_ > kFewestStages && !fits()) --stages_;
    const std::int64_t tiles = shape.out_channels / kSide * (shape.in_channels / kSide);
    splits_ = std::clamp<std::int64_t>(gpu().multiprocessors / std::max<std::int64_t>(tiles, 1), 1,
                                       std::max<std::int64_t>(steps_ / kFewestSteps, 1));
  }

  std::size_t shared_bytes() const {
    const auto slab = [&](std::int64_t strips) { return (strips * line_.strip() * 128 + 1023) / 1024 * 1024; };
    const std::int64_t barriers = 16 * (stages_ + kTiles);
    return static_cast<std::size_t>(2 * (slab(strips()) + slab(x_strips())) + kTiles * kSide * 128 + barriers);
  }
  bool fits() const { return shared_bytes() + 1024 <= gpu().shared_bytes; }

  void prepare() {
    multiply_ =
        Function("conv_weight_grad_3x3", {"conv/conv_weight_grad_3x3.cu", defines({{"PITCH", cat(line_.pitch)},
                                                                                   {"IMAGE", cat(line_.image)},
                                                                                   {"ROWS", cat(line_.rows)},
                                                                                   {"TOP", cat(shape_.pad_top)},
                                                                                   {"LEFT", cat(shape_.pad_left)},
                                                                                   {"STRIPS", cat(strips())},
                                                                                   {"X_STRIPS", cat(x_strips())},
                                                                                   {"STAGES", cat(stages_)},
                                                                                   {"TILES", cat(kTiles)}})});
    if (splits_ > 1) sum_ = sum_function(f32, f32, {});
  }

  std::size_t scratch_bytes() const { return splits_ > 1 ? scratch_piece(splits_ * shape_.weights(), f32) : 0; }

  void run(const ConvOperands& at, void* scratch) const {
    const ConvShape& s = shape_;
    void* const parts = splits_ > 1 ? scratch : at.out;
    const RowTile strip{.pitch = line_.pitch, .rows = line_.rows};
    const CUtensorMap x = row_map(
        {.address = at.first, .channels = s.in_channels, .width = s.in_width, .height = s.in_height, .count = s.batch},
        strip, f32);
    const CUtensorMap dy = row_map({.address = at.second,
                                    .channels = s.out_channels,
                                    .width = s.out_width,
                                    .height = s.out_height,
                                    .count = s.batch},
                                   strip, f32);
    multiply_({.grid = s.out_channels / kSide,
               .block = 512,
               .grid_y = static_cast<int>(s.in_channels / kSide),
               .grid_z = static_cast<int>(splits_),
               .shared = shared_bytes()},
              x, dy, parts, static_cast<int>(steps_), s.out_channels, s.in_channels);
    if (splits_ > 1) add_parts(sum_, {parts, splits_}, nullptr, at.out, s.out_channels, s.taps() * s.in_channels);
  }

 private:
  // That hold the places of all stages, and of dy those that taps reach from there.
  std::int64_t strips() const { return (kPlacesAtOnce * stages_ + 2 * line_.pitch + 1) / line_.strip() + 2; }
  std::int64_t x_strips() const { return (kPlacesAtOnce * stages_ - 1) / line_.strip() + 2; }

  ConvShape shape_;
  Line line_;
  std::int64_t steps_, stages_ = kMostStages, splits_ = 1;
  Function multiply_, sum_;
};

}  // namespace

bool pays_for_3x3(const ConvSpec& spec) {
  const ConvShape& s = spec.call.shape;
  constexpr std::int64_t kFewestPixels = 32;  // of an image: with fewer most places are padding
  if (s.in_height * s.in_width < kFewestPixels) return false;
  return lever("streams") && gpu().major == 9 && gpu().minor == 0 && spec.call.pass == ConvPass::weight_grad &&
         !spec.call.empty && spec.dtype == f32 && spec.tensor_cores() && s.kernel_height == 3 && s.kernel_width == 3 &&
         s.in_channels % kSide == 0 && s.out_channels % kSide == 0 && has_line(s) && TiledWeights(s).fits();
}

std::optional<ConvAlgorithm> weight_grad_3x3_algorithm(const ConvSpec& spec) {
  if (!pays_for_3x3(spec)) return std::nullopt;
  TiledWeights weights(spec.call.shape);
  weights.prepare();
  const std::size_t scratch = weights.scratch_bytes();
  return ConvAlgorithm{
      "weight_grad_3x3", scratch, false,
      [weights = std::move(weights)](const ConvOperands& at, void* memory) { weights.run(at, memory); }};
}

}  // namespace varve::cuda
