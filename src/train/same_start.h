// Whether all ranks are about to train the same network on the same data.
#pragma once

#include <vector>

#include "train/checkpoint.h"
#include "varve/data.h"

namespace varve::train {

// All ranks call it. Error on each of them: which rank differs from rank 0, and in what.
void check_same_start(const Position& position, const std::vector<Kept>& variables, const data::Dataset& train,
                      const data::Dataset& validation);

}  // namespace varve::train
