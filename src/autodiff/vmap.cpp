// vmap: the function is called once, on one example that has no value; what it recorded is recorded again for all.
#include <algorithm>

#include "base/text.h"
#include "ops/batching.h"
#include "tensor/record.h"
#include "tensor/trace.h"
#include "varve/transforms.h"

namespace varve::detail {
namespace {

using InAxes = std::vector<std::optional<std::int64_t>>;

InAxes axes_of_inputs(const std::vector<Tensor>& inputs, const VmapOptions& options) {
  InAxes axes = options.in_axes;
  if (axes.empty()) axes.assign(inputs.size(), 0);
  if (axes.size() != inputs.size())
    throw Error(cat("vmap: in_axes names ", axes.size(), " axes for ", inputs.size(), " arguments: one for each."));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) throw Error(cat("vmap: argument ", i, " is an undefined Tensor."));
    if (!axes[i]) continue;
    if (inputs[i].rank() == 0)
      throw Error(cat("vmap: argument ", i, " is a scalar and has no axis of examples. Let all share it: in_axes ",
                      "without an axis for it."));
    axes[i] = normalize_axis(*axes[i], inputs[i].rank(), "vmap");
  }
  return axes;
}

std::int64_t number_of_examples(const std::vector<Tensor>& inputs, const InAxes& axes) {
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!axes[i]) continue;
    if (!first) first = i;
    const std::int64_t size = inputs[i].dim(static_cast<int>(*axes[i]));
    const std::int64_t expected = inputs[*first].dim(static_cast<int>(*axes[*first]));
    if (size != expected)
      throw Error(cat("vmap: argument ", *first, " has ", expected, " examples (axis ", *axes[*first], " of ",
                      inputs[*first].shape(), "), argument ", i, " has ", size, " (axis ", *axes[i], " of ",
                      inputs[i].shape(), ")."));
  }
  if (!first) throw Error("vmap: no argument has an axis of examples: there is nothing to map over.");
  return inputs[*first].dim(static_cast<int>(*axes[*first]));
}

TensorType type_of_example(const Tensor& input, std::int64_t axis) {
  Ints sizes = input.shape().vec();
  sizes.erase(sizes.begin() + axis);
  return {input.dtype(), Shape(std::move(sizes))};
}

std::vector<Tensor> with_out_axes(std::vector<Tensor> results, const std::vector<std::int64_t>& axes) {
  if (axes.empty()) return results;
  if (axes.size() != 1 && axes.size() != results.size())
    throw Error(cat("vmap: out_axes names ", axes.size(), " axes for ", results.size(), " results: one for each, or ",
                    "one for all."));
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::int64_t axis = axes[axes.size() == 1 ? 0 : i];
    results[i] = with_axis_at(results[i], 0, normalize_axis(axis, results[i].rank(), "vmap"));
  }
  return results;
}

}  // namespace

InAxes axes_of_tensors(const VmapOptions& options, const std::vector<std::size_t>& counts) {
  if (options.in_axes.empty()) return {};
  if (options.in_axes.size() != counts.size())
    throw Error(
        cat("vmap: in_axes names ", options.in_axes.size(), " axes for ", counts.size(), " arguments: one for each."));
  InAxes axes;
  for (std::size_t i = 0; i < counts.size(); ++i) axes.insert(axes.end(), counts[i], options.in_axes[i]);
  return axes;
}

std::vector<Tensor> vmap(const TensorFn& f, const std::vector<Tensor>& inputs, const VmapOptions& options) {
  const InAxes axes = axes_of_inputs(inputs, options);
  const std::int64_t size = number_of_examples(inputs, axes);
  const GradientScope scope({});  // compiled functions are recorded, long chains stay a graph
  BatchWalk walk(size, options.randomness == Randomness::different, ir::next_id());
  std::vector<Tensor> examples;
  std::vector<ir::NodePtr> placeholders;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    examples.push_back(inputs[i]);
    if (!axes[i]) continue;
    placeholders.push_back(ir::input_node(type_of_example(inputs[i], *axes[i]), cat("argument ", i, " of vmap")));
    examples.back() = Tensor(ir::Value{placeholders.back(), 0});
    walk.place(examples.back().value(), {with_axis_at(inputs[i], static_cast<int>(*axes[i]), 0), true});
  }
  std::vector<Tensor> one;
  {
    const MapScope mapping(placeholders);
    one = f(examples);
  }
  const std::lock_guard lock(ir::graph_mutex());
  std::vector<Tensor> all;
  for (const Tensor& result : one) {
    if (!result.defined()) throw Error("vmap: the function returned an undefined Tensor.");
    all.push_back(walk.batched(result));
  }
  return with_out_axes(std::move(all), options.out_axes);
}

}  // namespace varve::detail
