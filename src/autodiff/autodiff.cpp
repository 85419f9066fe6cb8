#include "varve/autodiff.h"

#include <mutex>
#include <unordered_set>

#include "autodiff/reverse.h"
#include "base/levers.h"
#include "base/text.h"
#include "batching/join.h"
#include "ops/batching.h"
#include "tensor/record.h"
#include "tensor/trace.h"
#include "varve/ops.h"

namespace varve {
namespace {

std::optional<std::vector<Tensor>> batch_with_gradient(const Batching& call);

// Identity on the outputs, after the inputs; its extension is the gradient.
const OpDef with_gradient =
    define({.name = "with_gradient",
            .doc = "The last inputs, unchanged; the gradient of the first ones is computed by a function of its own.",
            .family = "autodiff",
            .arity = -1,
            .shape =
                [](const Call& call) {
                  const auto first = static_cast<std::ptrdiff_t>(call.attrs.integer("inputs"));
                  return std::vector<TensorType>(call.in.begin() + first, call.in.end());
                },
            .batching = batch_with_gradient,
            .pure = false});

void need_scalar(const Tensor& output, const char* who) {
  if (output.rank() != 0 && output.numel() != 1)
    throw Error(
        cat(who, ": the function must return a scalar, got shape ", output.shape().str(), ". Take its sum or mean."));
  if (!is_floating(output.dtype()))
    throw Error(cat(who, ": the function must return a floating-point value, got ", name(output.dtype()), "."));
}

std::vector<Tensor> attach(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs, bool recomputes,
                           ir::Extension extension) {
  std::vector<Tensor> all = inputs;
  all.insert(all.end(), outputs.begin(), outputs.end());
  RecordExtras extras;
  extras.extension = std::move(extension);
  return record(with_gradient.record(), all,
                {{"inputs", static_cast<std::int64_t>(inputs.size())}, {"recomputes", recomputes}}, std::move(extras));
}

// A gradient of one's own is asked for one example and mapped over all of them.
Pulled pull_for_all(const ir::Extension& extension, const Vjp& all, std::int64_t size, bool fresh) {
  BatchWalk walk(size, fresh, ir::next_id());
  const auto one_of = [&](const Tensor& x) {
    if (!x.defined()) return Tensor();
    const Tensor one(ir::Value{ir::input_node(type_of_one(x.type()), "one of a batch"), 0});
    walk.place(one.value(), {x, true});
    return one;
  };
  Vjp one{all.op, all.attrs, {}, {}, {}, all.needs, one_of(all.dy)};
  for (const Tensor& x : all.in) one.in.push_back(one_of(x));
  for (const Tensor& y : all.out) one.out.push_back(one_of(y));
  for (const Tensor& dy : all.dys) one.dys.push_back(one_of(dy));
  Pulled pulled = extension(one);
  for (std::vector<Tensor>* list : {&pulled.grads, &pulled.outputs, &pulled.seeds})
    for (Tensor& x : *list)
      if (x.defined()) x = walk.batched(x);
  return pulled;
}

// A recomputation records its nodes again, whatever they compute: those of all examples as well.
std::optional<std::vector<Tensor>> batch_with_gradient(const Batching& call) {
  if (!call.node) return std::nullopt;
  RecordExtras extras;
  extras.extension = call.node->extension;
  if (!call.attrs.flag("recomputes"))
    extras.extension = [own = call.node->extension, size = call.size, fresh = call.fresh](const Vjp& v) {
      return pull_for_all(own, v, size, fresh);
    };
  return record(call.op, all_batched(call), call.attrs, std::move(extras));
}

std::vector<Tensor> defined_dys(const Vjp& v) {
  std::vector<Tensor> dys;
  for (std::size_t i = 0; i < v.dys.size(); ++i)
    dys.push_back(v.dys[i].defined() ? v.dys[i] : zeros(v.out[i].shape(), v.out[i].dtype()));
  return dys;
}

// The outputs recorded once more, from what stands in place of some values. What is older than `since` is taken as it
// is. The function that recorded them is not called again: what it captured may be gone.
std::vector<Tensor> recorded_again(const std::vector<Tensor>& outputs, ir::ValueMap places, std::uint64_t since) {
  const auto is_copied = [&](const ir::Node& node) { return node.id >= since && !node.inputs.empty(); };
  std::vector<std::pair<ir::NodePtr, std::size_t>> stack;
  std::unordered_set<const ir::Node*> seen;
  const auto visit = [&](const ir::Value& value) {
    if (is_copied(*value.node) && !places.count(value) && seen.insert(value.node.get()).second)
      stack.push_back({value.node, 0});
  };
  for (const Tensor& output : outputs) {
    visit(output.value());
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      if (next < node->inputs.size()) {
        visit(node->inputs[next++]);
        continue;
      }
      std::vector<ir::Value> inputs = node->inputs;
      for (ir::Value& input : inputs)
        if (const auto place = places.find(input); place != places.end()) input = place->second;
      const ir::NodePtr copy = ir::with_inputs(*node, std::move(inputs));
      for (int i = 0; i < static_cast<int>(node->types.size()); ++i) places[{node, i}] = {copy, i};
      stack.pop_back();
    }
  }
  std::vector<Tensor> again;
  for (const Tensor& output : outputs) {
    const auto place = places.find(output.value());
    again.emplace_back(place == places.end() ? output.value() : place->second);
  }
  return again;
}

// What takes the place of the outputs once calls that are equal run together: gradients are recorded for all of them at
// once as well. Who holds an output reads what takes its place. A program joins nothing: its graph is compiled anyway;
// nor does one example that stands for all: they run together already.
std::vector<Tensor> joined(const std::vector<Tensor>& outputs, const std::vector<Tensor>& wrt) {
  if (Trace::current() || MapScope::active() || !lever("joining")) return outputs;
  std::unordered_set<const ir::Node*> apart;
  for (const Tensor& tensor : wrt) apart.insert(tensor.node().get());
  const std::optional<Joined> all = join_equal_calls(values_of(outputs), apart);
  if (!all) return outputs;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i].node()->types.size() == 1 && outputs[i].value() != all->values[i])
      outputs[i].node()->set_stand_ins({all->values[i]});
  return tensors_of(all->values);
}

