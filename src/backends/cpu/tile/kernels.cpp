#include "backends/cpu/tile/kernels.h"

#include "backends/cpu/tile/kernels_simd.h"
#include "backends/cpu/tile/reduction.h"

namespace varve::cpu {
namespace {
using expr::Prim;

template <class T, class Acc, Reduce op>
void reduce_rows(const void* tile, std::size_t rows, std::size_t columns, void* acc) {
  const T* x = static_cast<const T*>(tile);
  Acc* to = static_cast<Acc*>(acc);
  for (std::size_t r = 0; r < rows; ++r, x += columns) {
#pragma omp simd
    for (std::size_t c = 0; c < columns; ++c) to[c] = combine_pair<op, Acc>(to[c], static_cast<Acc>(x[c]));
  }
}

template <class T, class Acc>
ReduceRowsFn reduce_rows_of(Reduce op) {
  switch (op) {
    case Reduce::prod:
      return &reduce_rows<T, Acc, Reduce::prod>;
    case Reduce::max:
      return &reduce_rows<T, Acc, Reduce::max>;
    case Reduce::min:
      return &reduce_rows<T, Acc, Reduce::min>;
    default:
      return &reduce_rows<T, Acc, Reduce::sum>;
  }
}

template <Reduce op>
void i64_segments(const void* tile, std::size_t count, std::size_t length, void* acc) {
  const std::int64_t* x = static_cast<const std::int64_t*>(tile);
  std::int64_t* to = static_cast<std::int64_t*>(acc);
  for (std::size_t s = 0; s < count; ++s, x += length) {
    std::int64_t sum = to[s];
    for (std::size_t i = 0; i < length; ++i) sum = combine_pair<op>(sum, x[i]);
    to[s] = sum;
  }
}

SegmentFn i64_segment(Reduce op) {
  switch (op) {
    case Reduce::prod:
      return &i64_segments<Reduce::prod>;
    case Reduce::max:
      return &i64_segments<Reduce::max>;
    case Reduce::min:
      return &i64_segments<Reduce::min>;
    default:
      return &i64_segments<Reduce::sum>;
  }
}

}  // namespace

KernelFn prim_kernel(DType compute, Prim prim, Form form) {
  if (compute == DType::i64) return i64_kernel(prim, form);
  if (form != Form::vv) return nullptr;  // chains take single values, and the costly primitives are costly anyway
  const bool single = compute == DType::f32;
  if (const KernelFn cheap = single ? arith_kernel_f32(prim) : arith_kernel_f64(prim)) return cheap;
  return single ? math_kernel_f32(prim) : math_kernel_f64(prim);
}

KernelFn fused_kernel(DType compute, Fused op) {
  if (op != Fused::sigmoid || compute == DType::i64) return nullptr;
  return compute == DType::f32 ? sigmoid_kernel_f32() : sigmoid_kernel_f64();
}

KernelFn splat_kernel(DType compute) {
  if (compute == DType::i64) return i64_splat_kernel();
  return compute == DType::f32 ? move_kernel_f32(Move::splat) : move_kernel_f64(Move::splat);
}

KernelFn nontemporal_kernel(DType compute) {  // for i64, moving 8 bytes is all the same
  return compute == DType::f32 ? move_kernel_f32(Move::nontemporal) : move_kernel_f64(Move::nontemporal);
}

SegmentFn segment_kernel(DType compute, Reduce op) {
  if (compute == DType::i64) return i64_segment(op);
  return compute == DType::f32 ? segment_kernel_f32(op) : segment_kernel_f64(op);
}

ReduceRowsFn reduce_rows_kernel(DType compute, Reduce op) {
  if (compute == DType::i64) return reduce_rows_of<std::int64_t, std::int64_t>(op);
  return compute == DType::f32 ? reduce_rows_of<float, double>(op) : reduce_rows_of<double, double>(op);
}

ReduceRowsFn combine_kernel(DType compute, Reduce op) {
  return compute == DType::i64 ? reduce_rows_of<std::int64_t, std::int64_t>(op) : reduce_rows_of<double, double>(op);
}

Prim prim_of(Reduce op) {
  switch (op) {
    case Reduce::prod:
      return Prim::mul;
    case Reduce::max:
      return Prim::max;
    case Reduce::min:
      return Prim::min;
    default:
      return Prim::add;
  }
}

}  // namespace varve::cpu
