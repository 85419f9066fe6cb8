// Operators on tensors. Each call checks shapes and types at once and records a node; nothing is computed yet.
// `varve ops` lists them all with what each can do; docs/operators.md is that list.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "varve/tensor.h"

namespace varve {

using Axes = std::vector<std::int64_t>;  // negative axes count from the end

// ---- arithmetic, elementwise with broadcasting (src/ops/arithmetic.cpp)
extern const OpDef add, subtract, multiply, divide, power, maximum, minimum, remainder, floor_divide, atan2;
extern const OpDef less, less_equal, greater, greater_equal, equal, not_equal;
extern const OpDef logical_and, logical_or, logical_not, is_nan, is_finite, is_inf;
extern const OpDef negative, abs, sign, floor, ceil, round, trunc, square, reciprocal;
extern const OpDef exp, exp2, expm1, log, log2, log10, log1p, sqrt, rsqrt, cbrt;
extern const OpDef sin, cos, tan, asin, acos, atan, sinh, cosh, tanh, asinh, acosh, atanh, erf, erfc;
extern const OpDef where;  // where(condition, a, b)
extern const OpDef clip;   // clip(x, low, high)

Tensor operator+(const Operand& a, const Operand& b);
Tensor operator-(const Operand& a, const Operand& b);
Tensor operator*(const Operand& a, const Operand& b);
Tensor operator/(const Operand& a, const Operand& b);
Tensor operator%(const Operand& a, const Operand& b);
Tensor operator-(const Tensor& a);
Tensor operator<(const Operand& a, const Operand& b);
Tensor operator<=(const Operand& a, const Operand& b);
Tensor operator>(const Operand& a, const Operand& b);
Tensor operator>=(const Operand& a, const Operand& b);
Tensor operator==(const Operand& a, const Operand& b);
Tensor operator!=(const Operand& a, const Operand& b);
Tensor operator&&(const Operand& a, const Operand& b);
Tensor operator||(const Operand& a, const Operand& b);
Tensor operator!(const Tensor& a);

inline Tensor& operator+=(Tensor& a, const Operand& b) { return a = a + b; }
inline Tensor& operator-=(Tensor& a, const Operand& b) { return a = a - b; }
inline Tensor& operator*=(Tensor& a, const Operand& b) { return a = a * b; }
inline Tensor& operator/=(Tensor& a, const Operand& b) { return a = a / b; }
// Assigns; inside a compiled function it is recorded.
Variable& operator+=(Variable& a, const Operand& b);
Variable& operator-=(Variable& a, const Operand& b);
Variable& operator*=(Variable& a, const Operand& b);
Variable& operator/=(Variable& a, const Operand& b);

struct NanToNumOptions {
  double nan = 0;
  std::optional<double> posinf = {}, neginf = {};  // the type's largest and smallest number unless given
};
Tensor nan_to_num(const Tensor& x, const NanToNumOptions& = {});

Tensor cast(const Tensor& x, DType dtype);
Tensor identity(const Tensor& x);
Tensor stop_gradient(const Tensor& x);
std::vector<Tensor> barrier(const std::vector<Tensor>& xs);  // xs, none of which is used before all are there
Tensor check_finite(const Tensor& x,
                    const std::string& what);  // x; an infinite or NaN value is an Error at the next read

// ---- activations (src/ops/activation.cpp)
extern const OpDef relu, relu6, selu, gelu, gelu_tanh, silu, mish, softplus, softsign, sigmoid, log_sigmoid;
extern const OpDef hardsigmoid, hardswish, hardtanh;
Tensor leaky_relu(const Tensor& x, const Operand& slope = 0.01);
Tensor elu(const Tensor& x, const Operand& alpha = 1.0);
Tensor prelu(const Tensor& x, const Tensor& slope);  // slope broadcasts along the last axis
Tensor softmax(const Tensor& x, std::int64_t axis = -1);
Tensor log_softmax(const Tensor& x, std::int64_t axis = -1);

// ---- reductions (src/ops/reduce.cpp); no axes means all of them

// sum(x, {.axes = 1}), sum(x, {.axes = {0, 2}})
class ReducedAxes : public std::optional<Axes> {
 public:
  ReducedAxes() = default;
  ReducedAxes(std::nullopt_t) {}
  ReducedAxes(int axis) : optional(Axes{axis}) {}
  ReducedAxes(std::int64_t axis) : optional(Axes{axis}) {}
  ReducedAxes(std::initializer_list<std::int64_t> axes) : optional(Axes(axes)) {}
  ReducedAxes(Axes axes) : optional(std::move(axes)) {}
  ReducedAxes(std::optional<Axes> axes) : optional(std::move(axes)) {}
};
struct ReduceOptions {
  ReducedAxes axes = {};
  bool keep = false;  // keep reduced axes with size 1
};
Tensor sum(const Tensor& x, const ReduceOptions& = {});
Tensor mean(const Tensor& x, const ReduceOptions& = {});
Tensor prod(const Tensor& x, const ReduceOptions& = {});
Tensor max(const Tensor& x, const ReduceOptions& = {});
Tensor min(const Tensor& x, const ReduceOptions& = {});
Tensor any(const Tensor& x, const ReduceOptions& = {});
Tensor all(const Tensor& x, const ReduceOptions& = {});
Tensor logsumexp(const Tensor& x, const ReduceOptions& = {});
struct VarOptions {
  ReducedAxes axes = {};
  bool keep = false;
  std::int64_t ddof = 0;  // divide by N - ddof
};
Tensor var(const Tensor& x, const VarOptions& = {});
struct NormOptions {
  double p = 2;  // 1, 2 or infinity
  ReducedAxes axes = {};
  bool keep = false;
};
Tensor norm(const Tensor& x, const NormOptions& = {});
Tensor argmax(const Tensor& x, std::int64_t axis = -1, bool keep = false);  // i64; the first of equals
Tensor argmin(const Tensor& x, std::int64_t axis = -1, bool keep = false);
Tensor cumsum(const Tensor& x, std::int64_t axis = -1);
Tensor cumprod(const Tensor& x, std::int64_t axis = -1);
std::pair<Tensor, Tensor> cummax(const Tensor& x, std::int64_t axis = -1);  // values, i64 indices; the last of equals
std::pair<Tensor, Tensor> cummin(const Tensor& x, std::int64_t axis = -1);
Tensor sort(const Tensor& x, std::int64_t axis = -1, bool descending = false);  // stable; NaN last
Tensor argsort(const Tensor& x, std::int64_t axis = -1, bool descending = false);
std::pair<Tensor, Tensor> top_k(const Tensor& x, std::int64_t k,
                                std::int64_t axis = -1);  // values, i64 indices; largest first
Tensor sum_to(const Tensor& x, const Shape& shape);       // the inverse of broadcasting: sums what was repeated

// ---- shapes (src/ops/shape.cpp); views where free
Tensor reshape(const Tensor& x, const Shape& shape);  // one size may be -1
Tensor flatten(const Tensor& x, std::int64_t from = 1);
Tensor transpose(const Tensor& x);  // the last two axes swapped
Tensor transpose(const Tensor& x, const Axes& order);
Tensor broadcast_to(const Tensor& x, const Shape& shape);
Tensor expand_dims(const Tensor& x, std::int64_t axis);
Tensor squeeze(const Tensor& x, const Axes& axes);
Tensor slice(const Tensor& x, const std::vector<Range>& ranges);  // leading axes
struct PadOptions {
  double value = 0;
};
Tensor pad(const Tensor& x, const std::vector<std::pair<std::int64_t, std::int64_t>>& widths, const PadOptions& = {});
Tensor concat(const std::vector<Tensor>& parts, std::int64_t axis = 0);
Tensor stack(const std::vector<Tensor>& parts, std::int64_t axis = 0);
std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, std::int64_t axis = 0);
std::vector<Tensor> split(const Tensor& x, std::int64_t parts, std::int64_t axis = 0);
Tensor flip(const Tensor& x, const Axes& axes);
Tensor roll(const Tensor& x, const Axes& shifts, const Axes& axes);  // what leaves at one end comes in at the other
Tensor tile(const Tensor& x, const Axes& repeats);
Tensor repeat(const Tensor& x, std::int64_t times, std::int64_t axis);
Tensor tril(const Tensor& x, std::int64_t diagonal = 0);
Tensor triu(const Tensor& x, std::int64_t diagonal = 0);

