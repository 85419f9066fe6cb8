// f32 products for operands that stay in the cache: the left one is read as it lies, the right one in panels of
// columns, packed or as they lie too. Packing both, as large products do, would cost more than it saves here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace varve::cpu::plain {

// Element (m, k) at data[m * row + k * step].
struct Left {
  const float* data = nullptr;
  std::int64_t row = 0, step = 1;
};
// Element (k, n) at data[n / width * panel + k * row + n % width]. Whole vectors are read: every row of a panel needs
// room up to the end of its last vector, whatever stands there.
struct Right {
  const float* data = nullptr;
  std::int64_t row = 0, panel = 0;
};
// What the sums begin with, rows at this distance: 0 repeats the first one. Null: 0.
struct Start {
  const float* data = nullptr;
  std::int64_t row = 0;
};
// Memory that somebody reads next: it is brought nearer meanwhile.
struct Fetch {
  const float* data = nullptr;
  std::int64_t floats = 0;
};
// c = start + a·b      a: [M,K]  b: [K,N]  c: [M,N], rows of it at c_row. The start may be c itself.
struct PanelProduct {
  std::int64_t m = 0, n = 0, k = 0;
  Left a;
  Right b;
  Start start = {};
  float* c = nullptr;
  std::int64_t c_row = 0;
  std::array<Fetch, 2> fetch = {};
};

// On the calling thread. The products of one element are added in order of k, whatever its neighbours, and then to its
// start.
void multiply(const PanelProduct& product);

// The same for a few columns, each of B's with its K elements side by side, as A's rows have theirs: sums along K. A
// panel of one vector would be mostly empty.
struct DotProduct {
  std::int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  std::int64_t a_row = 0;
  const float* b = nullptr;  // [N,K]
  Start start = {};
  float* c = nullptr;
  std::int64_t c_row = 0;
};
void multiply(const DotProduct& product);
// How many of n columns are better off so: the last ones, behind full panels.
std::int64_t dot_columns(std::int64_t n);

std::int64_t panel_columns();   // the width of a panel on this machine
std::int64_t vector_columns();  // rows that are read as they lie need room for a multiple of this

// A right operand [K,N], or [N,K] when transposed, packed into panels. Its rows lie this far apart; 0: dense.
std::size_t packed_floats(std::int64_t k, std::int64_t n);
void pack_panels(const float* from, std::int64_t k, std::int64_t n, bool transposed, float* to, std::int64_t apart = 0);
inline Right packed_right(const float* panels, std::int64_t k) {
  return {panels, panel_columns(), k * panel_columns()};
}
// Rows at this distance.
inline Right right_as_it_lies(const float* data, std::int64_t row) { return {data, row, panel_columns()}; }

// sums[n] += the column's sum over the rows of [M,N], in order.
void add_columns(const float* data, std::int64_t row, std::int64_t m, std::int64_t n, float* sums);
// Row i of [M,N], dense, is added to row to[i] of the sums.
void add_rows(const float* data, std::int64_t n, const std::int32_t* to, std::int64_t m, float* sums);

}  // namespace varve::cpu::plain
