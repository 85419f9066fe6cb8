// Recurrence: scan over a Python step, and the recurrent networks as one operator.
#include "ops.h"

namespace varve::python {
namespace {

using Tensors = std::vector<Tensor>;
using Network = RecurrentResult (*)(const Tensor&, const std::vector<RecurrentWeights>&, const RecurrentOptions&);

// (input, hidden), (input, hidden, bias) or (input, hidden, bias, hidden_bias) for each layer and direction.
std::vector<RecurrentWeights> to_weights(nb::handle layers, const Where& where) {
  std::vector<RecurrentWeights> all;
  constexpr const char* kExpected =
      "a sequence with (input, hidden[, bias[, hidden_bias]]) for each layer and direction";
  if (!nb::isinstance<nb::list>(layers) && !nb::isinstance<nb::tuple>(layers)) wrong_kind(where, kExpected, layers);
  for (const nb::handle layer : layers) {
    if (!nb::isinstance<nb::list>(layer) && !nb::isinstance<nb::tuple>(layer)) wrong_kind(where, kExpected, layer);
    const std::size_t count = nb::len(layer);
    if (count < 2 || count > 4) wrong_kind(where, kExpected, layer);
    const Where optional{where.function, where.argument, true};
    RecurrentWeights weights{to_tensor(layer[0], where), to_tensor(layer[1], where)};
    if (count > 2) weights.bias = to_tensor(layer[2], optional);
    if (count > 3) weights.hidden_bias = to_tensor(layer[3], optional);
    all.push_back(std::move(weights));
  }
  return all;
}

struct Layers {
  std::vector<RecurrentWeights> all;
};

}  // namespace

template <>
struct From<Layers> {
  static constexpr const char* type = "Sequence[Sequence[TensorLike | None]]";
  static Layers of(nb::handle value, const Where& w) { return {to_weights(value, w)}; }
};

namespace {

const char* const kRecurrent = R"(

x is [T, B, I]. Weights for each layer (and direction, forward first): input [I, G·H], hidden [H, G·H] and, where there
are, bias [G·H] and hidden_bias (gru). lengths: steps of each sequence. Returns y [T, B, H] (2H when bidirectional) and
the last states of each layer and direction.

>>> x = vv.normal((5, 2, 3), seed=1)
>>> )";

std::string recurrent_doc(const std::string& what, const std::string& example) { return what + kRecurrent + example; }

RecurrentOptions options(bool bidirectional, const Tensor& lengths, const Tensors& h0, const Tensors& c0, bool relu) {
  return {bidirectional, lengths, h0, c0, relu};
}

}  // namespace

void bind_recurrence(nb::module_& m) {
  m.def(
      "_scan",
      [](const std::function<std::pair<Tensors, Tensors>(const Tensors&, const Tensors&)>& body, const Tensors& carry,
         const Tensors& xs, bool reverse, std::int64_t length) {
        ScanResult result;
        unlocked([&] {
          result = scan(
              [&](const Tensors& c, const Tensors& x) {
                auto [next, out] = body(c, x);
                return ScanStep{std::move(next), std::move(out)};
              },
              carry, xs, {reverse, length});
        });
        return std::pair(result.carry, result.out);
      },
      nb::sig("def _scan(body: Callable[[list[Tensor], list[Tensor]], tuple[list[Tensor], list[Tensor]]], carry: "
              "list[Tensor], xs: list[Tensor], reverse: bool, length: int) -> tuple[list[Tensor], list[Tensor]]"));
  const auto bidirectional_named = "bidirectional"_a = false;
  const auto lengths_named = "lengths"_a = nb::none();
  const nb::tuple none = nb::make_tuple();
  op(
      m, "rnn",
      [](const Tensor& x, const Layers& layers, bool both, const Tensor& lengths, const Tensors& h0, bool relu) {
        const RecurrentResult r = rnn(x, layers.all, options(both, lengths, h0, {}, relu));
        return std::pair(r.y, r.h);
      },
      recurrent_doc(
          "A recurrent network, tanh (or relu) of its state.",
          "y, h = vv.rnn(x, [(vv.ones((3, 4)), vv.zeros((4, 4)))])\n>>> y.shape, h[0].shape\n((5, 2, 4), (2, 4))")
          .c_str(),
      "x"_a, "layers"_a, bidirectional_named, lengths_named, "h0"_a = none, "relu"_a = false);
  op(
      m, "lstm",
      [](const Tensor& x, const Layers& layers, bool both, const Tensor& lengths, const Tensors& h0,
         const Tensors& c0) {
        const RecurrentResult r = lstm(x, layers.all, options(both, lengths, h0, c0, false));
        return std::tuple(r.y, r.h, r.c);
      },
      recurrent_doc("Long short-term memory; gates i, f, g, o.",
                    "y, h, c = vv.lstm(x, [(vv.ones((3, 16)), vv.zeros((4, 16)))])\n>>> y.shape, c[0].shape\n"
                    "((5, 2, 4), (2, 4))")
          .c_str(),
      "x"_a, "layers"_a, bidirectional_named, lengths_named, "h0"_a = none, "c0"_a = none);
  op(
      m, "gru",
      [](const Tensor& x, const Layers& layers, bool both, const Tensor& lengths, const Tensors& h0) {
        const RecurrentResult r = gru(x, layers.all, options(both, lengths, h0, {}, false));
        return std::pair(r.y, r.h);
      },
      recurrent_doc("Gated recurrent units; gates r, z, n.",
                    "y, h = vv.gru(x, [(vv.ones((3, 12)), vv.zeros((4, 12)))])\n>>> y.shape\n(5, 2, 4)")
          .c_str(),
      "x"_a, "layers"_a, bidirectional_named, lengths_named, "h0"_a = none);
}

