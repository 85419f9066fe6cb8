#include "backends/cpu/backend.h"

#include "backend/collective.h"
#include "backends/cpu/claims.h"
#include "backends/cpu/common/rates.h"
#include "backends/cpu/groups/groups.h"
#include "base/levers.h"
#include "base/text.h"

namespace varve::cpu {
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
    add_max_pool_claims(all);
    add_avg_pool_claims(all);
    add_softmax_claims(all);
    add_layer_norm_claims(all);
    add_cross_entropy_claims(all);
    add_batch_norm_claims(all);
    add_attention_claims(all);
    add_column_claims(all);
    add_gelu_claims(all);
    add_recurrent_claims(all);
    add_compress_claims(all);
    add_linalg_claims(all);
    add_fft_claims(all);
    add_class_loss_claims(all);
    backend::add_collective_claims(all, "cpu");
    return all;
  }();
  return map;
}

class CpuBackend final : public backend::Backend {
 public:
  std::string name() const override { return "cpu"; }
  bool fuses() const override { return true; }
  bool gains_from(DType dtype) const override { return dtype != bf16 || (lever("bf16") && gains_from_bf16()); }

  std::vector<backend::Claim> claims(const backend::Site& site) const override {
    return backend::claims_of(claim_map(), site, "cpu");
  }

  backend::Claim claim_group(const backend::Group& group) const override { return offer_group(group); }
  backend::Prepared prepare_copy(const backend::Port& from, const backend::Port& to) const override {
    return prepare_strided_copy(from, to);
  }
};

}  // namespace

std::unique_ptr<backend::Backend> make_cpu_backend() { return std::make_unique<CpuBackend>(); }

}  // namespace varve::cpu
