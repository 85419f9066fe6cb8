#include "train/targets.h"

namespace varve::train {
namespace {

std::string mismatch(const Tensor& output, const Tensor& target, const char* who) {
  return std::string(who) + ": an output " + output.type().str() + " does not fit targets " + target.type().str();
}

Shape rows_of(const Tensor& output) {
  return Shape(std::vector<std::int64_t>(output.shape().begin(), output.shape().end() - 1));
}

}  // namespace

Tensor class_numbers(const Tensor& output, const Tensor& target, const char* who) {
  if (output.rank() == 0 || output.dim(-1) == 0)
    throw Error(std::string(who) + ": an output " + output.type().str() + " has no classes along its last axis.");
  const Shape rows = rows_of(output);
  Shape column = rows;
  column.push_back(1);
  if (target.shape() != rows && target.shape() != column)
    throw Error(mismatch(output, target, who) + ": it needs class numbers of shape " + rows.str() +
                ", or probabilities in f32 of shape " + output.shape().str() + ".");
  const Tensor numbers = target.dtype() == i64 ? target : target.to(i32);
  return target.shape() == rows ? numbers : numbers.reshape(rows);
}

Tensor values_like(const Tensor& output, const Tensor& target, const char* who) {
  const Tensor values = target.to(f32);
  if (target.shape() == output.shape()) return values;
  Shape longer = target.rank() < output.rank() ? target.shape() : output.shape();
  longer.push_back(1);
  if (longer != (target.rank() < output.rank() ? output.shape() : target.shape()))
    throw Error(mismatch(output, target, who) + ": the shapes must be the same, but for a last axis of size 1. " +
                (holds_classes(target) ? "Class numbers take the loss cross_entropy."
                                       : "Does the last layer give as many values as a target has?"));
  return values.reshape(output.shape());
}

Tensor weights_of_rows(const Tensor& weights, const Shape& rows, const char* who) {
  Shape shape = weights.shape();
  bool fits = shape.rank() <= rows.rank();
  for (int axis = 0; fits && axis < shape.rank(); ++axis) fits = shape[axis] == rows[axis];
  if (!fits)
    throw Error(std::string(who) + ": weights " + shape.str() + " do not fit rows " + rows.str() +
                ": expected one for each sample, or for each of its steps.");
  while (shape.rank() < rows.rank()) shape.push_back(1);
  return broadcast_to(weights.to(f32).reshape(shape), rows);
}

KeptClasses without_ignored(const Tensor& target, std::int64_t ignore_index, const char* who) {
  if (!holds_classes(target))
    throw Error(std::string(who) + ": ignore_index is a class number, and targets " + target.type().str() +
                " are none.");
  const Tensor numbers = target.dtype() == i64 ? target : target.to(i32);
  const Tensor kept = numbers != ignore_index;
  return {where(kept, numbers, zeros({}, numbers.dtype())), kept.to(f32)};
}

Tensor probabilities(const Tensor& output, const Tensor& target, const char* who) {
  if (output.rank() > 0 && output.dim(-1) == 1)
    throw Error(
        mismatch(output, target, who) + ": one number each is no distribution over classes. A regression takes " +
        "the loss mse (or mae, huber) and metrics such as mean_absolute_error; 0 or 1 takes binary_cross_entropy.");
  if (target.shape() != output.shape() || output.rank() == 0)
    throw Error(mismatch(output, target, who) + ": probabilities have the output's shape; class numbers are integers.");
  return target.to(f32);
}

}  // namespace varve::train
