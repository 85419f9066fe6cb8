#include <algorithm>

#include "backends/cuda/context.h"
#include "backends/cuda/conv_line.h"
#include "backends/cuda/conv_tiled.h"
#include "backends/cuda/parts.h"
#include "backends/cuda/tensor_map.h"
#include "base/text.h"

namespace varve::cuda {
namespace {

constexpr std::int64_t kSide = 64;   // channels of a block, on both sides
constexpr std::int64_t kStep = 32;   // places at a time
constexpr std::int64_t kStages = 6;  // steps on their way
constexpr std::int64_t kFewestSteps = 16;
constexpr std::size_t kSharedBytes = 216 << 10;

class TiledWeights {
 public:
  explicit TiledWeights(const ConvShape& shape)
      : shape_(shape),
        line_(shape),
        steps_(ceil_div(line_.places, kStep)),
        lines_((kStep * kStages + 2 * line_.pitch + 1) / line_.pitch + 2) {
    const std::int64_t tiles = shape.out_channels / kSide * (shape.in_channels / kSide);
    splits_ = std::clamp<std::int64_t>(gpu().multiprocessors / std::max<std::int64_t>(tiles, 1), 1,
                                       std::max<std::int64_t>(steps_ / kFewestSteps, 1));
  }

  std::size_t shared_bytes() const {
    const std::int64_t slab = (lines_ * line_.pitch * 128 + 1023) / 1024 * 1024;
    return static_cast<std::size_t>(2 * slab + kStages * (kSide * 128 + 16));
  }
  bool fits() const { return shared_bytes() <= kSharedBytes; }

  void prepare() {
    const std::string line = kernel_text("stream") + defines(constants_of(shape_, line_));
    turn_ = Function("conv_line", line + kernel_text("conv_line"));
    multiply_ = Function("conv_weights", line + defines({{"LINES", cat(lines_)}, {"STAGES", cat(kStages)}}) +
                                             kernel_text("conv_weights"));
    if (splits_ > 1) sum_ = sum_function(f32, f32, {});
  }

  std::size_t scratch_bytes() const { return turned_bytes() + (splits_ > 1 ? parts_bytes() : 0); }

  void run(const ConvOperands& at, void* scratch) const {
    const ConvShape& s = shape_;
    const std::int64_t numbers = steps_ * kStep;
    void* const parts = splits_ > 1 ? static_cast<std::byte*>(scratch) + turned_bytes() : at.out;
    turn_({.grid = steps_, .grid_y = static_cast<int>(s.in_channels / 32)}, at.first, scratch,
          static_cast<int>(s.batch), static_cast<int>(s.in_channels), numbers);
    const CUtensorMap x = slab_map({.address = scratch, .rows = s.in_channels, .columns = numbers, .row = numbers},
                                   {.rows = kSide, .slabs = 1});
    const CUtensorMap dy = row_map(
        {.address = at.second, .channels = s.out_channels, .width = s.out_width, .rows = s.batch * s.out_height},
        line_.pitch, f32);
    multiply_({.grid = s.out_channels / kSide,
               .block = 512,
               .grid_y = static_cast<int>(s.in_channels / kSide),
               .grid_z = static_cast<int>(splits_),
               .shared = shared_bytes()},
              x, dy, parts, static_cast<int>(steps_), s.out_channels, s.in_channels);
    if (splits_ > 1) add_parts(sum_, {parts, splits_}, nullptr, at.out, s.out_channels, s.taps() * s.in_channels);
  }

 private:
  std::size_t turned_bytes() const { return scratch_piece(shape_.in_channels * steps_ * kStep, f32); }
  std::size_t parts_bytes() const { return scratch_piece(splits_ * shape_.weights(), f32); }

  ConvShape shape_;
  ConvLine line_;
  std::int64_t steps_, lines_, splits_ = 1;
  Function turn_, multiply_, sum_;
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
