// Gradients: of functions of tensors, and of closures over variables. They are tensors, so they can be differentiated
// again.
#pragma once

#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include "varve/tensor.h"

namespace varve {

namespace detail {
using TensorFn = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

struct ValueAndGrads {
  Tensor value;
  std::vector<Tensor> grads;
};
ValueAndGrads value_and_grads(const std::function<Tensor(const std::vector<Tensor>&)>& f,
                              const std::vector<Tensor>& inputs);
}  // namespace detail

// dsum(output)/dx of a scalar output for each x, zeros where nothing flows. Throws Error where the gradient would have
// to flow through a tensor that was computed before (read, say): grad, value_and_grad and vjp have no such limit.
std::vector<Tensor> gradients(const Tensor& output, const std::vector<Tensor>& wrt);
// The same for several outputs, each with the gradient that flows into it.
std::vector<Tensor> gradients(const std::vector<Tensor>& outputs, const std::vector<Tensor>& seeds,
                              const std::vector<Tensor>& wrt);

// f: Tensor(Tensor), scalar result. grad(f)(x) has x's shape.
template <class F>
auto value_and_grad(F f) {
  return [f = std::move(f)](const Tensor& x) {
    auto r = detail::value_and_grads([&](const std::vector<Tensor>& in) { return Tensor(f(in[0])); }, {x});
    return std::pair<Tensor, Tensor>(std::move(r.value), std::move(r.grads[0]));
  };
}
template <class F>
auto grad(F f) {
  return [g = value_and_grad(std::move(f))](const Tensor& x) { return g(x).second; };
}

// A closure over variables: its scalar value, and the gradient of each variable.
std::pair<Tensor, std::vector<Tensor>> value_and_grad(const std::function<Tensor()>& f,
                                                      const std::vector<Variable>& wrt);

// The output of f and its vector-Jacobian product: pull(dy) is dx for each input.
struct Pullback {
  std::vector<Tensor> outputs;
  std::function<std::vector<Tensor>(const std::vector<Tensor>& dys)> pull;
};
Pullback vjp(const detail::TensorFn& f, const std::vector<Tensor>& inputs);

// f, but its intermediate values are computed again for the gradient instead of being kept. f is called once, at the
// call: what it refers to may be gone when the gradient is asked for.
std::function<Tensor(const Tensor&)> checkpoint(std::function<Tensor(const Tensor&)> f);
detail::TensorFn checkpoint_many(detail::TensorFn f);

// f with a gradient of your own: given inputs, outputs and dys, the gradients of the inputs. The rule is called when
// the gradient is asked for: it must own what it uses (capture by value).
using CustomVjp = std::function<std::vector<Tensor>(const std::vector<Tensor>& in, const std::vector<Tensor>& out,
                                                    const std::vector<Tensor>& dys)>;
detail::TensorFn custom_gradient(detail::TensorFn f, CustomVjp vjp);

}  // namespace varve
