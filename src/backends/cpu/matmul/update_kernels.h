// Optimiser steps over runs of f32, in registers from load to store: for where a gradient is still in the cache and the
// arithmetic, not memory, sets the pace.
#pragma once

#include <cstddef>

namespace varve::cpu {

// The scalars of adam_update and adamw_update.
struct AdamStep {
  float step = 0, root = 0;  // rate / (1 - β1ᵗ), 1 / √(1 - β2ᵗ)
  float blend1 = 0, blend2 = 0, epsilon = 0;
  float decay = 0;  // of the weight, in the gradient
  float keep = 1;   // of the weight, apart from it
};

// m += blend1·(g - m), v += blend2·(g² - v), w = keep·w - step·m / (√v·root + ε), where g includes decay·w. Outputs may
// be the memory of the inputs.
struct AdamRun {
  const float *g, *w, *m, *v;
  float *next_w, *next_m, *next_v;
};
void adam_run(const AdamRun& run, const AdamStep& step, std::size_t count);

}  // namespace varve::cpu
