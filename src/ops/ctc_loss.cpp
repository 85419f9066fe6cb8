// CTC by the forward algorithm, in logarithms, as a scan over the steps; the gradient follows from it.
#include <limits>

#include "base/text.h"
#include "varve/losses.h"

namespace varve {
namespace {

// Stands for log 0: finite, so that differences of two of them are numbers.
constexpr double kNever = -1e30;
constexpr double kInfinite = std::numeric_limits<double>::infinity();

void check(const Tensor& logits, const Tensor& targets, const Tensor& input_lengths, const Tensor& target_lengths,
           const CtcOptions& o) {
  if (!is_floating(logits.dtype()) || logits.rank() != 3)
    throw Error(cat("ctc_loss: logits must be floating-point [T, B, C], got ", logits.type().str(), "."));
  const std::int64_t batch = logits.dim(1), classes = logits.dim(2);
  if (!is_integer(targets.dtype()) || targets.rank() != 2 || targets.dim(0) != batch)
    throw Error(cat("ctc_loss: targets must be integers [", batch, ", S] beside logits ", logits.shape(), ", got ",
                    targets.type().str(), "."));
  for (const Tensor* lengths : {&input_lengths, &target_lengths})
    if (!is_integer(lengths->dtype()) || lengths->shape() != Shape{batch})
      throw Error(cat("ctc_loss: lengths must be integers [", batch, "] beside logits ", logits.shape(), ", got ",
                      lengths->type().str(), "."));
  if (o.blank < 0 || o.blank >= classes)
    throw Error(cat("ctc_loss: blank is ", o.blank, "; expected a class in [0, ", classes, ")."));
}

// An error at the next read unless 0 ≤ length ≤ most.
Tensor bounded(const Tensor& lengths, std::int64_t most) { return gather(arange(most + 1), lengths.to(i64)); }

Tensor log_sum(const std::vector<Tensor>& terms) {
  Tensor most = terms[0];
  for (const Tensor& term : terms) most = maximum(most, term);
  most = stop_gradient(most);
  Tensor total;
  for (const Tensor& term : terms) total = total.defined() ? total + exp(term - most) : exp(term - most);
  return most + log(total);
}

// States moved by so many to the right: what comes from before.
Tensor shifted(const Tensor& alpha, std::int64_t by) {
  const std::int64_t states = alpha.dim(1);
  if (by >= states) return full(alpha.shape(), kNever, alpha.dtype());
  return pad(slice(alpha, {{}, {0, states - by}}), {{0, 0}, {by, 0}}, {.value = kNever});
}

Tensor column_at(const Tensor& alpha, const Tensor& index) {
  return squeeze(take_along_axis(alpha, expand_dims(index, 1), 1), {1});
}

}  // namespace

Tensor ctc_loss(const Tensor& logits, const Tensor& targets, const Tensor& input_lengths, const Tensor& target_lengths,
                const CtcOptions& o, Reduction reduction) {
  check(logits, targets, input_lengths, target_lengths, o);
  const std::int64_t steps = logits.dim(0), batch = logits.dim(1), symbols = targets.dim(1), states = 2 * symbols + 1;
  const Tensor log_p = log_softmax(logits.dtype() == f64 ? logits : logits.to(f32));
  const DType dtype = log_p.dtype();
  const Tensor times = bounded(input_lengths, steps), count = bounded(target_lengths, symbols);

  // blank, symbol, blank, symbol, …, blank
  const Tensor blank = full_int({batch, symbols + 1}, o.blank);
  const Tensor known = where(arange(symbols) < expand_dims(count, 1), targets.to(i64), o.blank);
  const Tensor between = stack({slice(blank, {{}, {0, symbols}}), known}, -1).reshape({batch, 2 * symbols});
  const Tensor path = concat({between, slice(blank, {{}, {symbols, symbols + 1}})}, 1);
  // A blank can be left out between two symbols that differ.
  Tensor skips = full({batch, states}, 0, boolean);
  if (symbols > 1) {
    const Tensor now = slice(path, {{}, {2, states}}), before = slice(path, {{}, {0, states - 2}});
    skips = concat({full({batch, 2}, 0, boolean), now != before && now != o.blank}, 1);
  }

  const Tensor emitted = take_along_axis(log_p, broadcast_to(expand_dims(path, 0), {steps, batch, states}), 2);
  // Before the first step all is in the first state, which may be left for the second at once.
  const Tensor first = where(arange(states) == 0, full({}, 0, dtype), full({}, kNever, dtype));
  const auto step = [&](const std::vector<Tensor>& carry, const std::vector<Tensor>& x) {
    const Tensor& alpha = carry[0];
    const Tensor next = log_sum({alpha, shifted(alpha, 1), where(skips, shifted(alpha, 2), kNever)}) + x[0];
    return ScanStep{{where(x[1] < expand_dims(times, 1), next, alpha)}, {}};
  };
  const Tensor alpha = scan(step, {broadcast_to(first, {batch, states})}, {emitted, arange(steps)}).carry[0];
  const Tensor last = 2 * count;
  const Tensor by_symbol = where(count > 0, column_at(alpha, maximum(last - 1, 0)), kNever);
  const Tensor found = log_sum({column_at(alpha, last), by_symbol});
  const Tensor losses = where(found < 0.5 * kNever, o.zero_infinity ? 0.0 : kInfinite, -found);
  if (reduction == Reduction::mean) return mean(losses / maximum(count, 1).to(dtype));
  return reduction == Reduction::sum ? sum(losses) : losses;
}

}  // namespace varve
