// Layers. Each is a class, and a function of the same name in small letters that makes one: nn::Dense, nn::dense.
// Images are [N, H, W, C], sequences [N, T, C], token ids [N, T].
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "varve/nn/module.h"
#include "varve/ops.h"

namespace varve::nn {

// ---- activations

struct Activation {
  std::string name = "linear";
  std::function<Tensor(const Tensor&)> function = {};  // none: the identity
  Tensor operator()(const Tensor& x) const { return function ? function(x) : x; }
};
extern const Activation linear, relu, relu6, leaky_relu, elu, selu, gelu, gelu_tanh, silu, mish, softplus, softsign,
    tanh, sigmoid, hardsigmoid, hardswish, hardtanh, softmax, log_softmax;
Activation activation_by_name(const std::string& name);  // Error with the nearest name
const std::vector<Activation>& activations();

class Activate : public Module {
 public:
  explicit Activate(Activation f) : f_(std::move(f)) {}
  Tensor forward(Tensor x, Mode mode) override;
  std::string kind() const override { return f_.name; }

 private:
  Activation f_;
};
inline Activate activation(Activation f) { return Activate(std::move(f)); }

// ---- dense

struct DenseOptions {
  Activation activation = {};
  bool bias = true;
  Initializer weight_init = {};  // empty: He for the relu family, Glorot otherwise
  Initializer bias_init = {};    // empty: zeros
};
class Dense : public Module {  // [.., I] -> [.., O]; weight [I, O], bias [O]
 public:
  static constexpr std::int64_t kAsInput = -1;  // as many outputs as inputs
  explicit Dense(std::int64_t out, DenseOptions options = {});
  Tensor forward(Tensor x, Mode mode) override;
  std::string kind() const override { return "dense"; }
  Masking masking() const override { return Masking::passes; }

 protected:
  void split_over_ranks(Split how) override;  // columns or rows

 private:
  std::int64_t out_;
  DenseOptions options_;
};
inline Dense dense(std::int64_t out, DenseOptions options = {}) { return Dense(out, std::move(options)); }

// ---- convolution

// A number or one for each axis.
struct Pair {
  std::int64_t height = 1, width = 1;
  Pair(std::int64_t both) : height(both), width(both) {}
  Pair(std::int64_t h, std::int64_t w) : height(h), width(w) {}
};
// "valid" (none), "same" (output = ceil(input / stride), more after than before as TensorFlow does), or sizes.
struct ConvPadding {
  enum Kind : std::uint8_t { valid, same, sizes };
  Kind kind = valid;
  Padding rows = 0, columns = 0;
  ConvPadding() = default;
  ConvPadding(const char* word);         // "same" or "valid"; Error otherwise
  ConvPadding(const std::string& word);  // likewise
  ConvPadding(std::int64_t both) : kind(sizes), rows(both), columns(both) {}
  ConvPadding(int both) : ConvPadding(std::int64_t{both}) {}  // 0 is no word
  ConvPadding(Padding r, Padding c) : kind(sizes), rows(r), columns(c) {}
};
inline const ConvPadding same("same"), valid("valid");

struct Conv2dOptions {
  Pair kernel = 3;
  Pair stride = 1;
  ConvPadding padding = "same";
  Pair dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  Activation activation = {};
  Initializer weight_init = {};  // empty: He for the relu family, Glorot otherwise
  Initializer bias_init = {};
};
class Conv2d : public Module {  // weight [O, KH, KW, I / groups]
 public:
  explicit Conv2d(std::int64_t out, Conv2dOptions options = {});
  Tensor forward(Tensor x, Mode mode) override;
  std::string kind() const override { return "conv2d"; }
  Masking masking() const override { return Masking::refuses; }

 private:
  std::int64_t out_;
  Conv2dOptions options_;
};
inline Conv2d conv2d(std::int64_t out, Conv2dOptions options = {}) { return Conv2d(out, std::move(options)); }

class DepthwiseConv2d : public Module {  // each channel on its own, `multiplier` outputs from each; groups is not used
 public:
  explicit DepthwiseConv2d(Conv2dOptions options = {}, std::int64_t multiplier = 1);
  Tensor forward(Tensor x, Mode mode) override;
  std::string kind() const override { return "depthwise_conv2d"; }
  Masking masking() const override { return Masking::refuses; }

