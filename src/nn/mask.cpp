#include "varve/nn/mask.h"

#include <string>

#include "varve/ops.h"

namespace varve::nn {
namespace {

void check_lengths(const Tensor& lengths, std::int64_t steps) {
  if (lengths.rank() != 1 || !is_integer(lengths.dtype()))
    throw Error("mask: expected lengths as integers [N], got " + lengths.type().str() + ".");
  if (steps < 0) throw Error("mask: expected 0 steps or more, got " + std::to_string(steps) + ".");
  if (tracing() || !lengths.ready()) return;
  const std::vector<std::int64_t> values = lengths.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] < 0 || values[i] > steps)
      throw Error("mask: the length of sequence " + std::to_string(i) + " is " + std::to_string(values[i]) +
                  "; expected 0 to " + std::to_string(steps) + ", the steps of the batch.");
}

}  // namespace

Mask Mask::of_lengths(const Tensor& lengths, std::int64_t steps) {
  check_lengths(lengths, steps);
  return Mask({.valid = {}, .lengths = lengths.to(i64), .steps = steps});
}

Mask Mask::of_valid(const Tensor& steps) {
  if (steps.rank() != 2 || steps.dtype() != boolean)
    throw Error("mask: expected valid steps as bool [N, T], got " + steps.type().str() + ".");
  return Mask({.valid = steps, .lengths = {}, .steps = steps.dim(1)});
}

Mask Mask::of_ids(const Tensor& ids, std::int64_t padding) {
  if (ids.rank() != 2 || !is_integer(ids.dtype()))
    throw Error("mask: expected token ids as integers [N, T], got " + ids.type().str() + ".");
  return of_valid(ids != padding);
}

const Mask::Data& Mask::data(const char* asked) const {
  if (!data_)
    throw Error(std::string("mask: ") + asked + " of an undefined mask: every step is valid, and it knows no sizes.");
  return *data_;
}

std::int64_t Mask::samples() const {
  const Data& own = data("samples()");
  return own.valid.defined() ? own.valid.dim(0) : own.lengths.dim(0);
}
std::int64_t Mask::steps() const { return data("steps()").steps; }
bool Mask::right_padded() const { return data_ && data_->lengths.defined(); }

Tensor Mask::valid() const {
  const Data& own = data("valid()");
  return own.valid.defined() ? own.valid : expand_dims(arange(own.steps), 0) < expand_dims(own.lengths, 1);
}

Tensor Mask::lengths() const {
  const Data& own = data("lengths()");
  return own.lengths.defined() ? own.lengths : sum(own.valid.to(i64), {.axes = Axes{1}});
}

Tensor Mask::weights() const { return valid().to(f32); }

}  // namespace varve::nn
