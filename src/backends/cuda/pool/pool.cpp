// What poolings of images share.
#include "backends/cuda/pool/pool.h"

namespace varve::cuda {

Pool::Pool(const Attrs& attrs, const Shape& x, const TensorType& y) : dtype(y.dtype) {
  const auto whole = [](std::int64_t n) { return static_cast<int>(n); };
  for (std::size_t i = 0; i < 2; ++i) {
    window[i] = whole(attrs.ints("window")[i]);
    stride[i] = whole(attrs.ints("stride")[i]);
  }
  shape = {.images = x[0],
           .height = whole(x[1]),
           .width = whole(x[2]),
           .channels = whole(x[3]),
           .out_height = whole(y.shape[1]),
           .out_width = whole(y.shape[2]),
           .top = whole(attrs.ints("padding")[0]),
           .left = whole(attrs.ints("padding")[2]),
           .count_padding = attrs.has("count_padding") && attrs.flag("count_padding")};
}

std::string Pool::refusal(const Shape& x) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30, kMostChannels = std::int64_t{1} << 22;
  if (x[1] >= kMost || x[2] >= kMost || x[1] * x[2] >= kMost || x[3] > kMostChannels - kPoolAcross)
    return cat("images of ", x, " are too large: fewer than 2^30 pixels and 2^22 channels");
  return "";
}

bool Pool::clipped() const {
  return shape.top > 0 || shape.left > 0 || (shape.out_height - 1) * stride[0] + window[0] > shape.height ||
         (shape.out_width - 1) * stride[1] + window[1] > shape.width;
}

std::string Pool::constants(int channels_at_a_time, const Constants& more) const {
  Constants all = {{"ELEMENT", type_name(dtype)}, {"VEC", cat(channels_at_a_time)}, {"KH", cat(window[0])},
                   {"KW", cat(window[1])},        {"SH", cat(stride[0])},           {"SW", cat(stride[1])}};
  if (clipped()) all.emplace_back("CLIPPED", "1");
  all.insert(all.end(), more.begin(), more.end());
  return defines(all);
}

PoolLaunch pool_launch(const Pool& pool, int rows, int columns, int channels_at_a_time, std::int64_t blocks,
                       std::int64_t most_across) {
  constexpr std::int64_t kThreads = 256;
  const std::int64_t packs = ceil_div(pool.shape.channels, channels_at_a_time);
  const std::int64_t parts = ceil_div(packs, most_across), across = ceil_div(packs, parts);
  const std::int64_t down = kThreads / across, pixels = pool.shape.images * rows * columns;
  PoolLaunch result;
  result.shape = pool.shape;
  result.shape.rows = rows;
  result.shape.columns = columns;
  result.launch = {
      .grid = std::min(ceil_div(pixels, down), std::max<std::int64_t>(blocks * gpu().multiprocessors / parts, 1)),
      .block = static_cast<int>(across),
      .grid_y = static_cast<int>(parts),
      .block_y = static_cast<int>(down)};
  return result;
}

void add_pool_claims(ClaimMap& map) {
  add_max_pool_claims(map);
  add_avg_pool_claims(map);
}

}  // namespace varve::cuda
