// Pooling of images, channels last: every loop that matters runs along the channels.
#include <limits>

#include "backends/cpu/loops.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/pool_claims.h"
#include "varve/error.h"

namespace varve::cpu {
namespace {

using backend::Prepared;
using backend::RunArgs;

constexpr std::int64_t kChannels = 256;  // at a time: their state stays in L1

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

double divisor(const Pool& p, const Cells& cells) {
  if (p.count_padding) return static_cast<double>(p.window[0]) * static_cast<double>(p.window[1]);
  return static_cast<double>(cells.rows.end - cells.rows.begin) *
         static_cast<double>(cells.columns.end - cells.columns.begin);
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

// ---- loops along the channels: functions of their own, so that the compiler has only pointers to tell apart

// out = first ? a : b, of the bits where the type is a structure.
template <class T>
void choose(T* out, std::int64_t i, bool first, T a, T b) {
  if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16>)
    out[i].bits = first ? a.bits : b.bits;
  else
    out[i] = first ? a : b;
}

template <class T>
void take_larger(const T* in, T* out, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const T value = element(in, i), best = element(out, i);
    choose(out, i, beats<true>(ordered<true>(value), ordered<true>(best)), value, best);
  }
}

template <class T>
void start_largest(const T* in, Ordered<T>* best, std::int32_t* which, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    best[i] = ordered<true>(element(in, i));
    which[i] = 0;
  }
}

template <class T>
void follow_largest(const T* in, std::int32_t number, Ordered<T>* best, std::int32_t* which, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const Ordered<T> value = ordered<true>(element(in, i)), before = best[i];
    const bool better = beats<true>(value, before);
    best[i] = better ? value : before;
    which[i] = better ? number : which[i];
  }
}

template <class T>
void take_where(const std::int32_t* which, std::int32_t number, const T* in, T* out, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) choose(out, i, which[i] == number, element(in, i), element(out, i));
}

template <class S>
void add_where(const std::int32_t* which, std::int32_t number, const S* in, S* sums, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const S value = in[i];
    sums[i] += which[i] == number ? value : S{0};
  }
}

template <class T, class S>
void add(const T* in, S* sums, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) sums[i] += cast_to<S>(element(in, i));
}

template <class From, class To, class S>
void divide(const From* in, To* out, S count, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) out[i] = cast_to<To>(cast_to<S>(element(in, i)) / count);
}

// ---- maximum: the first of equals in window order; NaN is larger than anything

template <class T>
Prepared prepare_max(const Pool& p) {
  return backend::prepared([p](const RunArgs& args) {
    const T* x = static_cast<const T*>(args.in[0]);
    T* y = static_cast<T*>(args.out[0]);
    each_window(p, sizeof(T), [&](std::int64_t image, const Cells& cells, std::int64_t to, Strip c) {
      T* out = y + to * p.channels + c.first;
      const T* origin = x + image * p.height * p.width * p.channels + c.first;
      each_cell(p, cells, [&](std::int32_t number, std::int64_t pixel) {
        const T* in = origin + pixel * p.channels;
        number == 0 ? static_cast<void>(std::copy_n(in, c.count, out)) : take_larger(in, out, c.count);
      });
    });
  });
}

// Which cell of the window holds each channel's maximum.
template <class T>
void find_largest(const Pool& p, const T* origin, const Cells& cells, std::int64_t n, std::int32_t* which) {
  Ordered<T> best[kChannels];
  each_cell(p, cells, [&](std::int32_t number, std::int64_t pixel) {
    const T* in = origin + pixel * p.channels;
    number == 0 ? start_largest(in, best, which, n) : follow_largest(in, number, best, which, n);
  });
}

// x, values of x's shape -> y: the value at the place of each maximum.
template <class T>
Prepared prepare_max_gather(const Pool& p) {
  return backend::prepared([p](const RunArgs& args) {
    using V = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;  // values are only moved
    const T* x = static_cast<const T*>(args.in[0]);
    const V* values = static_cast<const V*>(args.in[1]);
    V* y = static_cast<V*>(args.out[0]);
    each_window(p, 2 * sizeof(T), [&](std::int64_t image, const Cells& cells, std::int64_t to, Strip c) {
      const std::int64_t origin = image * p.height * p.width * p.channels + c.first;
      std::int32_t which[kChannels];
      find_largest(p, x + origin, cells, c.count, which);
      each_cell(p, cells, [&](std::int32_t number, std::int64_t pixel) {
        take_where(which, number, values + origin + pixel * p.channels, y + to * p.channels + c.first, c.count);
      });
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
std::int64_t band_height(const Pool& p) { return std::min(p.height, std::max<std::int64_t>(4 * p.window[0], 16)); }

// The rows of y whose windows reach into rows [begin, end) of x.
Range reaching(const Pool& p, Range rows) {
  const std::int64_t first = rows.begin + p.before[0] - p.window[0] + 1;  // the earliest start that reaches
  const std::int64_t begin = first <= 0 ? 0 : (first + p.stride[0] - 1) / p.stride[0];
  return {begin, std::min((rows.end - 1 + p.before[0]) / p.stride[0] + 1, p.out_height)};
}

// Where dy stands, and the rows of x that this thread may write.
struct Place {
  std::int64_t image, pixel;
  Range band;

  bool owns(const Pool& p, std::int64_t x_pixel) const {
    return x_pixel >= band.begin * p.width && x_pixel < band.end * p.width;
  }
};

// add(sums of the image, place, cells, strip) for every window; then the sums are stored as T.
template <class T, class F>
void each_window_of_bands(const Pool& p, const RunArgs& args, F add) {
  using S = Stored<T>;
  T* dx = static_cast<T*>(args.out[0]);
  S* all_sums;
  if constexpr (std::is_same_v<S, T>)
    all_sums = dx;
  else
    all_sums = static_cast<S*>(args.scratch);
  const std::int64_t height = band_height(p), bands = (p.height + height - 1) / height;
  const std::int64_t pitch = p.width * p.channels;
  parallel_for(p.images * bands, grain_for(height * pitch * static_cast<std::int64_t>(sizeof(S))),
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
                         add(sums, Place{image, pixel, band}, cells, Strip{c, std::min(kChannels, p.channels - c)});
                     }
                   }
                   if constexpr (!std::is_same_v<S, T>)
                     convert(sums + band.begin * pitch, dtype_of<S>(), dx + origin + band.begin * pitch, dtype_of<T>(),
                             (band.end - band.begin) * pitch);
                 });
               });
}