// ---- indexing (src/ops/index.cpp); an index out of range is an Error at the next read
Tensor gather(const Tensor& x, const Tensor& indices, std::int64_t axis = 0);  // x's axis replaced by indices' shape
Tensor scatter_add(const Tensor& x, const Tensor& indices, const Tensor& updates, std::int64_t axis = 0);
Tensor take_along_axis(const Tensor& x, const Tensor& indices, std::int64_t axis);  // indices: x's shape but for axis
Tensor put_along_axis_add(const Tensor& x, const Tensor& indices, const Tensor& updates, std::int64_t axis);
Tensor embedding(const Tensor& table, const Tensor& indices);  // rows of table [V, D]
Tensor one_hot(const Tensor& indices, std::int64_t classes, DType dtype = f32);

// ---- products (src/ops/matmul.cpp)
struct MatmulOptions {
  bool transpose_a = false;
  bool transpose_b = false;
};
Tensor matmul(const Tensor& a, const Tensor& b,
              const MatmulOptions& = {});  // [.., M, K] · [.., K, N]; batches broadcast
Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands);
template <class... T>
Tensor einsum(const std::string& equation, const Tensor& first, const T&... rest) {
  return einsum(equation, std::vector<Tensor>{first, rest...});
}
Tensor linear(const Tensor& x, const Tensor& w, const Tensor& bias = {});  // x [.., I] · w [I, O] + bias [O]
Tensor kron(const Tensor& a, const Tensor& b);                             // each element of a times all of b
struct CdistOptions {
  double p = 2;        // 1, 2 or infinity
  bool exact = false;  // by differences, also where p is 2: more memory, and no cancellation between close points
};
Tensor cdist(const Tensor& a, const Tensor& b, const CdistOptions& = {});  // [.., M, D], [.., N, D] -> [.., M, N]

