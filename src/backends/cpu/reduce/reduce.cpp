// Reductions that are no sums: truth over axes, places of extremes, running sums.
#include <limits>

#include "backends/cpu/common/loops.h"
#include "backends/cpu/reduce/sort.h"

namespace varve::cpu {
namespace {

using backend::Prepared;
using backend::RunArgs;

constexpr std::int64_t kColumns = 256;  // of a row that one step takes on: their state stays in L1

// ---- any and all

struct Extent {
  std::int64_t size, stride;
};

// Where point number `index` of a space lies, counted with the last extent fastest.
std::int64_t offset_of(const std::vector<Extent>& space, std::int64_t index) {
  std::int64_t offset = 0;
  for (std::size_t i = space.size(); i-- > 0;) {
    offset += index % space[i].size * space[i].stride;
    index /= space[i].size;
  }
  return offset;
}

// x as kept and reduced axes, neighbours of one kind joined, and the innermost run of either kind apart: it is
// contiguous.
struct Truth {
  std::vector<Extent> kept, reduced;
  std::int64_t outputs = 1, terms = 1;  // points of `kept` and of `reduced`
  std::int64_t run = 1;                 // length of the innermost run
  bool run_is_kept = false;
  std::int64_t segments = 1;  // pieces of a long reduced run
  std::int64_t mask = -1;     // bits that make an element true: the sign of a zero does not
  bool wanted = true;         // `any` looks for a true element, `all` for a false one

  static constexpr std::int64_t kSegment = 32 << 10;  // elements that are worth a thread's while

