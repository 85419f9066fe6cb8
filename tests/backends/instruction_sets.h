// Kernels for another processor than this one.
#pragma once

#include <hwy/targets.h>

#include <cstdint>

#include "backends/cpu/onednn/onednn.h"

namespace varve::cpu::testing {

// Makes kernels look up their loops for AVX2 for as long as it lives.
struct Avx2Only {
  Avx2Only() { use(hwy::SupportedTargets() & ~std::int64_t{HWY_AVX3 | HWY_AVX3_DL}); }
  ~Avx2Only() { use(0); }
  static void use(std::int64_t targets) {  // 0: whatever the machine has
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

#ifdef VARVE_HAS_ONEDNN
// Decisions for a processor with such products of bf16 for as long as it lives. The library uses what it finds.
struct Bf16As {
  explicit Bf16As(dnn::Bf16 products) { dnn::pretend_bf16_products(products); }
  ~Bf16As() { dnn::pretend_bf16_products({}); }
};
#endif

}  // namespace varve::cpu::testing
