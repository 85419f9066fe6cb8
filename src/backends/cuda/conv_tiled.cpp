#include "backends/cuda/conv_tiled.h"

#include <algorithm>

#include "backends/cuda/context.h"
#include "backends/cuda/conv_line.h"
#include "backends/cuda/parts.h"
#include "backends/cuda/tensor_map.h"
#include "base/levers.h"
#include "base/text.h"

namespace varve::cuda {
namespace {

constexpr std::int64_t kFewestStages = 3, kMostStages = 8;
constexpr std::int64_t kSharedBytes = 216 << 10;
constexpr std::int64_t kBarriers = 16;  // bytes of a stage's two

// Inputs at a time: 128 bytes.
std::int64_t slab_of(DType dtype) { return 128 / static_cast<std::int64_t>(size_of(dtype)); }

// How the work is divided: 128 · blocks places and so many outputs for each block of threads, which shares the inputs
// with others.
struct Division {
  std::int64_t blocks = 1, columns = 64, splits = 1;
  std::int64_t strips = 0, stages = 0;

  std::int64_t places() const { return 128 * blocks; }
  std::int64_t region_bytes(const ConvLine& line) const { return (strips * line.strip() * 128 + 1023) / 1024 * 1024; }
  std::int64_t shared_bytes(const ConvLine& line) const {
    return 2 * (region_bytes(line) + kBarriers) + stages * (columns * 128 + kBarriers);
  }
};

// Sets strips and stages; false where the tiles do not fit.
bool fit(Division& d, const ConvShape& s, const ConvLine& line) {
  const std::int64_t reach = (s.kernel_height - 1) * line.pitch + s.kernel_width - 1;
  d.strips = ceil_div(d.places() + reach + line.strip() - 1, line.strip());
  d.stages = 0;
  d.stages = std::min(kMostStages, (kSharedBytes - d.shared_bytes(line)) / (d.columns * 128 + kBarriers));
  return d.stages >= kFewestStages;
}

// Clocks, roughly: what a multiprocessor multiplies, what it gets from the cache, and what parts cost to write and add.
double cost(const Division& d, const ConvShape& s, const ConvLine& line, DType dtype) {
  constexpr double kWords = 700, kBytes = 24,
                   kBegin = 4000;  // products of words and bytes a clock, and to begin and end
  const double blocks =
      static_cast<double>(ceil_div(line.places, d.places()) * (s.out_channels / d.columns) * d.splits);
  const double waves =
      std::max(1.0, static_cast<double>(ceil_div(static_cast<std::int64_t>(blocks), gpu().multiprocessors)));
  const auto slabs = static_cast<double>(s.in_channels / slab_of(dtype) / d.splits),
             taps = static_cast<double>(s.taps());
  const double products = static_cast<double>(d.places() * d.columns * 32) * taps / kWords;
  const double bytes =
      (static_cast<double>(d.columns * 128) * taps + static_cast<double>(d.region_bytes(line))) / kBytes;
  const double results = static_cast<double>(s.out_pixels() * s.out_channels * 8);
  const double parts = d.splits > 1 ? results * static_cast<double>(d.splits) / (kBytes * gpu().multiprocessors) : 0;
  return waves * (slabs * std::max(products, bytes) + kBegin) + parts;
}

std::optional<Division> divide(const ConvShape& s, const ConvLine& line, DType dtype) {
  std::optional<Division> best;
  const std::int64_t slabs = s.in_channels / slab_of(dtype);
  for (const std::int64_t blocks : {2, 1})
    for (const std::int64_t columns : {128, 64})
      for (std::int64_t splits = 1; splits <= slabs; ++splits) {
        Division d{.blocks = blocks, .columns = columns, .splits = splits};
        if (s.out_channels % columns != 0 || slabs % splits != 0 || !fit(d, s, line)) continue;
        if (!best || cost(d, s, line, dtype) < cost(*best, s, line, dtype)) best = d;
      }
  return best;
}

class TiledConv {
 public:
  TiledConv(const ConvSpec& spec, const Division& division)
      : shape_(spec.call.shape), dtype_(spec.dtype), line_(shape_), d_(division) {
    const After after{spec.epilogue.bias, spec.epilogue.relu};
    const Constants sizes{{"KH", cat(shape_.kernel_height)},
                          {"KW", cat(shape_.kernel_width)},
                          {"BLOCKS", cat(d_.blocks)},
                          {"COLUMNS", cat(d_.columns)},
                          {"STRIPS", cat(d_.strips)},
                          {"STAGES", cat(d_.stages)},
                          {"Y", type_name(d_.splits > 1 ? f32 : dtype_)}};
    conv_ =
        Function("conv_tiles", after_text(dtype_, d_.splits > 1 ? After() : after) + kernel_text("stream") +
                                   defines(constants_of(shape_, line_)) + defines(sizes) + kernel_text("conv_tiles"));
    if (d_.splits > 1) sum_ = sum_function(f32, dtype_, after);
  }

