// Several runs side by side.
#pragma once

#include <string>
#include <vector>

#include "varve/train/run.h"

namespace varve::cli {

// A column for each run: its folder, the settings that are not the same in all of them, and what came of it.
std::vector<std::vector<std::string>> comparison(const std::vector<train::RunInfo>& runs);

// The same, and the curves of all runs in one chart for each value, as a page that stands alone.
void save_runs_page(const std::string& path, const std::vector<train::RunInfo>& runs);

}  // namespace varve::cli
