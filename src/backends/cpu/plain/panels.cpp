#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/plain/panels.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>

#include "backends/cpu/plain/panels.h"
#include "backends/cpu/tile/rows-inl.h"
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

// One block of C, `columns` wide: all but the last vector are full. What the sums begin with is added in the end: it
// may come from far, and so may C, and their lines have the whole sum's time.
template <int R, int N>
void block(const PanelProduct& p, const float* a, const float* b, const float* start, float* c, std::size_t columns) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  Vf sums[R][N];
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) {
      const std::size_t at = static_cast<std::size_t>(j) * lanes;
      sums[i][j] = hn::Zero(d);
      hwy::Prefetch(c + i * p.c_row + at);
      if (start != nullptr) hwy::Prefetch(start + i * p.start.row + at);
    }
  for (std::int64_t k = 0; k < p.k; ++k, a += p.a.step, b += p.b.row) {
    Vf right[N];
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) right[j] = hn::LoadU(d, b + static_cast<std::size_t>(j) * lanes);
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i) {
      const Vf left = hn::Set(d, a[i * p.a.row]);
#pragma GCC unroll 8
      for (int j = 0; j < N; ++j) sums[i][j] = hn::MulAdd(left, right[j], sums[i][j]);
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

// Part [begin, end) of `parts` to the second-level cache.
HWY_INLINE void fetch_part(const Fetch& fetch, std::int64_t begin, std::int64_t end, std::int64_t parts) {
  constexpr std::int64_t kLine = 16;
  for (std::int64_t at = fetch.floats * begin / parts; at < fetch.floats * end / parts; at += kLine)
    __builtin_prefetch(fetch.data + at, 0, 2);
}

// A panel of the right operand: where it is, its first column and its columns.
struct Panel {
  const float* data;
  std::int64_t column, columns, number, count;
  Fetch next;  // the panel after it, where it is packed
};

// Rows [first, m) of one panel in blocks of R, what is left in smaller ones.
template <int R, int N>
void rows(const PanelProduct& p, std::int64_t first, const Panel& panel) {
  for (; first + R <= p.m; first += R) {
    fetch_part(panel.next, first, first + R, p.m);
    fetch_part(p.fetch, panel.number * p.m + first, panel.number * p.m + first + R, panel.count * p.m);
    const float* start = p.start.data ? p.start.data + first * p.start.row + panel.column : nullptr;
    block<R, N>(p, p.a.data + first * p.a.row, panel.data, start, p.c + first * p.c_row + panel.column,
                static_cast<std::size_t>(panel.columns));
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
    Panel panel{p.b.data + number * p.b.panel, column, std::min(width, p.n - column), number, count, {}};
    if (p.b.row == width && number + 1 < count) panel.next = {panel.data + p.b.panel, p.k * width};
    if (panel.columns > 2 * lanes)
      rows<kRows, 3>(p, 0, panel);
    else if (panel.columns > lanes)
      rows<kRows, 2>(p, 0, panel);
    else
      rows<kRows, 1>(p, 0, panel);
  }
}

void add_column_sums(const float* data, std::int64_t row, std::int64_t m, std::int64_t n, float* sums) {
  const Floats d;
  for (std::size_t column = 0, end = static_cast<std::size_t>(n); column < end; column += hn::Lanes(d)) {
    Vf sum = load_some(d, sums + column, end - column);
    for (std::int64_t i = 0; i < m; ++i) sum = hn::Add(sum, load_some(d, data + i * row + column, end - column));
    store_some(d, sum, sums + column, end - column);
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
HWY_EXPORT(add_column_sums);
HWY_EXPORT(vector_width);
HWY_EXPORT(panel_width);

}  // namespace

void multiply(const PanelProduct& product) { HWY_DYNAMIC_DISPATCH(multiply_all)(product); }
std::int64_t panel_columns() { return HWY_DYNAMIC_DISPATCH(panel_width)(); }
std::int64_t vector_columns() { return HWY_DYNAMIC_DISPATCH(vector_width)(); }

std::size_t packed_floats(std::int64_t k, std::int64_t n) {
  const std::int64_t width = panel_columns();
  return static_cast<std::size_t>((n + width - 1) / width * width * k);
}

void pack_panels(const float* from, std::int64_t k, std::int64_t n, bool turned, float* to) {
  const std::int64_t width = panel_columns(), row = turned ? 1 : n, column = turned ? k : 1;
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
  HWY_DYNAMIC_DISPATCH(add_column_sums)(data, row, m, n, sums);
}

}  // namespace varve::cpu::plain
#endif
