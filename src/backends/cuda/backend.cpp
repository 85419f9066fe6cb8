#include "backends/cuda/backend.h"

#include "backends/cuda/claims.h"
#include "backends/cuda/cublas/cublas.h"
#include "backends/cuda/device/context.h"
#include "base/text.h"
#include "varve/version.h"

namespace varve::cuda {
namespace {

const ClaimMap& claim_map() {
  static const ClaimMap map = [] {
    ClaimMap all;
    add_shape_claims(all);
    add_reduce_claims(all);
    add_index_claims(all);
    add_random_claims(all);
    add_matmul_claims(all);
    add_conv_claims(all);
    add_pool_claims(all);
    add_row_claims(all);
    add_batch_norm_claims(all);
    add_attention_claims(all);
    add_recurrent_claims(all);
    add_class_loss_claims(all);
    add_collective_claims(all);
    add_linalg_claims(all);
    return all;
  }();
  return map;
}

class CudaBackend final : public backend::Backend {
 public:
  CudaBackend(int ordinal, bool present) : ordinal_(ordinal) {
    if (!present) return;
    choose(ordinal);
    context_ = &context();
    // What the compiler and the library load at their first use comes while the program is still being made.
    static_cast<void>(Function("wake", generated_kernel("extern \"C\" __global__ void wake() {}")));
    BlasGemm::wake();
  }

  std::string name() const override { return ordinal_ == 0 ? "cuda" : cat("cuda:", ordinal_); }
  bool fuses() const override { return true; }
  bool executes() const override { return context_ != nullptr; }
  backend::Device* device() const override { return context_; }

  std::vector<backend::Claim> claims(const backend::Site& site) const override {
    return backend::claims_of(claim_map(), site, "cuda");
  }

  backend::Claim claim_group(const backend::Group& group) const override { return offer_group(group); }
  bool joins_groups() const override { return true; }
  backend::Claim claim_together(const std::vector<backend::Group>& groups) const override {
    return offer_groups(groups);
  }
  bool recomputes() const override { return true; }
  backend::Prepared prepare_copy(const backend::Port& from, const backend::Port& to) const override {
    return prepare_strided_copy(from, to);
  }

 private:
  int ordinal_;
  Context* context_ = nullptr;
};

}  // namespace

std::unique_ptr<backend::Backend> make_cuda_backend(int ordinal, bool present) {
  return std::make_unique<CudaBackend>(ordinal, present);
}

}  // namespace varve::cuda

// What the core looks for in the library.
extern "C" {
__attribute__((visibility("default"))) int varve_plugin_gpus() { return varve::cuda::count_gpus(); }
__attribute__((visibility("default"))) const char* varve_plugin_version() { return varve::version(); }
__attribute__((visibility("default"))) varve::backend::Backend* varve_plugin_backend(int ordinal) {
  return varve::cuda::make_cuda_backend(ordinal).release();
}
}