// ---- convolution, channels last (src/ops/conv.cpp)
struct Padding {
  std::int64_t before = 0, after = 0;
  Padding() = default;
  Padding(std::int64_t both) : before(both), after(both) {}
  Padding(std::int64_t b, std::int64_t a) : before(b), after(a) {}
};
struct Conv2dOptions {
  std::vector<std::int64_t> stride = {1, 1};
  std::vector<Padding> padding = {0, 0};
  std::vector<std::int64_t> dilation = {1, 1};
  std::int64_t groups = 1;
};
struct Conv1dOptions {
  std::int64_t stride = 1;
  Padding padding = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
};
struct ConvTransposeOptions {
  std::vector<std::int64_t> stride = {1, 1};
  std::vector<Padding> padding = {0, 0};
  std::vector<std::int64_t> output_padding = {0, 0};
  std::vector<std::int64_t> dilation = {1, 1};
  std::int64_t groups = 1;
};
Tensor conv2d(const Tensor& x, const Tensor& w, const Conv2dOptions& = {});  // x [N,H,W,I] · w [O,KH,KW,I/groups]
Tensor conv1d(const Tensor& x, const Tensor& w, const Conv1dOptions& = {});  // x [N,L,I] · w [O,K,I/groups]
Tensor conv2d_transpose(const Tensor& x, const Tensor& w, const ConvTransposeOptions& = {});  // w [I,KH,KW,O/groups]
// "same" padding for stride and kernel: output size ceil(input / stride).
Padding same_padding(std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t dilation = 1);

// ---- pooling, channels last (src/ops/pool.cpp)
struct PoolOptions {
  std::vector<std::int64_t> window = {2, 2};
  std::vector<std::int64_t> stride = {};  // empty: the window
  std::vector<Padding> padding = {0, 0};
  bool count_padding = false;  // average: divide by the whole window at the border too
  bool ceil_mode = false;
};
Tensor max_pool2d(const Tensor& x, const PoolOptions& = {});
Tensor avg_pool2d(const Tensor& x, const PoolOptions& = {});
Tensor global_avg_pool2d(const Tensor& x);  // [N,H,W,C] -> [N,C]
Tensor global_max_pool2d(const Tensor& x);
Tensor adaptive_avg_pool2d(const Tensor& x, std::int64_t height, std::int64_t width);
Tensor adaptive_max_pool2d(const Tensor& x, std::int64_t height, std::int64_t width);

// ---- normalisation (src/ops/norm.cpp); scale and shift may be undefined
struct BatchNorm {
  Tensor y, mean, var;  // of this batch, var biased
};
BatchNorm batch_norm_train(const Tensor& x, const Tensor& scale, const Tensor& shift,
                           double epsilon = 1e-5);  // channels last
