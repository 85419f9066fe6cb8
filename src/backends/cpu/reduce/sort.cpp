// Order along an axis: keys that compare as integers are sorted with the places they came from.
#include "backends/cpu/reduce/sort.h"

#include <bit>
#include <limits>

#include "backends/cpu/common/loops.h"
#include "backends/cpu/common/radix_sort.h"

namespace varve::cpu {
namespace {

using backend::Prepared;
using backend::RunArgs;

// Grows as the value does: the bits of a floating-point number with the order of the negative ones reversed. Both
// zeros are equal; NaN is last in either direction.
template <class Key, class Float>
Key float_key(Float value, bool descending) {
  using Bits = std::conditional_t<sizeof(Float) == 8, std::uint64_t, std::uint32_t>;
  constexpr Bits sign = Bits{1} << (8 * sizeof(Bits) - 1);
  if (value != value) return std::numeric_limits<Key>::max();
  const Bits bits = value == 0 ? Bits{0} : std::bit_cast<Bits>(value);
  const Bits rising = (bits & sign) != 0 ? static_cast<Bits>(~bits) : static_cast<Bits>(bits | sign);
  return static_cast<Key>(descending ? static_cast<Bits>(~rising) : rising);
}

template <class Key, class T>
Key key_of(T value, bool descending) {
  if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16>) {
    return float_key<Key>(widen(value), descending);
  } else if constexpr (std::is_floating_point_v<T>) {
    return float_key<Key>(value, descending);
  } else {
    constexpr Key sign = std::is_signed_v<T> ? Key{1} << (8 * sizeof(Key) - 1) : Key{0};
    const Key rising = static_cast<Key>(value) ^ sign;
    return descending ? static_cast<Key>(~rising) : rising;
  }
}

template <class T, class Key>
void sort_row(const T* in, T* sorted, std::int64_t* places, const Rows& rows, bool descending, Keyed<Key>* buffer) {
  for (std::int64_t k = 0; k < rows.size; ++k)
    buffer[k] = {key_of<Key>(load_as<T>(in, k * rows.inner), descending), static_cast<Key>(k)};
  const Keyed<Key>* order = stable_sort(buffer, buffer + rows.size, rows.size);
  for (std::int64_t k = 0; k < rows.size; ++k) {
    const auto from = static_cast<std::int64_t>(order[k].place);
    store_as<T>(sorted, k * rows.inner, load_as<T>(in, from * rows.inner));
    places[k * rows.inner] = from;
  }
}

// A few threads' worth of buffers, each for one row after another.
template <class T, class Key>
Prepared prepare_sort(const Rows& rows, bool descending) {
  const std::int64_t count = rows.outer * rows.inner;
  const std::int64_t workers = std::min<std::int64_t>(count, threads());
  const auto run = [=](const RunArgs& args) {
    auto* buffers = static_cast<Keyed<Key>*>(args.scratch);
    parallel_for(workers, 1, [&](std::int64_t worker, std::int64_t) {
      const std::int64_t share = count / workers, more = count % workers;  // the first workers take one row more
      const std::int64_t begin = worker * share + std::min(worker, more), end = begin + share + (worker < more ? 1 : 0);
      each_row(begin, end, rows.inner, [&](std::int64_t o, std::int64_t i) {
        const std::int64_t first = o * rows.size * rows.inner + i;
        sort_row(static_cast<const T*>(args.in[0]) + first, static_cast<T*>(args.out[0]) + first,
                 static_cast<std::int64_t*>(args.out[1]) + first, rows, descending, buffers + 2 * worker * rows.size);
      });
    });
  };
  return backend::prepared(run, static_cast<std::size_t>(2 * workers * rows.size) * sizeof(Keyed<Key>));
}

}  // namespace

Prepared sort(const Task& task) {
  if (task.shape_in(0).numel() == 0) return nothing();
  const Rows rows(task.shape_in(0), task.attrs.integer("axis"));
  const bool descending = task.attrs.flag("descending");
  return dispatch(task.dtype_in(0), [&]<class T>(std::type_identity<T>) {
    if (sizeof(T) < 8 && rows.size <= std::numeric_limits<std::uint32_t>::max())
      return prepare_sort<T, std::conditional_t<sizeof(T) < 8, std::uint32_t, std::uint64_t>>(rows, descending);
    return prepare_sort<T, std::uint64_t>(rows, descending);
  });
}

}  // namespace varve::cpu
