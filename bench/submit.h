// Whether a file of records can stand beside those of other machines (docs/add-your-machine.md says what is asked).
#pragma once

#include <string>
#include <vector>

#include "bench/record.h"

namespace varve::bench {

inline constexpr std::size_t kFewestSamples = 10;  // of a record, over all processes
inline constexpr std::size_t kFewestProcesses = 3;

struct Submission {
  std::vector<Record> records = {};
  std::vector<std::string> refusals = {};  // "line 3, fcn5 torch: …"; empty: the file can be submitted
  std::vector<std::string> remarks = {};   // worth a look, no reason to refuse
  std::string file = {};                   // the name that it should have in bench/results
};
Submission check_submission(const std::string& text);

}  // namespace varve::bench
