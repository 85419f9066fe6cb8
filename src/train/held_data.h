// Data that does not change lies whole on the device: a step is given the numbers of its samples, not the samples.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "varve/compile.h"
#include "varve/data.h"

namespace varve::train {

class HeldData {  // a cheap handle
 public:
  // Nothing where it does not pay or cannot be: on a processor, and for data that changes from epoch to epoch, runs in
  // streams, is empty or too large. `go_on` is asked as samples come in: when it says no, there is nothing either.
  static std::optional<HeldData> of(const data::Dataset& dataset, const std::function<bool()>& go_on);

  data::Batch batch(const Tensor& rows) const;  // those samples, recorded
  // As many samples, each its own number: loaders give the numbers in the order in which they would give the samples.
  const data::Dataset& rows() const { return rows_; }

 private:
  HeldData(const Tensors& inputs, const Tensors& targets);

  // Variables are brought to a device once, and stay.
  std::vector<std::pair<std::string, Variable>> inputs_, targets_;
  data::Dataset rows_;
};

// A program over batches of samples, or over the numbers of samples that are held.
class BatchProgram {
 public:
  using Body = std::function<std::vector<Tensor>(const data::Batch& batch)>;
  BatchProgram(Body body, std::optional<HeldData> held, CompileOptions options);

  std::vector<Tensor> operator()(const data::Batch& batch);
  std::int64_t peak_bytes(const data::Batch& batch);

 private:
  using Program = std::shared_ptr<detail::CompiledFn>;
  Program& program_for(const data::Batch& batch);

  Body body_;
  std::optional<HeldData> held_;
  CompileOptions options_;
  std::map<std::string, Program> programs_;  // by the names of a batch's fields
};

}  // namespace varve::train
