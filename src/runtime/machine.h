// What this machine can do at best, measured: the measure of every speed claim.
#pragma once

namespace varve::runtime {

struct MachinePeaks {
  double gflops = 0;  // f32 fused multiply-add, all threads
  double gbps = 0;    // triad with streaming stores, all threads
};
MachinePeaks measure_peaks();  // now: memory bandwidth drifts on shared machines
MachinePeaks machine_peaks();  // measured once for each number of threads, about 0.3 s

}  // namespace varve::runtime