Tensor batch_norm(const Tensor& x, const Tensor& scale, const Tensor& shift, const Tensor& mean, const Tensor& var,
                  double epsilon = 1e-5);
Tensor layer_norm(const Tensor& x, const Tensor& scale, const Tensor& shift, double epsilon = 1e-5);  // last axis
Tensor rms_norm(const Tensor& x, const Tensor& scale, double epsilon = 1e-6);
Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& scale, const Tensor& shift,
                  double epsilon = 1e-5);
Tensor instance_norm(const Tensor& x, const Tensor& scale, const Tensor& shift, double epsilon = 1e-5);
struct LrnOptions {
  std::int64_t size = 5;
  double alpha = 1e-4, beta = 0.75, k = 1;
};
Tensor local_response_norm(const Tensor& x, const LrnOptions& = {});

// ---- attention (src/ops/attention.cpp)
struct AttentionOptions {
  Tensor mask = {};  // added to the scores (or bool: false is masked out); broadcasts to [.., Tq, Tk]
  bool causal = false;
  std::optional<double> scale = {};  // 1/√D unless given
};
// q, k, v [.., T, D]. Of [.., heads, T, D], k and v may have fewer heads: each then serves a run of q's heads.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& = {});
struct RopeOptions {
  Tensor positions = {};      // of the steps, integers or not; broadcasts to [.., T]; 0, 1, … unless given
  double base = 10000;        // wavelengths grow from 2π to 2π · base
  std::int64_t features = 0;  // how many are turned, an even number; 0: all
  bool interleaved = false;   // pairs are neighbours (2i, 2i + 1), not halves (i, i + D/2)
};
Tensor rope(const Tensor& x, const RopeOptions& = {});  // rotary embedding of x [.., T, D]

// ---- recurrence (src/ops/recurrent.cpp)
// Carries go round; each x (leading axis: time) is given a step at a time; what the body returns besides the carries is
// stacked along a leading time axis.
struct ScanStep {
  std::vector<Tensor> carry;
  std::vector<Tensor> out;
};
struct ScanResult {
  std::vector<Tensor> carry;  // after the last step
  std::vector<Tensor> out;    // [T, …]
};
using ScanBody = std::function<ScanStep(const std::vector<Tensor>& carry, const std::vector<Tensor>& x)>;
struct ScanOptions {
  bool reverse = false;
  std::int64_t length = -1;  // needed when there is no x
};
ScanResult scan(const ScanBody& body, const std::vector<Tensor>& carry, const std::vector<Tensor>& xs,
                const ScanOptions& = {});

// Weights of one layer and direction, gates stacked along the last axis: LSTM i,f,g,o; GRU r,z,n.
struct RecurrentWeights {
  Tensor input;             // [I, G·H]
  Tensor hidden;            // [H, G·H]
  Tensor bias = {};         // [G·H], or undefined
  Tensor hidden_bias = {};  // GRU only: [G·H] added to the hidden product, or undefined
};
struct RecurrentOptions {
  bool bidirectional = false;  // weights: forward, backward for each layer; outputs side by side
  Tensor lengths = {};         // i32/i64 [B], 0 … T: steps of each sequence; later outputs are 0, states stop
  std::vector<Tensor> h0 = {}, c0 = {};  // [B, H] for each layer and direction; zeros unless given
  bool relu = false;                     // rnn only: relu instead of tanh
};
struct RecurrentResult {
  Tensor y;                  // [T, B, H] (2H when bidirectional)
  std::vector<Tensor> h, c;  // last states for each layer and direction
};
RecurrentResult rnn(const Tensor& x, const std::vector<RecurrentWeights>& layers,
                    const RecurrentOptions& = {});  // x [T, B, I]
RecurrentResult lstm(const Tensor& x, const std::vector<RecurrentWeights>& layers, const RecurrentOptions& = {});
RecurrentResult gru(const Tensor& x, const std::vector<RecurrentWeights>& layers, const RecurrentOptions& = {});

// ---- losses (src/ops/loss.cpp)
enum class Reduction : std::uint8_t { mean, sum, none };
Tensor cross_entropy(const Tensor& logits, const Tensor& labels,
                     Reduction = Reduction::mean);  // logits [.., C], integer labels [..]
