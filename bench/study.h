// A study's whole protocol as a list of settings, and what of it is still to be measured.
#pragma once

#include <string>
#include <vector>

#include "bench/driver.h"
#include "bench/report/studies.h"

namespace varve::bench {

struct StudyChoices {
  std::vector<std::string> workloads = {};   // empty: all of the study's
  std::vector<std::string> frameworks = {};  // empty: Varve, PyTorch, Keras on TensorFlow
  std::vector<int> threads = {};             // empty: the study's, as far as there are cores
  std::vector<std::int64_t> batches = {};    // empty: the study's, on a CPU up to four times its own
  std::vector<std::string> devices = {};     // empty: the CPU, and a GPU where there is one
  int runs = 0;                              // repetitions; 0: as the study has them
  int epochs = 0;                            // of each training; 0: as the study has them
  int cores = 1;                             // of this machine
};

// What is measured side by side.
struct StudyCell {
  std::string kind;  // step or train
  Setting setting;
};
struct StudyPlan {
  std::vector<StudyCell> cells = {};
  std::vector<std::string> frameworks = {};
  int rounds = 1, epochs = 0;
};
// Error when a workload is not one of the study's.
StudyPlan study_plan(const Study& study, const StudyChoices& choices);

// The cells with a framework that no record of this machine answers. Out of memory and unsupported are answers; a
// framework that was missing and can now be run is asked again, one that failed too, and all where Varve ran fewer
// rounds or other epochs. The frameworks of a cell are measured together: times are compared within one run only.
std::vector<StudyCell> still_to_measure(const StudyPlan& plan, const std::vector<Record>& records,
                                        const std::string& machine);

}  // namespace varve::bench
