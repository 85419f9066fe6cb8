#include "backends/cpu/recurrent/lstm_step.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/recurrent/lstm_step.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>

#include "backends/cpu/common/align.h"
#include "backends/cpu/recurrent/lstm_math-inl.h"
#include "backends/cpu/simd/rows-inl.h"
#include "base/threads.h"

HWY_BEFORE_NAMESPACE();
namespace varve::cpu::HWY_NAMESPACE {
namespace {

constexpr std::size_t kLanes = hn::MaxLanes(Floats());
constexpr int kGates = 4;
// Sums, an element of A for each row and a vector of B: 31 of 32 registers; all of 16.
constexpr int kStepRows = HWY_TARGET <= HWY_AVX3 ? 6 : 3;

// The units that are computed together: as many as a vector has lanes, or those that are left.
struct Units {
  std::int64_t first;
  std::size_t count;
};

// The products [begin, end) of a term.
template <int R, int N>
HWY_INLINE void add_term(const LstmTerm& term, std::int64_t begin, std::int64_t end, std::int64_t row,
                         const Units& units, Vf (&sums)[R][N]) {
  const Floats d;
  const float* HWY_RESTRICT a = term.a.data + row * term.a.row + begin * term.a.step;
  const float* HWY_RESTRICT b =
      term.weights + units.first * kGates * term.k + begin * static_cast<std::int64_t>(N * kLanes);
  for (std::int64_t k = begin; k < end; ++k, a += term.a.step, b += N * kLanes) {
    Vf left[R];
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i) left[i] = hn::Set(d, a[i * term.a.row]);
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) {
      const Vf right = hn::LoadU(d, b + static_cast<std::size_t>(j) * kLanes);
#pragma GCC unroll 8
      for (int i = 0; i < R; ++i) sums[i][j] = hn::MulAdd(left[i], right, sums[i][j]);
    }
  }
}

struct Cell {
  Vf c, o;
};

HWY_INLINE const float* start_of(const LstmStep& s, std::int64_t row) {
  return s.start.data + (s.start_rows ? s.start_rows[row] : row) * s.start.row;
}

// From the sums of one row, gate beside gate.
HWY_INLINE Cell finish_gates(const LstmStep& s, std::int64_t row, std::int64_t first, std::size_t n,
                             const float* sums) {
  const std::int64_t at = row * s.width + first, gates_at = at + 3 * row * s.width;
  const float* start = s.start.data ? start_of(s, row) + first : nullptr;
  const auto pre = [&](int gate) HWY_ATTR {
    const Vf sum = load_some(Floats(), sums + static_cast<std::size_t>(gate) * n, n);
    return start ? hn::Add(sum, load_some(Floats(), start + gate * s.width, n)) : sum;
  };
  const auto put = [&](float* to, Vf v) HWY_ATTR { store_some(Floats(), v, to, n); };
  const Gates gates = activated({pre(0), pre(1), pre(2), pre(3)});
  const Vf c = hn::MulAdd(gates.f, load_some(Floats(), s.c_prev + at, n), hn::Mul(gates.i, gates.g));
  put(s.gates + gates_at, gates.i);
  put(s.gates + gates_at + s.width, gates.f);
  put(s.gates + gates_at + 2 * s.width, gates.g);
  put(s.gates + gates_at + 3 * s.width, gates.o);
  put(s.c + at, c);
  return {c, gates.o};
}

// What is read and written in the end of a row may be far away: its lines have the sum's time to come.
HWY_INLINE void fetch_lines(const LstmStep& s, std::int64_t row, const Units& units) {
  const std::int64_t at = row * s.width + units.first;
  for (int gate = 0; gate < kGates; ++gate) hwy::Prefetch(s.gates + at + (3 * row + gate) * s.width + units.count - 1);
  if (s.start_rows != nullptr)
    for (int gate = 0; gate < kGates; ++gate) {
      const float* lines = start_of(s, row) + units.first + gate * s.width;
      hwy::Prefetch(lines);
      hwy::Prefetch(lines + units.count - 1);
    }
  hwy::Prefetch(s.c_prev + at);
  hwy::Prefetch(s.c + at + units.count - 1);
  hwy::Prefetch(s.h + at + units.count - 1);
}

