// What a run says about many ranks, checked and as text.
#pragma once

#include <string>

#include "train/config_keys.h"
#include "varve/data.h"
#include "varve/distributed.h"
#include "varve/nn.h"

namespace varve::train {

// Error for values that mean nothing, and for options that exclude each other.
void check_parallel(const std::string& where, const distributed::Parallel& parallel);
// Error where batches of these samples cannot be cut into so many shards by these ranks. 0 shards: nothing to check.
void check_shards(const std::string& where, std::int64_t shards, std::int64_t batch, const data::Dataset& dataset);
KeyRow parallel_row();

// Whether parts of the model live on one rank each.
bool is_model_parallel(const nn::Module& model);
// Error for what cannot be done with such a model.
void check_model_parallel(const std::string& where, const distributed::Parallel& parallel);

}  // namespace varve::train