 private:
  Conv2dOptions options_;
  std::int64_t multiplier_;
};
inline DepthwiseConv2d depthwise_conv2d(Conv2dOptions options = {}, std::int64_t multiplier = 1) {
  return DepthwiseConv2d(std::move(options), multiplier);
}

struct Conv1dOptions {
  std::int64_t kernel = 3, stride = 1, dilation = 1, groups = 1;
  ConvPadding padding = "same";  // rows
  bool bias = true;
  Activation activation = {};
  Initializer weight_init = {}, bias_init = {};
};
class Conv1d : public Module {  // [N, T, I] -> [N, T', O]; weight [O, K, I / groups]
 public:
  explicit Conv1d(std::int64_t out, Conv1dOptions options = {});
  Tensor forward(Tensor x, Mode mode) override;
  std::string kind() const override { return "conv1d"; }
  Masking masking() const override { return Masking::uses; }
  Masked masked_forward(Tensor x, Mode mode, const Mask& mask) override;

 private:
  Mask mask_of_windows(const Mask& mask) const;
  std::int64_t out_;
  Conv1dOptions options_;
};
inline Conv1d conv1d(std::int64_t out, Conv1dOptions options = {}) { return Conv1d(out, std::move(options)); }

struct ConvTransposeOptions2d {
  Pair kernel = 3;
  Pair stride = 1;
  Pair padding = 0, output_padding = 0;
  bool bias = true;
  Activation activation = {};
  Initializer weight_init = {}, bias_init = {};
};
class Conv2dTranspose : public Module {
 public:
  explicit Conv2dTranspose(std::int64_t out, ConvTransposeOptions2d options = {});
  Tensor forward(Tensor x, Mode mode) override;
  std::string kind() const override { return "conv2d_transpose"; }
  Masking masking() const override { return Masking::refuses; }

 private:
  std::int64_t out_;
  ConvTransposeOptions2d options_;
};
inline Conv2dTranspose conv2d_transpose(std::int64_t out, ConvTransposeOptions2d options = {}) {
  return Conv2dTranspose(out, std::move(options));
}

// ---- pooling

struct Pool2dOptions {
  std::optional<Pair> stride = {};  // empty: the window
  ConvPadding padding = {};
  bool ceil_mode = false;
  bool count_padding = false;  // average only
};
class Pool2d : public Module {
 public:
  enum Kind : std::uint8_t { max, average };
  Pool2d(Kind kind, Pair window, Pool2dOptions options) : kind_(kind), window_(window), options_(options) {}
  Tensor forward(Tensor x, Mode mode) override;
  std::string kind() const override { return kind_ == max ? "max_pool2d" : "avg_pool2d"; }
  Masking masking() const override { return Masking::refuses; }

 private:
  Kind kind_;
  Pair window_;
  Pool2dOptions options_;
};
inline Pool2d max_pool2d(Pair window = 2, Pool2dOptions options = {}) { return {Pool2d::max, window, options}; }
inline Pool2d avg_pool2d(Pair window = 2, Pool2dOptions options = {}) { return {Pool2d::average, window, options}; }

// A function of the input without variables, as a layer.
class Function : public Module {
 public:
  using Masks = std::function<Masked(const Tensor&, Mode, const Mask&)>;
  Function(std::string kind, std::function<Tensor(const Tensor&, Mode)> f, Masking masking = Masking::along)
      : kind_(std::move(kind)), f_(std::move(f)), masking_(masking) {}
  // One that is told which steps are valid, and says which of its result are.
  Function(std::string kind, Masks f) : kind_(std::move(kind)), masks_(std::move(f)), masking_(Masking::uses) {}
  Tensor forward(Tensor x, Mode mode) override { return masks_ ? masks_(x, mode, {}).y : f_(x, mode); }
  Masked masked_forward(Tensor x, Mode mode, const Mask& mask) override { return masks_(x, mode, mask); }
  Masking masking() const override { return masking_; }
  std::string kind() const override { return kind_; }

