// Transforms of functions: over a batch of examples, forward derivatives, Jacobians, Hessians. What they give is
// recorded like everything else: they compose with each other, with gradients and with compile.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "varve/autodiff.h"
#include "varve/batching.h"
#include "varve/compile.h"
#include "varve/tensor.h"
#include "varve/tensors.h"

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

// The tensors of a result, whatever it is made of, in their order.
template <class Visit>
void each_tensor(Tensor& t, const Visit& visit) {
  visit(t);
}
template <class Visit>
void each_tensor(Tensors& fields, const Visit& visit) {
  for (std::size_t i = 0; i < fields.size(); ++i) visit(fields[i]);
}
template <class T, class Visit>
void each_tensor(std::vector<T>& list, const Visit& visit);
template <class K, class T, class Visit>
void each_tensor(std::map<K, T>& entries, const Visit& visit);
template <class A, class B, class Visit>
void each_tensor(std::pair<A, B>& both, const Visit& visit);
template <class... T, class Visit>
void each_tensor(std::tuple<T...>& all, const Visit& visit);

template <class T, class Visit>
void each_tensor(std::vector<T>& list, const Visit& visit) {
  for (T& entry : list) each_tensor(entry, visit);
}
template <class K, class T, class Visit>
void each_tensor(std::map<K, T>& entries, const Visit& visit) {
  for (auto& entry : entries) each_tensor(entry.second, visit);
}
template <class A, class B, class Visit>
void each_tensor(std::pair<A, B>& both, const Visit& visit) {
  each_tensor(both.first, visit);
  each_tensor(both.second, visit);
}
template <class... T, class Visit>
void each_tensor(std::tuple<T...>& all, const Visit& visit) {
  std::apply([&](auto&... entry) { (each_tensor(entry, visit), ...); }, all);
}

template <class F, class... A>
auto call_mapped(F& f, const VmapOptions& options, const A&... args) {
  using R = std::decay_t<std::invoke_result_t<F&, const A&...>>;
  std::optional<R> result;
  const std::vector<Tensor> mapped = vmap(
      [&](const std::vector<Tensor>& in) {
        [&]<std::size_t... I>(std::index_sequence<I...>) { result.emplace(f(in[I]...)); }
        (std::index_sequence_for<A...>());
        std::vector<Tensor> leaves;
        each_tensor(*result, [&](Tensor& t) { leaves.push_back(t); });
        return leaves;
      },
      {args...}, options);
  std::size_t next = 0;
  each_tensor(*result, [&](Tensor& t) { t = mapped[next++]; });
  return std::move(*result);
}

template <std::size_t>
using TensorAt = Tensor;

// How many tensors a function takes, where its type says so: not of a generic lambda.
template <class F>
concept OneSignature = std::is_pointer_v<F> || requires {
  &F::operator();
};
template <class F>
struct Arity {};
template <OneSignature F>
struct Arity<F> : std::integral_constant<std::size_t, Signature<F>::arity> {};
template <class R, std::size_t N>
struct Arity<Compiled<R, N>> : std::integral_constant<std::size_t, N> {};

template <class F>
concept OfList = !std::is_invocable_v<F&, const Tensor&> &&
                 std::is_invocable_r_v<std::vector<Tensor>, F&, const std::vector<Tensor>&>;
}  // namespace detail

// f for a batch of examples: f sees one example, without the axis that its arguments are mapped over, and what it
// returns is stacked. f is called once; its operators work on all examples at a time. The result takes as many tensors
// as f; whatever f returns (a tensor, or a pair, tuple, vector or map of them) it returns. An operator that has no
// batching rule is an Error that names it; so is assigning a variable a value that differs from example to example.
template <class F>
auto vmap(F f, VmapOptions options = {}) {
  const auto held = std::make_shared<F>(std::move(f));
  if constexpr (detail::OfList<F>) {
    return [held, options = std::move(options)](const std::vector<Tensor>& inputs) {
      return detail::vmap([&](const std::vector<Tensor>& in) { return std::vector<Tensor>((*held)(in)); }, inputs,
                          options);
    };
  } else if constexpr (requires { detail::Arity<F>::value; }) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return [held, options = std::move(options)](const detail::TensorAt<I>&... args) {
        return detail::call_mapped(*held, options, args...);
      };
    }
    (std::make_index_sequence<detail::Arity<F>::value>());
  } else {
    return [held, options = std::move(options)](const auto&... args) {
      return detail::call_mapped(*held, options, static_cast<Tensor>(args)...);
    };
  }
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
