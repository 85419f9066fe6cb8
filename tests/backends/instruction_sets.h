// Kernels for an older processor than this one.
#pragma once

#include <hwy/targets.h>

#include <cstdint>

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

}  // namespace varve::cpu::testing
