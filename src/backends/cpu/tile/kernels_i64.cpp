// The primitives in 64-bit integers. Overflow wraps (computed unsigned); division and remainder by zero give 0.
#include <limits>

#include "backends/cpu/tile/kernels_simd.h"

namespace varve::cpu {
namespace {
using expr::Prim;
using I = std::int64_t;
using U = std::uint64_t;

constexpr I wrap(U value) { return static_cast<I>(value); }

// Towards zero; the one quotient that does not fit wraps to itself.
I divide(I a, I b) {
  if (b == 0) return 0;
  return b == -1 ? wrap(U{0} - static_cast<U>(a)) : a / b;
}

I modulo(I a, I b) {
  if (b == 0 || b == -1) return 0;
  const I r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

// By squaring. Negative exponents give the fraction's whole part, and 0 for zero.
I power(I base, I exponent) {
  if (exponent < 0) {
    if (base == 1) return 1;
    return base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  }
  U result = 1;
  for (U square = static_cast<U>(base); exponent > 0; exponent >>= 1, square *= square)
    if (exponent & 1) result *= square;
  return wrap(result);
}

template <Prim prim>
I apply(I a, I b) {
  const U ua = static_cast<U>(a), ub = static_cast<U>(b);
  if constexpr (prim == Prim::add) return wrap(ua + ub);
  if constexpr (prim == Prim::sub) return wrap(ua - ub);
  if constexpr (prim == Prim::mul) return wrap(ua * ub);
  if constexpr (prim == Prim::div) return divide(a, b);
  if constexpr (prim == Prim::mod) return modulo(a, b);
  if constexpr (prim == Prim::pow) return power(a, b);
  if constexpr (prim == Prim::min) return a < b ? a : b;
  if constexpr (prim == Prim::max) return a > b ? a : b;
  if constexpr (prim == Prim::lt) return a < b;
  if constexpr (prim == Prim::le) return a <= b;
  if constexpr (prim == Prim::eq) return a == b;
  if constexpr (prim == Prim::ne) return a != b;
  if constexpr (prim == Prim::logical_and) return a != 0 && b != 0;
  if constexpr (prim == Prim::logical_or) return a != 0 || b != 0;
}

template <Prim prim>
I apply(I x) {
  if constexpr (prim == Prim::neg) return wrap(U{0} - static_cast<U>(x));
  if constexpr (prim == Prim::abs) return x < 0 ? wrap(U{0} - static_cast<U>(x)) : x;
  if constexpr (prim == Prim::sign) return (x > 0) - (x < 0);
  if constexpr (prim == Prim::logical_not) return x == 0;
  if constexpr (prim == Prim::is_nan) return 0;
  if constexpr (prim == Prim::trunc) return x;  // and all other roundings
}

template <Prim prim>
void one(const void* a, const void*, const void*, void* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) static_cast<I*>(out)[i] = apply<prim>(static_cast<const I*>(a)[i]);
}

template <Prim prim, Form form>
void two(const void* a, const void* b, const void*, void* out, std::size_t n) {
  const I* pa = static_cast<const I*>(a);
  const I* pb = static_cast<const I*>(b);
  const I scalar = form == Form::sv ? *pa : form == Form::vs ? *pb : 0;
  for (std::size_t i = 0; i < n; ++i) {
    static_cast<I*>(out)[i] = apply<prim>(form == Form::sv ? scalar : pa[i], form == Form::vs ? scalar : pb[i]);
  }
}

template <Form form>
void choose(const void* condition, const void* b, const void* c, void* out, std::size_t n) {
  const I* pa = static_cast<const I*>(condition);
  const I* pb = static_cast<const I*>(b);
  const I* pc = static_cast<const I*>(c);
  const I scalar = form == Form::sv ? *pb : form == Form::vs ? *pc : 0;
  for (std::size_t i = 0; i < n; ++i) {
    static_cast<I*>(out)[i] = pa[i] != 0 ? (form == Form::sv ? scalar : pb[i]) : (form == Form::vs ? scalar : pc[i]);
  }
}

template <Prim prim>
KernelFn form_of(Form form) {
  if constexpr (prim == Prim::select) {
    return form == Form::vs ? &choose<Form::vs> : form == Form::sv ? &choose<Form::sv> : &choose<Form::vv>;
  } else {
    return form == Form::vs ? &two<prim, Form::vs> : form == Form::sv ? &two<prim, Form::sv> : &two<prim, Form::vv>;
  }
}

void fill(const void* a, const void*, const void*, void* out, std::size_t n) {
  const I value = *static_cast<const I*>(a);
  for (std::size_t i = 0; i < n; ++i) static_cast<I*>(out)[i] = value;
}

KernelFn unary_kernel(Prim prim) {
  switch (prim) {
    case Prim::neg:
      return &one<Prim::neg>;
    case Prim::abs:
      return &one<Prim::abs>;
    case Prim::sign:
      return &one<Prim::sign>;
    case Prim::floor:
    case Prim::ceil:
    case Prim::round:
    case Prim::trunc:
      return &one<Prim::trunc>;
    case Prim::logical_not:
      return &one<Prim::logical_not>;
    case Prim::is_nan:
      return &one<Prim::is_nan>;
    default:
      return nullptr;
  }
}

}  // namespace

KernelFn i64_kernel(Prim prim, Form form) {
  switch (prim) {
    case Prim::add:
      return form_of<Prim::add>(form);
    case Prim::sub:
      return form_of<Prim::sub>(form);
    case Prim::mul:
      return form_of<Prim::mul>(form);
    case Prim::div:
      return form_of<Prim::div>(form);
    case Prim::mod:
      return form_of<Prim::mod>(form);
    case Prim::pow:
      return form_of<Prim::pow>(form);
    case Prim::min:
      return form_of<Prim::min>(form);
    case Prim::max:
      return form_of<Prim::max>(form);
    case Prim::lt:
      return form_of<Prim::lt>(form);
    case Prim::le:
      return form_of<Prim::le>(form);
    case Prim::eq:
      return form_of<Prim::eq>(form);
    case Prim::ne:
      return form_of<Prim::ne>(form);
    case Prim::logical_and:
      return form_of<Prim::logical_and>(form);
    case Prim::logical_or:
      return form_of<Prim::logical_or>(form);
    case Prim::select:
      return form_of<Prim::select>(form);
    default:
      return form == Form::vv ? unary_kernel(prim) : nullptr;
  }
}

KernelFn i64_splat_kernel() { return &fill; }

}  // namespace varve::cpu