  Truth(const Shape& x, const Ints& axes, bool look_for) : wanted(look_for) {
    std::int64_t stride = 1;
    std::vector<Extent>* before = nullptr;
    for (int a = x.rank() - 1; a >= 0; --a) {
      std::vector<Extent>& now = std::find(axes.begin(), axes.end(), a) == axes.end() ? kept : reduced;
      if (&now == before)
        now.front().size *= x[a];
      else
        now.insert(now.begin(), {x[a], stride});
      before = &now;
      stride *= x[a];
    }
    run_is_kept = !kept.empty() && kept.back().stride == 1;
    std::vector<Extent>& inner = run_is_kept ? kept : reduced;
    if (!inner.empty()) {
      run = inner.back().size;
      inner.pop_back();
    }
    for (const Extent& extent : kept) outputs *= extent.size;
    for (const Extent& extent : reduced) terms *= extent.size;
    if (!run_is_kept) segments = (run + kSegment - 1) / kSegment;
  }
};

template <class U>
bool found_in(const void* x, std::int64_t begin, std::int64_t end, U mask, bool wanted) {
  constexpr std::int64_t kStep = 1024;  // elements between two looks
  for (std::int64_t from = begin; from < end; from += kStep) {
    const std::int64_t to = std::min(from + kStep, end);
    unsigned found = 0;
#pragma omp simd reduction(| : found)
    for (std::int64_t i = from; i < to; ++i) found |= ((load_as<U>(x, i) & mask) != 0) == wanted;
    if (found) return true;
  }
  return false;
}

// Each output has a contiguous run in x, or several: searched in segments, whose answers are then joined.
template <class U>
void search_runs(const Truth& t, const RunArgs& args) {
  auto* found = static_cast<std::uint8_t*>(args.scratch);
  auto* out = static_cast<std::uint8_t*>(args.out[0]);
  parallel_for(t.outputs * t.segments, grain_for(t.terms * std::min(t.run, t.kSegment)),
               [&](std::int64_t first, std::int64_t last) {
                 each_row(first, last, t.segments, [&](std::int64_t output, std::int64_t segment) {
                   const std::int64_t begin = segment * t.kSegment, end = std::min(begin + t.kSegment, t.run);
                   const std::int64_t base = offset_of(t.kept, output);
                   bool hit = false;
                   for (std::int64_t term = 0; term < t.terms && !hit; ++term) {
                     const std::int64_t from = base + offset_of(t.reduced, term);
                     hit = found_in<U>(args.in[0], from + begin, from + end, static_cast<U>(t.mask), t.wanted);
                   }
                   if (t.segments == 1)
                     out[output] = hit == t.wanted;
                   else
                     found[output * t.segments + segment] = hit;
                 });
               });
  for (std::int64_t output = 0; t.segments > 1 && output < t.outputs; ++output) {
    const bool hit =
        std::any_of(found + output * t.segments, found + (output + 1) * t.segments, [](auto f) { return f; });
    out[output] = hit == t.wanted;
  }
}

// A run of outputs lies along a run of x: each term adds to all of them.
template <class U>
void search_columns(const Truth& t, const RunArgs& args) {
  auto* out = static_cast<std::uint8_t*>(args.out[0]);
  const std::int64_t chunks = (t.run + kColumns - 1) / kColumns;
  parallel_for(t.outputs * chunks, grain_for(t.terms * std::min(t.run, kColumns)),
               [&](std::int64_t first, std::int64_t last) {
                 each_row(first, last, chunks, [&](std::int64_t output, std::int64_t chunk) {
                   const std::int64_t begin = chunk * kColumns, count = std::min(kColumns, t.run - begin);
                   const std::int64_t base = offset_of(t.kept, output) + begin;
                   std::uint8_t hits[kColumns] = {};
                   for (std::int64_t term = 0; term < t.terms; ++term) {
                     const std::int64_t from = base + offset_of(t.reduced, term);
#pragma omp simd
                     for (std::int64_t i = 0; i < count; ++i)
                       hits[i] |= ((load_as<U>(args.in[0], from + i) & static_cast<U>(t.mask)) != 0) == t.wanted;
                   }
                   for (std::int64_t i = 0; i < count; ++i)
                     out[output * t.run + begin + i] = (hits[i] != 0) == t.wanted;
                 });
               });
}

Prepared search(const Task& task, bool wanted) {
  const std::int64_t outputs = task.shape_out().numel();
  if (outputs == 0) return nothing();
  if (task.shape_in(0).numel() == 0)
    return backend::prepared(
        [=](const RunArgs& args) { std::memset(args.out[0], !wanted, static_cast<std::size_t>(outputs)); });
  Truth truth(task.shape_in(0), task.attrs.ints("axes"), wanted);
  const DType dtype = task.dtype_in(0);
  if (is_floating(dtype)) truth.mask = static_cast<std::int64_t>(~std::uint64_t{0} >> (65 - 8 * size_of(dtype)));
  return dispatch_size(size_of(dtype), [&]<class U>(std::type_identity<U>) {
    return backend::prepared(
        [truth](const RunArgs& args) {
          truth.run_is_kept ? search_columns<U>(truth, args) : search_runs<U>(truth, args);
        },
        truth.run_is_kept || truth.segments == 1 ? 0 : static_cast<std::size_t>(truth.outputs * truth.segments));
  });
}

Prepared any(const Task& task) { return search(task, true); }
Prepared all(const Task& task) { return search(task, false); }

// ---- argmax and argmin

// The extreme of a few elements, and whether one of them is NaN: a loop without choices that stay.
template <bool kLargest, class K>
K extreme_of(const K* values, std::int64_t count) {
  K best = values[0];
  [[maybe_unused]] unsigned nan = 0;
  if constexpr (std::is_floating_point_v<K>) {
#pragma omp simd reduction(| : nan)
    for (std::int64_t i = 0; i < count; ++i) nan |= values[i] != values[i];
    if (nan) return std::numeric_limits<K>::quiet_NaN();
  }
  if constexpr (kLargest) {
#pragma omp simd reduction(max : best)
    for (std::int64_t i = 0; i < count; ++i) best = values[i] > best ? values[i] : best;
  } else {
#pragma omp simd reduction(min : best)
    for (std::int64_t i = 0; i < count; ++i) best = values[i] < best ? values[i] : best;
  }
  return best;
}

// Block by block: a block is searched only if its extreme beats what came before.
template <bool kLargest, class T>
std::int64_t arg_row(const T* x, std::int64_t size) {
  using K = Ordered<T>;
  K values[kColumns], best{};
  std::int64_t place = -1;
  for (std::int64_t begin = 0; begin < size; begin += kColumns) {
    const std::int64_t count = std::min(kColumns, size - begin);
    for (std::int64_t i = 0; i < count; ++i) values[i] = ordered<kLargest>(element(x, begin + i));
    const K extreme = extreme_of<kLargest>(values, count);
    if (place >= 0 && !beats<kLargest>(extreme, best)) continue;
    best = extreme;
    place = begin;
    while (!(values[place - begin] == best || (best != best && values[place - begin] != values[place - begin])))
      ++place;
  }
  return place;
}

template <bool kLargest, class T>
void arg_columns(const T* x, std::int64_t* out, const Rows& rows, std::int64_t count) {
  using K = Ordered<T>;
  K best[kColumns];
  for (std::int64_t i = 0; i < count; ++i) {
    best[i] = ordered<kLargest>(element(x, i));
    out[i] = 0;
  }
  for (std::int64_t k = 1; k < rows.size; ++k) {
    const T* row = x + k * rows.inner;
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
      const K value = ordered<kLargest>(element(row, i));
      const bool better = beats<kLargest>(value, best[i]);
      best[i] = better ? value : best[i];
      out[i] = better ? k : out[i];
    }
  }
}

template <bool kLargest>
Prepared arg_extreme(const Task& task) {
  if (task.shape_in(0).numel() == 0) return nothing();
  const Rows rows(task.shape_in(0), task.attrs.integer("axis"));
  return dispatch(task.dtype_in(0), [&]<class T>(std::type_identity<T>) {
    return backend::prepared([rows](const RunArgs& args) {
      const T* x = static_cast<const T*>(args.in[0]);
      auto* out = static_cast<std::int64_t*>(args.out[0]);
      const std::int64_t chunks = (rows.inner + kColumns - 1) / kColumns;
      const std::int64_t bytes = rows.size * std::min(rows.inner, kColumns) * static_cast<std::int64_t>(sizeof(T));
      parallel_for(rows.outer * chunks, grain_for(bytes), [&](std::int64_t first, std::int64_t last) {
        each_row(first, last, chunks, [&](std::int64_t o, std::int64_t chunk) {
          const std::int64_t begin = chunk * kColumns, row = o * rows.size * rows.inner + begin;
          if (rows.inner == 1)
            out[o] = arg_row<kLargest>(x + row, rows.size);
          else
            arg_columns<kLargest>(x + row, out + o * rows.inner + begin, rows, std::min(kColumns, rows.inner - begin));
        });
      });
    });
  });
}

// ---- cumsum: in double, or in integers that wrap

template <class T>
using Running = std::conditional_t<std::is_same_v<Sum<T>, std::uint64_t>, std::uint64_t, double>;
template <class T>
using Accumulated = std::conditional_t<std::is_same_v<Sum<T>, std::uint64_t>, std::int64_t, T>;

template <class T>
void sum_row(const T* x, Accumulated<T>* out, std::int64_t size) {
  Running<T> total = 0;
  for (std::int64_t k = 0; k < size; ++k) {
    total += cast_to<Running<T>>(element(x, k));
    out[k] = cast_to<Accumulated<T>>(total);
  }
}

template <class T>
void sum_columns(const T* x, Accumulated<T>* out, const Rows& rows, std::int64_t count) {
  Running<T> totals[kColumns] = {};
  for (std::int64_t k = 0; k < rows.size; ++k) {
    const std::int64_t row = k * rows.inner;
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
      totals[i] += cast_to<Running<T>>(element(x, row + i));
      out[row + i] = cast_to<Accumulated<T>>(totals[i]);
    }
  }
}

