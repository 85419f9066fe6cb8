#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/norm/softmax_kernels.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/highway.h>

#include <cmath>

#include "backends/cpu/common/row_blocks.h"
#include "backends/cpu/norm/softmax_kernels.h"
#include "backends/cpu/simd/math_exp-inl.h"
#include "backends/cpu/simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace varve::cpu::HWY_NAMESPACE {
namespace {

// Σ exp(x - most); the terms are kept in y where it is given.
double sum_exp(const float* x, float* y, std::size_t n, float most) {
  const Floats d;
  const Vf shift = hn::Set(d, most);
  return sum_row(n, [&](std::size_t i, std::size_t left) HWY_ATTR {
    const Vf e = exp(d, hn::Sub(load_some(d, x + i, left), shift));
    if (y != nullptr) store_some(d, e, y + i, left);
    return keep(e, left);
  });
}

void softmax_row(const float* x, float* y, std::size_t n) {
  const Floats d;
  const double sum = sum_exp(x, y, n, max_row(x, n));
  const Vf factor = hn::Set(d, static_cast<float>(1 / sum));
  for_row(n, [&](std::size_t i, std::size_t left)
                 HWY_ATTR { store_some(d, hn::Mul(load_some(d, y + i, left), factor), y + i, left); });
}

void log_softmax_row(const float* x, float* y, std::size_t n) {
  const Floats d;
  const float most = max_row(x, n);
  const Vf shift = hn::Set(d, most), log_sum = hn::Set(d, static_cast<float>(std::log(sum_exp(x, nullptr, n, most))));
  for_row(n, [&](std::size_t i, std::size_t left)
                 HWY_ATTR { store_some(d, hn::Sub(hn::Sub(load_some(d, x + i, left), shift), log_sum), y + i, left); });
}

void softmax_grad_row(const float* y, const float* dy, float* dx, std::size_t n) {
  const Floats d;
  const double dot = sum_row(n, [&](std::size_t i, std::size_t left) HWY_ATTR {
    return hn::Mul(load_some(d, y + i, left), load_some(d, dy + i, left));
  });
  const Vf mean = hn::Set(d, static_cast<float>(dot));
  for_row(n, [&](std::size_t i, std::size_t left) HWY_ATTR {
    const Vf v = hn::Mul(hn::Sub(load_some(d, dy + i, left), mean), load_some(d, y + i, left));
    store_some(d, v, dx + i, left);
  });
}

void log_softmax_grad_row(const float* y, const float* dy, float* dx, std::size_t n) {
  const Floats d;
  const double total = sum_row(n, [&](std::size_t i, std::size_t left) HWY_ATTR { return load_some(d, dy + i, left); });
  const Vf sum = hn::Set(d, static_cast<float>(total));
  for_row(n, [&](std::size_t i, std::size_t left) HWY_ATTR {
    const Vf p = exp(d, load_some(d, y + i, left));
    store_some(d, hn::NegMulAdd(p, sum, load_some(d, dy + i, left)), dx + i, left);
  });
}

// The loss by differences from the maximum, which stay small where the logits are large.
float cross_entropy_row(const float* x, std::size_t n, std::size_t label, float* lse) {
  const float most = max_row(x, n);
  const double log_sum = std::log(sum_exp(x, nullptr, n, most));
  if (lse != nullptr) *lse = static_cast<float>(most + log_sum);
  return static_cast<float>(log_sum - (static_cast<double>(x[label]) - most));
}

void cross_entropy_grad_row(const float* x, float lse, std::size_t label, float scale, float* dx, std::size_t n) {
  const Floats d;
  const Vf shift = hn::Set(d, lse), factor = hn::Set(d, scale);
  const float target = x[label];  // before dx, perhaps the same memory, is written
  for_row(n, [&](std::size_t i, std::size_t left) HWY_ATTR {
    store_some(d, hn::Mul(exp(d, hn::Sub(load_some(d, x + i, left), shift)), factor), dx + i, left);
  });
  // softmax - 1 = expm1, without cancellation for a class that is almost certain.
  const double log_p = static_cast<double>(target) - lse;
  dx[label] = static_cast<float>(std::expm1(log_p) * scale);
}

// With the exponentials kept where the logits were, none is taken twice.
float cross_entropy_both_row(float* x, std::size_t n, std::size_t label, float scale) {
  const Floats d;
  const float most = max_row(x, n), target = x[label];
  const double sum = sum_exp(x, x, n, most), log_p = static_cast<double>(target) - most - std::log(sum);
  const Vf factor = hn::Set(d, static_cast<float>(scale / sum));
  for_row(n, [&](std::size_t i, std::size_t left)
                 HWY_ATTR { store_some(d, hn::Mul(load_some(d, x + i, left), factor), x + i, left); });
  x[label] = static_cast<float>(std::expm1(log_p) * scale);
  return static_cast<float>(-log_p);
}

}  // namespace
}  // namespace varve::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace varve::cpu {
HWY_EXPORT(softmax_row);
HWY_EXPORT(log_softmax_row);
HWY_EXPORT(softmax_grad_row);
HWY_EXPORT(log_softmax_grad_row);
HWY_EXPORT(cross_entropy_row);
HWY_EXPORT(cross_entropy_grad_row);
HWY_EXPORT(cross_entropy_both_row);

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace

