// Records as tables for a terminal.
#pragma once

#include <string>
#include <vector>

#include "bench/record.h"

namespace varve::cli {

// A line for each setting: every framework's median with quartiles, the best peer over Varve with its interval, and
// Varve's peak memory over PyTorch's (or the leanest peer's). Below it, why some have no figure, and who won.
std::string comparison_table(const std::vector<bench::Record>& records);

// Of single predictions: the 50th, 90th, 95th and 99th percentile of a call, and samples a second.
std::string percentile_table(const std::vector<bench::Record>& records);

// Forward, gradient, update and data loading apart; and layer by layer, where a framework tells.
std::string parts_table(const std::vector<bench::Record>& records);
std::string layers_table(const std::vector<bench::Record>& records);
// Time to train and to test and test accuracy, mean ± deviation; epochs and seconds to the target, memory, utilisation.
std::string training_table(const std::vector<bench::Record>& records);
// What each lever is worth: the step without it over the whole step.
std::string ablation_table(const std::vector<bench::Record>& records);

std::string setting_of(const bench::Record& record);  // "fcn5 b64 t2"
std::string ms_text(double ms);                       // three digits that count

}  // namespace varve::cli
