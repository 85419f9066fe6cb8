#include "nn/check.h"
#include "nn/state.h"
#include "nn/steps.h"

namespace varve::nn {
struct Recurrent::Cells {
  std::vector<RecurrentWeights> weights;
  std::vector<Variable> h, c;  // stateful layers only

  Cells part(std::size_t first, std::size_t count) const {
    const auto cut = [&](const auto& all) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(all.empty() ? 0 : first);
      return std::decay_t<decltype(all)>(begin, all.empty() ? begin : begin + static_cast<std::ptrdiff_t>(count));
    };
    return {cut(weights), cut(h), cut(c)};
  }
};

namespace {

constexpr int kMostRecurrentLayers = 1000;  // of a number that a file may hold

// The gradient ends where the last batch did.
std::vector<Tensor> start(const std::vector<Variable>& carried) {
  std::vector<Tensor> values;
  for (const Variable& variable : carried) {
    // Without compile, a state that nobody reads would keep all batches so far alive.
    if (!tracing()) variable.value().eval();
    values.push_back(compute_type(stop_gradient(variable)));
  }
  return values;
}

void keep(std::vector<Variable> carried, const std::vector<Tensor>& last) {
  for (std::size_t i = 0; i < carried.size(); ++i)
    carried[i].assign(stop_gradient(last[i]).to(carried[i].type().dtype));
}

}  // namespace

Recurrent::Recurrent(Kind kind, std::int64_t width, RecurrentLayerOptions options)
    : kind_(kind), width_(width), options_(std::move(options)), drop_(options_.layers > 1 ? options_.dropout : 0) {
  check_size(Recurrent::kind(), "the width", width);
  check_size(Recurrent::kind(), "the number of layers", options_.layers);
  if (options_.layers > kMostRecurrentLayers)
    throw Error(Recurrent::kind() + ": " + std::to_string(options_.layers) + " layers are more than the most, " +
                std::to_string(kMostRecurrentLayers) + ".");
  add("dropout", drop_);
  learns_size();
}

// Of one layer and direction, named as PyTorch names them: weight_ih_l0, weight_ih_l0_reverse.
RecurrentWeights Recurrent::weights(const std::string& suffix, std::int64_t in) {
  const std::int64_t count = kind_ == lstm ? 4 : kind_ == gru ? 3 : 1;
  const auto matrix = [&](const std::string& name, std::int64_t rows, const Initializer& initial) {
    return compute_type(parameter(name + suffix, {rows, count * width_}, init::gates(initial, count),
                                  {.foreign = {ForeignLayout::transposed}}));
  };
  const auto vector = [&](const std::string& name, const Initializer& initial) {
    return compute_type(parameter(name + suffix, {count * width_}, initial));
  };
  RecurrentWeights made;
  made.input = matrix("weight_ih", in, options_.input_init ? options_.input_init : init::glorot_uniform());
  made.hidden = matrix("weight_hh", width_, options_.hidden_init ? options_.hidden_init : init::orthogonal());
  if (!options_.bias) return made;
  made.bias = vector("bias_ih", kind_ == lstm ? init::forget_bias(options_.forget_bias) : init::zeros());
  if (kind_ == gru) made.hidden_bias = vector("bias_hh", init::zeros());
  return made;
}

Variable Recurrent::state_of(const std::string& name, const Tensor& x) {
  const State::Entry* made = state()->find(name);
  if (made && !DryRun::building() && made->variable.shape()[0] != x.dim(0))
    throw Error(where() + ": carries the states of " + std::to_string(made->variable.shape()[0]) +
                " sequences from batch to batch, got a batch of " + std::to_string(x.dim(0)) + " (input shape " +
                x.shape().str() + "). Build with {.batch = " + std::to_string(x.dim(0)) + "}.");
  return carried(name, zeros({x.dim(0), width_}));
}

Recurrent::Cells Recurrent::cells(const Tensor& x) {
  const std::int64_t directions = options_.bidirectional ? 2 : 1;
  const bool stateful = options_.stateful && (!DryRun::active() || DryRun::building());
  Cells all;
  for (int layer = 0; layer < options_.layers; ++layer)
    for (std::int64_t direction = 0; direction < directions; ++direction) {
      const std::string suffix = "_l" + std::to_string(layer) + (direction ? "_reverse" : "");
      all.weights.push_back(weights(suffix, layer == 0 ? x.dim(2) : directions * width_));
      if (!stateful) continue;
      all.h.push_back(state_of("h" + suffix, x));
      if (kind_ == lstm) all.c.push_back(state_of("c" + suffix, x));
    }
  return all;
}

Tensor Recurrent::forward(Tensor x, Mode mode) { return masked_forward(std::move(x), mode, {}).y; }

Masked Recurrent::masked_forward(Tensor x, Mode mode, const Mask& mask) {
  check_rank(where(), x, 3, "[N, T, I]");
  if (const State::Entry* made = state()->find("weight_ih_l0"))
    check_features(where(), "input features", made->variable.shape()[0], x);
  const Cells all = cells(x);
  // Dropout stands between layers: then each is run on its own.
  const std::size_t directions = options_.bidirectional ? 2 : 1;
  const std::size_t at_once = options_.dropout > 0 ? directions : all.weights.size();
  const PackedSteps steps(compute_type(x), mask);
  Tensor y = steps.time_major();
  RecurrentResult result;
  for (std::size_t first = 0; first < all.weights.size(); first += at_once) {
    if (first > 0) y = drop_(y, mode);
    const Cells part = all.part(first, at_once);
    const RecurrentOptions options{.bidirectional = options_.bidirectional,
                                   .lengths = steps.lengths(),
                                   .h0 = start(part.h),
                                   .c0 = start(part.c),
                                   .relu = options_.relu};
    result = kind_ == rnn    ? varve::rnn(y, part.weights, options)
             : kind_ == lstm ? varve::lstm(y, part.weights, options)
                             : varve::gru(y, part.weights, options);
    y = result.y;
    if (DryRun::active()) continue;
    keep(part.h, result.h);
    keep(part.c, result.c);
  }
  if (options_.sequences) return {steps.unpacked(y), mask};
  return {concat({result.h.end() - static_cast<std::ptrdiff_t>(directions), result.h.end()}, -1)};
}

}  // namespace varve::nn