void bind_updates(nb::module_& m) {
  op(
      m, "sgd_update",
      [](const Tensor& w, const Tensor& g, const Tensor& velocity, const Operand& rate, double momentum, bool nesterov,
         double weight_decay) {
        const Updated u = sgd_update(w, g, velocity, rate, {momentum, nesterov, weight_decay});
        return std::pair(u.parameter, u.state);
      },
      R"(One step of stochastic gradient descent: the new parameter, and the new velocity where there is one.

>>> w, state = vv.sgd_update(vv.ones(1), vv.ones(1), None, rate=0.5)
>>> w.item(), state
(0.5, []))",
      "w"_a, "g"_a, "velocity"_a.none(), "rate"_a, "momentum"_a = 0.0, "nesterov"_a = false, "weight_decay"_a = 0.0);
  op(
      m, "adam_update",
      [](const Tensor& w, const Tensor& g, const Tensor& moment1, const Tensor& moment2, const Operand& rate,
         const Tensor& step, double beta1, double beta2, double epsilon, double weight_decay, bool decoupled) {
        const Updated u =
            adam_update(w, g, moment1, moment2, rate, step.to(f32), {beta1, beta2, epsilon, weight_decay, decoupled});
        return std::pair(u.parameter, u.state);
      },
      R"(One step of Adam: the new parameter, and its new moments. step counts from 1; decoupled is AdamW.

>>> w, (m, v) = vv.adam_update(vv.ones(1), vv.ones(1), vv.zeros(1), vv.zeros(1), rate=0.1, step=1.0)
>>> round(w.item(), 4), round(m.item(), 4)
(0.9, 0.1))",
      "w"_a, "g"_a, "m"_a, "v"_a, "rate"_a, "step"_a, "beta1"_a = 0.9, "beta2"_a = 0.999, "epsilon"_a = 1e-8,
      "weight_decay"_a = 0.0, "decoupled"_a = false);
  op(
      m, "rmsprop_update",
      [](const Tensor& w, const Tensor& g, const Tensor& v, const Operand& rate, double decay, double epsilon) {
        const Updated u = rmsprop_update(w, g, v, rate, {decay, epsilon});
        return std::pair(u.parameter, u.state);
      },
      R"(One step of RMSprop: the new parameter, and the new mean of squares.

>>> w, (v,) = vv.rmsprop_update(vv.ones(1), vv.ones(1), vv.ones(1), rate=0.5)
>>> w.item(), v.item()
(0.5, 1.0))",
      "w"_a, "g"_a, "v"_a, "rate"_a, "decay"_a = 0.9, "epsilon"_a = 1e-8);
  op(
      m, "adagrad_update",
      [](const Tensor& w, const Tensor& g, const Tensor& sum, const Operand& rate, double epsilon) {
        const Updated u = adagrad_update(w, g, sum, rate, epsilon);
        return std::pair(u.parameter, u.state);
      },
      R"(One step of Adagrad: the new parameter, and the new sum of squares.

>>> w, (total,) = vv.adagrad_update(vv.ones(1), vv.ones(1), vv.zeros(1), rate=0.5)
>>> w.item(), total.item()
(0.5, 1.0))",
      "w"_a, "g"_a, "sum"_a, "rate"_a, "epsilon"_a = 1e-10);
}

}  // namespace varve::python
