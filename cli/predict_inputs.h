// What `varve predict` is asked about: files, folders, rows, text, or the standard input.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "varve/train.h"

namespace varve::cli {

// Samples with a name each, as the user knows them: a file, a line of a file, the text itself.
struct Samples {
  std::vector<std::string> names;
  Tensor x;          // [samples, …]
  bool one = false;  // the rows of x are one text, as often as the network carries states
};

// Reads what the words name, prepared as the run's own samples were, and hands it on in parts that fit into memory.
void read_samples(const train::TrainedModel& run, const std::vector<std::string>& words,
                  const std::function<void(const Samples&)>& take);

// The files that words name: pictures, and those in folders.
std::vector<std::string> pictures_of(const std::vector<std::string>& words);
// A picture as the run's own samples were prepared: [1, height, width, channels].
Tensor picture_sample(const train::TrainedModel& run, const std::string& file);

}  // namespace varve::cli
