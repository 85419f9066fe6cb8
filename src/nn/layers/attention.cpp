#include "nn/check.h"
#include "nn/state.h"
#include "varve/distributed.h"

namespace varve::nn {
namespace {

// [N, T, D] -> [N, heads, T, D / heads]
Tensor split_heads(const Tensor& x, std::int64_t heads) {
  return transpose(varve::reshape(x, {x.dim(0), x.dim(1), heads, x.dim(2) / heads}), {0, 2, 1, 3});
}

std::int64_t hidden_width(std::int64_t width, const TransformerOptions& options) {
  check_size("transformer_block", "the width", width);
  check_size("transformer_block", "the hidden width", options.hidden, 0);
  return options.hidden ? options.hidden : 4 * width;
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(std::int64_t heads, MultiHeadOptions options)
    : heads_(heads), options_(options), out_proj_(Dense::kAsInput, {.bias = options.bias}), drop_(options.dropout) {
  check_size("multi_head_attention", "the number of heads", heads);
  add("out_proj", out_proj_);
  add("dropout", drop_);
  learns_size();
}

void MultiHeadAttention::split_over_ranks(Split how) {
  if (how != Split::heads) return Module::split_over_ranks(how);
  if (heads_ % distributed::size() != 0)
    throw Error(kind() + ": " + std::to_string(heads_) + " heads do not divide among " +
                std::to_string(distributed::size()) + " ranks.");
  set_split(how);
  out_proj_.place({.split = Split::rows});
}

Tensor MultiHeadAttention::forward(Tensor x, Mode mode) { return mix(x, x, mode, {}); }

// Padding is no key to any query; what padded queries give is padding.
Masked MultiHeadAttention::masked_forward(Tensor x, Mode mode, const Mask& mask) {
  return {mix(x, x, mode, mask), mask};
}

Tensor MultiHeadAttention::attend(const Tensor& query, const Tensor& memory, Mode mode, const Mask& mask) {
  const Mask of_query = Frame::mask_of(query), of_memory = mask.defined() ? mask : Frame::mask_of(memory);
  Tensor y;
  {
    const Frame frame(*this);
    Frame::give_masks();
    if (of_memory.defined()) check_mask(where(), of_memory, memory);
    y = mix(query, memory, mode, of_memory);
    if (!state()->called) state()->first_call(*this, query, y);
  }
  if (of_query.defined() || Frame::knows_masks()) Frame::know(y, of_query);
  return y;
}

Tensor MultiHeadAttention::mix(const Tensor& query, const Tensor& memory, Mode mode, const Mask& mask) {
  check_rank(where(), query, 3, "[N, T, D]");
  check_rank(where(), memory, 3, "[N, T, D]");
  if (const State::Entry* made = state()->find("in_proj_weight"))
    check_features(where(), "input features", made->variable.shape()[0], query);
  const std::int64_t width = query.dim(2);
  check_features(where(), "features of the memory, as the query has", width, memory);
  if (width % heads_ != 0)
    throw Error(where() + ": " + std::to_string(width) + " features cannot be split into " + std::to_string(heads_) +
                " heads (input shape " + query.shape().str() + ").");
  const Variable all_weights = parameter("in_proj_weight", {width, 3 * width}, init::gates(init::glorot_uniform(), 3),
                                         {.foreign = {ForeignLayout::transposed}, .cut = {.columns = 1, .blocks = 3}});
  const Variable all_biases =
      options_.bias ? parameter("in_proj_bias", {3 * width}, init::zeros(), {.cut = {.columns = 0, .blocks = 3}})
                    : Variable{};
  // Split over ranks, each has some of the heads.
  const bool divided = is_divided(where(), all_weights);
  const auto own = [&](const Variable& all) { return compute_type(divided ? distributed::part_of(all) : all); };
  const Tensor weight = own(all_weights), bias = options_.bias ? own(all_biases) : Tensor{};
  const std::int64_t heads = divided ? heads_ / distributed::size() : heads_;
  std::vector<Tensor> parts;  // queries, keys, values
  if (query.node() == memory.node() && query.index() == memory.index()) {
    parts = split(varve::linear(compute_type(query), weight, bias), 3, 2);
  } else {
    const std::vector<Tensor> weights = split(weight, 3, 1);
    const std::vector<Tensor> biases = options_.bias ? split(bias, 3, 0) : std::vector<Tensor>(3);
    for (std::size_t i = 0; i < 3; ++i)
      parts.push_back(varve::linear(compute_type(i == 0 ? query : memory), weights[i], biases[i]));
  }
  const Tensor keys = mask.defined() ? mask.valid().reshape({memory.dim(0), 1, 1, memory.dim(1)}) : Tensor{};
  const Tensor mixed = attention(split_heads(parts[0], heads), split_heads(parts[1], heads),
                                 split_heads(parts[2], heads), {.mask = keys, .causal = options_.causal});
  const Tensor merged = varve::reshape(transpose(mixed, {0, 2, 1, 3}), parts[0].shape());
  return drop_(out_proj_(divided ? gather_columns(merged) : merged, mode), mode);
}

TransformerBlock::TransformerBlock(std::int64_t width, TransformerOptions options)
    : options_(std::move(options)),
      self_attn_(options_.heads, {.causal = options_.causal}),
      norm1_(layer_norm()),
      norm2_(layer_norm()),
      linear1_(hidden_width(width, options_), {.activation = options_.activation}),
      linear2_(width),
      drop_(options_.dropout) {
  if (width % options_.heads != 0)
    throw Error("transformer_block: a width of " + std::to_string(width) + " cannot be split into " +
                std::to_string(options_.heads) + " heads.");
  add("self_attn", self_attn_);
  add("linear1", linear1_);
  add("linear2", linear2_);
  add("norm1", norm1_);
  add("norm2", norm2_);
  add("dropout", drop_);
}

void TransformerBlock::split_over_ranks(Split how) {
  if (how != Split::heads) return Module::split_over_ranks(how);
  self_attn_.place({.split = Split::heads});
  linear1_.place({.split = Split::columns});
  linear2_.place({.split = Split::rows});
}

Tensor TransformerBlock::forward(Tensor x, Mode mode) {
  const auto attend = [&](const Tensor& in) { return drop_(self_attn_(in, mode), mode); };
  const auto mix = [&](const Tensor& in) { return drop_(linear2_(drop_(linear1_(in, mode), mode), mode), mode); };
  if (options_.norm_first) {
    x = x + attend(norm1_(x, mode));
    return x + mix(norm2_(x, mode));
  }
  x = norm1_(x + attend(x), mode);
  return norm2_(x + mix(x), mode);
}

}  // namespace varve::nn