// Itself, or what is computed in its place.
Tensor in_its_place(const Tensor& tensor) {
  const std::lock_guard lock(ir::graph_mutex());
  const std::vector<ir::Value>& others = tensor.node()->stand_ins();
  return others.empty() ? tensor : Tensor(ir::Value(others[static_cast<std::size_t>(tensor.index())]));
}

}  // namespace

const OpRecord& with_gradient_op() { return with_gradient.record(); }

std::vector<Tensor> gradients(const std::vector<Tensor>& outputs, const std::vector<Tensor>& seeds,
                              const std::vector<Tensor>& wrt) {
  if (outputs.size() != seeds.size())
    throw Error(cat("gradients: ", outputs.size(), " outputs but ", seeds.size(), " seeds."));
  const std::lock_guard lock(ir::graph_mutex());
  const GradientScope scope({});  // rules may call functions whose gradient is wanted in turn
  ReverseWalk walk(wrt);
  const std::vector<Tensor> computed = joined(outputs, wrt);
  for (std::size_t i = 0; i < outputs.size(); ++i) walk.seed(computed[i], seeds[i]);
  std::vector<Tensor> grads = walk.run();
  for (std::size_t i = 0; i < wrt.size(); ++i)
    if (!grads[i].defined()) grads[i] = zeros(wrt[i].shape(), wrt[i].dtype());
  // Who reads a gradient will read the loss: computed later, it would be computed from the beginning.
  if (outputs.size() == 1 && !Trace::current())
    for (const Tensor& grad : grads) grad.node()->companion = computed[0].node();
  return grads;
}

std::vector<Tensor> gradients(const Tensor& output, const std::vector<Tensor>& wrt) {
  need_scalar(output, "gradients");
  return gradients({output}, {ones(output.shape(), output.dtype())}, wrt);
}

