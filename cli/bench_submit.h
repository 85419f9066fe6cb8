// `varve bench submit`: checks files of records, and says how they come into the published results.
#pragma once

#include <string>
#include <vector>

namespace varve::cli {

extern const char* const kSubmitHelp;
int bench_submit(const std::vector<std::string>& files);

}  // namespace varve::cli
