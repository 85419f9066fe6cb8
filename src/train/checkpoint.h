// All that a run needs to go on as if it had never stopped, in one file: it is whole or it is not there.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "varve/train.h"

namespace varve::train {

// Where a run stands, besides its tensors.
struct Position {
  // What must be the same for the run to go on.
  std::int64_t seed = 0, batch = 0, samples = 0, accumulate = 1, shards = 0;
  std::string optimizer, loss;
  // Where it is.
  int epoch = 0;                 // epochs that have ended
  std::int64_t step = 0;         // batches done in the present one
  std::int64_t total_steps = 0;  // batches done in all
  std::vector<double> sums;      // loss and metrics of the present epoch so far
  double seen = 0;               // samples in them
  History history;
  std::vector<double> schedule;                               // what it remembers
  std::map<std::string, std::vector<double>> callbacks = {};  // likewise, by name
};

// A variable under the name it has in the file.
struct Kept {
  std::string name;
  Variable variable;
};

// Without a path they are only read, one after the other as for a file: all ranks take part in what is sharded.
void save_checkpoint(const std::string& path, const std::vector<Kept>& variables, const Position& position,
                     const std::map<std::string, std::string>& metadata = {});
// Checks that file and variables match before it changes anything. `values`: they are put there instead of into the
// variables that are sharded.
Position load_checkpoint(const std::string& path, const std::vector<Kept>& variables,
                         std::vector<Tensor>* values = nullptr);

// As a text, and back; Error that names the source when it is damaged.
std::string position_text(const Position& position);
Position position_of(const std::string& text, const std::string& source);

// Where a saved run stands, without its tensors.
Position peek_checkpoint(const std::string& path);
// What a run's folder holds that took time: "3 epochs", "12 steps"; "" when nothing was trained yet.
std::string what_is_trained(const std::string& folder);

// Error when the run that was saved is not the one that is to go on.
void check_same_run(const std::string& path, const Position& saved, const Position& now);

}  // namespace varve::train
