#include "backends/cpu/recurrent/step_product.h"

#include <algorithm>
#include <bit>

#include "backends/cpu/common/scratch.h"
#include "backends/cpu/recurrent/lstm_step.h"

namespace varve::cpu {
namespace {

constexpr std::int64_t kFewestRows = 4;  // worth a worker
constexpr std::int64_t kFixedRows = 16;  // of a block whose bits must not depend on the threads, roughly
constexpr std::int64_t kFixedBlocks = 32;

}  // namespace

RowBlocks RowBlocks::of(std::int64_t rows, const Setting& setting, std::int64_t enough) {
  const auto ceil = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  RowBlocks blocks{.rows = rows};
  if (setting.deterministic) {
    // A power of two: equal shares for most machines.
    const auto most = static_cast<std::uint64_t>(std::clamp<std::int64_t>(rows / kFixedRows, 1, kFixedBlocks));
    blocks.block = ceil(rows, static_cast<std::int64_t>(std::bit_floor(most)));
  } else {
    const std::int64_t each = std::max<std::int64_t>(ceil(rows, setting.threads) / enough, 1);
    blocks.block = std::max(ceil(rows, setting.threads * each), kFewestRows);
  }
  blocks.workers = std::min<std::int64_t>(setting.threads, blocks.count());
  return blocks;
}

std::size_t StepProduct::scratch_bytes() const {
  const std::size_t floats = spec_.gates ? lstm_packed_floats(spec_.k, spec_.n / 4)
                                         : panel_floats() + static_cast<std::size_t>(spec_.k * (spec_.n - in_panels()));
  return cache_aligned(floats * sizeof(float));
}

std::size_t StepProduct::panel_floats() const { return plain::packed_floats(spec_.k, in_panels()); }

const float* StepProduct::load(const float* w, void* scratch) const {
  auto* panels = static_cast<float*>(scratch);
  if (spec_.gates) {
    pack_lstm(w, spec_.k, spec_.n / 4, panels);
    return panels;
  }
  const std::int64_t row = spec_.transposed ? 1 : spec_.n, column = spec_.transposed ? spec_.k : 1;
  plain::pack_panels(w, spec_.k, in_panels(), spec_.transposed, panels, spec_.transposed ? spec_.k : spec_.n);
  float* dots = panels + panel_floats();
  for (std::int64_t n = in_panels(); n < spec_.n; ++n)
    for (std::int64_t k = 0; k < spec_.k; ++k) *dots++ = w[k * row + n * column];
  return panels;
}

void StepProduct::run(const float* weights, std::int64_t rows, const float* a, float* c) const {
  run(weights, rows,
      {.a = a, .a_row = spec_.k, .start = {spec_.accumulate ? c : nullptr, spec_.n}, .c = c, .c_row = spec_.n});
}

void StepProduct::run(const float* weights, std::int64_t count, const Rows& rows) const {
  plain::multiply(plain::PanelProduct{.m = count,
                                      .n = in_panels(),
                                      .k = spec_.k,
                                      .a = {rows.a, rows.a_row},
                                      .b = plain::packed_right(weights, spec_.k),
                                      .start = rows.start,
                                      .c = rows.c,
                                      .c_row = rows.c_row,
                                      .fetch = {rows.fetch}});
  if (in_panels() == spec_.n) return;
  const std::int64_t first = in_panels();
  plain::multiply(plain::DotProduct{.m = count,
                                    .n = spec_.n - first,
                                    .k = spec_.k,
                                    .a = rows.a,
                                    .a_row = rows.a_row,
                                    .b = weights + panel_floats(),
                                    .start = {rows.start.data ? rows.start.data + first : nullptr, rows.start.row},
                                    .c = rows.c + first,
                                    .c_row = rows.c_row});
}

}  // namespace varve::cpu
