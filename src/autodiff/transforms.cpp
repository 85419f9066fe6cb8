// Derivatives made of gradients. A pullback is linear in what flows into it, so its own gradient pushes tangents
// forward: jvp(f, x, v) = ∂/∂u ⟨vjp(f, x)(u), v⟩, whatever u is. Where nobody reads u's values they are not computed.
#include "varve/transforms.h"

#include "base/text.h"
#include "ops/batching.h"
#include "tensor/trace.h"

namespace varve {
namespace {

using ScalarFn = std::function<Tensor(const std::vector<Tensor>&)>;

void check_like(const char* who, const char* what, const std::vector<Tensor>& inputs,
                const std::vector<Tensor>& vectors) {
  if (inputs.size() != vectors.size())
    throw Error(cat(who, ": ", inputs.size(), " inputs but ", vectors.size(), " ", what, "s."));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!vectors[i].defined()) continue;
    if (!is_floating(inputs[i].dtype()))
      throw Error(
          cat(who, ": input ", i, " is ", inputs[i].type().str(), " and does not move: give it no ", what, "."));
    if (vectors[i].shape() != inputs[i].shape())
      throw Error(
          cat(who, ": ", what, " ", i, " has shape ", vectors[i].shape(), ", its input ", inputs[i].shape(), "."));
  }
}

void need_floating(const char* who, const Tensor& tensor, const char* what) {
  if (!is_floating(tensor.dtype()))
    throw Error(cat(who, ": needs a floating-point ", what, ", got ", tensor.type().str(), "."));
}

void need_scalar_value(const char* who, const Tensor& value) {
  if (value.numel() != 1) throw Error(cat(who, ": the function must return a scalar, got shape ", value.shape(), "."));
  need_floating(who, value, "result");
}

std::vector<Tensor> marked(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> marks;
  for (const Tensor& input : inputs) marks.push_back(identity(input));
  return marks;
}

// f at a point, and the maps of tangents: forward by the gradient of the pullback.
struct Linearized {
  std::vector<Tensor> at, outputs;
  std::vector<Tensor> seeds;   // u: of outputs that are floating-point, else undefined
  std::vector<Tensor> pulled;  // of each input, from u

  Linearized(const detail::TensorFn& f, const std::vector<Tensor>& inputs) : at(marked(inputs)), outputs(f(at)) {
    std::vector<Tensor> ends, flows;
    for (const Tensor& output : outputs) {
      seeds.push_back(is_floating(output.dtype()) ? identity(zeros(output.shape(), output.dtype())) : Tensor());
      if (!seeds.back().defined()) continue;
      ends.push_back(output);
      flows.push_back(seeds.back());
    }
    pulled = gradients(ends, flows, at);
  }

  std::vector<Tensor> push(const std::vector<Tensor>& tangents) const {
    std::vector<Tensor> ends, flows, wrt;
    for (std::size_t i = 0; i < at.size(); ++i) {
      if (!tangents[i].defined()) continue;
      ends.push_back(pulled[i]);
      flows.push_back(tangents[i]);
    }
    for (const Tensor& seed : seeds)
      if (seed.defined()) wrt.push_back(seed);
    std::vector<Tensor> moved = gradients(ends, flows, wrt), all(outputs.size());
    for (std::size_t o = 0, next = 0; o < all.size(); ++o)
      if (seeds[o].defined()) all[o] = moved[next++];
    return all;
  }

  std::vector<Tensor> pull(std::size_t output, const Tensor& dy) const {
    return gradients({outputs[output]}, {dy}, at);
  }
};

// Each row is one element's unit vector: [numel, shape..].
Tensor basis_of(const Tensor& x) {
  return reshape(eye(x.numel(), x.dtype()), Shape(prefixed(x.shape().vec(), x.numel())));
}

Shape joined_shape(const Shape& first, const Shape& second) {
  Ints sizes = first.vec();
  sizes.insert(sizes.end(), second.begin(), second.end());
  return Shape(std::move(sizes));
}

