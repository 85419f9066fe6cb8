// Who can compute what: functions that offer kernels for a site, by operator name. One folder for each family of
// operators.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace varve::cpu {

// Appends offers and refusals, the best first.
using ClaimFn = std::function<void(const backend::Site& site, std::vector<backend::Claim>& claims)>;
using ClaimMap = std::map<std::string, std::vector<ClaimFn>>;

void add_shape_claims(ClaimMap&);
void add_reduce_claims(ClaimMap&);
void add_index_claims(ClaimMap&);
void add_random_claims(ClaimMap&);
void add_matmul_claims(ClaimMap&);
void add_conv_claims(ClaimMap&);
void add_max_pool_claims(ClaimMap&);
void add_avg_pool_claims(ClaimMap&);
void add_softmax_claims(ClaimMap&);
void add_layer_norm_claims(ClaimMap&);
void add_cross_entropy_claims(ClaimMap&);
void add_batch_norm_claims(ClaimMap&);
void add_attention_claims(ClaimMap&);
void add_column_claims(ClaimMap&);  // sums over leading axes
void add_gelu_claims(ClaimMap&);
void add_recurrent_claims(ClaimMap&);
void add_class_loss_claims(ClaimMap&);  // after those of products, which it goes before

}  // namespace varve::cpu
