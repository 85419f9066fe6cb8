// Convolutions by oneDNN: as a whole or, for the same bits with any number of threads, in fixed blocks of images.
#pragma once

#ifdef VARVE_HAS_ONEDNN

#include <optional>
#include <vector>

#include "backends/cpu/common/team.h"
#include "backends/cpu/conv/conv_shape.h"
#include "backends/cpu/matmul/gemm/partial_sums.h"
#include "backends/cpu/onednn/onednn.h"

namespace varve::cpu {

struct DnnConvSpec {
  DType dtype = f32;  // f32 or bf16
  bool bias = false;  // forward only, as is the activation
  dnn::Activation activation = dnn::Activation::none;
};

struct DnnConvArgs {
  const void* first;  // forward: x, w, y;  input_grad: dy, w, dx;  weight_grad: x, dy, dw
  const void* second;
  const float* bias;
  void* out;
  void* scratch;
};

class DnnConv {
 public:
  static dnn::Offer<DnnConv> prepare(ConvPass pass, const ConvShape& shape, const DnnConvSpec& spec,
                                     const Setting& setting);

  std::size_t scratch_bytes() const { return sums_bytes() + worker_bytes_ * workers_.size(); }
  std::string implementation() const { return workers_[0][0].implementation(); }
  void run(const DnnConvArgs& args) const;

 private:
  struct Job {
    std::int64_t first_image;
    std::size_t shape;
  };

  DnnConv(ConvPass pass, const ConvShape& shape, const DnnConvSpec& spec, const Setting& setting);
  void cut(const Setting& setting);
  std::string prepare_workers(const DnnConvSpec& spec, const Setting& setting);
  dnn::Conv2dArgs job_args(std::size_t job, const DnnConvArgs& args, void* scratch) const;
  std::size_t sums_bytes() const { return sums_ ? sums_->bytes() : 0; }

  ConvPass pass_;
  ConvShape shape_;
  int threads_;
  std::int64_t element_bytes_;
  std::optional<plain::PartialSums> sums_;  // weight gradients of blocks, f32
  std::vector<std::int64_t> images_;        // of each shape
  std::vector<Job> jobs_;
  std::vector<std::vector<dnn::Conv2d>> workers_;
  std::size_t worker_bytes_ = 0;
};

}  // namespace varve::cpu

#endif  // VARVE_HAS_ONEDNN
