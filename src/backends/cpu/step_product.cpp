#include "backends/cpu/step_product.h"

#include <algorithm>
#include <bit>

#include "backends/cpu/tile/scratch.h"

namespace varve::cpu {
namespace {

constexpr std::int64_t kRows = 64;       // of a block that gives the product enough to do
constexpr std::int64_t kFewestRows = 4;  // worth a lane of its own
constexpr std::int64_t kFixedRows = 16;  // of a block whose bits must not depend on the threads, roughly
constexpr std::int64_t kFixedBlocks = 32;

#ifdef VARVE_HAS_ONEDNN
std::size_t bytes_of(std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(float); }

// to [columns, rows] = the transpose of from [rows, columns], in squares that stay in the cache.
void turn(const float* from, std::int64_t rows, std::int64_t columns, float* to) {
  constexpr std::int64_t kSquare = 32;
  parallel_for(columns, kSquare, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t first = 0; first < rows; first += kSquare)
      for (std::int64_t column = begin; column < end; ++column)
        for (std::int64_t row = first; row < std::min(first + kSquare, rows); ++row)
          to[column * rows + row] = from[row * columns + column];
  });
}
#endif

}  // namespace

RowBlocks RowBlocks::of(std::int64_t rows, const Setting& setting) {
  const auto ceil = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  RowBlocks blocks{.rows = rows};
  if (setting.deterministic) {
    // A power of two: equal shares for most machines.
    const auto most = static_cast<std::uint64_t>(std::clamp<std::int64_t>(rows / kFixedRows, 1, kFixedBlocks));
    blocks.block = ceil(rows, static_cast<std::int64_t>(std::bit_floor(most)));
  } else {
    const std::int64_t each = std::max<std::int64_t>(ceil(rows, setting.threads) / kRows, 1);
    blocks.block = std::max(ceil(rows, setting.threads * each), kFewestRows);
  }
  blocks.lanes = std::min<std::int64_t>(setting.threads, blocks.count());
  return blocks;
}

StepProduct::StepProduct(const StepSpec& spec, const RowBlocks& blocks, const Setting& setting)
    : spec_(spec), blocks_(blocks), threads_(setting.threads) {
  if (!prepare_library()) prepare_plain();
}

std::vector<std::int64_t> StepProduct::shapes() const {
  std::vector<std::int64_t> rows{std::min(blocks_.block, blocks_.rows)};
  if (blocks_.rest() != rows[0]) rows.push_back(blocks_.rest());
  return rows;
}

bool StepProduct::prepare_library() {
#ifdef VARVE_HAS_ONEDNN
  const Team team(threads_);
  std::vector<std::vector<dnn::Matmul>> lanes(static_cast<std::size_t>(blocks_.lanes));
  std::size_t most = 0;
  for (std::vector<dnn::Matmul>& lane : lanes)
    for (const std::int64_t rows : shapes()) {
      auto offered = dnn::Matmul::prepare({.m = rows,
                                           .n = spec_.n,
                                           .k = spec_.k,
                                           .a = {.row = spec_.k},
                                           .b = {.row = spec_.n},
                                           .c = {.row = spec_.n},
                                           .beta = spec_.accumulate ? 1.f : 0.f,
                                           .packed_b = true,
                                           .single_thread = true});
      if (!offered) return false;
      most = std::max(most, round_up(offered->scratch_bytes()));
      lane.push_back(std::move(*offered));
    }
  library_ = std::move(lanes);
  lane_bytes_ = most;
  weight_bytes_ = spec_.turned ? round_up(bytes_of(spec_.k * spec_.n)) : 0;
  for (const dnn::Matmul& shape : library_[0]) {
    const bool shared = !packed_at_.empty() && shape.b_layout() == library_[0][0].b_layout();
    packed_at_.push_back(shared ? packed_at_[0] : weight_bytes_);
    if (!shared) weight_bytes_ += round_up(shape.b_layout().bytes());
  }
  return true;
#else
  return false;
#endif
}

void StepProduct::prepare_plain() {
  Product product;
  product.n = spec_.n;
  product.k = spec_.k;
  product.a = {{}, spec_.k, 1};
  product.b = {{}, spec_.turned ? 1 : spec_.n, spec_.turned ? spec_.k : 1};
  product.c = {{}, spec_.n, 1};
  for (const std::int64_t rows : shapes()) {
    product.m = rows;
    plain_.emplace_back(product, plain::Gemm::Options{.accumulate = spec_.accumulate});
    lane_bytes_ = std::max(lane_bytes_, round_up(plain_.back().scratch_bytes()));
  }
}

StepProduct::Weights StepProduct::load(const float* w, void* scratch) const {
  auto* memory = static_cast<std::byte*>(scratch);
  Weights weights{.of_shape = {w, w}, .lanes = memory + weight_bytes_};
#ifdef VARVE_HAS_ONEDNN
  if (!plain_.empty()) return weights;
  const Team team(threads_);
  if (spec_.turned) {
    turn(w, spec_.n, spec_.k, reinterpret_cast<float*>(memory));
    w = reinterpret_cast<const float*>(memory);
  }
  for (std::size_t shape = 0; shape < packed_at_.size(); ++shape) {
    weights.of_shape[shape] = memory + packed_at_[shape];
    if (shape == 0 || packed_at_[shape] != packed_at_[0])
      library_[0][shape].b_layout().pack(w, memory + packed_at_[shape]);
  }
#endif
  return weights;
}

void StepProduct::run(const Weights& weights, std::int64_t lane, std::int64_t rows, const float* a, float* c) const {
  const std::size_t shape = rows == std::min(blocks_.block, blocks_.rows) ? 0 : 1;
  std::byte* scratch = weights.lanes + lane * static_cast<std::int64_t>(lane_bytes_);
  if (!plain_.empty()) return plain_[shape].run(a, weights.of_shape[shape], c, scratch);
#ifdef VARVE_HAS_ONEDNN
  library_[static_cast<std::size_t>(lane)][shape].run(
      {.a = a, .b = weights.of_shape[shape], .c = c, .scratch = scratch});
#endif
}

}  // namespace varve::cpu