 private:
  std::string kind_;
  std::function<Tensor(const Tensor&, Mode)> f_;
  Masks masks_;
  Masking masking_;
};
Function global_avg_pool2d();  // [N, H, W, C] -> [N, C]
Function global_max_pool2d();
Function adaptive_avg_pool2d(Pair size);
Function reshape(const Shape& sample);  // each sample to this shape; one size may be -1
Function permute(const Axes& order);    // axes of a sample, counted from 1
Function zero_pad2d(Padding rows, Padding columns);
Function upsample2d(Pair factor);  // nearest
Function channel_shuffle(std::int64_t groups);
Function last_step();                   // [N, T, C] -> [N, C]: the last valid one
Function mean_steps();                  // over valid steps
Function max_steps();                   // likewise; zeros where there are none
Function mask_steps(double value = 0);  // those of [N, T, C] whose features all equal it are padding from here on
Function unmask();                      // from here on every step counts, padding too
Function identity();
Function local_response_norm(const LrnOptions& options = {});
Function function(const std::string& kind, std::function<Tensor(const Tensor&)> f);

class Flatten : public Module {  // [N, ...] -> [N, F]; remembers H×W×C for the dense layer after it
 public:
  Tensor forward(Tensor x, Mode mode) override;
  std::string kind() const override { return "flatten"; }
  Masking masking() const override { return Masking::refuses; }
};
inline Flatten flatten() { return {}; }

// ---- normalisation

struct BatchNormOptions {
  double momentum = 0.1;  // of the new batch in the running statistics, as in PyTorch (Keras counts the old: 0.9)
  double epsilon = 1e-5;
  bool scale = true, shift = true;
  Activation activation = {};
};
class BatchNorm : public Module {  // over the last axis; weight, bias, running_mean, running_var
 public:
  explicit BatchNorm(BatchNormOptions options = {});
  Tensor forward(Tensor x, Mode mode) override;
  std::string kind() const override { return "batch_norm"; }
  Masking masking() const override { return Masking::uses; }
  Masked masked_forward(Tensor x, Mode mode, const Mask& mask) override;

 private:
  BatchNormOptions options_;
};
inline BatchNorm batch_norm(BatchNormOptions options = {}) { return BatchNorm(std::move(options)); }

// layer (last axis), rms, group and instance norm: one class, as they differ in one operator.
struct NormOptions {
  double epsilon = 1e-5;
  bool scale = true, shift = true;  // rms has no shift
};
class Norm : public Module {
 public:
  enum Kind : std::uint8_t { layer, rms, group, instance };
  Norm(Kind kind, NormOptions options, std::int64_t groups = 1);
  Tensor forward(Tensor x, Mode mode) override;
  std::string kind() const override;
  Masking masking() const override;  // over the last axis: passes; over the steps as well: refuses

 private:
  Kind kind_;
  NormOptions options_;
  std::int64_t groups_;
};
inline Norm layer_norm(NormOptions options = {}) { return {Norm::layer, options}; }
inline Norm rms_norm(NormOptions options = {.epsilon = 1e-6}) { return {Norm::rms, options}; }
inline Norm group_norm(std::int64_t groups, NormOptions options = {}) { return {Norm::group, options, groups}; }
inline Norm instance_norm(NormOptions options = {}) { return {Norm::instance, options}; }

// ---- regularisation

class Dropout : public Module {  // its counter is part of the model's state: a resumed run draws the same masks
 public:
  explicit Dropout(double rate);
  Tensor forward(Tensor x, Mode mode) override;
  std::string kind() const override { return "dropout"; }

 private:
  double rate_;
};
inline Dropout dropout(double rate) { return Dropout(rate); }

// ---- sequences

struct EmbeddingOptions {
  Initializer weight_init = {};              // empty: normal, deviation 1 as in PyTorch
  std::optional<std::int64_t> padding = {};  // the id of padding: it masks those steps, where a batch brings no mask
};
class Embedding : public Module {  // token ids [N, T] -> [N, T, D]; weight [V, D]
 public:
  Embedding(std::int64_t vocabulary, std::int64_t width, EmbeddingOptions options = {});
  Tensor forward(Tensor ids, Mode mode) override;
  Variable weight();  // made now: to be tied to an output layer
  std::string kind() const override { return "embedding"; }
  Masking masking() const override { return Masking::uses; }
  Masked masked_forward(Tensor x, Mode mode, const Mask& mask) override;

 private:
  std::int64_t vocabulary_, width_;
  EmbeddingOptions options_;
};
inline Embedding embedding(std::int64_t vocabulary, std::int64_t width, EmbeddingOptions options = {}) {
  return Embedding(vocabulary, width, std::move(options));
}
// y = x · weightᵀ of an embedding: the output layer of a language model with tied weights.
class TiedDense : public Module {
 public:
  explicit TiedDense(Embedding embedding, bool bias = false);
  Tensor forward(Tensor x, Mode mode) override;
  std::string kind() const override { return "tied_dense"; }
  Masking masking() const override { return Masking::passes; }

 private:
  Embedding embedding_;
  bool bias_;
};
class PositionEmbedding : public Module {  // x [N, T, D] + weight [context, D]
 public:
  explicit PositionEmbedding(std::int64_t context, Initializer weight_init = {});  // empty: normal, deviation 0.02
  Tensor forward(Tensor x, Mode mode) override;
  std::string kind() const override { return "position_embedding"; }
  Masking masking() const override { return Masking::uses; }
  Masked masked_forward(Tensor x, Mode mode, const Mask& mask) override;

