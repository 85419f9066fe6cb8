// What a run says about many ranks, checked and as text.
#pragma once

#include <string>

#include "train/config_keys.h"
#include "varve/distributed.h"

namespace varve::train {

// Error for values that mean nothing, and for options that exclude each other.
void check_parallel(const std::string& where, const distributed::Parallel& parallel);
KeyRow parallel_row();

}  // namespace varve::train