template <int R, int N, bool Whole>
void block(const LstmStep& s, std::int64_t row, const Units& units) {
  const Floats d;
  const std::size_t count = Whole ? kLanes : units.count;  // known to the compiler as a rule
  Vf sums[R][N];
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) sums[i][j] = hn::Zero(d);
  // Few lines at a time: those of the operands come first.
  const LstmTerm &first = s.terms[0], &second = s.terms[1];
  for (int i = 0; i < R; ++i) {
    fetch_lines(s, row + i, units);
    add_term<R, N>(first, first.k * i / R, first.k * (i + 1) / R, row, units, sums);
  }
  add_term<R, N>(second, 0, second.k, row, units, sums);
  HWY_ALIGN float kept[R][N * kLanes];
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) hn::Store(sums[i][j], d, kept[i] + static_cast<std::size_t>(j) * kLanes);
  // In two loops: one chain through both activations would be too long to overlap with the next row's.
  Cell cells[R];
  for (int i = 0; i < R; ++i) cells[i] = finish_gates(s, row + i, units.first, count, kept[i]);
  for (int i = 0; i < R; ++i)
    store_some(d, hn::Mul(cells[i].o, cell_tanh(cells[i].c)), s.h + (row + i) * s.width + units.first, count);
}

// Part [begin, end) of `parts` to the second-level cache.
HWY_INLINE void fetch_part(const plain::Fetch& fetch, std::int64_t begin, std::int64_t end, std::int64_t parts) {
  constexpr std::int64_t kLine = 16;  // floats of a cache line
  for (std::int64_t at = fetch.floats * begin / parts; at < fetch.floats * end / parts; at += kLine)
    __builtin_prefetch(fetch.data + at, 0, 2);
}

// All rows from `row` on in blocks of R, what is left in smaller ones.
template <int R, int N, bool Whole = false>
void rows(const LstmStep& s, std::int64_t row, const Units& units) {
  for (; row + R <= s.rows; row += R) {
    const std::int64_t before = units.first * s.rows, count = static_cast<std::int64_t>(units.count);
    fetch_part(s.fetch, before + row * count, before + (row + R) * count, s.rows * s.width);
    block<R, N, Whole>(s, row, units);
  }
  if constexpr (R > 1) {
    if (row < s.rows) rows<R / 2, N, Whole>(s, row, units);
  }
}

void step_of(const LstmStep& s) {
  constexpr auto lanes = static_cast<std::int64_t>(kLanes);
  std::int64_t unit = 0;
  for (; unit + lanes <= s.width; unit += lanes) rows<kStepRows, kGates, true>(s, 0, {unit, kLanes});
  const auto left = static_cast<std::size_t>(s.width - unit);
  if (left == 0) return;
  const std::size_t vectors = (kGates * left + kLanes - 1) / kLanes;
  if (vectors == 4)
    rows<kStepRows, 4>(s, 0, {unit, left});
  else if (vectors == 3)
    rows<kStepRows, 3>(s, 0, {unit, left});
  else if (vectors == 2)
    rows<kStepRows, 2>(s, 0, {unit, left});
  else
    rows<kStepRows, 1>(s, 0, {unit, left});
}

std::int64_t lanes_of_step() { return static_cast<std::int64_t>(kLanes); }

}  // namespace
}  // namespace varve::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace varve::cpu {
namespace {

HWY_EXPORT(step_of);
HWY_EXPORT(lanes_of_step);

}  // namespace

void lstm_step(const LstmStep& step) { HWY_DYNAMIC_DISPATCH(step_of)(step); }

std::size_t lstm_packed_floats(std::int64_t k, std::int64_t width) {
  return static_cast<std::size_t>(k * align_up(4 * width, HWY_DYNAMIC_DISPATCH(lanes_of_step)()));
}

void pack_lstm(const float* weights, std::int64_t k, std::int64_t width, float* to) {
  const std::int64_t lanes = HWY_DYNAMIC_DISPATCH(lanes_of_step)();
  parallel_for((width + lanes - 1) / lanes, 1, [=](std::int64_t group, std::int64_t) {
    const std::int64_t first = group * lanes, units = std::min(lanes, width - first),
                       columns = align_up(4 * units, lanes);
    float* out = to + first * 4 * k;
    for (std::int64_t p = 0; p < k; ++p, out += columns) {
      for (std::int64_t gate = 0; gate < 4; ++gate)
        std::copy_n(weights + (4 * p + gate) * width + first, units, out + gate * units);
      std::fill(out + 4 * units, out + columns, 0.f);
    }
  });
}

}  // namespace varve::cpu
#endif
