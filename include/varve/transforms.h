// Transforms of functions: over a batch of examples, forward derivatives, Jacobians, Hessians. What they give is
// recorded like everything else: they compose with each other, with gradients and with compile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "varve/autodiff.h"
#include "varve/batching.h"
#include "varve/tensor.h"
#include "varve/tree.h"

namespace varve {

// What random operators give in a mapped function: numbers of its own to each example, or the same to all.
enum class Randomness : std::uint8_t { different, same };

struct VmapOptions {
  std::vector<std::optional<std::int64_t>> in_axes =
      {};                                   // of each argument: its axis of examples; nullopt: all share it
  std::vector<std::int64_t> out_axes = {};  // of each result; none given: the first
  Randomness randomness = Randomness::different;
};

// Values, and how they change when the inputs move along the tangents.
struct Jvp {
  std::vector<Tensor> outputs, tangents;  // undefined: of an output that is not floating-point
};

// Which way a Jacobian is computed: a pullback for each output element, a push forward for each input element, or
// whichever are fewer.
enum class JacobianMode : std::uint8_t { automatic, reverse, forward };

namespace detail {
std::vector<Tensor> vmap(const TensorFn& f, const std::vector<Tensor>& inputs, const VmapOptions& options);

// The axis of each tensor, from that of each argument and how many tensors it holds.
std::vector<std::optional<std::int64_t>> axes_of_tensors(const VmapOptions& options,
                                                         const std::vector<std::size_t>& counts);
}  // namespace detail

// f for a batch of examples: f sees one example, without the axis that its arguments are mapped over, and what it
// returns is stacked. f is called once; its operators work on all examples at a time. Arguments and results are
// tensors, or vectors, tuples and maps of them. An operator that has no batching rule is an Error that names it; so is
// assigning a variable a value that differs from example to example.
template <class F>
auto vmap(F f, VmapOptions options = {}) {
  return
      [ held = std::make_shared<F>(std::move(f)), options = std::move(options) ]<class... A>(const A&... args) requires(
          sizeof...(A) > 0 && (detail::is_tree<A> && ...) && std::is_invocable_v<F&, detail::Made<A>&...>) {
    using Result = std::decay_t<std::invoke_result_t<F&, detail::Made<A>&...>>;
    const auto given = std::tie(args...);
    std::vector<Tensor> inputs;
    (detail::Tree<A>::list(args, inputs), ...);
    VmapOptions flat = options;
    flat.in_axes = detail::axes_of_tensors(options, {detail::listed(args).size()...});
    std::optional<Result> one;  // the result of one example: what it is made of
    const std::vector<Tensor> all = detail::vmap(
        [&](const std::vector<Tensor>& in) {
          const Tensor* next = in.data();
          auto example = std::apply(
              [&](const A&... like) { return std::tuple<detail::Made<A>...>{detail::Tree<A>::make(like, next)...}; },
              given);
          one.emplace(std::apply([&](auto&... each) { return (*held)(each...); }, example));
          return detail::listed(*one);
        },
        inputs, flat);
    return detail::made_like(*one, all);
  };
}

// Derivatives along tangents, one for each input; an undefined tangent: that input does not move.
Jvp jvp(const detail::TensorFn& f, const std::vector<Tensor>& inputs, const std::vector<Tensor>& tangents);
template <class F>
requires std::is_invocable_v<F&, const Tensor&> std::pair<Tensor, Tensor> jvp(F f, const Tensor& x,
                                                                              const Tensor& tangent) {
  const Jvp result =
      jvp(detail::TensorFn([&](const std::vector<Tensor>& in) { return std::vector<Tensor>{Tensor(f(in[0]))}; }),
          std::vector<Tensor>{x}, std::vector<Tensor>{tangent});
  return {result.outputs[0], result.tangents[0]};
}

// ∂output_o/∂input_i, of shape [output_o.., input_i..], for every pair: result[o][i].
std::vector<std::vector<Tensor>> jacobians(const detail::TensorFn& f, const std::vector<Tensor>& inputs,
                                           JacobianMode mode = JacobianMode::automatic);
// f: Tensor(Tensor). jacobian(f)(x) has the result's axes before those of x.
template <class F>
auto jacobian(F f, JacobianMode mode = JacobianMode::automatic) {
  return [f = std::make_shared<F>(std::move(f)), mode](const Tensor& x) {
    return jacobians([&](const std::vector<Tensor>& in) { return std::vector<Tensor>{Tensor((*f)(in[0]))}; }, {x},
                     mode)[0][0];
  };
}

// Second derivatives of a scalar: ∂²f/∂input_i∂input_j, of shape [input_i.., input_j..]: result[i][j].
std::vector<std::vector<Tensor>> hessians(const std::function<Tensor(const std::vector<Tensor>&)>& f,
                                          const std::vector<Tensor>& inputs);
// f: Tensor(Tensor), scalar result. hessian(f)(x) has x's axes twice.
template <class F>
auto hessian(F f) {
  return [f = std::make_shared<F>(std::move(f))](const Tensor& x) {
    return hessians([&](const std::vector<Tensor>& in) { return Tensor((*f)(in[0])); }, {x})[0][0];
  };
}

// The Hessian of a scalar function times a vector, without the Hessian: two gradients.
std::vector<Tensor> hvp(const std::function<Tensor(const std::vector<Tensor>&)>& f, const std::vector<Tensor>& inputs,
                        const std::vector<Tensor>& vectors);
template <class F>
requires std::is_invocable_v<F&, const Tensor&> Tensor hvp(F f, const Tensor& x, const Tensor& vector) {
  return hvp(std::function<Tensor(const std::vector<Tensor>&)>(
                 [&](const std::vector<Tensor>& in) { return Tensor(f(in[0])); }),
             std::vector<Tensor>{x}, std::vector<Tensor>{vector})[0];
}
// Of a closure over variables: one vector, and one product, for each.
std::vector<Tensor> hvp(const std::function<Tensor()>& f, const std::vector<Variable>& wrt,
                        const std::vector<Tensor>& vectors);

}  // namespace varve
