#include "nn/state.h"
#include "varve/distributed.h"
#include "varve/nn/layers.h"

namespace varve::nn {

Dropout::Dropout(double rate) : rate_(rate) {
  if (!(rate >= 0 && rate < 1))
    throw Error("dropout: the rate is " + std::to_string(rate) + "; expected 0 or more, and less than 1.");
  if (rate > 0) learns_size();
}

// The build's seed is in the counter's upper half, so that it is saved with the state; the lower half counts calls.
Tensor Dropout::forward(Tensor x, Mode mode) {
  if (rate_ == 0) return x;
  const auto seed = static_cast<std::uint64_t>(DryRun::seed());
  Variable counter = buffer("counter", full_int({}, static_cast<std::int64_t>(seed << 32)));
  if (mode == Mode::infer) return x;
  // Each rank drops others, where each has other samples; and each shard of a batch, whichever rank has it.
  const Shard* shard = Shard::current();
  const int rank = shard || !distributed::shares_batch() ? 0 : distributed::rank();
  const std::string stream = where() + (rank > 0 ? " of rank " + std::to_string(rank) : "");
  const Tensor own = shard ? counter + shard->number() : counter.value();
  const auto drop = [&](const Tensor& all) { return varve::dropout(all, rate_, {.stream = stream, .counter = own}); };
  const Tensor columns = gathered_columns(x);  // of which this rank drops what one rank would
  const Tensor y =
      columns.defined() ? gather_columns(columns * own_columns(drop(ones(x.shape(), x.dtype())))) : drop(x);
  counter.assign(counter + (shard ? shard->count() : 1));
  carry_flattened(x, y);
  return y;
}

}  // namespace varve::nn