std::int64_t label_of(Labels labels, std::int64_t row, std::int64_t columns) {
  const std::int64_t label = labels.dtype == DType::i32 ? static_cast<const std::int32_t*>(labels.data)[row]
                                                        : static_cast<const std::int64_t*>(labels.data)[row];
  return label >= 0 && label < columns ? label : -1;
}

void softmax(const float* x, float* y, Matrix shape) {
  for_rows(shape, [=](std::int64_t at, std::size_t n, std::int64_t) {
    HWY_DYNAMIC_DISPATCH(softmax_row)(x + at, y + at, n);
  });
}

void log_softmax(const float* x, float* y, Matrix shape) {
  for_rows(shape, [=](std::int64_t at, std::size_t n, std::int64_t) {
    HWY_DYNAMIC_DISPATCH(log_softmax_row)(x + at, y + at, n);
  });
}

void softmax_grad(const float* y, const float* dy, float* dx, Matrix shape) {
  for_rows(shape, [=](std::int64_t at, std::size_t n, std::int64_t) {
    HWY_DYNAMIC_DISPATCH(softmax_grad_row)(y + at, dy + at, dx + at, n);
  });
}

void log_softmax_grad(const float* y, const float* dy, float* dx, Matrix shape) {
  for_rows(shape, [=](std::int64_t at, std::size_t n, std::int64_t) {
    HWY_DYNAMIC_DISPATCH(log_softmax_grad_row)(y + at, dy + at, dx + at, n);
  });
}

std::int64_t softmax_cross_entropy(const float* logits, Labels labels, float* loss, float* lse, Matrix shape) {
  FirstBad bad;
  for_rows(shape, [&](std::int64_t at, std::size_t n, std::int64_t row) {
    const std::int64_t label = label_of(labels, row, shape.columns);
    if (label < 0) bad.note(row);
    float* to = lse != nullptr ? lse + row : nullptr;
    if (n == 0)
      loss[row] = kNan;  // every label is bad
    else
      loss[row] = HWY_DYNAMIC_DISPATCH(cross_entropy_row)(
          logits + at, n, static_cast<std::size_t>(std::max<std::int64_t>(label, 0)), to);
    if (label < 0) loss[row] = kNan;
  });
  return bad.row();
}

std::int64_t softmax_cross_entropy_grad(const float* logits, const float* lse, Labels labels, RowScale scale,
                                        float* dlogits, Matrix shape) {
  FirstBad bad;
  for_rows(shape, [&](std::int64_t at, std::size_t n, std::int64_t row) {
    const std::int64_t label = label_of(labels, row, shape.columns);
    if (label < 0) {
      bad.note(row);
      std::fill_n(dlogits + at, n, kNan);
      return;
    }
    HWY_DYNAMIC_DISPATCH(cross_entropy_grad_row)
    (logits + at, lse[row], static_cast<std::size_t>(label), scale.data[scale.per_row ? row : 0], dlogits + at, n);
  });
  return bad.row();
}

float cross_entropy_in_place(float* logits, std::int64_t columns, std::int64_t label, float scale) {
  if (label >= 0)
    return HWY_DYNAMIC_DISPATCH(cross_entropy_both_row)(logits, static_cast<std::size_t>(columns),
                                                        static_cast<std::size_t>(label), scale);
  std::fill_n(logits, columns, kNan);
  return kNan;
}

}  // namespace varve::cpu
#endif
