// The files of a run.
#pragma once

#include <string>

#include "train/model_card.h"
#include "train/report.h"
#include "varve/train.h"

namespace varve::train {

inline std::string last_checkpoint(const std::string& folder) { return folder + "/last.safetensors"; }
inline std::string best_weights(const std::string& folder) { return folder + "/best.safetensors"; }

void write_run_page(const std::string& folder, const Report& report);  // index.html and results.csv

}  // namespace varve::train
