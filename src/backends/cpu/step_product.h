// The product of a recurrent step. Rows of a batch do not meet in a recurrence, so a batch is cut in blocks of rows and
// each goes its own way through time, on one thread: no waiting between steps, and the weights are packed once for all.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/cpu/dnn_product.h"
#include "backends/cpu/plain/gemm.h"
#include "backends/cpu/team.h"
#include "base/threads.h"

namespace varve::cpu {

struct RowBlocks {
  std::int64_t rows = 0;   // of the batch
  std::int64_t block = 1;  // of each block, the last one with what is left
  std::int64_t lanes = 1;  // that work at the same time

  // By sizes alone where bits must not depend on the number of threads.
  static RowBlocks of(std::int64_t rows, const Setting& setting);

  std::int64_t count() const { return (rows + block - 1) / block; }
  std::int64_t rest() const { return rows - (count() - 1) * block; }  // rows of the last one

  // f(lane, first row, rows) for every block.
  template <class F>
  void each(const F& f) const {
    parallel_for(lanes, 1, [&](std::int64_t lane, std::int64_t) {
      for (std::int64_t b = lane; b < count(); b += lanes) f(lane, b * block, b + 1 == count() ? rest() : block);
    });
  }
};

// c = a·w, or c += a·w      a: [rows of a block,K]  w: [K,N]  c: [rows of a block,N], all dense, f32
struct StepSpec {
  std::int64_t k = 0, n = 0;
  bool turned = false;  // w lies as [N,K]
  bool accumulate = false;
};

class StepProduct {
 public:
  // The weights of one run.
  struct Weights {
    std::array<const void*, 2> of_shape{};
    std::byte* lanes = nullptr;
  };

  StepProduct(const StepSpec& spec, const RowBlocks& blocks, const Setting& setting);

  std::size_t scratch_bytes() const { return weight_bytes_ + lane_bytes_ * static_cast<std::size_t>(blocks_.lanes); }
  Weights load(const float* w, void* scratch) const;  // before the lanes start
  void run(const Weights& weights, std::int64_t lane, std::int64_t rows, const float* a, float* c) const;

 private:
  bool prepare_library();
  void prepare_plain();
  std::vector<std::int64_t> shapes() const;  // rows that blocks have: one number or two

  StepSpec spec_;
  RowBlocks blocks_;
  int threads_;
  std::size_t weight_bytes_ = 0, lane_bytes_ = 0;
  std::vector<plain::Gemm> plain_;  // one for each shape; empty where the library multiplies
#ifdef VARVE_HAS_ONEDNN
  std::vector<std::vector<dnn::Matmul>> library_;  // of each lane, for each shape
  std::vector<std::size_t> packed_at_;             // of each shape, in the scratch
#endif
};

}  // namespace varve::cpu