 private:
  std::int64_t context_;
  Initializer init_;
};
inline PositionEmbedding position_embedding(std::int64_t context, Initializer weight_init = {}) {
  return PositionEmbedding(context, std::move(weight_init));
}

struct RecurrentLayerOptions {
  int layers = 1;
  bool bidirectional = false;
  bool sequences = true;  // false: only the last step, [N, H]
  bool stateful = false;  // each batch goes on where the last one ended; needs build with that batch size
  double dropout = 0;     // between layers
  bool bias = true;
  bool relu = false;                              // rnn only
  Initializer input_init = {}, hidden_init = {};  // empty: Glorot, orthogonal
  double forget_bias = 1;                         // lstm only
};
class Recurrent : public Module {  // [N, T, I] -> [N, T, H]; weight_ih_l0 [I, G·H], weight_hh_l0 [H, G·H], bias_ih_l0
 public:
  enum Kind : std::uint8_t { rnn, lstm, gru };
  Recurrent(Kind kind, std::int64_t width, RecurrentLayerOptions options);
  Tensor forward(Tensor x, Mode mode) override;
  std::string kind() const override { return kind_ == rnn ? "rnn" : kind_ == lstm ? "lstm" : "gru"; }
  Masking masking() const override { return Masking::uses; }
  Masked masked_forward(Tensor x, Mode mode, const Mask& mask) override;

 private:
  Kind kind_;
  std::int64_t width_;
  RecurrentLayerOptions options_;
  Dropout drop_;

  struct Cells;  // of every layer and direction: weights, and the states that are carried
  Cells cells(const Tensor& x);
  RecurrentWeights weights(const std::string& suffix, std::int64_t in);
  Variable state_of(const std::string& name, const Tensor& x);
};
inline Recurrent rnn(std::int64_t width, RecurrentLayerOptions o = {}) { return {Recurrent::rnn, width, std::move(o)}; }
inline Recurrent lstm(std::int64_t width, RecurrentLayerOptions o = {}) {
  return {Recurrent::lstm, width, std::move(o)};
}
inline Recurrent gru(std::int64_t width, RecurrentLayerOptions o = {}) { return {Recurrent::gru, width, std::move(o)}; }

struct MultiHeadOptions {
  bool causal = false;
  double dropout = 0;  // of the output
  bool bias = true;
};
class MultiHeadAttention : public Module {  // [N, T, D]; in_proj_weight [D, 3D], out_proj.weight [D, D]
 public:
  explicit MultiHeadAttention(std::int64_t heads, MultiHeadOptions options = {});
  Tensor forward(Tensor x, Mode mode) override;  // self-attention
  // Keys and values from `memory`; its padding, which the mask or the calls around this one know, is no key.
  Tensor attend(const Tensor& query, const Tensor& memory, Mode mode, const Mask& mask = {});
  std::string kind() const override { return "multi_head_attention"; }
  Masking masking() const override { return Masking::uses; }
  Masked masked_forward(Tensor x, Mode mode, const Mask& mask) override;

 protected:
  void split_over_ranks(Split how) override;  // heads

 private:
  Tensor mix(const Tensor& query, const Tensor& memory, Mode mode, const Mask& mask);
  std::int64_t heads_;
  MultiHeadOptions options_;
  Dense out_proj_;
  Dropout drop_;
};
inline MultiHeadAttention multi_head_attention(std::int64_t heads, MultiHeadOptions options = {}) {
  return MultiHeadAttention(heads, options);
}

struct TransformerOptions {
  std::int64_t heads = 8;
  std::int64_t hidden = 0;  // 0: four times the width
  bool causal = false;
  bool norm_first = true;
  double dropout = 0;
  Activation activation = gelu;
};
class TransformerBlock : public Module {  // x + attention(norm(x)), then x + mlp(norm(x))
 public:
  explicit TransformerBlock(std::int64_t width, TransformerOptions options = {});
  Tensor forward(Tensor x, Mode mode) override;
  std::string kind() const override { return "transformer_block"; }

 protected:
  void split_over_ranks(Split how) override;  // heads

 private:
  TransformerOptions options_;
  MultiHeadAttention self_attn_;
  Norm norm1_, norm2_;
  Dense linear1_, linear2_;
  Dropout drop_;
};
inline TransformerBlock transformer_block(std::int64_t width, TransformerOptions options = {}) {
  return TransformerBlock(width, std::move(options));
}

}  // namespace varve::nn
