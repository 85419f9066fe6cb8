#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/matmul/gemm/panels.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>

#include "backends/cpu/matmul/gemm/panels.h"
#include "backends/cpu/simd/rows-inl.h"
#include "base/threads.h"

HWY_BEFORE_NAMESPACE();
namespace varve::cpu::plain::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using cpu::HWY_NAMESPACE::Floats;
using cpu::HWY_NAMESPACE::load_some;
using cpu::HWY_NAMESPACE::store_some;
using cpu::HWY_NAMESPACE::Vf;

constexpr int kVectors = 3;  // of a panel
// 24 sums, three vectors of B and one of A in 32 registers; 12 sums in 16.
constexpr int kRows = HWY_TARGET <= HWY_AVX3 ? 8 : 4;

// Lines that a block brings to the second-level cache, a few at a time: the processor waits for few at
// once, and those of the operands come first.
class Lines {
 public:
  static constexpr int kKinds = 3;
  static constexpr std::int64_t kSteps = 16;  // of a sum, between two looks ahead

  // Part [begin, end) of `parts` of each kind.
  Lines(const Fetch (&all)[kKinds], std::int64_t begin, std::int64_t end, std::int64_t parts) {
    for (int i = 0; i < kKinds; ++i) parts_[i] = part(all[i], begin, end, parts);
  }
  // Some of what is left; how many of the `left` steps to go on for.
  HWY_INLINE std::int64_t next(std::int64_t left) {
    std::int64_t lines = kLines;
    for (Part& part : parts_)
      for (; part.at < part.end && lines > 0; part.at += kLine, --lines) __builtin_prefetch(part.at, 0, 2);
    return lines > 0 ? left : std::min(left, kSteps);
  }

 private:
  static constexpr std::int64_t kLine = 16, kLines = 4;  // floats of a cache line; lines at a time
  struct Part {
    const float *at, *end;
  };
  static Part part(const Fetch& fetch, std::int64_t begin, std::int64_t end, std::int64_t parts) {
    return {fetch.data + fetch.floats * begin / parts, fetch.data + fetch.floats * end / parts};
  }

  Part parts_[kKinds];
};

// One block of C, `columns` wide: all but the last vector are full. What the sums begin with is added in the end: it
// may come from far, and so may C, and their lines, a row of them at a time, have the whole sum's time.
template <int R, int N>
void block(const PanelProduct& p, const float* a, const float* b, const float* start, float* c, std::size_t columns,
           Lines fetch) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  Vf sums[R][N];
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) sums[i][j] = hn::Zero(d);
  const std::int64_t row = p.a.row, a_step = p.a.step, b_step = p.b.row;
  const int at_once = p.k < R * Lines::kSteps ? R : 1;
  int ready = 0;  // rows of C that are prefetched
  for (std::int64_t left = p.k, steps = 0; left > 0; left -= steps) {
    steps = fetch.next(left);
    if (ready < R) steps = std::min(left, Lines::kSteps);
    for (int i = 0; i < at_once && ready < R; ++i, ++ready)
      for (std::size_t at = 0; at < N * lanes; at += lanes) {
        hwy::Prefetch(c + ready * p.c_row + at);
        if (start != nullptr) hwy::Prefetch(start + ready * p.start.row + at);
      }
    for (std::int64_t k = 0; k < steps; ++k, a += a_step, b += b_step) {
      Vf right[N];
#pragma GCC unroll 8
      for (int j = 0; j < N; ++j) right[j] = hn::LoadU(d, b + static_cast<std::size_t>(j) * lanes);
#pragma GCC unroll 8
      for (int i = 0; i < R; ++i) {
        const Vf broadcast = hn::Set(d, a[i * row]);
#pragma GCC unroll 8
        for (int j = 0; j < N; ++j) sums[i][j] = hn::MulAdd(broadcast, right[j], sums[i][j]);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) {
      const std::size_t at = static_cast<std::size_t>(j) * lanes;
      if (start != nullptr) sums[i][j] = hn::Add(sums[i][j], load_some(d, start + i * p.start.row + at, columns - at));
      store_some(d, sums[i][j], c + i * p.c_row + at, columns - at);
    }
}

// A panel of the right operand: where it is, its first column and its columns.
struct Panel {
  const float* data;
  std::int64_t column, columns;
  Fetch fetch[Lines::kKinds];  // its share of what somebody else reads, and the panel after it where that is packed
};

// Rows [first, m) of one panel in blocks of R, what is left in smaller ones.
template <int R, int N>
void rows(const PanelProduct& p, std::int64_t first, const Panel& panel) {
  for (; first + R <= p.m; first += R) {
    const float* start = p.start.data ? p.start.data + first * p.start.row + panel.column : nullptr;
    block<R, N>(p, p.a.data + first * p.a.row, panel.data, start, p.c + first * p.c_row + panel.column,
                static_cast<std::size_t>(panel.columns), Lines(panel.fetch, first, first + R, p.m));
  }
  if constexpr (R > 1) {
    if (first < p.m) rows<R / 2, N>(p, first, panel);
  }
}

void multiply_all(const PanelProduct& p) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(Floats()));
  const std::int64_t width = kVectors * lanes, count = (p.n + width - 1) / width;
  for (std::int64_t number = 0; number < count; ++number) {
    const std::int64_t column = number * width;
    Panel panel{p.b.data + number * p.b.panel, column, std::min(width, p.n - column), {}};
    for (std::size_t i = 0; i < p.fetch.size(); ++i) {
      const std::int64_t begin = p.fetch[i].floats * number / count, end = p.fetch[i].floats * (number + 1) / count;
      panel.fetch[i] = {p.fetch[i].data + begin, end - begin};
    }
    if (p.b.row == width && number + 1 < count) panel.fetch[p.fetch.size()] = {panel.data + p.b.panel, p.k * width};
    if (panel.columns > 2 * lanes)
      rows<kRows, 3>(p, 0, panel);
    else if (panel.columns > lanes)
      rows<kRows, 2>(p, 0, panel);
    else
      rows<kRows, 1>(p, 0, panel);
  }
}

