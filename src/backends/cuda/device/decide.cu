// Whether a loop goes on: its condition holds, and it may take another step.
#include "kernels/prelude.cuh"

#include "generated.cuh"

// One thread. A loop without a bound (max_steps < 0) ends as well when something was noted: what it waits for may never
// come.
extern "C" __global__ void decide(unsigned char* predicate, i64* steps, i64 more, i64 max_steps, u64* errors,
                                  int text) {
  begin_kernel();
  const i64 taken = *steps + more;
  *steps = taken;
  bool goes_on = *predicate != 0;
  if (max_steps < 0) goes_on = goes_on && *(volatile u64*)errors == 0;
  if (goes_on && taken == max_steps) {
    note(errors, text, taken);
    goes_on = false;
  }
  *predicate = goes_on ? 1 : 0;
}