using Rows = std::vector<std::vector<Tensor>>;

Rows jacobians_by_pulling(const Linearized& line) {
  Rows rows;
  for (std::size_t o = 0; o < line.outputs.size(); ++o) {
    const auto pull = [&](const std::vector<Tensor>& dy) { return line.pull(o, dy[0]); };
    rows.push_back(detail::vmap(pull, {basis_of(line.outputs[o])}, {}));
    for (std::size_t i = 0; i < line.at.size(); ++i)
      rows[o][i] = reshape(rows[o][i], joined_shape(line.outputs[o].shape(), line.at[i].shape()));
  }
  return rows;
}

Rows jacobians_by_pushing(const Linearized& line) {
  Rows rows(line.outputs.size(), std::vector<Tensor>(line.at.size()));
  for (std::size_t i = 0; i < line.at.size(); ++i) {
    const auto push = [&](const std::vector<Tensor>& tangent) {
      std::vector<Tensor> tangents(line.at.size());
      tangents[i] = tangent[0];
      return line.push(tangents);
    };
    const std::vector<Tensor> columns = detail::vmap(push, {basis_of(line.at[i])}, {});
    for (std::size_t o = 0; o < columns.size(); ++o)
      rows[o][i] = reshape(with_axis_at(columns[o], 0, columns[o].rank() - 1),
                           joined_shape(line.outputs[o].shape(), line.at[i].shape()));
  }
  return rows;
}

std::int64_t elements(const std::vector<Tensor>& tensors) {
  std::int64_t count = 0;
  for (const Tensor& tensor : tensors) count += tensor.numel();
  return count;
}

}  // namespace

Jvp jvp(const detail::TensorFn& f, const std::vector<Tensor>& inputs, const std::vector<Tensor>& tangents) {
  check_like("jvp", "tangent", inputs, tangents);
  const GradientScope scope({});
  const Linearized line(f, inputs);
  return {line.outputs, line.push(tangents)};
}

std::vector<std::vector<Tensor>> jacobians(const detail::TensorFn& f, const std::vector<Tensor>& inputs,
                                           JacobianMode mode) {
  for (const Tensor& input : inputs) need_floating("jacobian", input, "input");
  const GradientScope scope({});
  const Linearized line(f, inputs);
  for (const Tensor& output : line.outputs) need_floating("jacobian", output, "result");
  if (mode == JacobianMode::automatic)
    mode = elements(inputs) < elements(line.outputs) ? JacobianMode::forward : JacobianMode::reverse;
  return mode == JacobianMode::forward ? jacobians_by_pushing(line) : jacobians_by_pulling(line);
}

std::vector<std::vector<Tensor>> hessians(const ScalarFn& f, const std::vector<Tensor>& inputs) {
  for (const Tensor& input : inputs) need_floating("hessian", input, "input");
  const auto slopes = [&](const std::vector<Tensor>& in) {
    const Tensor value = f(in);
    need_scalar_value("hessian", value);
    return gradients(value, in);
  };
  return jacobians(slopes, inputs, JacobianMode::reverse);
}

std::vector<Tensor> hvp(const ScalarFn& f, const std::vector<Tensor>& inputs, const std::vector<Tensor>& vectors) {
  for (const Tensor& input : inputs) need_floating("hvp", input, "input");
  check_like("hvp", "vector", inputs, vectors);
  const GradientScope scope({});
  const std::vector<Tensor> at = marked(inputs);
  const Tensor value = f(at);
  need_scalar_value("hvp", value);
  return gradients(gradients(value, at), vectors, at);
}

std::vector<Tensor> hvp(const std::function<Tensor()>& f, const std::vector<Variable>& wrt,
                        const std::vector<Tensor>& vectors) {
  const GradientScope scope(wrt);
  check_like("hvp", "vector", scope.aliases(), vectors);
  const Tensor value = f();
  need_scalar_value("hvp", value);
  return gradients(gradients(value, scope.aliases()), vectors, scope.aliases());
}

}  // namespace varve
