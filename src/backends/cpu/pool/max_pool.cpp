// Maximum pooling of every type: the first of equals in window order; NaN is larger than anything.
#include "backends/cpu/pool/each_window.h"
#include "backends/cpu/pool/max_pool_fused.h"

namespace varve::cpu {
namespace {

using backend::Prepared;
using backend::RunArgs;

// ---- loops along the channels: separate functions, so that the compiler has only pointers to tell apart

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

// ---- forward

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

// ---- gradient

// x, dy -> dx: each dy goes to the place of its maximum.
template <class T>
Prepared prepare_max_grad(const Pool& p) {
  using S = Stored<T>;
  const auto run = [p](const RunArgs& args) {
    const T *x = static_cast<const T*>(args.in[0]), *dy = static_cast<const T*>(args.in[1]);
    each_window_of_bands<T>(p, args, [&](S* sums, const WindowPlace& at, const Cells& cells, Strip c) {
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
}  // namespace

void add_max_pool_claims(ClaimMap& map) {
  add_fused_max_pool_claims(map);
  offer(map, "max_pool2d", max_pool);
  offer(map, "max_pool2d_grad", max_pool_grad);
  offer(map, "max_pool2d_gather", max_pool_gather);
}

}  // namespace varve::cpu
