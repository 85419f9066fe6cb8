#include "backends/cpu/step_product.h"

#include <algorithm>
#include <bit>

#include "backends/cpu/tile/lstm_step.h"
#include "backends/cpu/tile/scratch.h"

namespace varve::cpu {
namespace {

constexpr std::int64_t kFewestRows = 4;  // worth a lane of its own
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
  blocks.lanes = std::min<std::int64_t>(setting.threads, blocks.count());
  return blocks;
}

std::size_t StepProduct::scratch_bytes() const {
  const std::size_t floats =
      spec_.gates ? lstm_packed_floats(spec_.k, spec_.n / 4) : plain::packed_floats(spec_.k, spec_.n);
  return round_up(floats * sizeof(float));
}

const float* StepProduct::load(const float* w, void* scratch) const {
  auto* panels = static_cast<float*>(scratch);
  if (spec_.gates)
    pack_lstm(w, spec_.k, spec_.n / 4, panels);
  else
    plain::pack_panels(w, spec_.k, spec_.n, spec_.turned, panels);
  return panels;
}

void StepProduct::run(const float* weights, std::int64_t rows, const float* a, float* c) const {
  run(weights, rows, {.a = {a, spec_.k}, .start = {spec_.accumulate ? c : nullptr, spec_.n}, .c = c, .c_row = spec_.n});
}

void StepProduct::run(const float* weights, std::int64_t count, const Rows& rows) const {
  plain::multiply({.m = count,
                   .n = spec_.n,
                   .k = spec_.k,
                   .a = rows.a,
                   .b = plain::packed_right(weights, spec_.k),
                   .start = rows.start,
                   .c = rows.c,
                   .c_row = rows.c_row,
                   .fetch = rows.fetch});
}

}  // namespace varve::cpu
