// Records as a run of the suite would leave them, without any run: figures are invented.
#pragma once

#include <vector>

#include "bench/record.h"

namespace varve::bench {

struct MadeUp {
  int machines = 1;
  bool sweeps = true;     // threads, batch sizes, bf16
  bool trainings = true;  // and predictions, parts, ablations
};
std::vector<Record> made_up_records(const MadeUp& options = {});

// One record that ran, for tests that change a field of it.
Record plain_record();

}  // namespace varve::bench
