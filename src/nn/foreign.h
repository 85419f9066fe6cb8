// PyTorch's layouts of variables, and back.
#pragma once

#include "varve/nn/module.h"

namespace varve::nn {

Tensor to_foreign(const Tensor& ours, const ForeignLayout& layout);
Tensor from_foreign(const Tensor& theirs, const ForeignLayout& layout);
Shape foreign_shape(const Shape& ours, const ForeignLayout& layout);

// PyTorch's LSTM and RNN add two biases where ours have one: "rnn.bias_hh_l0" for "rnn.bias_ih_l0"; "" for other names.
std::string second_bias(const std::string& path);

}  // namespace varve::nn