// x, dy -> dx: each dy goes to the place of its maximum.
template <class T>
Prepared prepare_max_grad(const Pool& p) {
  using S = Stored<T>;
  const auto run = [p](const RunArgs& args) {
    const T *x = static_cast<const T*>(args.in[0]), *dy = static_cast<const T*>(args.in[1]);
    each_window_of_bands<T>(p, args, [&](S* sums, const Place& at, const Cells& cells, Strip c) {
      std::int32_t which[kChannels];
      find_largest(p, x + at.image * p.height * p.width * p.channels + c.first, cells, c.count, which);
      S in[kChannels];
      convert(dy + at.pixel * p.channels + c.first, dtype_of<T>(), in, dtype_of<S>(), c.count);
      each_cell(p, cells, [&](std::int32_t number, std::int64_t pixel) {
        if (at.owns(p, pixel)) add_where(which, number, in, sums + pixel * p.channels + c.first, c.count);
      });
    });
  };
  return backend::prepared(run, sum_bytes<T>(p));
}

// ---- average

template <class T>
Prepared prepare_average(const Pool& p) {
  return backend::prepared([p](const RunArgs& args) {
    const T* x = static_cast<const T*>(args.in[0]);
    T* y = static_cast<T*>(args.out[0]);
    each_window(p, sizeof(T), [&](std::int64_t image, const Cells& cells, std::int64_t to, Strip c) {
      using S = Stored<T>;
      S sums[kChannels];
      std::fill_n(sums, c.count, S{0});
      const T* origin = x + image * p.height * p.width * p.channels + c.first;
      each_cell(p, cells, [&](std::int32_t, std::int64_t pixel) { add(origin + pixel * p.channels, sums, c.count); });
      divide(sums, y + to * p.channels + c.first, static_cast<S>(divisor(p, cells)), c.count);
    });
  });
}

// dy -> dx: each dy is spread evenly over its window.
template <class T>
Prepared prepare_average_grad(const Pool& p) {
  using S = Stored<T>;
  const auto run = [p](const RunArgs& args) {
    const T* dy = static_cast<const T*>(args.in[0]);
    each_window_of_bands<T>(p, args, [&](S* sums, const Place& at, const Cells& cells, Strip c) {
      S shares[kChannels];
      divide(dy + at.pixel * p.channels + c.first, shares, static_cast<S>(divisor(p, cells)), c.count);
      each_cell(p, cells, [&](std::int32_t, std::int64_t pixel) {
        if (at.owns(p, pixel)) add(shares, sums + pixel * p.channels + c.first, c.count);
      });
    });
  };
  return backend::prepared(run, sum_bytes<T>(p));
}

// ---- for each type

// `x_shape` and `y_shape`: whichever of input and output they are.
template <class F>
Prepared with_pool(const Task& task, const Shape& x_shape, const Shape& y_shape, F make) {
  if (task.shape_out().numel() == 0) return nothing();
  // Cells of a window are numbered in 32 bits: half as wide, twice as many to a vector.
  if (x_shape[1] * x_shape[2] > std::numeric_limits<std::int32_t>::max())
    throw Error(cat(task.op, ": images of ", x_shape, " are too large: at most 2^31 pixels."));
  const Pool pool(task.attrs, x_shape, y_shape);
  return dispatch(task.dtype_out(), [&]<class T>(std::type_identity<T> type) { return make(type, pool); });
}

Prepared max_pool(const Task& task) {
  return with_pool(task, task.shape_in(0), task.shape_out(),
                   []<class T>(std::type_identity<T>, const Pool& p) { return prepare_max<T>(p); });
}
Prepared max_pool_grad(const Task& task) {
  return with_pool(task, task.shape_out(), task.shape_in(1),
                   []<class T>(std::type_identity<T>, const Pool& p) { return prepare_max_grad<T>(p); });
}
Prepared max_pool_gather(const Task& task) {
  return with_pool(task, task.shape_in(0), task.shape_out(),
                   []<class T>(std::type_identity<T>, const Pool& p) { return prepare_max_gather<T>(p); });
}
Prepared avg_pool(const Task& task) {
  return with_pool(task, task.shape_in(0), task.shape_out(),
                   []<class T>(std::type_identity<T>, const Pool& p) { return prepare_average<T>(p); });
}
Prepared avg_pool_grad(const Task& task) {
  return with_pool(task, task.shape_out(), task.shape_in(0),
                   []<class T>(std::type_identity<T>, const Pool& p) { return prepare_average_grad<T>(p); });
}

}  // namespace

void add_pool_claims(ClaimMap& map) {
  add_max_pool_claims(map);
  offer(map, "max_pool2d", max_pool);
  offer(map, "max_pool2d_grad", max_pool_grad);
  offer(map, "max_pool2d_gather", max_pool_gather);
  offer(map, "avg_pool2d", avg_pool);
  offer(map, "avg_pool2d_grad", avg_pool_grad);
}

}  // namespace varve::cpu
