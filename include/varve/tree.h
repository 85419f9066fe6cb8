// Tensors in vectors, arrays, pairs, tuples and maps, to any depth: what compiled functions and gradients take and
// give.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "varve/tensor.h"
#include "varve/tensors.h"

namespace varve::detail {

// How the tensors of a T are listed, and a T like another one is made of a list. `fixed`: its type alone says how many
// there are; otherwise note() writes what else tells two of them apart. Made: a T with tensors for variables.
template <class T>
struct Tree {
  static constexpr bool known = false;
};

template <>
struct Tree<Tensor> {
  using Made = Tensor;
  static constexpr bool known = true, fixed = true;
  static void list(const Tensor& t, std::vector<Tensor>& out) { out.push_back(t); }
  static Tensor make(const Tensor&, const Tensor*& next) { return *next++; }
  static void note(const Tensor&, std::string&) {}
};

template <>
struct Tree<Variable> {
  using Made = Tensor;
  static constexpr bool known = true, fixed = true;
  static void list(const Variable& v, std::vector<Tensor>& out) { out.push_back(v.value()); }
  static Tensor make(const Variable&, const Tensor*& next) { return *next++; }
  static void note(const Variable&, std::string&) {}
};

template <class T>
struct Tree<std::vector<T>> {
  using Made = std::vector<typename Tree<T>::Made>;
  static constexpr bool known = Tree<T>::known, fixed = false;
  static void list(const std::vector<T>& ts, std::vector<Tensor>& out) {
    for (const T& t : ts) Tree<T>::list(t, out);
  }
  static Made make(const std::vector<T>& like, const Tensor*& next) {
    Made made;
    made.reserve(like.size());
    for (const T& t : like) made.push_back(Tree<T>::make(t, next));
    return made;
  }
  static void note(const std::vector<T>& ts, std::string& text) {
    text += '[' + std::to_string(ts.size());
    for (const T& t : ts) Tree<T>::note(t, text);
    text += ']';
  }
};

template <class T, std::size_t N>
struct Tree<std::array<T, N>> {
  using Made = std::array<typename Tree<T>::Made, N>;
  static constexpr bool known = Tree<T>::known, fixed = Tree<T>::fixed;
  static void list(const std::array<T, N>& ts, std::vector<Tensor>& out) {
    for (const T& t : ts) Tree<T>::list(t, out);
  }
  static Made make(const std::array<T, N>& like, const Tensor*& next) {
    Made made;
    for (std::size_t i = 0; i < N; ++i) made[i] = Tree<T>::make(like[i], next);
    return made;
  }
  static void note(const std::array<T, N>& ts, std::string& text) {
    for (const T& t : ts) Tree<T>::note(t, text);
  }
};

template <class... T>
struct Tree<std::tuple<T...>> {
  using Made = std::tuple<typename Tree<T>::Made...>;
  static constexpr bool known = (Tree<T>::known && ...), fixed = (Tree<T>::fixed && ...);
  static void list(const std::tuple<T...>& ts, std::vector<Tensor>& out) {
    std::apply([&](const T&... t) { (Tree<T>::list(t, out), ...); }, ts);
  }
  static Made make(const std::tuple<T...>& like, const Tensor*& next) {
    return std::apply([&](const T&... t) { return Made{Tree<T>::make(t, next)...}; }, like);  // braces: left to right
  }
  static void note(const std::tuple<T...>& ts, std::string& text) {
    std::apply([&](const T&... t) { (Tree<T>::note(t, text), ...); }, ts);
  }
};

template <class A, class B>
struct Tree<std::pair<A, B>> {
  using Made = std::pair<typename Tree<A>::Made, typename Tree<B>::Made>;
  static constexpr bool known = Tree<A>::known && Tree<B>::known, fixed = Tree<A>::fixed && Tree<B>::fixed;
  static void list(const std::pair<A, B>& ts, std::vector<Tensor>& out) {
    Tree<A>::list(ts.first, out);
    Tree<B>::list(ts.second, out);
  }
  static Made make(const std::pair<A, B>& like, const Tensor*& next) {
    auto first = Tree<A>::make(like.first, next);
    return {std::move(first), Tree<B>::make(like.second, next)};
  }
  static void note(const std::pair<A, B>& ts, std::string& text) {
    Tree<A>::note(ts.first, text);
    Tree<B>::note(ts.second, text);
  }
};

template <class T>
struct Tree<std::map<std::string, T>> {
  using Made = std::map<std::string, typename Tree<T>::Made>;
  static constexpr bool known = Tree<T>::known, fixed = false;
  static void list(const std::map<std::string, T>& ts, std::vector<Tensor>& out) {
    for (const auto& [key, t] : ts) Tree<T>::list(t, out);
  }
  static Made make(const std::map<std::string, T>& like, const Tensor*& next) {
    Made made;
    for (const auto& [key, t] : like) made.emplace(key, Tree<T>::make(t, next));
    return made;
  }
  static void note(const std::map<std::string, T>& ts, std::string& text) {
    text += '{';
    for (const auto& [key, t] : ts) {
      text += std::to_string(key.size()) + ':' + key;
      Tree<T>::note(t, text);
    }
    text += '}';
  }
};

template <>
struct Tree<Tensors> {
  using Made = Tensors;
  static constexpr bool known = true, fixed = false;
  static void list(const Tensors& ts, std::vector<Tensor>& out) {
    for (const Tensors::Part& part : ts) out.push_back(part.tensor);
  }
  static Tensors make(const Tensors& like, const Tensor*& next) {
    return like.map([&](const Tensor&) { return *next++; });
  }
  static void note(const Tensors& ts, std::string& text) {
    text += '(';
    for (const std::string& name : ts.names()) text += std::to_string(name.size()) + ':' + name;
    text += ')';
  }
};

template <class T>
inline constexpr bool is_tree = Tree<std::decay_t<T>>::known;
template <class T>
using Made = typename Tree<std::decay_t<T>>::Made;

template <class T>
std::vector<Tensor> listed(const T& tree) {
  std::vector<Tensor> out;
  Tree<T>::list(tree, out);
  return out;
}
template <class T>
Made<T> made_like(const T& like, const std::vector<Tensor>& tensors) {
  const Tensor* next = tensors.data();
  return Tree<T>::make(like, next);
}
template <class T>
std::string structure_of(const T& tree) {
  std::string text;
  Tree<T>::note(tree, text);
  return text;
}

}  // namespace varve::detail