// R rows by N columns of a product along K.
template <int R, int N>
void dots(const DotProduct& p, std::int64_t row, std::int64_t column) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d), end = static_cast<std::size_t>(p.k);
  const float *a = p.a + row * p.a_row, *b = p.b + column * p.k;
  Vf sums[R][N];
#pragma GCC unroll 4
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) sums[i][j] = hn::Zero(d);
  const auto add = [&](std::size_t k, const auto& load) HWY_ATTR {
    Vf right[N];
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) right[j] = load(b + j * p.k + k);
#pragma GCC unroll 4
    for (int i = 0; i < R; ++i) {
      const Vf left = load(a + i * p.a_row + k);
#pragma GCC unroll 4
      for (int j = 0; j < N; ++j) sums[i][j] = hn::MulAdd(left, right[j], sums[i][j]);
    }
  };
  std::size_t k = 0;
  for (; k + lanes <= end; k += lanes) add(k, [&](const float* at) HWY_ATTR { return hn::LoadU(d, at); });
  if (k < end) add(k, [&](const float* at) HWY_ATTR { return load_some(d, at, end - k); });
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < N; ++j) {
      const float* start = p.start.data ? p.start.data + (row + i) * p.start.row + column + j : nullptr;
      p.c[(row + i) * p.c_row + column + j] = hn::GetLane(hn::SumOfLanes(d, sums[i][j])) + (start ? *start : 0.f);
    }
}

template <int N>
void dot_rows(const DotProduct& p, std::int64_t column) {
  std::int64_t row = 0;
  for (; row + 4 <= p.m; row += 4) dots<4, N>(p, row, column);
  for (; row < p.m; ++row) dots<1, N>(p, row, column);
}

void multiply_dots(const DotProduct& p) {
  std::int64_t column = 0;
  for (; column + 4 <= p.n; column += 4) dot_rows<4>(p, column);
  for (; column < p.n; ++column) dot_rows<1>(p, column);
}

