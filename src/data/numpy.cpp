#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "data/npz.h"
#include "data/pixels.h"

namespace varve::data {
namespace {

Shape row_shape(const Tensor& tensor) {
  std::vector<std::int64_t> sizes = tensor.shape().vec();
  sizes.erase(sizes.begin());
  return Shape(std::move(sizes));
}

Tensor as_i32(const Tensor& tensor, const char* what) {
  if (tensor.dtype() == i64) {
    for (const std::int64_t value : tensor.to_vector<std::int64_t>()) {
      if (value < INT32_MIN || value > INT32_MAX) throw Error(cat(what, ": ", value, " is too large for an i32."));
    }
  }
  return tensor.to(i32);
}

// Inputs: bytes stay bytes, to be delivered as f32 over 255 (with an axis for the channel where pictures have none);
// other integers are ids, everything else is f32.
Tensor input(const Tensor& x) {
  if (x.rank() < 1) throw Error(cat("x: expected rows, got shape ", x.shape().str(), "."));
  if (x.dtype() == u8) return x.rank() == 3 ? x.reshape({x.dim(0), x.dim(1), x.dim(2), 1}) : x;
  return is_integer(x.dtype()) ? as_i32(x, "x") : x.to(f32);
}

// Targets: integers are classes, [N] or [N, 1], or rows of them; everything else is rows of f32.
Tensor target(const Tensor& y) {
  if (y.rank() < 1) throw Error(cat("y: expected rows, got shape ", y.shape().str(), "."));
  if (!is_integer(y.dtype()) && y.dtype() != boolean) {
    const Tensor numbers = y.to(f32);
    return y.rank() == 1 ? numbers.reshape({y.dim(0), 1}) : numbers;
  }
  const Tensor classes = as_i32(y, "y");
  return y.rank() == 2 && y.dim(1) == 1 ? classes.reshape({y.dim(0)}) : classes;
}

// Rows of a tensor, delivered as samples have them.
class TensorRows {
 public:
  explicit TensorRows(Tensor rows) : rows_(std::move(rows.eval())) {
    row_ = {rows_.dtype(), row_shape(rows_)};
    data_ = static_cast<const std::byte*>(rows_.data());
  }
  const Tensor& tensor() const { return rows_; }
  TensorType input_type() const { return {rows_.dtype() == u8 ? f32 : rows_.dtype(), row_.shape}; }
  const TensorType& type() const { return row_; }
  void read(std::size_t index, std::byte* to) const { std::memcpy(to, data_ + index * row_.bytes(), row_.bytes()); }
  void read_input(std::size_t index, std::byte* to) const {
    if (rows_.dtype() != u8) return read(index, to);
    deliver_pixels(reinterpret_cast<const std::uint8_t*>(data_ + index * row_.bytes()),
                   static_cast<std::int64_t>(row_.bytes()), to);
  }

 private:
  Tensor rows_;
  TensorType row_;
  const std::byte* data_;
};

class TensorSource : public FieldSource {
 public:
  TensorSource(const Tensors& x, const Tensors& y) {
    for (const auto& [name, tensor] : x) inputs_.push_back({name, TensorRows(input(tensor))});
    for (const auto& [name, tensor] : y) targets_.push_back({name, TensorRows(target(tensor))});
  }
  std::int64_t size() const override { return inputs_[0].rows.tensor().dim(0); }
  std::vector<Field> inputs() const override {
    std::vector<Field> fields;
    for (const Named& each : inputs_) fields.push_back({each.name, each.rows.input_type()});
    return fields;
  }
  std::vector<Field> targets() const override {
    std::vector<Field> fields;
    for (const Named& each : targets_) fields.push_back({each.name, each.rows.type()});
    return fields;
  }
  void read_fields(std::int64_t index, FieldMemory inputs, FieldMemory targets) const override {
    const auto at = static_cast<std::size_t>(index);
    for (std::size_t i = 0; i < inputs_.size(); ++i) inputs_[i].rows.read_input(at, inputs[i]);
    for (std::size_t i = 0; i < targets_.size(); ++i) targets_[i].rows.read(at, targets[i]);
  }

