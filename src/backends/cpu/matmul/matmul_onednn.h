// Batches of matrix products by oneDNN, split for the machine or, for the same bits with any number of threads, in
// fixed blocks.
#pragma once

#ifdef VARVE_HAS_ONEDNN

#include <optional>
#include <vector>

#include "backends/cpu/common/team.h"
#include "backends/cpu/matmul/product.h"
#include "backends/cpu/onednn/onednn.h"

namespace varve::cpu {

// c = activation(a·b + bias)
struct DnnProductSpec {
  dnn::Type type = dnn::Type::f32;
  bool bias = false;
  dnn::Activation activation = dnn::Activation::none;
};

class DnnProduct {
 public:
  static dnn::Offer<DnnProduct> prepare(const Product& product, const DnnProductSpec& spec, const Setting& setting);

  std::size_t scratch_bytes() const { return worker_bytes_ * workers_.size(); }
  void run(const dnn::MatmulArgs& args) const;

 private:
  // One call: elements from the operands' beginnings, and which of the prepared shapes it has.
  struct Job {
    std::int64_t a, b, c, bias;
    std::size_t shape;
  };
  struct Plan;

  void run_job(const Job& job, const dnn::Matmul& matmul, const dnn::MatmulArgs& args, void* scratch) const;

  int threads_ = 1;
  std::int64_t element_bytes_ = 4;
  std::optional<dnn::DenseBackwardData> dense_backward_;  // a·wᵀ with w row-major, in place of the jobs
  std::vector<Job> jobs_;
  std::vector<std::vector<dnn::Matmul>> workers_;  // each of them with all shapes
  std::size_t worker_bytes_ = 0;
};

}  // namespace varve::cpu

#endif  // VARVE_HAS_ONEDNN
