#include "nn/check.h"
#include "nn/state.h"
#include "nn/steps.h"

namespace varve::nn {

Embedding::Embedding(std::int64_t vocabulary, std::int64_t width, EmbeddingOptions options)
    : vocabulary_(vocabulary), width_(width), options_(std::move(options)) {
  check_size("embedding", "the vocabulary", vocabulary);
  check_size("embedding", "the width", width);
  if (options_.padding && (*options_.padding < 0 || *options_.padding >= vocabulary))
    throw Error("embedding: the id of padding is " + std::to_string(*options_.padding) + "; expected 0 to " +
                std::to_string(vocabulary - 1) + ", as the vocabulary says.");
  learns_size();
}

Variable Embedding::weight() {
  return parameter("weight", {vocabulary_, width_}, options_.weight_init ? options_.weight_init : init::normal(1));
}

Tensor Embedding::forward(Tensor ids, Mode mode) { return masked_forward(std::move(ids), mode, {}).y; }

Masked Embedding::masked_forward(Tensor ids, Mode, const Mask& mask) {
  if (!is_integer(ids.dtype()))
    throw Error(where() + ": expected integer token ids, got " + ids.type().str() +
                ". Build with {.dtype = i32}, and give ids as i32 or i64.");
  const Tensor y = compute_type(varve::embedding(weight(), ids));
  if (mask.defined() || !options_.padding) return {y, mask};
  if (ids.rank() != 2)
    throw Error(where() + ": a padding id masks steps of ids [N, T], got " + ids.shape().str() + ".");
  return {y, Mask::of_ids(ids, *options_.padding)};
}

TiedDense::TiedDense(Embedding embedding, bool bias) : embedding_(std::move(embedding)), bias_(bias) { learns_size(); }

Tensor TiedDense::forward(Tensor x, Mode) {
  if (x.rank() < 1) throw Error(where() + ": expected input [.., features], got a scalar.");
  const Variable weight = embedding_.weight();
  share("weight", weight);
  check_features(where(), "input features, the width of its embedding", weight.shape()[1], x);
  const Tensor y = matmul(compute_type(x), compute_type(weight), {.transpose_b = true});
  return bias_ ? y + compute_type(parameter("bias", {weight.shape()[0]}, init::zeros())) : y;
}

PositionEmbedding::PositionEmbedding(std::int64_t context, Initializer weight_init)
    : context_(context), init_(std::move(weight_init)) {
  check_size("position_embedding", "the context", context);
  learns_size();
}

Tensor PositionEmbedding::forward(Tensor x, Mode mode) { return masked_forward(std::move(x), mode, {}).y; }

// A sequence begins with its first valid step, wherever the padding is.
Masked PositionEmbedding::masked_forward(Tensor x, Mode, const Mask& mask) {
  check_rank(where(), x, 3, "[N, T, D]");
  if (x.dim(1) > context_)
    throw Error(where() + ": the input has " + std::to_string(x.dim(1)) + " steps, the context only " +
                std::to_string(context_) + " (input shape " + x.shape().str() + ").");
  if (const State::Entry* made = state()->find("weight"))
    check_features(where(), "input features", made->variable.shape()[1], x);
  const Tensor weight = parameter("weight", {context_, x.dim(2)}, init_ ? init_ : init::normal(0.02));
  const Tensor rows = !mask.defined() || mask.right_padded() ? weight.slice({{0, x.dim(1)}})
                                                             : varve::embedding(weight, positions(mask));
  return {compute_type(x) + compute_type(rows), mask};
}

}  // namespace varve::nn