struct CrossEntropyOptions {
  Reduction reduction = Reduction::mean;          // over what counts: Σ w·loss / Σ w, and 0 where nothing does
  std::optional<std::int64_t> ignore_index = {};  // a label that counts for nothing; it need not be a class
  Tensor class_weights = {};                      // [C]: what each class counts
  Tensor weights = {};                            // of each label, or of the first of its axes: [N] for labels [N, T]
};
Tensor cross_entropy(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options);
// Σ w·v / Σ w, and 0 where Σ w is; weights have the first of the values' axes. What weighs nothing may hold anything.
Tensor weighted_mean(const Tensor& values, const Tensor& weights);
Tensor binary_cross_entropy(const Tensor& logits, const Tensor& targets, Reduction = Reduction::mean);
Tensor mse_loss(const Tensor& a, const Tensor& b, Reduction = Reduction::mean);
Tensor l1_loss(const Tensor& a, const Tensor& b, Reduction = Reduction::mean);
Tensor huber_loss(const Tensor& a, const Tensor& b, double delta = 1.0, Reduction = Reduction::mean);
Tensor kl_div(const Tensor& log_p, const Tensor& target, Reduction = Reduction::mean);  // target · (log target - log_p)

// ---- random (src/ops/random.cpp): pure in seed, stream, counter and index
struct RandomOptions {
  std::int64_t seed = 0;
  std::string stream = "";  // names the place of use, so that two places differ
  Tensor counter = {};      // i64 scalar, read when the program runs; 0 unless given
  DType dtype = f32;
};
Tensor uniform(const Shape& shape, const RandomOptions& = {});                                // [0, 1)
Tensor normal(const Shape& shape, const RandomOptions& = {});                                 // mean 0, deviation 1
Tensor bernoulli(const Shape& shape, const Operand& probability, const RandomOptions& = {});  // bool
Tensor permutation(std::int64_t n, const RandomOptions& = {});                                // i64
Tensor integers(const Shape& shape, std::int64_t low, std::int64_t high, const RandomOptions& = {});  // i64 [low, high)
// A class for each row of the last axis, with probabilities softmax(logits): i64 of the other axes.
Tensor categorical(const Tensor& logits, const RandomOptions& = {});
Tensor dropout(const Tensor& x, double rate, const RandomOptions& = {});  // kept values scaled by 1/(1-rate)

// Random numbers that do not repeat: every call draws others, and two generators of one seed draw the same. What it has
// drawn so far is a variable, so that compiled functions go on drawing as well; reset() begins again.
class Generator {
 public:
  explicit Generator(std::int64_t seed = 0);
  Tensor uniform(const Shape& shape, DType dtype = f32);
  Tensor normal(const Shape& shape, DType dtype = f32);
  Tensor bernoulli(const Shape& shape, const Operand& probability);
  Tensor permutation(std::int64_t n);
  Tensor integers(const Shape& shape, std::int64_t low, std::int64_t high);
  Tensor categorical(const Tensor& logits);
  RandomOptions next();  // of one more call of any function that takes them
  void reset(std::int64_t drawn = 0);
  Variable drawn() const { return drawn_; }  // calls so far: i64

 private:
  std::int64_t seed_;
  Variable drawn_;
};

// ---- optimiser updates (src/ops/optimizer.cpp): new values from old ones; rates are tensors, so they may change
struct SgdOptions {
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
};
struct Updated {
  Tensor parameter;
  std::vector<Tensor> state;
};
Updated sgd_update(const Tensor& w, const Tensor& g, const Tensor& velocity, const Operand& rate,
                   const SgdOptions& = {});  // velocity may be undefined
struct AdamOptions {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  bool decoupled = false;  // AdamW
};
Updated adam_update(const Tensor& w, const Tensor& g, const Tensor& m, const Tensor& v, const Operand& rate,
                    const Tensor& step, const AdamOptions& = {});
struct RmspropOptions {
  double decay = 0.9, epsilon = 1e-8;
};
Updated rmsprop_update(const Tensor& w, const Tensor& g, const Tensor& v, const Operand& rate,
                       const RmspropOptions& = {});
Updated adagrad_update(const Tensor& w, const Tensor& g, const Tensor& sum, const Operand& rate,
                       double epsilon = 1e-10);

// ---- the table of all operators
const std::vector<const OpRecord*>& operators();         // by family, in the order of their files
const OpRecord& find_operator(const std::string& name);  // throws Error with the nearest name

}  // namespace varve
