#include "cli/op_samples.h"

#include "ir/graph.h"
#include "tensor/record.h"
#include "varve/autodiff.h"
#include "varve/control.h"
#include "varve/fft.h"
#include "varve/indexing.h"
#include "varve/linalg.h"
#include "varve/ops.h"

namespace varve::cli {
namespace {

// An input without a value: nothing here is ever computed.
Tensor hole(const Shape& shape, DType dtype = f32) { return Tensor(ir::Value{ir::input_node({dtype, shape}, "x"), 0}); }

using Tensors = std::vector<Tensor>;

// Results to look behind, and the inputs whose gradients are looked at too.
struct Sample {
  Tensors results;
  Tensors inputs = {};
};

std::vector<Sample> shape_samples() {
  const Tensor x = hole({4, 6}), y = hole({4, 6}), i = hole({4, 6}, i64), b = hole({4, 6}, boolean);
  const auto [top, at] = top_k(x, 2);
  return {
      {{reshape(x, {6, 4}), transpose(x), broadcast_to(x, {2, 4, 6}), expand_dims(x, 0),
        squeeze(expand_dims(x, 0), {0})},
       {x}},
      {{slice(x, {{1, 3}}), slice(x, {{0, 4, 2}}), flip(x, {0}), tile(x, {2, 1}), repeat(x, 2, 0)}, {x}},
      {{pad(x, {{1, 1}, {0, 0}}), concat({x, y}), stack({x, y}), tril(x), triu(x)}, {x, y}},
      {{sum(x, {.axes = Axes{1}}), mean(x), prod(x), max(x), min(x), var(x), norm(x), logsumexp(x), cumsum(x),
        sum_to(x, {1, 6})},
       {x}},
      {{any(b), all(b), argmax(x), argmin(x), argsort(x), at}},
      {{sort(x), top}, {x}},
      {{gather(x, hole({3}, i64)), scatter_add(x, hole({3}, i64), hole({3, 6})), embedding(x, hole({3}, i64))}, {x}},
      {{take_along_axis(x, i, 1), put_along_axis_add(x, i, y, 1)}, {x, y}},
      {{scatter(x, hole({3}, i64), hole({3, 6})), put_along_axis(x, i, y, 1)}, {x, y}},
      {{cumprod(x), cummax(x).first, cummin(x).first}, {x}},
      {{one_hot(hole({4}, i64), 5), cast(x, f64), identity(x), stop_gradient(x), check_finite(x, "x"), zeros({3}),
        arange(3), eye(3)}},
      {barrier({x, y}), {x, y}},
  };
}

std::vector<Sample> layer_samples() {
  const Tensor x = hole({2, 8, 8, 4}), w = hole({8, 3, 3, 4}), wt = hole({4, 3, 3, 8}), c = hole({4}), d = hole({4});
  const Tensor a = hole({5, 4}), k = hole({4, 3}), labels = hole({5}, i64), q = hole({2, 3, 5, 4});
  const BatchNorm bn = batch_norm_train(x, c, d);
  return {
      {{matmul(a, k), linear(a, k, hole({3})), einsum("ij,jk->ik", a, k)}, {a, k}},
      {{conv2d(x, w), conv2d_transpose(x, wt)}, {x, w, wt}},
      {{conv1d(hole({2, 8, 4}), hole({3, 3, 4}))}},
      {{max_pool2d(x), avg_pool2d(x), global_avg_pool2d(x), global_max_pool2d(x), adaptive_avg_pool2d(x, 3, 3),
        adaptive_max_pool2d(x, 3, 3)},
       {x}},
      {{bn.y, bn.mean, bn.var, batch_norm(x, c, d, c, d), layer_norm(x, c, d), rms_norm(x, c), group_norm(x, 2, c, d)},
       {x, c, d}},
      {{instance_norm(x, c, d), local_response_norm(x)}, {x, c, d}},
      {{softmax(a), log_softmax(a), cross_entropy(a, labels), binary_cross_entropy(a, a), mse_loss(a, a),
        l1_loss(a, a)},
       {a}},
      {{huber_loss(a, a), kl_div(a, a)}, {a}},
      {{attention(q, q, q)}, {q}},
      {{uniform({4}), normal({4}), bernoulli({4}, 0.5), permutation(4)}},
      {{dropout(a, 0.5)}, {a}},
  };
}

std::vector<Sample> step_samples() {
  const Tensor x = hole({3, 2, 4}), w = hole({4, 16}), h = hole({4, 16}), p = hole({4}), s = hole(Shape{}, i64);
  const Tensor rate = hole(Shape{});
  const RecurrentWeights weights{.input = w, .hidden = h, .bias = hole({16})};
  const RecurrentWeights gru_weights{.input = hole({4, 12}), .hidden = hole({4, 12}), .bias = hole({12})};
  const RecurrentWeights rnn_weights{.input = hole({4, 4}), .hidden = hole({4, 4}), .bias = hole({4})};
  Tensors updates = {sgd_update(p, p, p, rate, {.momentum = 0.9}).parameter, adam_update(p, p, p, p, rate, s).parameter,
                     rmsprop_update(p, p, p, rate).parameter, adagrad_update(p, p, p, rate).parameter};
  const ScanResult scanned = scan(
      [](const Tensors& carry, const Tensors& in) {
        return ScanStep{{carry[0] + in[0]}, {}};
      },
      {hole({2, 4})}, {x});
  const Tensor halved = while_loop([](const Tensor& c) { return max(c) > 1; }, [](const Tensor& c) { return c / 2; }, x,
                                   {.max_steps = 8});
  const Tensor chosen = cond(
      max(x) > 0, [&] { return exp(x); }, [&] { return x * 2; });
  return {{{lstm(x, {weights}).y}, {x, w, h}},
          {{gru(x, {gru_weights}).y, rnn(x, {rnn_weights}).y}, {x}},
          {scanned.carry, {x}},
          {{chosen, halved}, {x}},
          {updates}};
}

std::vector<Sample> matrix_samples() {
  const Tensor a = hole({4, 4}), b = hole({4, 2});
  const auto [sign, log] = linalg::slogdet(a);
  return {
      {{linalg::cholesky(a), linalg::solve(a, b), linalg::triangular_solve(a, b), linalg::det(a), sign, log}, {a, b}},
      {{fft::fft({a, a}).re, linalg::qr(a).q, linalg::eigh(a).vectors, linalg::svd(a).u}, {a}}};
}

// Of two ranks: what one rank alone would leave out.
std::vector<Sample> collective_samples() {
  const Attrs two = {{"ranks", 2}};
  const Tensor x = hole({4, 6}), token = hole(Shape{});
  const auto call = [](const char* op, const Tensors& in, const Attrs& attrs) {
    return record(find_operator(op), in, attrs);
  };
  Sample sums;
  for (const char* op : {"all_sum", "all_max", "all_min", "all_gather", "sum_scatter", "all_to_all"})
    sums.results.push_back(call(op, {x}, two)[0]);
  sums.results.push_back(call("rank_broadcast", {x}, {{"ranks", 2}, {"root", 0}})[0]);
  const Tensors begun = call("all_sum_begin", {x, x}, {{"ranks", 2}, {"dtype", f32}});
  const Attrs message = {{"from", 1}, {"tag", 0}, {"dtype", f32}, {"shape", Shape{3}}};
  const Tensors gathered = call("all_gather_begin", {x}, two);
  const Attrs there = {{"to", 1}, {"tag", 0}};
  const Tensors sent = call("send_begin", {x}, there), received = call("recv_begin", {}, message);
  const Tensor left = call("send_end", sent, {})[0];
  return {sums,
          {{call("all_sum_end", begun, {})[0], call("rank_barrier", {token}, two)[0],
            call("all_gather_end", gathered, {{"counts", Ints{24}}, {"types", Ints{static_cast<int>(f32)}}})[0]}},
          {{call("send", {x, token}, there)[0], call("recv", {token}, message)[0], call("recv_end", received, {})[0],
            call("exchanged", {x, left}, {})[0]}},
          {{call("transfer", {x}, {{"ranks", 2}, {"from", 0}, {"to", 1}})[0]}, {x}},
          {{call("owned", {x}, {{"rank", 0}, {"shape", x.shape()}})[0], call("keep", {x}, {{"rank", 0}})[0]}},
          {{call("one_bit", {x, x}, {{"columns", 6}})[0], call("top_entries", {x, x}, {{"count", 3}})[0],
            call("one_bit_sum", {hole({2, 3}, u8), hole({2, 2, 6})}, {{"shape", x.shape()}, {"scale", 0.5}})[0]}}};
}

class Collector {
 public:
  // Gradients of gradients too: some operators appear only there.
  void add(const Sample& sample) {
    look_behind(sample.results);
    Tensors outputs;
    for (const Tensor& result : sample.results)
      if (is_floating(result.dtype())) outputs.push_back(result);
    Tensors wrt = sample.inputs;
    for (int order = 0; order < 2 && !wrt.empty() && !outputs.empty(); ++order) {
      Tensors seeds;
      for (const Tensor& output : outputs) seeds.push_back(hole(output.shape(), output.dtype()));
      outputs = gradients(outputs, seeds, wrt);
      look_behind(outputs);
      wrt.insert(wrt.end(), seeds.begin(), seeds.end());
    }
  }
  void add_other_elementwise() {
    for (const OpRecord* op : operators())
      if (op->elementwise() && !found_.contains(op))
        look_behind(record(*op, Tensors(static_cast<std::size_t>(op->arity), hole({4}))));
  }
  std::unordered_map<const OpRecord*, ir::NodePtr> take() { return std::move(found_); }

 private:
  void look_behind(const Tensors& tensors) {
    for (const ir::NodePtr& node : ir::topological(values_of(tensors))) {
      if (!found_.emplace(node->op, node).second) continue;
      for (const auto& region : node->regions)
        for (const ir::NodePtr& inner : ir::topological(*region)) found_.emplace(inner->op, inner);
    }
  }
  std::unordered_map<const OpRecord*, ir::NodePtr> found_;
};

}  // namespace

std::unordered_map<const OpRecord*, ir::NodePtr> op_samples() {
  Collector collector;
  for (const auto& samples : {shape_samples, layer_samples, step_samples, matrix_samples, collective_samples})
    for (const Sample& sample : samples()) collector.add(sample);
  collector.add_other_elementwise();
  return collector.take();
}

}  // namespace varve::cli
