// The files of a run.
#pragma once

#include <string>

#include "train/model_card.h"
#include "train/report.h"
#include "varve/train.h"

namespace varve::train {

const std::vector<std::string>& run_files();  // the names of all that is written there, each replaced as a whole

inline std::string last_checkpoint(const std::string& folder) { return folder + "/last.safetensors"; }
inline std::string best_weights(const std::string& folder) { return folder + "/best.safetensors"; }

void save_test(const std::string& folder, const std::vector<std::pair<std::string, double>>& values);  // test.json
std::vector<std::pair<std::string, double>> load_test(const std::string& folder);  // none where there is no such file

void write_run_page(const std::string& folder, const Report& report);  // index.html and results.csv

}  // namespace varve::train
