#include "backends/cuda/conv/conv_small_images.h"

#include <algorithm>
#include <vector>

#include "backends/cuda/device/context.h"
#include "backends/cuda/device/sizes.h"
#include "backends/cuda/matmul/split_k.h"
#include "base/levers.h"
#include "base/text.h"

namespace varve::cuda {
namespace {

constexpr std::int64_t kMostPixels = 4, kMostImages = 128, kMostTaps = 25;
constexpr std::int64_t kChannels = 64;  // a multiple of what every block has of them
constexpr std::int64_t kInstruction = 8;

// Which pixels meet, and at which taps.
struct Meetings {
  std::vector<std::int64_t> used;   // taps
  std::vector<std::int64_t> joins;  // of each output pixel with each input pixel: number of the tap in `used`, or -1

  explicit Meetings(const ConvShape& s) {
    const std::int64_t outs = s.out_height * s.out_width, ins = s.in_height * s.in_width;
    for (std::int64_t p = 0; p < outs; ++p)
      for (std::int64_t q = 0; q < ins; ++q) joins.push_back(number_of(tap(s, p, q)));
  }

 private:
  // -1 where they do not meet.
  static std::int64_t tap(const ConvShape& s, std::int64_t p, std::int64_t q) {
    const std::int64_t i = q / s.in_width + s.pad_top - p / s.out_width * s.stride_height;
    const std::int64_t j = q % s.in_width + s.pad_left - p % s.out_width * s.stride_width;
    if (i < 0 || j < 0 || i % s.dilation_height != 0 || j % s.dilation_width != 0) return -1;
    const std::int64_t row = i / s.dilation_height, column = j / s.dilation_width;
    return row < s.kernel_height && column < s.kernel_width ? row * s.kernel_width + column : -1;
  }
  std::int64_t number_of(std::int64_t tap) {
    if (tap < 0) return -1;
    const auto found = std::find(used.begin(), used.end(), tap);
    if (found != used.end()) return found - used.begin();
    used.push_back(tap);
    return static_cast<std::int64_t>(used.size()) - 1;
  }
};

std::string listed(const std::vector<std::int64_t>& numbers) {
  std::string list;
  for (const std::int64_t number : numbers) list += cat(list.empty() ? "" : ", ", number);
  return list;
}

// What the kernels of all passes share.
class Small {
 public:
  explicit Small(const ConvSpec& spec)
      : shape_(spec.call.shape),
        dtype_(spec.dtype),
        pack_(4 / static_cast<std::int64_t>(size_of(spec.dtype))),
        meetings_(shape_) {}
  bool joins_any() const { return !meetings_.used.empty(); }

 protected:
  std::int64_t used() const { return static_cast<std::int64_t>(meetings_.used.size()); }
  std::int64_t ins() const { return shape_.in_height * shape_.in_width; }
  std::int64_t outs() const { return shape_.out_height * shape_.out_width; }

  Function function(const std::string& name, std::int64_t padded, std::int64_t threads, const Constants& more) const {
    const Constants all{{"T", type_name(dtype_)},
                        {"BATCH", cat(shape_.batch)},
                        {"PADDED", cat(padded)},
                        {"OUT_PIXELS", cat(outs())},
                        {"IN_PIXELS", cat(ins())},
                        {"OUT_CHANNELS", cat(shape_.out_channels)},
                        {"IN_CHANNELS", cat(shape_.in_channels)},
                        {"TAPS", cat(shape_.taps())},
                        {"USED_TAPS", cat(used())},
                        {"USED", listed(meetings_.used)},
                        {"JOINS", listed(meetings_.joins)},
                        {"THREADS", cat(threads)}};
    return {name, {cat("conv/", name, ".cu"), defines(all) + defines(more)}};
  }

  ConvShape shape_;
  DType dtype_;
  std::int64_t pack_;  // numbers of a word

 private:
  Meetings meetings_;
};

// y from x, or dx from dy: each block sums over a slab of channels, and one more kernel adds what they have.
class SmallImages : public Small {
 public:
  explicit SmallImages(const ConvSpec& spec)
      : Small(spec), back_(spec.call.pass == ConvPass::input_grad), epilogue_(spec.epilogue), slab_(kSummed / pack_) {
    constexpr std::int64_t kWarps = 8, kMostSums = 20;  // of a block; tiles of sums that fit in a warp's registers
    const std::int64_t tiles = ceil_div(shape_.batch, kInstruction), warps = kSide / 16;
    columns_ = std::max(ceil_div(tiles * to_pixels(), kMostSums), std::min(kWarps / warps, tiles));
    // A few warps more where tiles can then be shared evenly.
    for (std::int64_t more = columns_; more < 2 * columns_ && more * warps <= 2 * kWarps; ++more)
      if (tiles % more == 0) {
        columns_ = more;
        break;
      }
    tiles_ = ceil_div(tiles, columns_);
    threads_ = warps * columns_ * 32;
  }

