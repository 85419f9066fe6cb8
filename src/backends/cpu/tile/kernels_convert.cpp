// Elements between memory and tile registers, any type to any: straight runs, and through a table of offsets.
#include <cstring>

#include "backends/cpu/tile/kernels_simd.h"
#include "base/convert.h"

namespace varve::cpu {
namespace {

// A stored bool is any byte: read as 0 or 1, so it is kept apart from u8 by the tag, not by its storage.
template <class T>
using Storage = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;

template <class From, class To>
To read(Storage<From> value) {
  if constexpr (std::is_same_v<From, bool>)
    return cast_to<To>(value != 0);
  else
    return cast_to<To>(value);
}

template <class From, class To>
void load(const void* a, const void*, const void*, void* out, std::size_t n) {
  const auto* from = static_cast<const Storage<From>*>(a);
  To* to = static_cast<To*>(out);
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) to[i] = read<From, To>(from[i]);
}

template <class From, class To>
void gather(const void* a, const void* offsets, const void*, void* out, std::size_t n) {
  const auto* from = static_cast<const Storage<From>*>(a);
  const auto* at = static_cast<const std::int64_t*>(offsets);
  To* to = static_cast<To*>(out);
  for (std::size_t i = 0; i < n; ++i) to[i] = read<From, To>(from[at[i]]);
}

template <class From, class To>
void repeat(const void* a, const void* pattern, const void*, void* out, std::size_t n) {
  const auto* from = static_cast<const Storage<From>*>(a);
  const auto* how = static_cast<const std::int64_t*>(pattern);
  const std::int64_t length = how[0], stride = how[1];
  To* to = static_cast<To*>(out);
  for (To* end = to + n; to != end; to += length, from += stride) {
    const To value = read<From, To>(*from);
#pragma omp simd
    for (std::int64_t i = 0; i < length; ++i) to[i] = value;
  }
}

template <class From, class To>
void store(const void* a, const void*, const void*, void* out, std::size_t n) {
  const From* from = static_cast<const From*>(a);
  auto* to = static_cast<Storage<To>*>(out);
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) to[i] = static_cast<Storage<To>>(cast_to<To>(from[i]));
}

template <class From, class To>
void scatter(const void* a, const void* offsets, const void*, void* out, std::size_t n) {
  const From* from = static_cast<const From*>(a);
  const auto* at = static_cast<const std::int64_t*>(offsets);
  auto* to = static_cast<Storage<To>*>(out);
  for (std::size_t i = 0; i < n; ++i) to[at[i]] = static_cast<Storage<To>>(cast_to<To>(from[i]));
}

template <class T>
void copy(const void* a, const void*, const void*, void* out, std::size_t n) {
  std::memmove(out, a, n * sizeof(T));
}

// f(type_identity<the C++ type of `compute`>)
template <class F>
KernelFn with_compute(DType compute, F f) {
  if (compute == DType::f64) return f(std::type_identity<double>{});
  if (compute == DType::i64) return f(std::type_identity<std::int64_t>{});
  return f(std::type_identity<float>{});
}

KernelFn copy_kernel(DType dtype) {
  return with_compute(dtype, []<class T>(std::type_identity<T>) -> KernelFn { return &copy<T>; });
}

bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

}  // namespace

KernelFn load_kernel(DType from, DType compute) {
  if (from == compute) return copy_kernel(compute);
  if (is_half(from) && compute == DType::f32) return half_load_kernel(from);
  return with_compute(compute, [&]<class To>(std::type_identity<To>) {
    return dispatch(from, []<class From>(std::type_identity<From>) -> KernelFn { return &load<From, To>; });
  });
}

KernelFn gather_kernel(DType from, DType compute) {
  return with_compute(compute, [&]<class To>(std::type_identity<To>) {
    return dispatch(from, []<class From>(std::type_identity<From>) -> KernelFn { return &gather<From, To>; });
  });
}

KernelFn repeat_kernel(DType from, DType compute) {
  return with_compute(compute, [&]<class To>(std::type_identity<To>) {
    return dispatch(from, []<class From>(std::type_identity<From>) -> KernelFn { return &repeat<From, To>; });
  });
}

KernelFn store_kernel(DType compute, DType to) {
  if (to == compute) return copy_kernel(compute);
  if (is_half(to) && compute == DType::f32) return half_store_kernel(to);
  return with_compute(compute, [&]<class From>(std::type_identity<From>) {
    return dispatch(to, []<class To>(std::type_identity<To>) -> KernelFn { return &store<From, To>; });
  });
}

KernelFn scatter_kernel(DType compute, DType to) {
  return with_compute(compute, [&]<class From>(std::type_identity<From>) {
    return dispatch(to, []<class To>(std::type_identity<To>) -> KernelFn { return &scatter<From, To>; });
  });
}

}  // namespace varve::cpu
