// The operators of each family, in the order of their files. Functions, not tables: records are made while the program
// starts, in no particular order, and these are first called after that.
#pragma once

#include <vector>

#include "varve/op.h"

namespace varve {

std::vector<const OpRecord*> create_ops();
std::vector<const OpRecord*> arithmetic_ops();
std::vector<const OpRecord*> unary_ops();  // arithmetic, of one input
std::vector<const OpRecord*> cast_ops();   // arithmetic, that leaves values as they are
std::vector<const OpRecord*> activation_ops();
std::vector<const OpRecord*> softmax_ops();  // activations along an axis
std::vector<const OpRecord*> reduce_ops();
std::vector<const OpRecord*> cumulative_ops();
std::vector<const OpRecord*> shape_ops();
std::vector<const OpRecord*> shape_view_ops();  // part of shape_ops
std::vector<const OpRecord*> index_ops();
std::vector<const OpRecord*> scatter_ops();
std::vector<const OpRecord*> matmul_ops();
std::vector<const OpRecord*> linalg_ops();
std::vector<const OpRecord*> fft_ops();
std::vector<const OpRecord*> conv_ops();
std::vector<const OpRecord*> pool_ops();
std::vector<const OpRecord*> norm_ops();
std::vector<const OpRecord*> recurrent_ops();
std::vector<const OpRecord*> control_ops();
const OpRecord& while_record();  // part of control_ops
std::vector<const OpRecord*> attention_ops();
std::vector<const OpRecord*> loss_ops();
std::vector<const OpRecord*> random_ops();
std::vector<const OpRecord*> optimizer_ops();
std::vector<const OpRecord*> collective_ops();
std::vector<const OpRecord*> compression_ops();
std::vector<const OpRecord*> message_ops();  // collectives of two ranks
std::vector<const OpRecord*> placed_ops();

}  // namespace varve
