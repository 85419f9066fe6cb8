// Who can compute what on the GPU: functions that offer kernels for a site, by operator name. One file a family.
#pragma once

#include "backend/task.h"

namespace varve::cuda {

using backend::ClaimFn;
using backend::ClaimMap;

void add_shape_claims(ClaimMap&);   // fill, iota, pad, unslice, concat, check_finite, barrier
void add_reduce_claims(ClaimMap&);  // any, all, argmax, argmin, cumsum, sort; reductions that groups leave
void add_index_claims(ClaimMap&);   // gather, scatter_add, embedding and its gradient, one_hot, take_along_axis, …
void add_random_claims(ClaimMap&);  // uniform, normal, bits, dropout
void add_matmul_claims(ClaimMap&);  // products, with bias, activation, and the optimiser's update
void add_conv_claims(ClaimMap&);    // convolutions and their gradients
void add_pool_claims(ClaimMap&);    // pooling and its gradients
void add_row_claims(ClaimMap&);     // softmax, cross-entropy, layer norm: one row at a time
void add_batch_norm_claims(ClaimMap&);
void add_attention_claims(ClaimMap&);
void add_recurrent_claims(ClaimMap&);   // rnn, gru, lstm
void add_class_loss_claims(ClaimMap&);  // the last product with its cross-entropy
void add_collective_claims(ClaimMap&);  // what ranks exchange
void add_linalg_claims(ClaimMap&);      // factorisations and systems of equations

backend::Claim offer_group(const backend::Group& group);                 // generated: elementwise, with reductions
backend::Claim offer_groups(const std::vector<backend::Group>& groups);  // independent ones in one launch
backend::Prepared prepare_strided_copy(const backend::Port& from, const backend::Port& to);

}  // namespace varve::cuda
