#include "backends/cpu/recurrent/cell_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/recurrent/cell_kernels.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/highway.h>

#include "backends/cpu/common/row_blocks.h"
#include "backends/cpu/recurrent/lstm_math-inl.h"
#include "backends/cpu/simd/math_exp-inl.h"
#include "backends/cpu/simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace varve::cpu::HWY_NAMESPACE {
namespace {

HWY_INLINE Vf one() { return hn::Set(Floats(), 1.0f); }
HWY_INLINE Vf get(const float* p, std::size_t left) { return load_some(Floats(), p, left); }
HWY_INLINE void put(float* p, Vf v, std::size_t left) { store_some(Floats(), v, p, left); }
// The derivatives in terms of the value.
HWY_INLINE Vf sigmoid_slope(Vf y) { return hn::Mul(y, hn::Sub(one(), y)); }
HWY_INLINE Vf tanh_slope(Vf y) { return hn::NegMulAdd(y, y, one()); }

void lstm_grad_row(const LstmBackward& cell, std::int64_t row, std::size_t n) {
  const std::size_t at = static_cast<std::size_t>(row) * n;
  for_row(n, [&](std::size_t k, std::size_t left) HWY_ATTR {
    const float* gates = cell.gates + 4 * at + k;
    const Vf i = get(gates, left), f = get(gates + n, left), g = get(gates + 2 * n, left), o = get(gates + 3 * n, left);
    const Vf t = cell_tanh(get(cell.c + at + k, left)), dh = get(cell.dh + at + k, left);
    Vf dc = hn::Mul(hn::Mul(dh, o), tanh_slope(t));
    if (cell.dc != nullptr) dc = hn::Add(dc, get(cell.dc + at + k, left));
    float* dpre = cell.dpre + 4 * at + k;
    put(dpre, hn::Mul(hn::Mul(dc, g), sigmoid_slope(i)), left);
    put(dpre + n, hn::Mul(hn::Mul(dc, get(cell.c_prev + at + k, left)), sigmoid_slope(f)), left);
    put(dpre + 2 * n, hn::Mul(hn::Mul(dc, i), tanh_slope(g)), left);
    put(dpre + 3 * n, hn::Mul(hn::Mul(dh, t), sigmoid_slope(o)), left);
    put(cell.dc_prev + at + k, hn::Mul(dc, f), left);
  });
}

void gru_row(const GruForward& cell, std::int64_t row, std::size_t n) {
  const Floats d;
  const std::size_t at = static_cast<std::size_t>(row) * n;
  for_row(n, [&](std::size_t k, std::size_t left) HWY_ATTR {
    const float *x = cell.x_pre + 3 * at + k, *u = cell.h_pre + 3 * at + k;
    const Vf r = sigmoid(d, hn::Add(get(x, left), get(u, left)));
    const Vf z = sigmoid(d, hn::Add(get(x + n, left), get(u + n, left)));
    const Vf h_n = get(u + 2 * n, left), h_prev = get(cell.h_prev + at + k, left);
    const Vf v = tanh(d, hn::MulAdd(r, h_n, get(x + 2 * n, left)));
    float* gates = cell.gates + 4 * at + k;
    put(gates, r, left);
    put(gates + n, z, left);
    put(gates + 2 * n, v, left);
    put(gates + 3 * n, h_n, left);
    put(cell.h + at + k, hn::MulAdd(z, hn::Sub(h_prev, v), v), left);
  });
}

void gru_grad_row(const GruBackward& cell, std::int64_t row, std::size_t n) {
  const std::size_t at = static_cast<std::size_t>(row) * n;
  for_row(n, [&](std::size_t k, std::size_t left) HWY_ATTR {
    const float* gates = cell.gates + 4 * at + k;
    const Vf r = get(gates, left), z = get(gates + n, left), v = get(gates + 2 * n, left);
    const Vf h_n = get(gates + 3 * n, left), dh = get(cell.dh + at + k, left);
    const Vf dn = hn::Mul(hn::Mul(dh, hn::Sub(one(), z)), tanh_slope(v));
    const Vf dz = hn::Mul(hn::Mul(dh, hn::Sub(get(cell.h_prev + at + k, left), v)), sigmoid_slope(z));
    const Vf dr = hn::Mul(hn::Mul(dn, h_n), sigmoid_slope(r));
    float *dx = cell.dx_pre + 3 * at + k, *du = cell.dh_pre + 3 * at + k;
    put(dx, dr, left);
    put(dx + n, dz, left);
    put(dx + 2 * n, dn, left);
    put(du, dr, left);
    put(du + n, dz, left);
    put(du + 2 * n, hn::Mul(dn, r), left);
    put(cell.dh_prev + at + k, hn::Mul(dh, z), left);
  });
}

void rnn_row(RnnActivation activation, const float* pre, float* h, std::size_t n) {
  const Floats d;
  for_row(n, [&](std::size_t k, std::size_t left) HWY_ATTR {
    const Vf x = get(pre + k, left);
    // A comparison with NaN is false, and keeps x.
    const Vf relu = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Zero(d), x);
    put(h + k, activation == RnnActivation::tanh ? tanh(d, x) : relu, left);
  });
}

void rnn_grad_row(RnnActivation activation, const float* dh, const float* h, float* dpre, std::size_t n) {
  const Floats d;
  for_row(n, [&](std::size_t k, std::size_t left) HWY_ATTR {
    const Vf y = get(h + k, left), dy = get(dh + k, left);
    const Vf relu = hn::IfThenElseZero(hn::Gt(y, hn::Zero(d)), dy);
    put(dpre + k, activation == RnnActivation::tanh ? hn::Mul(dy, tanh_slope(y)) : relu, left);
  });
}

}  // namespace
}  // namespace varve::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace varve::cpu {
HWY_EXPORT(lstm_grad_row);
HWY_EXPORT(gru_row);
HWY_EXPORT(gru_grad_row);
HWY_EXPORT(rnn_row);
HWY_EXPORT(rnn_grad_row);

void lstm_cell_grad(const LstmBackward& cell, CellShape shape) {
  for_rows({shape.batch, shape.width}, [&](std::int64_t, std::size_t n, std::int64_t row) {
    HWY_DYNAMIC_DISPATCH(lstm_grad_row)(cell, row, n);
  });
}

void gru_cell(const GruForward& cell, CellShape shape) {
  for_rows({shape.batch, shape.width}, [&](std::int64_t, std::size_t n, std::int64_t row) {
    HWY_DYNAMIC_DISPATCH(gru_row)(cell, row, n);
  });
}

void gru_cell_grad(const GruBackward& cell, CellShape shape) {
  for_rows({shape.batch, shape.width}, [&](std::int64_t, std::size_t n, std::int64_t row) {
    HWY_DYNAMIC_DISPATCH(gru_grad_row)(cell, row, n);
  });
}

void rnn_cell(RnnActivation activation, const float* pre, float* h, CellShape shape) {
  for_rows({shape.batch, shape.width}, [=](std::int64_t at, std::size_t n, std::int64_t) {
    HWY_DYNAMIC_DISPATCH(rnn_row)(activation, pre + at, h + at, n);
  });
}

void rnn_cell_grad(RnnActivation activation, const float* dh, const float* h, float* dpre, CellShape shape) {
  for_rows({shape.batch, shape.width}, [=](std::int64_t at, std::size_t n, std::int64_t) {
    HWY_DYNAMIC_DISPATCH(rnn_grad_row)(activation, dh + at, h + at, dpre + at, n);
  });
}

}  // namespace varve::cpu
#endif