  std::size_t shared_bytes() const {
    return static_cast<std::size_t>((from_pixels() * padded() + used() * kSide) * slab_ * 4);
  }

  void prepare() {
    multiply_ =
        function("conv_small_images", padded(), threads_,
                 {{"BACK", back_ ? "1" : "0"}, {"SLAB", cat(slab_)}, {"SIDE", cat(kSide)}, {"TILES", cat(tiles_)}});
    sum_ = sum_function(f32, dtype_, {.bias = epilogue_.bias, .relu = epilogue_.relu});
  }

  std::size_t scratch_bytes() const { return scratch_piece(slabs() * rows() * to_channels(), f32); }

  void run(const ConvOperands& at, void* scratch) const {
    multiply_({.grid = to_channels() / kSide,
               .block = static_cast<int>(threads_),
               .grid_y = static_cast<int>(slabs()),
               .shared = shared_bytes()},
              at.first, at.second, scratch);
    add_parts(sum_, {scratch, slabs()}, at.bias, at.out, rows(), to_channels());
  }

 private:
  std::int64_t from_pixels() const { return back_ ? outs() : ins(); }
  std::int64_t to_pixels() const { return back_ ? ins() : outs(); }
  std::int64_t from_channels() const { return back_ ? shape_.out_channels : shape_.in_channels; }
  std::int64_t to_channels() const { return back_ ? shape_.in_channels : shape_.out_channels; }
  std::int64_t padded() const { return tiles_ * columns_ * kInstruction; }
  std::int64_t slabs() const { return from_channels() / (slab_ * pack_); }
  std::int64_t rows() const { return shape_.batch * to_pixels(); }

  bool back_;
  ConvEpilogue epilogue_;
  static constexpr std::int64_t kSide = 32, kSummed = 64;  // channels of a block: that it computes, and that it sums
  std::int64_t slab_, columns_ = 1, tiles_ = 1, threads_ = 0;  // as conv/conv_small_images.cu has them
  Function multiply_, sum_;
};

class SmallWeights : public Small {
 public:
  explicit SmallWeights(const ConvSpec& spec) : Small(spec) {}

  std::size_t shared_bytes() const {
    return static_cast<std::size_t>(padded() * (outs() * kOuts + ins() * kIns) * 4 / pack_);
  }
  void prepare() { multiply_ = function("conv_small_images_weight_grad", padded(), kThreads, {}); }
  std::size_t scratch_bytes() const { return 0; }

  void run(const ConvOperands& at, void*) const {
    multiply_({.grid = shape_.out_channels / kOuts,
               .block = kThreads,
               .grid_y = static_cast<int>(shape_.in_channels / kIns),
               .shared = shared_bytes()},
              at.first, at.second, at.out);
  }

 private:
  static constexpr std::int64_t kOuts = 64, kIns = 32;  // channels of a block
  static constexpr int kThreads = 256;
  std::int64_t padded() const { return ceil_div(shape_.batch, kInstruction * pack_) * kInstruction * pack_; }
  Function multiply_;
};

template <class Conv>
ConvAlgorithm way_of(const ConvSpec& spec) {
  Conv conv(spec);
  conv.prepare();
  const std::size_t scratch = conv.scratch_bytes();
  return {"small_images", scratch, false,
          [conv = std::move(conv)](const ConvOperands& at, void* memory) { conv.run(at, memory); }};
}

template <class Conv>
bool fits(const ConvSpec& spec) {
  const Conv conv(spec);
  return conv.joins_any() && conv.shared_bytes() <= gpu().shared_bytes;
}

}  // namespace

bool pays_for_small_images(const ConvSpec& spec) {
  const ConvShape& s = spec.call.shape;
  if (!lever("streams") || gpu().major < 8 || spec.call.empty || !spec.tensor_cores() || spec.dtype == f64)
    return false;
  if (s.groups != 1 || s.in_channels % kChannels != 0 || s.out_channels % kChannels != 0) return false;
  if (s.in_height * s.in_width > kMostPixels || s.out_height * s.out_width > kMostPixels) return false;
  if (s.batch > kMostImages || s.taps() > kMostTaps || s.taps() == 1) return false;
  return spec.call.pass == ConvPass::weight_grad ? fits<SmallWeights>(spec) : fits<SmallImages>(spec);
}

std::optional<ConvAlgorithm> small_images_algorithm(const ConvSpec& spec) {
  if (!pays_for_small_images(spec)) return std::nullopt;
  return spec.call.pass == ConvPass::weight_grad ? way_of<SmallWeights>(spec) : way_of<SmallImages>(spec);
}

}  // namespace varve::cuda