  void check_classes(const Info& info) const {
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      const auto named = info.target_classes.find(targets_[i].name);
      const bool own = named != info.target_classes.end();
      if (own || i == 0) check_classes(targets_[i].rows.tensor(), own ? named->second : info.classes);
    }
  }

 private:
  struct Named {
    std::string name;
    TensorRows rows;
  };

  static void check_classes(const Tensor& labels, const std::vector<std::string>& classes) {
    if (labels.dtype() != i32 || classes.empty()) return;
    const auto count = static_cast<std::int32_t>(classes.size());
    for (const std::int32_t label : labels.to_vector<std::int32_t>()) {
      if (label < 0 || label >= count) throw Error(cat("y: ", label, " is none of the ", count, " classes."));
    }
  }

  std::vector<Named> inputs_, targets_;
};

}  // namespace

Dataset from_tensors(const Tensors& x, const Tensors& y, const Info& info) {
  if (x.empty() || y.empty()) throw Error("from_tensors: at least one input and one target must be given.");
  for (const Tensors* fields : {&x, &y})
    for (const auto& [name, tensor] : *fields)
      if (!tensor.defined()) throw Error(cat("from_tensors: ", name.empty() ? "x and y" : name, " must be given."));
  const auto source = std::make_shared<TensorSource>(x, y);
  for (const Tensors* fields : {&x, &y})
    for (const auto& [name, tensor] : *fields)
      if (tensor.dim(0) != x[0].dim(0))
        throw Error(cat("from_tensors: expected as many rows in all of them, got ", x.str(), " and ", y.str(), "."));
  source->check_classes(info);
  return Dataset(source, info);
}

Dataset from_tensors(const Tensor& x, const Tensor& y, const Info& info) {
  if (!x.defined() || !y.defined()) throw Error("from_tensors: x and y must both be given.");
  if (x.rank() > 0 && y.rank() > 0 && x.dim(0) != y.dim(0)) {
    throw Error(
        cat("from_tensors: expected as many rows in x as in y, got ", x.shape().str(), " and ", y.shape().str(), "."));
  }
  return from_tensors(Tensors(x), Tensors(y), info);
}

Dataset numpy(const std::string& x_path, const std::string& y_path) {
  return from_tensors(load_npy(x_path), load_npy(y_path), {.name = x_path});
}

namespace {

// x_train, or x_train.image and others beside it.
Tensors fields_of(const std::map<std::string, Tensor>& arrays, const std::string& name) {
  Tensors fields;
  if (const auto alone = arrays.find(name); alone != arrays.end()) fields.add(alone->second);
  for (const auto& [key, array] : arrays)
    if (key.starts_with(name + ".")) fields.add(key.substr(name.size() + 1), array);
  return fields;
}

}  // namespace

Splits npz(const std::string& path) {
  const std::map<std::string, Tensor> arrays = load_npz(path);
  const auto part = [&](const std::string& name) {
    const Tensors x = fields_of(arrays, "x_" + name), y = fields_of(arrays, "y_" + name);
    if (x.empty() && y.empty()) return Dataset();
    if (x.empty() || y.empty()) throw Error(cat('"', path, "\" holds only one of x_", name, " and y_", name, "."));
    return x.size() == 1 && y.size() == 1 ? from_tensors(x[0], y[0], {.name = path})
                                          : from_tensors(x, y, {.name = path});
  };
  Splits splits = {.train = part("train"), .validation = part("validation"), .test = part("test")};
  if (!splits.train.defined()) {
    std::vector<std::string> names;
    for (const auto& [name, array] : arrays) names.push_back(name);
    throw Error(cat('"', path, "\" must hold x_train and y_train (and may hold x_test and y_test); it holds ",
                    names.empty() ? "nothing" : quoted_list(names), "."));
  }
  return splits;
}

}  // namespace varve::data
