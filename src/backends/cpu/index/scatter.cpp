// Writing at positions that are themselves tensors: every place is one thread's, which takes the updates in their
// order, so that the last one assigned stays and products repeat bit for bit.
#include "backends/cpu/index/index_add.h"

namespace varve::cpu {
namespace {

using backend::Prepared;
using backend::RunArgs;

// y[o, index, i] is joined with updates[o, j, i]; index is indices[j] or, for single elements, indices[o, j, i].
struct Writing {
  Rows y;
  std::int64_t count;  // of updates along the axis
  bool singly;
  std::int64_t bands;  // of rows of y, each of one thread
  std::string text;
};

struct Assign {
  template <class T>
  static T join(T, T update) {
    return update;
  }
};
template <bool kLargest>
struct Extreme {
  template <class T>
  static T join(T now, T update) {
    return beats<kLargest>(ordered<kLargest>(update), ordered<kLargest>(now)) ? update : now;
  }
};
struct Multiply {
  template <class T>
  static T join(T now, T update) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<std::uint64_t>(now) * static_cast<std::uint64_t>(update));
    else
      return cast_to<T>(cast_to<Sum<T>>(now) * cast_to<Sum<T>>(update));
  }
};

// The updates of rows [low, high) of slab o. S is what places hold while they are joined.
template <class Op, class T, class S, class I>
void write_band(const Writing& w, const RunArgs& args, S* y, std::int64_t o, std::int64_t low, std::int64_t high) {
  const I* indices = static_cast<const I*>(args.in[1]);
  const T* updates = static_cast<const T*>(args.in[2]);
  const std::int64_t inner = w.y.inner;
  S* slab = y + o * w.y.size * inner;
  for (std::int64_t j = 0; j < w.count; ++j) {
    const std::int64_t first = (o * w.count + j) * inner;
    if (w.singly) {
      for (std::int64_t i = 0; i < inner; ++i) {
        const std::int64_t index = indices[first + i];
        if (index < 0 || index >= w.y.size) {
          args.errors->note(w.text, index);
        } else if (index >= low && index < high) {
          S& place = slab[index * inner + i];
          place = Op::join(place, cast_to<S>(element(updates, first + i)));
        }
      }
      continue;
    }
    const std::int64_t index = indices[j];
    if (index < 0 || index >= w.y.size) {
      args.errors->note(w.text, index);
    } else if (index >= low && index < high) {
      S* row = slab + index * inner;
      if constexpr (std::is_same_v<Op, Assign>)
        std::memcpy(row, updates + first, static_cast<std::size_t>(inner) * sizeof(T));
      else
        for (std::int64_t i = 0; i < inner; ++i) row[i] = Op::join(row[i], cast_to<S>(element(updates, first + i)));
    }
  }
}

// 16-bit products are taken in float beside the output and rounded once.
template <class Op, class T>
using Held = std::conditional_t<std::is_same_v<Op, Multiply> && sizeof(T) == 2 && !std::is_integral_v<T>, float, T>;

template <class Op, class T, class I>
void write(const Writing& w, const RunArgs& args) {
  using S = Held<Op, T>;
  const std::int64_t total = w.y.outer * w.y.size * w.y.inner;
  S* y;
  if constexpr (std::is_same_v<S, T>) {
    y = static_cast<T*>(args.out[0]);
    copy_bytes(y, args.in[0], total * static_cast<std::int64_t>(sizeof(T)));
  } else {
    y = static_cast<float*>(args.scratch);
    const T* x = static_cast<const T*>(args.in[0]);
    for (std::int64_t i = 0; i < total; ++i) y[i] = cast_to<S>(x[i]);
  }
  const std::int64_t band = (w.y.size + w.bands - 1) / w.bands;
  parallel_for(w.y.outer * w.bands, 1, [&](std::int64_t begin, std::int64_t end) {
    each_row(begin, end, w.bands, [&](std::int64_t o, std::int64_t b) {
      write_band<Op, T, S, I>(w, args, y, o, b * band, std::min((b + 1) * band, w.y.size));
    });
  });
  if constexpr (!std::is_same_v<S, T>)
    for (std::int64_t i = 0; i < total; ++i) static_cast<T*>(args.out[0])[i] = cast_to<T>(y[i]);
}

template <class Op>
Prepared prepare(const Task& task, const Writing& w) {
  return dispatch(task.dtype_out(), [&]<class T>(std::type_identity<T>) {
    const bool held = !std::is_same_v<Held<Op, T>, T>;
    const std::size_t scratch = held ? static_cast<std::size_t>(task.shape_out().numel()) * sizeof(float) : 0;
    return dispatch_index(task.dtype_in(1), [&]<class I>(std::type_identity<I>) {
      return backend::prepared([w](const RunArgs& args) { write<Op, T, I>(w, args); }, scratch);
    });
  });
}

Prepared writing(const Task& task, bool singly) {
  if (task.shape_out().numel() == 0 && task.shape_in(2).numel() == 0) return nothing();
  const std::int64_t axis = task.attrs.integer("axis");
  const Rows y(task.shape_out(), axis);
  // Every band reads all indices: few of them, and only where rows are worth it.
  constexpr std::int64_t kMostBands = 16;
  const std::int64_t bytes = task.shape_in(2).numel() * element_bytes(task.dtype_out());
  const std::int64_t bands = y.outer > kMostBands ? 1 : std::clamp<std::int64_t>(bytes / grain_for(1), 1, kMostBands);
  const Writing w{y, singly ? task.shape_in(1)[static_cast<int>(axis)] : task.shape_in(1).numel(), singly, bands,
                  out_of_range(task.op, y.size, axis)};
  const std::string& mode = task.attrs.text("mode");
  if (mode == "max") return prepare<Extreme<true>>(task, w);
  if (mode == "min") return prepare<Extreme<false>>(task, w);
  return mode == "product" ? prepare<Multiply>(task, w) : prepare<Assign>(task, w);
}

}  // namespace

Prepared scatter(const Task& task) { return writing(task, false); }
Prepared put_along_axis(const Task& task) { return writing(task, true); }

}  // namespace varve::cpu
