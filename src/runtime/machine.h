// What this machine, or a device in it, can do at best: the measure of every speed claim.
#pragma once

#include "backend/device.h"
#include "varve/precision.h"

namespace varve::runtime {

struct MachinePeaks {
  double gflops = 0;  // f32 fused multiply-add, all threads
  double gbps = 0;    // triad with streaming stores, all threads
};
MachinePeaks measure_peaks();  // now: memory bandwidth drifts on shared machines
MachinePeaks machine_peaks();  // measured once for each number of threads, about 0.3 s
MachinePeaks peaks_on(backend::Device* device, ProductType products);  // null: machine_peaks()

}  // namespace varve::runtime
