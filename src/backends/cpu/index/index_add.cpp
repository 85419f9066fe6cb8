// Adding at positions that are themselves tensors, without atomics: every place is summed by one thread, in the order
// of the updates, so the result is the same bits for any number of threads.
#include "backends/cpu/index/index_add.h"

#include <limits>

#include "backends/cpu/common/radix_sort.h"

namespace varve::cpu {
namespace {

using backend::Prepared;
using backend::RunArgs;

constexpr std::int64_t kSummedColumns = 256;  // that are summed at a time, on the stack

// y[o, indices[j], :] += updates[o, j, :]
struct Scatter {
  Rows y;
  std::int64_t count;   // of indices
  std::int64_t pieces;  // pieces of the sorted updates, of equal length
  std::int64_t grain;   // pieces for one thread
  std::string text;
  std::size_t x, indices, updates;  // inputs; no x: start from zero
  bool from_zero;
};

// The updates sorted by where they go. Those that go nowhere are noted and come last, with the key `size`.
template <class I, class Key>
const Keyed<Key>* sorted_updates(const Scatter& s, const RunArgs& args) {
  const I* indices = static_cast<const I*>(args.in[s.indices]);
  auto* items = static_cast<Keyed<Key>*>(args.scratch);
  for (std::int64_t j = 0; j < s.count; ++j) {
    const std::int64_t index = indices[j];
    const bool inside = index >= 0 && index < s.y.size;
    if (!inside) args.errors->note(s.text, index);
    items[j] = {static_cast<Key>(inside ? index : s.y.size), static_cast<Key>(j)};
  }
  return stable_sort(items, items + s.count, s.count);
}

// row += the updates of one segment. They lie anywhere: those of a few items on, up to `last`, are prefetched.
template <class T, class Key>
void add_segment(T* row, const T* updates, std::int64_t inner, const Keyed<Key>* begin, const Keyed<Key>* end,
                 const Keyed<Key>* last) {
  constexpr std::int64_t kAhead = 12, kLine = 64 / static_cast<std::int64_t>(sizeof(T));
  for (std::int64_t first = 0; first < inner; first += kSummedColumns) {
    const std::int64_t width = std::min(kSummedColumns, inner - first);
    Sum<T> sums[kSummedColumns];
    for (std::int64_t i = 0; i < width; ++i) sums[i] = cast_to<Sum<T>>(element(row, first + i));
    for (const Keyed<Key>* item = begin; item != end; ++item) {
      const T* update = updates + static_cast<std::int64_t>(item->place) * inner + first;
      if (last - item > kAhead) {
        const T* ahead = updates + static_cast<std::int64_t>(item[kAhead].place) * inner + first;
        for (std::int64_t i = 0; i < width; i += kLine) __builtin_prefetch(ahead + i);
      }
#pragma omp simd
      for (std::int64_t i = 0; i < width; ++i) sums[i] += cast_to<Sum<T>>(element(update, i));
    }
    for (std::int64_t i = 0; i < width; ++i) row[first + i] = cast_to<T>(sums[i]);
  }
}

template <class T, class I, class Key>
void scatter(const Scatter& s, const RunArgs& args) {
  const std::int64_t slab = s.y.size * s.y.inner;
  const std::int64_t bytes = s.y.outer * slab * static_cast<std::int64_t>(sizeof(T));
  s.from_zero ? zero_bytes(args.out[0], bytes) : copy_bytes(args.out[0], args.in[s.x], bytes);
  const Keyed<Key>* items = sorted_updates<I, Key>(s, args);
  const Keyed<Key>* last = items + s.count;
  while (last != items && last[-1].key == static_cast<Key>(s.y.size)) --last;
  // A segment belongs to the piece in which it begins.
  const auto segment_from = [&](std::int64_t j) {
    const Keyed<Key>* item = items + std::min(j, last - items);
    while (item != items && item != last && item->key == item[-1].key) ++item;
    return item;
  };
  const std::int64_t share = (s.count + s.pieces - 1) / s.pieces;
  const auto add_piece = [&](std::int64_t o, std::int64_t piece) {
    T* y = static_cast<T*>(args.out[0]) + o * slab;
    const T* updates = static_cast<const T*>(args.in[s.updates]) + o * s.count * s.y.inner;
    const Keyed<Key>*item = segment_from(piece * share), *end = segment_from((piece + 1) * share);
    while (item < end) {
      const Keyed<Key>* next = item + 1;
      while (next != last && next->key == item->key) ++next;
      add_segment(y + static_cast<std::int64_t>(item->key) * s.y.inner, updates, s.y.inner, item, next, last);
      item = next;
    }
  };
  parallel_for(s.y.outer * s.pieces, s.grain,
               [&](std::int64_t begin, std::int64_t end) { each_row(begin, end, s.pieces, add_piece); });
}

// Rows so short that sorting would cost more than adding: one thread adds them all as they come.
template <class T, class I>
void scatter_directly(const Scatter& s, const RunArgs& args) {
  const std::int64_t inner = s.y.inner, slab = s.y.size * inner;
  const I* indices = static_cast<const I*>(args.in[s.indices]);
  const std::int64_t bytes = s.y.outer * slab * static_cast<std::int64_t>(sizeof(T));
  s.from_zero ? zero_bytes(args.out[0], bytes) : copy_bytes(args.out[0], args.in[s.x], bytes);
  parallel_for(s.y.outer, s.grain, [&](std::int64_t begin, std::int64_t end) {
    each_row(begin * s.count, end * s.count, s.count, [&](std::int64_t o, std::int64_t j) {
      const std::int64_t index = indices[j];
      if (index < 0 || index >= s.y.size) return args.errors->note(s.text, index);
      T* row = static_cast<T*>(args.out[0]) + o * slab + index * inner;
      const T* update = static_cast<const T*>(args.in[s.updates]) + (o * s.count + j) * inner;
      for (std::int64_t i = 0; i < inner; ++i)
        row[i] = cast_to<T>(cast_to<Sum<T>>(element(row, i)) + cast_to<Sum<T>>(element(update, i)));
    });
  });
}

template <class T, class I>
Prepared prepare_scatter(const Scatter& s) {
  constexpr std::int64_t kShort = 64;  // bytes: a cache line
  if (s.count == 0 || (sizeof(T) != 2 && s.y.inner * static_cast<std::int64_t>(sizeof(T)) <= kShort))
    return backend::prepared([s](const RunArgs& args) { scatter_directly<T, I>(s, args); });
  const auto scratch = 2 * static_cast<std::size_t>(s.count);
  constexpr std::int64_t most = std::numeric_limits<std::uint32_t>::max();
  if (s.count < most && s.y.size < most)
    return backend::prepared([s](const RunArgs& args) { scatter<T, I, std::uint32_t>(s, args); },
                             scratch * sizeof(Keyed<std::uint32_t>));
  return backend::prepared([s](const RunArgs& args) { scatter<T, I, std::uint64_t>(s, args); },
                           scratch * sizeof(Keyed<std::uint64_t>));
}

Prepared prepare_scatter(const Task& task, Scatter s) {
  const std::int64_t bytes = s.count * s.y.inner * element_bytes(task.dtype_out());
  constexpr std::int64_t kMostPieces = 64;  // enough for as many threads
  s.pieces = std::clamp<std::int64_t>(bytes / grain_for(1), 1, kMostPieces);
  s.grain = grain_for(bytes / s.pieces);  // long rows: pieces; short ones: repetitions
  return dispatch(task.dtype_out(), [&]<class T>(std::type_identity<T>) {
    return dispatch_index(task.dtype_in(s.indices),
                          [&]<class I>(std::type_identity<I>) { return prepare_scatter<T, I>(s); });
  });
}

// ---- put_along_axis_add: y[o, indices[o, j, i], i] += updates[o, j, i]

struct Put {
  Rows y;
  std::int64_t count;
  std::string text;
};

// A strip of columns is one thread's. 16-bit types are summed in float beside the output and rounded once.
template <class T, class I>
void put(const Put& p, const RunArgs& args) {
  using S = std::conditional_t<sizeof(T) == 2, float, T>;
  const I* indices = static_cast<const I*>(args.in[1]);
  const T *x = static_cast<const T*>(args.in[0]), *updates = static_cast<const T*>(args.in[2]);
  T* y = static_cast<T*>(args.out[0]);
  S* sums;
  if constexpr (std::is_same_v<S, T>)
    sums = y;
  else
    sums = static_cast<float*>(args.scratch);
  const std::int64_t inner = p.y.inner, strips = (inner + kSummedColumns - 1) / kSummedColumns;
  parallel_for(p.y.outer * strips, grain_for((p.y.size + p.count) * std::min(inner, kSummedColumns)),
               [&](std::int64_t first, std::int64_t last) {
                 each_row(first, last, strips, [&](std::int64_t o, std::int64_t strip) {
                   const std::int64_t begin = strip * kSummedColumns, end = std::min(begin + kSummedColumns, inner);
                   const std::int64_t slab = o * p.y.size * inner;
                   for (std::int64_t k = 0; k < p.y.size; ++k)
                     for (std::int64_t i = slab + k * inner + begin; i < slab + k * inner + end; ++i)
                       sums[i] = cast_to<S>(x[i]);
                   for (std::int64_t j = 0; j < p.count; ++j)
                     for (std::int64_t i = begin; i < end; ++i) {
                       const std::int64_t from = (o * p.count + j) * inner + i, index = indices[from];
                       if (index < 0 || index >= p.y.size) {
                         args.errors->note(p.text, index);
                         continue;
                       }
                       S& sum = sums[slab + index * inner + i];
                       sum = static_cast<S>(cast_to<Sum<S>>(sum) + cast_to<Sum<S>>(cast_to<S>(updates[from])));
                     }
                   if constexpr (!std::is_same_v<S, T>)
                     for (std::int64_t k = 0; k < p.y.size; ++k)
                       for (std::int64_t i = slab + k * inner + begin; i < slab + k * inner + end; ++i)
                         y[i] = cast_to<T>(sums[i]);
                 });
               });
}

}  // namespace

Prepared scatter_add(const Task& task) {
  if (task.shape_out().numel() == 0 && task.shape_in(2).numel() == 0) return nothing();
  const std::int64_t axis = task.attrs.integer("axis");
  const Rows y(task.shape_out(), axis);
  return prepare_scatter(task, {.y = y,
                                .count = task.shape_in(1).numel(),
                                .pieces = 1,
                                .grain = 1,
                                .text = out_of_range(task.op, y.size, axis),
                                .x = 0,
                                .indices = 1,
                                .updates = 2,
                                .from_zero = false});
}

Prepared embedding_grad(const Task& task) {
  if (task.shape_out().numel() == 0 && task.shape_in(0).numel() == 0) return nothing();
  const Rows y(task.shape_out(), 0);
  return prepare_scatter(task, {.y = y,
                                .count = task.shape_in(1).numel(),
                                .pieces = 1,
                                .grain = 1,
                                .text = out_of_range(task.op, y.size, 0),
                                .x = 0,
                                .indices = 1,
                                .updates = 0,
                                .from_zero = true});
}

Prepared put_along_axis_add(const Task& task) {
  if (task.shape_out().numel() == 0 && task.shape_in(1).numel() == 0) return nothing();
  const std::int64_t axis = task.attrs.integer("axis");
  const Rows y(task.shape_out(), axis);
  const Put p{y, task.shape_in(1)[static_cast<int>(axis)], out_of_range(task.op, y.size, axis)};
  return dispatch(task.dtype_out(), [&]<class T>(std::type_identity<T>) {
    const std::size_t scratch = sizeof(T) == 2 ? static_cast<std::size_t>(task.shape_out().numel()) * sizeof(float) : 0;
    return dispatch_index(task.dtype_in(1), [&]<class I>(std::type_identity<I>) {
      return backend::prepared([p](const RunArgs& args) { put<T, I>(p, args); }, scratch);
    });
  });
}

}  // namespace varve::cpu
