#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/norm/layer_norm_kernels.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/highway.h>

#include <cmath>

#include "backends/cpu/common/row_blocks.h"
#include "backends/cpu/norm/layer_norm_kernels.h"
#include "backends/cpu/reduce/column_sums.h"
#include "backends/cpu/simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace varve::cpu::HWY_NAMESPACE {
namespace {

// mean((x - shift)²); shifting first keeps a small variance around a large mean.
double mean_square(const float* x, std::size_t n, float shift) {
  const Floats d;
  const Vf s = hn::Set(d, shift);
  const double sum = sum_row(n, [&](std::size_t i, std::size_t left) HWY_ATTR {
    const Vf v = hn::Sub(load_some(d, x + i, left), s);
    return keep(hn::Mul(v, v), left);
  });
  return sum / static_cast<double>(n);
}

double mean_of(const float* x, std::size_t n) {
  const Floats d;
  const double sum = sum_row(n, [&](std::size_t i, std::size_t left) HWY_ATTR { return load_some(d, x + i, left); });
  return sum / static_cast<double>(n);
}

// y = (x - mean)·rstd·gain + bias; returns rstd.
float normalise_row(const float* x, NormParams params, float* y, std::size_t n, float mean) {
  const Floats d;
  const auto rstd = static_cast<float>(1 / std::sqrt(mean_square(x, n, mean) + params.epsilon));
  const Vf shift = hn::Set(d, mean), scale = hn::Set(d, rstd);
  for_row(n, [&](std::size_t i, std::size_t left) HWY_ATTR {
    Vf v = hn::Mul(hn::Sub(load_some(d, x + i, left), shift), scale);
    if (params.gain != nullptr) v = hn::Mul(v, load_some(d, params.gain + i, left));
    if (params.bias != nullptr) v = hn::Add(v, load_some(d, params.bias + i, left));
    store_some(d, v, y + i, left);
  });
  return rstd;
}

float mean_row(const float* x, std::size_t n) { return static_cast<float>(mean_of(x, n)); }

// `centred`: layer norm, whose mean also depends on x.
void norm_grad_row(const NormGradRow& row, float mean, float rstd, std::size_t n, bool centred) {
  const float *dy = row.dy, *x = row.x, *gain = row.gain;
  const Floats d;
  const Vf shift = hn::Set(d, mean), scale = hn::Set(d, rstd);
  const auto g = [&](std::size_t i, std::size_t left) HWY_ATTR {
    const Vf v = load_some(d, dy + i, left);
    return gain != nullptr ? hn::Mul(v, load_some(d, gain + i, left)) : v;
  };
  const auto x_hat = [&](std::size_t i, std::size_t left)
                         HWY_ATTR { return hn::Mul(hn::Sub(load_some(d, x + i, left), shift), scale); };
  const double count = static_cast<double>(n);
  const double sum_gx = sum_row(
      n, [&](std::size_t i, std::size_t left) HWY_ATTR { return keep(hn::Mul(g(i, left), x_hat(i, left)), left); });
  const Vf mean_gx = hn::Set(d, static_cast<float>(sum_gx / count));
  const Vf mean_g = hn::Set(d, centred ? static_cast<float>(sum_row(n, g) / count) : 0.0f);
  for_row(n, [&](std::size_t i, std::size_t left) HWY_ATTR {
    const Vf normal = x_hat(i, left);
    Vf v = hn::Mul(hn::NegMulAdd(normal, mean_gx, hn::Sub(g(i, left), mean_g)), scale);
    if (row.plus != nullptr) v = hn::Add(v, load_some(d, row.plus + i, left));
    if (row.dgain != nullptr) {
      const Vf flow = load_some(d, dy + i, left);  // before dx, perhaps the same memory, is written
      store_some(d, hn::MulAdd(flow, normal, load_some(d, row.dgain + i, left)), row.dgain + i, left);
      store_some(d, hn::Add(flow, load_some(d, row.dbias + i, left)), row.dbias + i, left);
    }
    store_some(d, v, row.dx + i, left);
  });
}

}  // namespace
}  // namespace varve::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace varve::cpu {
HWY_EXPORT(normalise_row);
HWY_EXPORT(mean_row);
HWY_EXPORT(norm_grad_row);

void layer_norm(const float* x, NormParams params, float* y, float* mean, float* rstd, Matrix shape) {
  for_rows(shape, [=](std::int64_t at, std::size_t n, std::int64_t row) {
    mean[row] = HWY_DYNAMIC_DISPATCH(mean_row)(x + at, n);
    rstd[row] = HWY_DYNAMIC_DISPATCH(normalise_row)(x + at, params, y + at, n, mean[row]);
  });
}

std::size_t layer_norm_grad_scratch(Matrix shape) { return ColumnSums(shape.rows, 2 * shape.columns).scratch_bytes(); }

void layer_norm_grad(const LayerNormGrad& grad, Matrix shape, void* scratch) {
  const std::int64_t columns = shape.columns;
  const ColumnSums sums(shape.rows, 2 * columns);
  sums.run(scratch, [&](std::int64_t begin, std::int64_t end, float* part) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t at = row * columns;
      HWY_DYNAMIC_DISPATCH(norm_grad_row)
      ({grad.dy + at, grad.x + at, grad.gain, grad.plus ? grad.plus + at : nullptr, grad.dx + at, part, part + columns},
       grad.mean[row], grad.rstd[row], static_cast<std::size_t>(columns), true);
    }
  });
  sums.finish(scratch, 0, columns, [&](std::int64_t c, float sum) { grad.dgain[c] = sum; });
  sums.finish(scratch, columns, 2 * columns, [&](std::int64_t c, float sum) { grad.dbias[c] = sum; });
}

void rms_norm(const float* x, NormParams params, float* y, float* rstd, Matrix shape) {
  for_rows(shape, [=](std::int64_t at, std::size_t n, std::int64_t row) {
    rstd[row] = HWY_DYNAMIC_DISPATCH(normalise_row)(x + at, params, y + at, n, 0.0f);
  });
}

void rms_norm_grad(const float* dy, const float* x, const float* rstd, const float* gain, float* dx, Matrix shape) {
  for_rows(shape, [=](std::int64_t at, std::size_t n, std::int64_t row) {
    HWY_DYNAMIC_DISPATCH(norm_grad_row)
    ({dy + at, x + at, gain, nullptr, dx + at, nullptr, nullptr}, 0.0f, rstd[row], n, false);
  });
}

}  // namespace varve::cpu
#endif
