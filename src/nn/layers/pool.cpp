#include "nn/check.h"

namespace varve::nn {

Tensor Pool2d::forward(Tensor x, Mode) {
  check_rank(where(), x, 4, "[N, H, W, C]");
  const Pair stride = options_.stride.value_or(window_);
  check_pair(where(), "the window", window_);
  check_pair(where(), "the stride", stride);
  const auto [rows, columns] = padding_for(options_.padding, x, window_, stride, 1);
  const PoolOptions options = {.window = {window_.height, window_.width},
                               .stride = {stride.height, stride.width},
                               .padding = {rows, columns},
                               .count_padding = options_.count_padding,
                               .ceil_mode = options_.ceil_mode};
  return kind_ == max ? varve::max_pool2d(x, options) : varve::avg_pool2d(x, options);
}

}  // namespace varve::nn
