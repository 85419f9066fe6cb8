// Walks over the windows of a pooling, images channels last: every loop that matters runs along the channels.
#pragma once

#include <limits>

#include "backends/cpu/common/loops.h"
#include "backends/cpu/pool/windows.h"
#include "varve/error.h"

namespace varve::cpu {

inline constexpr std::int64_t kChannels = 256;  // at a time: their state stays in L1

// Some of the channels.
struct Strip {
  std::int64_t first, count;
};

// The cells of x under one window.
struct Cells {
  Range rows, columns;
};

// visit(number of the cell, its place in an image in units of pixels), row by row.
template <class F>
void each_cell(const Pool& p, const Cells& cells, F visit) {
  std::int32_t number = 0;
  for (std::int64_t row = cells.rows.begin; row < cells.rows.end; ++row)
    for (std::int64_t column = cells.columns.begin; column < cells.columns.end; ++column)
      visit(number++, row * p.width + column);
}

// each(image, cells, pixel of y, strip), for every window and strip of channels, whose state has room on the stack.
// Rows of y are split among threads.
template <class F>
void each_window(const Pool& p, std::int64_t bytes, F each) {
  const std::int64_t work = p.out_width * p.channels * bytes * std::min<std::int64_t>(p.window[0] * p.window[1], 64);
  parallel_for(p.out_rows(), grain_for(work), [&](std::int64_t first, std::int64_t last) {
    each_row(first, last, p.out_height, [&](std::int64_t image, std::int64_t row) {
      Cells cells{covered(p, 0, row), {}};
      for (std::int64_t column = 0; column < p.out_width; ++column) {
        cells.columns = covered(p, 1, column);
        const std::int64_t pixel = (image * p.out_height + row) * p.out_width + column;
        for (std::int64_t c = 0; c < p.channels; c += kChannels)
          each(image, cells, pixel, Strip{c, std::min(kChannels, p.channels - c)});
      }
    });
  });
}

// ---- gradients: windows overlap, so each thread owns rows of x and visits all windows that reach into them, in order

// Floats and doubles are summed where they stand; other types beside, rounded once.
template <class T>
using Stored = std::conditional_t<std::is_floating_point_v<T>, T, std::conditional_t<sizeof(T) == 2, float, double>>;

template <class T>
std::size_t sum_bytes(const Pool& p) {
  if (std::is_same_v<Stored<T>, T>) return 0;
  return static_cast<std::size_t>(p.images * p.height * p.width * p.channels) * sizeof(Stored<T>);
}

// Bands of rows high enough that few windows are visited twice.
inline std::int64_t band_height(const Pool& p) {
  return std::min(p.height, std::max<std::int64_t>(4 * p.window[0], 16));
}

// The rows of y whose windows reach into rows [begin, end) of x.
inline Range reaching(const Pool& p, Range rows) {
  const std::int64_t first = rows.begin + p.before[0] - p.window[0] + 1;  // the earliest start that reaches
  const std::int64_t begin = first <= 0 ? 0 : (first + p.stride[0] - 1) / p.stride[0];
  return {begin, std::min((rows.end - 1 + p.before[0]) / p.stride[0] + 1, p.out_height)};
}

// Where dy stands, and the rows of x that this thread may write.
struct WindowPlace {
  std::int64_t image, pixel;
  Range band;

  bool owns(const Pool& p, std::int64_t x_pixel) const {
    return x_pixel >= band.begin * p.width && x_pixel < band.end * p.width;
  }
};

// add(sums of the image, place, cells, strip) for every window; then the sums are stored as T.
template <class T, class F>
void each_window_of_bands(const Pool& p, const backend::RunArgs& args, F add) {
  using S = Stored<T>;
  T* dx = static_cast<T*>(args.out[0]);
  S* all_sums;
  if constexpr (std::is_same_v<S, T>)
    all_sums = dx;
  else
    all_sums = static_cast<S*>(args.scratch);
  const std::int64_t height = band_height(p), bands = (p.height + height - 1) / height;
  const std::int64_t pitch = p.width * p.channels;
  parallel_for(
      p.images * bands, grain_for(height * pitch * static_cast<std::int64_t>(sizeof(S))),
      [&](std::int64_t first, std::int64_t last) {
        each_row(first, last, bands, [&](std::int64_t image, std::int64_t number) {
          const Range band{number * height, std::min((number + 1) * height, p.height)};
          const std::int64_t origin = image * p.height * pitch;
          S* sums = all_sums + origin;
          std::fill(sums + band.begin * pitch, sums + band.end * pitch, S{0});
          const Range rows = reaching(p, band);
          for (std::int64_t row = rows.begin; row < rows.end; ++row) {
            Cells cells{covered(p, 0, row), {}};
            for (std::int64_t column = 0; column < p.out_width; ++column) {
              cells.columns = covered(p, 1, column);
              const std::int64_t pixel = (image * p.out_height + row) * p.out_width + column;
              for (std::int64_t c = 0; c < p.channels; c += kChannels)
                add(sums, WindowPlace{image, pixel, band}, cells, Strip{c, std::min(kChannels, p.channels - c)});
            }
          }
          if constexpr (!std::is_same_v<S, T>)
            convert(sums + band.begin * pitch, dtype_of<S>(), dx + origin + band.begin * pitch, dtype_of<T>(),
                    (band.end - band.begin) * pitch);
        });
      });
}

// ---- for each type

// `x_shape` and `y_shape`: whichever of input and output they are.
template <class F>
backend::Prepared with_pool(const Task& task, const Shape& x_shape, const Shape& y_shape, F make) {
  if (task.shape_out().numel() == 0) return nothing();
  // Cells of a window are numbered in 32 bits: half as wide, twice as many to a vector.
  if (x_shape[1] * x_shape[2] > std::numeric_limits<std::int32_t>::max())
    throw Error(cat(task.op, ": images of ", x_shape, " are too large: at most 2^31 pixels."));
  const Pool pool(task.attrs, x_shape, y_shape);
  return dispatch(task.dtype_out(), [&]<class T>(std::type_identity<T> type) { return make(type, pool); });
}

}  // namespace varve::cpu
