#include "varve/tensors.h"

#include <algorithm>

#include "base/text.h"

namespace varve {
namespace {

bool all_named(const std::vector<Field>& fields) {
  return std::none_of(fields.begin(), fields.end(), [](const Field& field) { return field.name.empty(); });
}

std::vector<std::string> names_of(const std::vector<Field>& fields) {
  std::vector<std::string> names;
  for (const Field& field : fields) names.push_back(field.name);
  return names;
}

std::string counted(const std::vector<Field>& fields) {
  return cat(fields.size(), " (", fields.empty() ? "nothing" : str(fields), ")");
}

}  // namespace

std::string str(const std::vector<Field>& fields) {
  std::string text;
  for (const Field& field : fields)
    text += (text.empty() ? "" : ", ") + field.name + (field.name.empty() ? "" : " ") + field.type.str();
  return text;
}

Tensors::Tensors(const std::vector<Tensor>& tensors) {
  for (const Tensor& tensor : tensors) parts_.push_back({"", tensor});
}

Tensors::Tensors(std::vector<Part> parts) {
  for (Part& part : parts) add(part.name, std::move(part.tensor));
}

Tensors& Tensors::add(const std::string& name, Tensor tensor) {
  if (!name.empty() && has(name)) throw Error(cat("tensors: the name \"", name, "\" comes twice."));
  parts_.push_back({name, std::move(tensor)});
  return *this;
}

const Tensors::Part& Tensors::part(std::size_t i) const {
  if (i >= parts_.size())
    throw Error(cat("tensors: number ", i, " was asked for, counted from 0, but there are ", counted(fields()), "."));
  return parts_[i];
}

const Tensor* Tensors::find(const std::string& name) const {
  if (name.empty()) return nullptr;
  const auto found = std::find_if(parts_.begin(), parts_.end(), [&](const Part& part) { return part.name == name; });
  return found == parts_.end() ? nullptr : &found->tensor;
}

const Tensor& Tensors::operator[](const std::string& name) const {
  if (const Tensor* found = find(name)) return *found;
  throw Error(
      cat("tensors: none is named \"", name, "\": there are ", counted(fields()), ".", did_you_mean(name, names())));
}

const Tensor& Tensors::one() const {
  if (parts_.size() == 1) return parts_[0].tensor;
  throw Error(cat("tensors: one was expected, but there are ", counted(fields()), ". Take one by its name or place."));
}

std::vector<Tensor> Tensors::list() const {
  std::vector<Tensor> all;
  for (const Part& part : parts_) all.push_back(part.tensor);
  return all;
}

std::vector<std::string> Tensors::names() const {
  std::vector<std::string> all;
  for (const Part& part : parts_) all.push_back(part.name);
  return all;
}

std::vector<Field> Tensors::fields() const {
  std::vector<Field> all;
  for (const Part& part : parts_)
    all.push_back({part.name, part.tensor.defined() ? part.tensor.type() : TensorType{f32, {0}}});
  return all;
}

Tensors Tensors::as(const std::vector<Field>& expected, const std::string& who) const {
  const std::vector<std::size_t> places = places_of(expected, fields(), who);
  Tensors all;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Part& part = parts_[places[i]];
    all.parts_.push_back({expected[i].name.empty() ? part.name : expected[i].name, part.tensor});
  }
  return all;
}

std::vector<std::size_t> places_of(const std::vector<Field>& expected, const std::vector<Field>& given,
                                   const std::string& who) {
  if (expected.size() != given.size())
    throw Error(cat(who, ": expected ", counted(expected), ", got ", counted(given), "."));
  std::vector<std::size_t> places;
  if (expected.size() < 2 || !all_named(expected) || !all_named(given)) {
    for (std::size_t i = 0; i < expected.size(); ++i) places.push_back(i);
    return places;
  }
  for (const Field& field : expected) {
    const auto found = std::find_if(given.begin(), given.end(), [&](const Field& f) { return f.name == field.name; });
    if (found == given.end())
      throw Error(cat(who, ": \"", field.name, "\" is missing: expected ", counted(expected), ", got ", counted(given),
                      ".", did_you_mean(field.name, names_of(given))));
    places.push_back(static_cast<std::size_t>(found - given.begin()));
  }
  return places;
}

}  // namespace varve
