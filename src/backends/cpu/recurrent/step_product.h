// The product of a recurrent step. Rows of a batch do not meet in a recurrence, so a batch is cut in blocks of rows and
// each runs through time on one thread: no waiting between steps, and the weights are packed once for all.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/common/team.h"
#include "backends/cpu/matmul/gemm/panels.h"
#include "base/threads.h"

namespace varve::cpu {

struct RowBlocks {
  std::int64_t rows = 0;     // of the batch
  std::int64_t block = 1;    // of each block, the last one with what is left
  std::int64_t workers = 1;  // that work at the same time

  // At least `enough` rows where there are as many. By sizes alone where bits must not depend on the number of threads.
  static RowBlocks of(std::int64_t rows, const Setting& setting, std::int64_t enough);

  std::int64_t count() const { return (rows + block - 1) / block; }
  std::int64_t rest() const { return rows - (count() - 1) * block; }  // rows of the last one

  // f(worker, first row, rows) for every block.
  template <class F>
  void each(const F& f) const {
    parallel_for(workers, 1, [&](std::int64_t worker, std::int64_t) {
      for (std::int64_t b = worker; b < count(); b += workers) f(worker, b * block, b + 1 == count() ? rest() : block);
    });
  }
};

// c = a·w, or c += a·w      a: [rows of a block,K]  w: [K,N]  c: [rows of a block,N], all dense, f32
struct StepSpec {
  std::int64_t k = 0, n = 0;
  bool transposed = false;  // w lies as [N,K]
  bool accumulate = false;
  bool gates = false;  // packed for lstm_step, which multiplies by itself
};

class StepProduct {
 public:
  explicit StepProduct(const StepSpec& spec) : spec_(spec) {}

  std::size_t scratch_bytes() const;
  // The weights of one run, packed: before the workers start.
  const float* load(const float* w, void* scratch) const;
  void run(const float* weights, std::int64_t rows, const float* a, float* c) const;
  // c = start + a·w, wherever the rows lie.
  struct Rows {
    const float* a = nullptr;
    std::int64_t a_row = 0;
    plain::Start start = {};
    float* c = nullptr;
    std::int64_t c_row = 0;
    plain::Fetch fetch = {};
  };
  void run(const float* weights, std::int64_t count, const Rows& rows) const;

 private:
  // Columns packed in panels; behind those the last few, each by itself.
  std::int64_t in_panels() const { return spec_.n - plain::dot_columns(spec_.n); }
  std::size_t panel_floats() const;

  StepSpec spec_;
};

}  // namespace varve::cpu