// N vectors of columns at once: one sum alone would wait for itself.
template <int N>
void add_column_sums(const float* data, std::int64_t row, std::int64_t m, std::size_t columns, float* sums) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t column = 0;
  for (; column + N * lanes <= columns || (N == 1 && column < columns); column += N * lanes) {
    Vf all[N];
    const auto get = [&](const float* from, std::size_t j) HWY_ATTR {
      const std::size_t at = column + j * lanes;
      return N == 1 ? load_some(d, from + at, columns - at) : hn::LoadU(d, from + at);
    };
    for (std::size_t j = 0; j < N; ++j) all[j] = get(sums, j);
    for (std::int64_t i = 0; i < m; ++i)
#pragma GCC unroll 8
      for (std::size_t j = 0; j < N; ++j) all[j] = hn::Add(all[j], get(data + i * row, j));
    for (std::size_t j = 0; j < N; ++j) store_some(d, all[j], sums + column + j * lanes, columns - column - j * lanes);
  }
  if constexpr (N > 1) add_column_sums<1>(data + column, row, m, columns - column, sums + column);
}
void add_all_column_sums(const float* data, std::int64_t row, std::int64_t m, std::int64_t n, float* sums) {
  add_column_sums<8>(data, row, m, static_cast<std::size_t>(n), sums);
}

void add_rows_to(const float* data, std::int64_t n, const std::int32_t* to, std::int64_t m, float* sums) {
  constexpr std::int64_t kAhead = 4, kLine = 16;  // rows; floats of a cache line
  const Floats d;
  const auto columns = static_cast<std::size_t>(n);
  for (std::int64_t i = 0; i < m; ++i, data += n) {
    if (i + kAhead < m)
      for (std::int64_t at = 0; at < n; at += kLine) hwy::Prefetch(sums + to[i + kAhead] * n + at);
    float* sum = sums + to[i] * n;
    for (std::size_t at = 0; at < columns; at += hn::Lanes(d)) {
      const std::size_t left = columns - at;
      store_some(d, hn::Add(load_some(d, sum + at, left), load_some(d, data + at, left)), sum + at, left);
    }
  }
}

std::int64_t vector_width() { return static_cast<std::int64_t>(hn::Lanes(Floats())); }
std::int64_t panel_width() { return kVectors * vector_width(); }

}  // namespace
}  // namespace varve::cpu::plain::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace varve::cpu::plain {
namespace {

HWY_EXPORT(multiply_all);
HWY_EXPORT(multiply_dots);
HWY_EXPORT(add_all_column_sums);
HWY_EXPORT(add_rows_to);
HWY_EXPORT(vector_width);
HWY_EXPORT(panel_width);

}  // namespace

void multiply(const PanelProduct& product) { HWY_DYNAMIC_DISPATCH(multiply_all)(product); }
void multiply(const DotProduct& product) { HWY_DYNAMIC_DISPATCH(multiply_dots)(product); }
std::int64_t panel_columns() { return HWY_DYNAMIC_DISPATCH(panel_width)(); }
std::int64_t vector_columns() { return HWY_DYNAMIC_DISPATCH(vector_width)(); }

std::int64_t dot_columns(std::int64_t n) {
  const std::int64_t left = n % vector_columns();
  return 2 * left <= vector_columns() ? left : 0;
}

std::size_t packed_floats(std::int64_t k, std::int64_t n) {
  const std::int64_t width = panel_columns();
  return static_cast<std::size_t>((n + width - 1) / width * width * k);
}

void pack_panels(const float* from, std::int64_t k, std::int64_t n, bool transposed, float* to, std::int64_t apart) {
  if (apart == 0) apart = transposed ? k : n;
  const std::int64_t width = panel_columns(), row = transposed ? 1 : apart, column = transposed ? apart : 1;
  parallel_for((n + width - 1) / width, 1, [=](std::int64_t panel, std::int64_t) {
    const std::int64_t first = panel * width, filled = std::min(width, n - first);
    float* out = to + first * k;
    for (std::int64_t p = 0; p < k; ++p, out += width) {
      for (std::int64_t j = 0; j < filled; ++j) out[j] = from[p * row + (first + j) * column];
      std::fill(out + filled, out + width, 0.f);
    }
  });
}

void add_columns(const float* data, std::int64_t row, std::int64_t m, std::int64_t n, float* sums) {
  HWY_DYNAMIC_DISPATCH(add_all_column_sums)(data, row, m, n, sums);
}

void add_rows(const float* data, std::int64_t n, const std::int32_t* to, std::int64_t m, float* sums) {
  HWY_DYNAMIC_DISPATCH(add_rows_to)(data, n, to, m, sums);
}

}  // namespace varve::cpu::plain
#endif
