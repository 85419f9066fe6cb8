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

class TensorSource : public Source {
 public:
  TensorSource(const Tensor& x, const Tensor& y)
      : x_(input(x).eval()), y_(target(y).eval()), x_data_(bytes_of(x_)), y_data_(bytes_of(y_)) {
    x_row_ = {x_.dtype(), row_shape(x_)};
    y_row_ = {y_.dtype(), row_shape(y_)};
  }
  std::int64_t size() const override { return x_.dim(0); }
  TensorType x() const override { return {x_.dtype() == u8 ? f32 : x_.dtype(), x_row_.shape}; }
  TensorType y() const override { return y_row_; }
  void read(std::int64_t index, std::byte* x, std::byte* y) const override {
    const auto at = static_cast<std::size_t>(index);
    const std::byte* row = x_data_ + at * x_row_.bytes();
    if (x_.dtype() == u8) {
      deliver_pixels(reinterpret_cast<const std::uint8_t*>(row), static_cast<std::int64_t>(x_row_.bytes()), x);
    } else {
      std::memcpy(x, row, x_row_.bytes());
    }
    std::memcpy(y, y_data_ + at * y_row_.bytes(), y_row_.bytes());
  }

  void check_classes(const Info& info) const {
    if (y_.dtype() != i32 || info.classes.empty()) return;
    const auto count = static_cast<std::int32_t>(info.classes.size());
    for (const std::int32_t label : y_.to_vector<std::int32_t>()) {
      if (label < 0 || label >= count) throw Error(cat("y: ", label, " is none of the ", count, " classes."));
    }
  }

 private:
  static const std::byte* bytes_of(const Tensor& tensor) { return static_cast<const std::byte*>(tensor.data()); }
  Tensor x_, y_;
  TensorType x_row_, y_row_;
  const std::byte *x_data_, *y_data_;
};

}  // namespace

Dataset from_tensors(const Tensor& x, const Tensor& y, const Info& info) {
  if (!x.defined() || !y.defined()) throw Error("from_tensors: x and y must both be given.");
  const auto source = std::make_shared<TensorSource>(x, y);
  if (x.dim(0) != y.dim(0)) {
    throw Error(
        cat("from_tensors: expected as many rows in x as in y, got ", x.shape().str(), " and ", y.shape().str(), "."));
  }
  source->check_classes(info);
  return Dataset(source, info);
}

Dataset numpy(const std::string& x_path, const std::string& y_path) {
  return from_tensors(load_npy(x_path), load_npy(y_path), {.name = x_path});
}

Splits npz(const std::string& path) {
  const std::map<std::string, Tensor> arrays = load_npz(path);
  const auto part = [&](const std::string& name) {
    const auto x = arrays.find("x_" + name), y = arrays.find("y_" + name);
    if (x == arrays.end() && y == arrays.end()) return Dataset();
    if (x == arrays.end() || y == arrays.end())
      throw Error(cat('"', path, "\" holds only one of x_", name, " and y_", name, "."));
    return from_tensors(x->second, y->second, {.name = path});
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
