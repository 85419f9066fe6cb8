// Data that does not change lies whole on the device: a step is given the numbers of its samples, not the samples.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "varve/compile.h"
#include "varve/data.h"

namespace varve::train {

class HeldData {  // a cheap handle
 public:
  // Nothing where it does not pay or cannot be: on a processor, and for data that changes from epoch to epoch, runs in
  // streams, is empty or too large. `go_on` is asked as samples come in: when it says no, there is nothing either.
  static std::optional<HeldData> of(const data::Dataset& dataset, const std::function<bool()>& go_on);

  Tensor x() const { return x_; }  // [N, …]
  Tensor y() const { return y_; }
  // As many samples, each its own number: loaders give the numbers in the order in which they would give the samples.
  const data::Dataset& rows() const { return rows_; }

 private:
  HeldData(const Tensor& x, const Tensor& y);

  Variable x_, y_;  // variables are brought to a device once, and stay
  data::Dataset rows_;
};

// A program over batches of samples, or over the numbers of samples that are held.
class BatchProgram {
 public:
  using Body = std::function<std::vector<Tensor>(const Tensor& x, const Tensor& y)>;
  BatchProgram(const Body& body, const std::optional<HeldData>& held, const CompileOptions& options);

  std::vector<Tensor> operator()(const Tensor& x, const Tensor& y) { return held_ ? of_rows_(x) : of_samples_(x, y); }
  std::int64_t peak_bytes(const Tensor& x, const Tensor& y) {
    return held_ ? of_rows_.peak_bytes(x) : of_samples_.peak_bytes(x, y);
  }

 private:
  bool held_;
  Compiled<std::vector<Tensor>, 2> of_samples_;
  Compiled<std::vector<Tensor>, 1> of_rows_;
};

}  // namespace varve::train
