// `varve predict` of networks of several inputs or outputs.
#pragma once

#include <string>
#include <vector>

#include "varve/train.h"

namespace varve::cli {

struct FieldsAsked {
  std::vector<std::string> words;
  int top = 0;
  bool json = false, csv = false;
};
bool has_fields(const train::TrainedModel& run);  // several inputs or outputs
int predict_fields(const train::TrainedModel& run, const FieldsAsked& asked);

}  // namespace varve::cli
