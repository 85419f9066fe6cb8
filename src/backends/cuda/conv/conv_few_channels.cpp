#include "backends/cuda/conv/conv_few_channels.h"

#include <algorithm>
#include <limits>

#include "backends/cuda/device/context.h"
#include "backends/cuda/device/sizes.h"
#include "backends/cuda/matmul/split_k.h"
#include "base/levers.h"
#include "base/text.h"

namespace varve::cuda {
namespace {

constexpr std::int64_t kFewChannels = 4;

std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

// Output pixels of a block at a time, and the patch of the image that their taps reach: conv/conv_patch.cuh.
struct Tile {
  std::int64_t height, width;

  std::int64_t pixels() const { return height * width; }
  std::int64_t count(const ConvShape& s) const {
    return s.batch * ceil_div(s.out_height, height) * ceil_div(s.out_width, width);
  }
  std::int64_t patch_height(const ConvShape& s) const {
    return (height - 1) * s.stride_height + (s.kernel_height - 1) * s.dilation_height + 1;
  }
  std::int64_t patch_row(const ConvShape& s) const {  // numbers
    return ((width - 1) * s.stride_width + s.kernel_width) * s.in_channels;
  }
  // Instructions of a warp that read the patch, about.
  std::int64_t patch_cost(const ConvShape& s) const { return patch_height(s) * ceil_div(patch_row(s), 32) * 10; }

  Constants constants(const ConvShape& s) const {
    return {{"CHANNELS", cat(s.in_channels)},
            {"HEIGHT", cat(s.in_height)},
            {"WIDTH", cat(s.in_width)},
            {"OUT_H", cat(s.out_height)},
            {"OUT_W", cat(s.out_width)},
            {"ALL_OUTS", cat(s.out_channels)},
            {"KERNEL_H", cat(s.kernel_height)},
            {"KERNEL_W", cat(s.kernel_width)},
            {"STRIDE_H", cat(s.stride_height)},
            {"STRIDE_W", cat(s.stride_width)},
            {"DILATION_H", cat(s.dilation_height)},
            {"TOP", cat(s.pad_top)},
            {"LEFT", cat(s.pad_left)},
            {"TILE_H", cat(height)},
            {"TILE_W", cat(width)}};
  }
};

// The cheapest of the tiles as wide as a multiple of `step`; `cost` is 0 where one is not possible.
template <class Cost>
Tile cheapest_tile(const ConvShape& s, std::int64_t most_pixels, std::int64_t step, Cost cost) {
  Tile best{};
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t width = step; width <= std::min(round_up(s.out_width, step), most_pixels); width += step)
    for (std::int64_t height = 1; height <= std::min(s.out_height, most_pixels / width); ++height) {
      const Tile tile{height, width};
      const std::int64_t mine = cost(tile);
      if (mine == 0 || mine >= least) continue;
      least = mine;
      best = tile;
    }
  return best;
}

// As conv/conv_few_channels.cu computes it.
class FewForward {
 public:
  explicit FewForward(const ConvSpec& spec) : spec_(spec) {
    const ConvShape& s = spec.call.shape;
    const std::int64_t pair = 4 / static_cast<std::int64_t>(size_of(spec.dtype)), granule = 64 / size_of(spec.dtype);
    out_blocks_ = ceil_div(s.out_channels, kMostOuts);
    outs_ = round_up(ceil_div(s.out_channels, out_blocks_), granule);
    const std::int64_t run_quads = ceil_div(s.kernel_width * s.in_channels, 4 * pair);
    steps_ = ceil_div(s.kernel_height * run_quads, 2);
    for (warps_ = 4; warps_ <= 8; warps_ *= 2) {
      const std::int64_t warp_cost = steps_ * (12 + kTiles * outs_ / 8) + 100;
      tile_ = cheapest_tile(s, warps_ * kTiles * 16, 1, [&](const Tile& tile) {
        return tile.count(s) * (warps_ * warp_cost + tile.patch_cost(s));
      });
      if (blocks_at_once() >= kMostWarps / warps_) break;
    }
    warps_ = std::min<std::int64_t>(warps_, 8);
  }

