// Several tensors in order, each with a name where it has one: the inputs of a network, its outputs, the fields of a
// batch.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "varve/tensor.h"

namespace varve {

// What stands at one place: its name, "" where it has none, and its type.
struct Field {
  std::string name;
  TensorType type;
  friend bool operator==(const Field&, const Field&) = default;
};
std::string str(const std::vector<Field>& fields);  // "image f32 [28, 28, 1], question i32 [20]"

// By position, t[0], and by name, t["image"].
class Tensors {
 public:
  struct Part {
    std::string name;
    Tensor tensor;
  };
  Tensors() = default;
  Tensors(const Tensor& one) : parts_{{"", one}} {}
  Tensors(const std::vector<Tensor>& tensors);
  Tensors(std::initializer_list<Tensor> tensors) : Tensors(std::vector<Tensor>(tensors)) {}
  // Error when a name comes twice.
  Tensors(std::vector<Part> parts);
  Tensors(std::initializer_list<Part> parts) : Tensors(std::vector<Part>(parts)) {}

  std::size_t size() const { return parts_.size(); }
  bool empty() const { return parts_.empty(); }
  // Error that lists what there is where there is none.
  const Tensor& operator[](std::size_t i) const { return part(i).tensor; }
  Tensor& operator[](std::size_t i) { return const_cast<Tensor&>(part(i).tensor); }
  const Tensor& operator[](const std::string& name) const;
  Tensor& operator[](const std::string& name) { return const_cast<Tensor&>(std::as_const(*this)[name]); }
  bool has(const std::string& name) const { return find(name) != nullptr; }
  const std::string& name(std::size_t i) const { return part(i).name; }
  const Tensor& one() const;  // the only one; Error where there are several, or none

  Tensors& add(const std::string& name, Tensor tensor);  // at the end; "": without a name
  Tensors& add(Tensor tensor) { return add("", std::move(tensor)); }

  // for (const auto& [name, tensor] : tensors)
  auto begin() const { return parts_.begin(); }
  auto end() const { return parts_.end(); }
  std::vector<Tensor> list() const;
  std::vector<std::string> names() const;
  std::vector<Field> fields() const;  // their types as they are, of a whole batch
  std::string str() const { return varve::str(fields()); }

  // f of each, under the same names.
  template <class F>
  Tensors map(F&& f) const {
    Tensors all;
    for (const Part& part : parts_) all.parts_.push_back({part.name, f(part.tensor)});
    return all;
  }
  // In the order of these names, and with them: by name where all of them and all of these have one, else by position.
  // Error that says what was expected, "who: expected …", when they are not as many or a name is missing.
  Tensors as(const std::vector<Field>& expected, const std::string& who) const;

 private:
  const Part& part(std::size_t i) const;
  const Tensor* find(const std::string& name) const;
  std::vector<Part> parts_;
};

// Where each of `expected` stands among `given`: by name where all have one, else by position. Error as above.
std::vector<std::size_t> places_of(const std::vector<Field>& expected, const std::vector<Field>& given,
                                   const std::string& who);

}  // namespace varve
