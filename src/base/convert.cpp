#include "base/convert.h"

namespace varve {
namespace {

template <class To, class From>
void convert_loop(const void* src, void* dst, std::int64_t n) {
  // Says that iterations are independent, which GCC could not know of two void pointers.
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) store_as<To>(dst, i, cast_to<To>(load_as<From>(src, i)));
}

}  // namespace

void convert(const void* src, DType from, void* dst, DType to, std::int64_t n) {
  if (n <= 0) return;
  if (from == to && from != DType::boolean) {  // a bool is rewritten: bytes other than 0 and 1 become 1
    std::memmove(dst, src, static_cast<std::size_t>(n) * size_of(from));
    return;
  }
  dispatch(from, [&]<class From>(std::type_identity<From>) {
    dispatch(to, [&]<class To>(std::type_identity<To>) { convert_loop<To, From>(src, dst, n); });
  });
}

}  // namespace varve