  std::size_t shared_bytes() const {
    const ConvShape& s = spec_.call.shape;
    const std::int64_t element = static_cast<std::int64_t>(size_of(spec_.dtype)), pair = 4 / element;
    const bool twice = pair == 2 && s.stride_width * s.in_channels % 2 == 1;
    const std::int64_t patch = tile_.patch_height(s) * ceil_div(tile_.patch_row(s), pair) + 8;
    return static_cast<std::size_t>(steps_ * outs_ * 32 + outs_ * element + patch * 4 * (twice ? 2 : 1));
  }
  bool fits() const { return shared_bytes() <= gpu().shared_bytes; }

  void prepare() {
    Constants constants = tile_.constants(spec_.call.shape);
    constants.insert(constants.end(), {{"OUTS", cat(outs_)}, {"WARPS", cat(warps_)}, {"TILES", cat(kTiles)}});
    multiply_ = Function(
        "conv_few_channels",
        {"conv/conv_few_channels.cu",
         epilogue_text(spec_.dtype, {.bias = spec_.epilogue.bias, .relu = spec_.epilogue.relu}) + defines(constants)});
  }

  void run(const ConvOperands& at) const {
    const std::int64_t tiles = tile_.count(spec_.call.shape);
    // Weights are worth keeping for many tiles; few tiles spread better one by one.
    const std::int64_t at_once = std::max<std::int64_t>(blocks_at_once() * gpu().multiprocessors / out_blocks_, 1);
    constexpr std::int64_t kMany = 4;
    multiply_({.grid = tiles < kMany * at_once ? tiles : at_once,
               .block = static_cast<int>(32 * warps_),
               .grid_y = static_cast<int>(out_blocks_),
               .shared = shared_bytes()},
              at.first, at.second, at.bias, at.out, static_cast<int>(tiles));
  }

 private:
  static constexpr std::int64_t kMostOuts = 64, kTiles = 2, kMostWarps = 16;

  // Of a multiprocessor.
  std::int64_t blocks_at_once() const {
    constexpr std::size_t kReserved = 1024;  // bytes of each block
    return std::min<std::int64_t>(kMostWarps / warps_, (gpu().shared_bytes + kReserved) / (shared_bytes() + kReserved));
  }

  ConvSpec spec_;
  std::int64_t out_blocks_, outs_, steps_, warps_;  // blocks that share the channels, and the channels of one
  Tile tile_{};
  Function multiply_;
};

// As conv/conv_few_channels_weight_grad.cu computes it.
class FewWeights {
 public:
  explicit FewWeights(const ConvSpec& spec)
      : shape_(spec.call.shape), dtype_(spec.dtype), pair_(4 / static_cast<std::int64_t>(size_of(spec.dtype))) {
    const ConvShape& s = shape_;
    outs_ = s.out_channels <= 32 ? 32 : 64;
    out_blocks_ = ceil_div(s.out_channels, outs_);
    const std::int64_t columns = ceil_div(s.taps() * s.in_channels, 8);
    along_k_ = ceil_div(columns, kMostSums / (outs_ / 4));
    if (along_k_ > kMostWarps) return;
    columns_ = ceil_div(columns, along_k_);
    along_p_ = kMostWarps / along_k_;
    const auto cost = [&](const Tile& tile) -> std::int64_t {
      const std::int64_t words = tile.pixels() / pair_, pieces = tile.patch_height(s) * ceil_div(tile.patch_row(s), 32);
      const bool even = tile.width == 4 * pair_ || tile.width % (8 * pair_) == 0;
      if (!even || words % 8 != 0 || pieces > kMostPieces * warps() || shared_bytes(tile) > gpu().shared_bytes)
        return 0;
      const std::int64_t step = outs_ / 16 + columns_ * (2 + outs_ / 16) + 10;
      const std::int64_t work = warps() * (ceil_div(words / 8, along_p_) * step + 60) + words * outs_ / 2;
      return ceil_div(tile.count(s), most_blocks()) * (work + tile.patch_cost(s));
    };
    tile_ = cheapest_tile(s, kMostWords * pair_, 4 * pair_, cost);
    if (tile_.pixels() == 0) tile_ = cheapest_tile(s, kMostWords * pair_, 8 * pair_, cost);
  }

  bool possible() const { return tile_.pixels() > 0; }

