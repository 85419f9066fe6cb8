// Average pooling of every type.
#include "backends/cpu/pool/each_window.h"

namespace varve::cpu {
namespace {

using backend::Prepared;
using backend::RunArgs;

// ---- loops along the channels: separate functions, so that the compiler has only pointers to tell apart

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

double divisor(const Pool& p, const Cells& cells) {
  if (p.count_padding) return static_cast<double>(p.window[0]) * static_cast<double>(p.window[1]);
  return static_cast<double>(cells.rows.end - cells.rows.begin) *
         static_cast<double>(cells.columns.end - cells.columns.begin);
}

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
    each_window_of_bands<T>(p, args, [&](S* sums, const WindowPlace& at, const Cells& cells, Strip c) {
      S shares[kChannels];
      divide(dy + at.pixel * p.channels + c.first, shares, static_cast<S>(divisor(p, cells)), c.count);
      each_cell(p, cells, [&](std::int32_t, std::int64_t pixel) {
        if (at.owns(p, pixel)) add(shares, sums + pixel * p.channels + c.first, c.count);
      });
    });
  };
  return backend::prepared(run, sum_bytes<T>(p));
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

void add_avg_pool_claims(ClaimMap& map) {
  offer(map, "avg_pool2d", avg_pool);
  offer(map, "avg_pool2d_grad", avg_pool_grad);
}

}  // namespace varve::cpu
