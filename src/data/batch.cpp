#include "base/text.h"
#include "varve/data.h"

namespace varve::data {

Batch::Batch(Tensors inputs, Tensors targets) : inputs_(std::move(inputs)), targets_(std::move(targets)) {
  if (!inputs_.empty()) x = inputs_[0];
  if (!targets_.empty()) y = targets_[0];
}

namespace {

// Whoever put another tensor in the place of x meant that one.
Tensors with_first(const Tensors& all, const Tensor& first) {
  if (all.empty()) return first.defined() ? Tensors(first) : Tensors();
  Tensors changed = all;
  changed[0] = first;
  return changed;
}

}  // namespace

Tensors Batch::inputs() const { return with_first(inputs_, x); }
Tensors Batch::targets() const { return with_first(targets_, y); }

Batch Batch::rows(std::int64_t begin, std::int64_t end) const {
  if (begin < 0 || begin > end || end > samples())
    throw Error(cat("batch: rows ", begin, " to ", end, " were asked for, there are ", samples(), "."));
  return map([&](const Tensor& field) { return field.slice({{begin, end}}); });
}

}  // namespace varve::data