Prepared cumsum(const Task& task) {
  if (task.shape_in(0).numel() == 0) return nothing();
  const Rows rows(task.shape_in(0), task.attrs.integer("axis"));
  return dispatch(task.dtype_in(0), [&]<class T>(std::type_identity<T>) {
    return backend::prepared([rows](const RunArgs& args) {
      const std::int64_t chunks = (rows.inner + kColumns - 1) / kColumns;
      const std::int64_t bytes = rows.size * std::min(rows.inner, kColumns) * static_cast<std::int64_t>(sizeof(T));
      parallel_for(rows.outer * chunks, grain_for(bytes), [&](std::int64_t first, std::int64_t last) {
        each_row(first, last, chunks, [&](std::int64_t o, std::int64_t chunk) {
          const std::int64_t begin = o * rows.size * rows.inner + chunk * kColumns;
          const T* x = static_cast<const T*>(args.in[0]) + begin;
          auto* out = static_cast<Accumulated<T>*>(args.out[0]) + begin;
          if (rows.inner == 1)
            sum_row(x, out, rows.size);
          else
            sum_columns(x, out, rows, std::min(kColumns, rows.inner - chunk * kColumns));
        });
      });
    });
  });
}

}  // namespace

void add_reduce_claims(ClaimMap& map) {
  offer(map, "any", any);
  offer(map, "all", all);
  offer(map, "argmax", arg_extreme<true>);
  offer(map, "argmin", arg_extreme<false>);
  offer(map, "cumsum", cumsum);
  offer(map, "sort", sort);
}

}  // namespace varve::cpu
