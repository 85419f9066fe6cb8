// What a step w - rate · (g + decay · w) multiplies gradient and weights with: -rate and 1 - rate · decay, as two
// numbers of type WIDE that a product reads by address.
#include "kernels/prelude.cuh"

#include "generated.cuh"

extern "C" __global__ void update_scale(const WIDE* rate, const WIDE* decay, WIDE rate_now, WIDE decay_now,
                                        WIDE* scale) {
  begin_kernel();
  if (rate) rate_now = *rate;
  if (decay) decay_now = *decay;
  scale[0] = -rate_now;
  scale[1] = (WIDE)1 - rate_now * decay_now;
}
