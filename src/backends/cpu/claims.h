// Who can compute what: functions that offer kernels for a site, by operator name. One folder for each family of
// operators.
#pragma once

#include "backend/task.h"

namespace varve::cpu {

using backend::ClaimFn;
using backend::ClaimMap;

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
void add_compress_claims(ClaimMap&);
void add_linalg_claims(ClaimMap&);
void add_fft_claims(ClaimMap&);
void add_class_loss_claims(ClaimMap&);  // after those of products, which it goes before

}  // namespace varve::cpu