namespace detail {
ValueAndGrads value_and_grads(const std::function<Tensor(const std::vector<Tensor>&)>& f,
                              const std::vector<Tensor>& inputs) {
  const GradientScope scope({});
  std::vector<Tensor> marked;
  for (const Tensor& input : inputs) {
    if (!is_floating(input.dtype()))
      throw Error(cat("grad: needs a floating-point input, got ", input.type().str(), "."));
    marked.push_back(identity(input));
  }
  const Tensor value = f(marked);
  need_scalar(value, "grad");
  std::vector<Tensor> grads = gradients(value, marked);
  return {in_its_place(value), std::move(grads)};
}
}  // namespace detail

std::pair<Tensor, std::vector<Tensor>> value_and_grad(const std::function<Tensor()>& f,
                                                      const std::vector<Variable>& wrt) {
  const GradientScope scope(wrt);
  const Tensor value = f();
  need_scalar(value, "value_and_grad");
  std::vector<Tensor> grads = gradients(value, scope.aliases());
  return {in_its_place(value), std::move(grads)};
}

Pullback vjp(const detail::TensorFn& f, const std::vector<Tensor>& inputs) {
  const GradientScope scope({});
  std::vector<Tensor> marked;
  for (const Tensor& input : inputs) marked.push_back(identity(input));
  std::vector<Tensor> outputs = f(marked);
  // Outputs may be read before the pullback is called: what was recorded since stays a graph.
  const std::lock_guard lock(ir::graph_mutex());
  for (const ir::NodePtr& node : ir::topological(values_of(outputs)))
    if (!marked.empty() && node->id >= marked[0].node()->id) node->kept = true;
  return {outputs, [outputs, marked](const std::vector<Tensor>& dys) { return gradients(outputs, dys, marked); }};
}

detail::TensorFn custom_gradient(detail::TensorFn f, CustomVjp vjp) {
  return [f = std::move(f), vjp = std::move(vjp)](const std::vector<Tensor>& in) {
    const std::vector<Tensor> out = f(in);
    const std::size_t outputs = out.size();
    return attach(in, out, false, [vjp, outputs](const Vjp& v) {
      const std::vector<Tensor> own(v.in.begin(), v.in.end() - static_cast<std::ptrdiff_t>(outputs));
      std::vector<Tensor> grads = vjp(own, v.out, defined_dys(v));
      if (grads.size() != own.size())
        throw Error(cat("custom_gradient: returned ", grads.size(), " gradients for ", own.size(), " inputs."));
      grads.resize(v.in.size());  // nothing flows through the function itself
      return Pulled{std::move(grads), {}, {}};
    });
  };
}

detail::TensorFn checkpoint_many(detail::TensorFn f) {
  return [f = std::move(f)](const std::vector<Tensor>& in) {
    const std::uint64_t since = ir::next_id();
    const auto inputs = static_cast<std::ptrdiff_t>(in.size());
    return attach(in, f(in), true, [inputs, since](const Vjp& v) {
      // The barrier makes the second computation wait for the gradient, and keeps it apart from the first.
      const std::vector<Tensor> dys = defined_dys(v);
      std::vector<Tensor> held(v.in.begin(), v.in.begin() + inputs);
      held.insert(held.end(), dys.begin(), dys.end());
      const std::vector<Tensor> fresh = barrier(held);
      ir::ValueMap inputs_again;
      for (std::size_t i = 0; i < static_cast<std::size_t>(inputs); ++i)
        inputs_again[v.in[i].value()] = fresh[i].value();
      const std::vector<Tensor> again =
          recorded_again({v.in.begin() + inputs, v.in.end()}, std::move(inputs_again), since);
      // The walk goes on through the new outputs, captured tensors included.
      return Pulled{std::vector<Tensor>(v.in.size()), again, {fresh.begin() + inputs, fresh.end()}};
    });
  };
}

std::function<Tensor(const Tensor&)> checkpoint(std::function<Tensor(const Tensor&)> f) {
  return [g = checkpoint_many([f = std::move(f)](const std::vector<Tensor>& in) {
            return std::vector<Tensor>{f(in[0])};
          })](const Tensor& x) { return g({x})[0]; };
}

}  // namespace varve
