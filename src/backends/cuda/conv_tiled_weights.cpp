#include <algorithm>

#include "backends/cuda/context.h"
#include "backends/cuda/conv_line.h"
#include "backends/cuda/conv_tiled.h"
#include "backends/cuda/parts.h"
#include "backends/cuda/tensor_map.h"
#include "base/text.h"

namespace varve::cuda {
namespace {

constexpr std::int64_t kSide = 64;                          // channels of a block, on both sides
constexpr std::int64_t kStep = 32;                          // places at a time
constexpr std::int64_t kTiles = 4;                          // steps whose x is turned
constexpr std::int64_t kFewestStages = 5, kMostStages = 8;  // steps on their way, those among them
constexpr std::int64_t kFewestSteps = 16;
constexpr std::size_t kSharedBytes = 226 << 10;

class TiledWeights {
 public:
  explicit TiledWeights(const ConvShape& shape) : shape_(shape), line_(shape), steps_(ceil_div(line_.places, kStep)) {
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
  bool fits() const { return shared_bytes() <= kSharedBytes; }

  void prepare() {
    multiply_ = Function("conv_weights", kernel_text("stream") + defines(constants_of(shape_, line_)) +
                                             defines({{"STRIPS", cat(strips())},
                                                      {"X_STRIPS", cat(x_strips())},
                                                      {"STAGES", cat(stages_)},
                                                      {"TILES", cat(kTiles)}}) +
                                             kernel_text("conv_weights"));
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
  std::int64_t strips() const { return (kStep * stages_ + 2 * line_.pitch + 1) / line_.strip() + 2; }
  std::int64_t x_strips() const { return (kStep * stages_ - 1) / line_.strip() + 2; }

  ConvShape shape_;
  ConvLine line_;
  std::int64_t steps_, stages_ = kMostStages, splits_ = 1;
  Function multiply_, sum_;
};

}  // namespace

bool pays_to_tile_weights(const ConvSpec& spec) {
  const ConvShape& s = spec.call.shape;
  return may_tile(spec) && spec.dtype == f32 && s.kernel_height == 3 && s.kernel_width == 3 &&
         s.in_channels % kSide == 0 && s.out_channels % kSide == 0 && TiledWeights(s).fits();
}

ConvWay tiled_weights_way(const ConvSpec& spec) {
  TiledWeights weights(spec.call.shape);
  weights.prepare();
  const std::size_t scratch = weights.scratch_bytes();
  return {"tiled", scratch, false,
          [weights = std::move(weights)](const ConvOperands& at, void* memory) { weights.run(at, memory); }};
}

}  // namespace varve::cuda
