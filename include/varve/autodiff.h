// Gradients: of functions of tensors, and of closures over variables. They are tensors, so they can be differentiated
// again.
#pragma once

#include <functional>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "varve/tensor.h"
#include "varve/tree.h"

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

namespace detail {
// One argument's gradient stands by itself, those of several in a tuple.
template <class... A>
struct GradsOf {
  using Type = std::tuple<Made<A>...>;
};
template <class A>
struct GradsOf<A> {
  using Type = Made<A>;
};
}  // namespace detail

// f: of tensors, or vectors, arrays, tuples and maps of them, with a scalar result. grad(f)(x) is like x;
// grad(f)(x, y) has the gradient of each: auto [dx, dy].
template <class F>
auto value_and_grad(F f) {
  return [f = std::move(f)]<class... A>(const A&... args) requires(sizeof...(A) > 0 && (detail::is_tree<A> && ...) &&
                                                                   std::is_invocable_v<const F&, detail::Made<A>&...>) {
    const auto given = std::tie(args...);
    std::vector<Tensor> inputs;
    (detail::Tree<A>::list(args, inputs), ...);
    auto r = detail::value_and_grads(
        [&](const std::vector<Tensor>& in) {
          const Tensor* next = in.data();
          auto made = std::apply(
              [&](const A&... like) { return std::tuple<detail::Made<A>...>{detail::Tree<A>::make(like, next)...}; },
              given);
          return Tensor(std::apply([&](auto&... made_args) { return f(made_args...); }, made));
        },
        inputs);
    const Tensor* next = r.grads.data();
    typename detail::GradsOf<A...>::Type grads{detail::Tree<A>::make(args, next)...};
    return std::pair<Tensor, typename detail::GradsOf<A...>::Type>(std::move(r.value), std::move(grads));
  };
}
template <class F>
auto grad(F f) {
  using Both = decltype(value_and_grad(std::move(f)));
  return [both = value_and_grad(std::move(f))]<class... A>(
      const A&... args) requires std::is_invocable_v<const Both&, const A&...> {
    return both(args...).second;
  };
}

// A closure over variables: its scalar value, and the gradient of each variable.
std::pair<Tensor, std::vector<Tensor>> value_and_grad(const std::function<Tensor()>& f,
                                                      const std::vector<Variable>& wrt);

// A gradient that is zero but for some rows: that of a table of which `embedding` or `gather` read a few.
struct GradientRows {
  Tensor rows;                    // [K], positions along the first axis; one may come several times: its values add up
  Tensor values;                  // [K, ..]
  std::vector<Tensor> from = {};  // what they were made of: computed with them as long as this is held
};
// The gradient as rows where it was recorded so (or as a sum of such) and was not computed yet: the whole of it then
// never is. Nothing otherwise.
std::optional<GradientRows> gradient_rows(const Tensor& gradient);

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