  void prepare() {
    blocks_ = std::min(most_blocks(), tile_.count(shape_));
    Constants constants = tile_.constants(shape_);
    constants.insert(constants.end(), {{"T", type_name(dtype_)},
                                       {"OUTS", cat(outs_)},
                                       {"WARPS", cat(warps())},
                                       {"WARPS_K", cat(along_k_)},
                                       {"WARPS_P", cat(along_p_)},
                                       {"COLUMNS", cat(columns_)},
                                       {"STAGES", cat(kStages)}});
    multiply_ =
        Function("conv_few_channels_weight_grad", {"conv/conv_few_channels_weight_grad.cu", defines(constants)});
    sum_ = sum_function(f32, dtype_, {});
  }

  std::size_t scratch_bytes() const { return scratch_piece(blocks_ * shape_.weights(), f32); }

  void run(const ConvOperands& at, void* parts) const {
    multiply_({.grid = blocks_,
               .block = static_cast<int>(32 * warps()),
               .grid_y = static_cast<int>(out_blocks_),
               .shared = shared_bytes(tile_)},
              at.first, at.second, parts, static_cast<int>(tile_.count(shape_)));
    add_parts(sum_, {parts, blocks_}, nullptr, at.out, 1, shape_.weights());
  }

 private:
  // kMostSums: of a lane. kMostWords: of a tile's pixels. kMostPieces: of a patch, 32 numbers that a warp has on their
  // way.
  static constexpr std::int64_t kMostWarps = 16, kMostSums = 64, kMostWords = 128, kMostPieces = 12, kStages = 4;

  std::int64_t warps() const { return along_k_ * along_p_; }
  std::int64_t most_blocks() const { return std::max<std::int64_t>(gpu().multiprocessors / out_blocks_, 1); }
  std::size_t shared_bytes(const Tile& tile) const {
    const std::int64_t stage = tile.pixels() / pair_ * (outs_ + 8);
    const std::int64_t patch = round_up(tile.patch_height(shape_) * tile.patch_row(shape_), 4);
    const std::int64_t handed_over = along_p_ / 2 * along_k_ * (outs_ / 4) * columns_ * 32;
    return static_cast<std::size_t>(4 * std::max(kStages * stage + 2 * patch, handed_over));
  }

  ConvShape shape_;
  DType dtype_;
  std::int64_t pair_, outs_ = 0, out_blocks_ = 0;         // of a word; channels of a block, blocks that share them
  std::int64_t along_k_ = 0, along_p_ = 0, columns_ = 0;  // warps that share terms and pixels, terms / 8 of a warp
  std::int64_t blocks_ = 0;
  Tile tile_{};
  Function multiply_, sum_;
};

}  // namespace

bool pays_for_few_channels(const ConvSpec& spec) {
  const ConvShape& s = spec.call.shape;
  if (!lever("streams") || gpu().major < 8 || spec.call.pass == ConvPass::input_grad || spec.call.empty ||
      !spec.tensor_cores() || spec.dtype == f64)
    return false;
  // Taps of a row lie side by side in the image.
  if (s.groups != 1 || s.in_channels > kFewChannels || (s.dilation_width != 1 && s.kernel_width != 1)) return false;
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  if (s.in_height * s.in_width * s.in_channels >= kMost || s.out_pixels() >= kMost || s.taps() >= kMost) return false;
  if (spec.call.pass == ConvPass::forward) return FewForward(spec).fits();
  return s.weights() % 4 == 0 && FewWeights(spec).possible();
}

std::optional<ConvAlgorithm> few_channels_algorithm(const ConvSpec& spec) {
  if (!pays_for_few_channels(spec)) return std::nullopt;
  if (spec.call.pass == ConvPass::forward) {
    FewForward conv(spec);
    conv.prepare();
    return ConvAlgorithm{"few_channels", 0, true,
                         [conv = std::move(conv)](const ConvOperands& at, void*) { conv.run(at); }};
  }
  FewWeights weights(spec);
  weights.prepare();
  const std::size_t scratch = weights.scratch_bytes();
  return ConvAlgorithm{"few_channels", scratch, false,
                       [weights = std::move(weights)](const ConvOperands& at, void* parts) { weights.run(at, parts); }};
}

}  // namespace varve::cuda