  std::size_t scratch_bytes() const {
    return d_.splits > 1 ? scratch_piece(d_.splits * shape_.out_pixels() * shape_.out_channels, f32) : 0;
  }

  void run(const ConvOperands& at, void* scratch) const {
    const ConvShape& s = shape_;
    const CUtensorMap w = slab_map({.address = at.second,
                                    .rows = s.out_channels,
                                    .columns = s.taps() * s.in_channels,
                                    .row = s.taps() * s.in_channels},
                                   {.rows = d_.columns, .slabs = 1, .columns = slab_of(dtype_)}, dtype_);
    const CUtensorMap x = row_map(
        {.address = at.first, .channels = s.in_channels, .width = s.in_width, .height = s.in_height, .count = s.batch},
        {.pitch = line_.pitch, .rows = line_.rows}, dtype_);
    void* const y = d_.splits > 1 ? scratch : at.out;
    conv_({.grid = ceil_div(line_.places, d_.places()),
           .block = 288,
           .grid_y = static_cast<int>(s.out_channels / d_.columns),
           .grid_z = static_cast<int>(d_.splits),
           .shared = static_cast<std::size_t>(d_.shared_bytes(line_))},
          w, x, at.bias, y, static_cast<int>(s.batch), s.out_channels,
          static_cast<int>(s.in_channels / slab_of(dtype_)));
    if (d_.splits > 1) add_parts(sum_, {scratch, d_.splits}, at.bias, at.out, s.out_pixels(), s.out_channels);
  }

 private:
  ConvShape shape_;
  DType dtype_;
  ConvLine line_;
  Division d_;
  Function conv_, sum_;
};

}  // namespace

bool may_tile(const ConvSpec& spec) {
  return lever("streams") && gpu().major == 9 && gpu().minor == 0 && !spec.call.empty && spec.dtype != f64 &&
         spec.tensor_cores() && spec.call.shape.taps() > 1 && has_line(spec.call.shape);
}

bool pays_to_tile(const ConvSpec& spec) {
  const ConvShape& s = spec.call.shape;
  if (spec.call.pass == ConvPass::weight_grad) return pays_to_tile_weights(spec);
  return may_tile(spec) && spec.call.pass == ConvPass::forward && s.in_channels % slab_of(spec.dtype) == 0 &&
         s.out_channels % 64 == 0 && divide(s, ConvLine(s), spec.dtype);
}

std::optional<ConvWay> tiled_way(const ConvSpec& spec) {
  if (!pays_to_tile(spec)) return std::nullopt;
  if (spec.call.pass == ConvPass::weight_grad) return tiled_weights_way(spec);
  TiledConv conv(spec, *divide(spec.call.shape, ConvLine(spec.call.shape), spec.dtype));
  const std::size_t scratch = conv.scratch_bytes();
  return ConvWay{"tiled", scratch, false,
                 [conv = std::move(conv)](const ConvOperands& at, void* memory) { conv.run(at, memory); }};
}

}  // namespace varve::cuda
