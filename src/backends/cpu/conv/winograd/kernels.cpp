#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/conv/winograd/kernels.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/highway.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "backends/cpu/conv/winograd/kernels.h"
#include "backends/cpu/conv/winograd/transforms.h"
#include "backends/cpu/simd/bf16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace varve::cpu::plain::HWY_NAMESPACE {
namespace {
using namespace varve::cpu::HWY_NAMESPACE;  // vectors of f32 and bf16

constexpr int kRows = 6;  // with two vectors of sums each: as many as AVX2 has registers for
using F32 = Floats16;
using V = FloatVector;

// Vectors, `stride` floats apart. Some instruction sets have vectors of no size that the compiler knows: they stand in
// memory, and the compiler keeps them in registers where it can.
struct Line {
  const float* HWY_RESTRICT from;
  std::int64_t stride;

  HWY_INLINE V operator[](int i) const { return hn::LoadU(F32(), from + i * stride); }
};
struct LineOut {
  float* HWY_RESTRICT to;
  std::int64_t stride;

  HWY_INLINE void set(int i, V value) const { hn::StoreU(value, F32(), to + i * stride); }
};

// sum + factor · x
template <class Factor>
HWY_INLINE V add_scaled(Factor, V x, V sum) {
  constexpr double factor = Factor::value();
  if constexpr (factor == 0) return sum;
  if constexpr (factor == 1) return hn::Add(sum, x);
  if constexpr (factor == -1) return hn::Sub(sum, x);
  return hn::MulAdd(hn::Set(F32(), static_cast<float>(factor)), x, sum);
}
template <class Factor>
HWY_INLINE V scaled(Factor, V x) {
  constexpr double factor = Factor::value();
  if constexpr (factor == 1) return x;
  return hn::Mul(hn::Set(F32(), static_cast<float>(factor)), x);
}

// Factors as types: known when the loops are unrolled.
template <int kSize, int kLeftOut, int i>
struct ProductFactor {
  static constexpr double value() { return WinogradPoints<kSize>::product(kLeftOut, i); }
};
template <int kSize, int kPair>
struct Point {
  static constexpr double value() { return WinogradPoints<kSize>::point(kPair); }
};
template <int kSize, int kPair, int kPower, bool kScaled>
struct PowerFactor {
  static constexpr double value() {
    using P = WinogradPoints<kSize>;
    return P::power(kPair, kPower) * (kScaled ? P::scale(kPair) : 1);
  }
};
template <int kSize, bool kScaled>
struct ZeroFactor {
  static constexpr double value() { return kScaled ? WinogradPoints<kSize>::zero_scale() : 1; }
};

template <int... i, class F>
HWY_INLINE void unrolled(std::integer_sequence<int, i...>, const F& f) {
  static_cast<void>(f);  // of no steps
  (f(std::integral_constant<int, i>{}), ...);
}
template <int kCount, class F>
HWY_INLINE void unroll(const F& f) {
  unrolled(std::make_integer_sequence<int, kCount>{}, f);
}

// Σ product(left_out, i) · in[2i + first] for i < terms
template <int kSize, int kLeftOut, int kTerms, int kFirst>
HWY_INLINE V product_sum(const Line& in) {
  V sum = scaled(ProductFactor<kSize, kLeftOut, 0>(), in[kFirst]);
  unroll<kTerms - 1>([&](auto i) HWY_ATTR __attribute__((always_inline)) {
    sum = add_scaled(ProductFactor<kSize, kLeftOut, i + 1>(), in[2 * (i + 1) + kFirst], sum);
  });
  return sum;
}

// Bᵀ: `size` values to as many.
template <int kSize>
struct Interpolate {
  static constexpr int kIn = kSize, kOut = kSize;
  static HWY_INLINE void run(const Line& in, const LineOut& out) {
    constexpr int kPairs = WinogradPoints<kSize>::kPairs;
    out.set(0, product_sum<kSize, -1, kPairs + 1, 0>(in));
    unroll<kPairs>([&](auto k) HWY_ATTR __attribute__((always_inline)) {
      const V even = product_sum<kSize, k, kPairs, 2>(in);
      const V odd = scaled(Point<kSize, k>(), product_sum<kSize, k, kPairs, 1>(in));
      out.set(1 + 2 * k, hn::Add(even, odd));
      out.set(2 + 2 * k, hn::Sub(even, odd));
    });
    out.set(kSize - 1, product_sum<kSize, -1, kPairs + 1, 1>(in));
  }
};

// B: the transpose of Interpolate.
template <int kSize>
struct Deposit {
  static constexpr int kIn = kSize, kOut = kSize;
  static HWY_INLINE void run(const Line& in, const LineOut& out) {
    constexpr int kPairs = WinogradPoints<kSize>::kPairs;
    unroll<kPairs + 1>([&](auto i) HWY_ATTR __attribute__((always_inline)) {
      V even = scaled(ProductFactor<kSize, -1, i>(), in[0]);
      V odd = scaled(ProductFactor<kSize, -1, i>(), in[kSize - 1]);
      unroll<kPairs>([&](auto k) HWY_ATTR __attribute__((always_inline)) {
        const V plus = in[1 + 2 * k], minus = in[2 + 2 * k];
        if constexpr (i > 0) even = add_scaled(ProductFactor<kSize, k, i - 1>(), hn::Add(plus, minus), even);
        if constexpr (i < kPairs)
          odd = add_scaled(ProductFactor<kSize, k, i>(), scaled(Point<kSize, k>(), hn::Sub(plus, minus)), odd);
      });
      out.set(2 * i, even);
      out.set(2 * i + 1, odd);
    });
  }
};

// A (scaled: G): the polynomial of `kCount` factors at the points.
template <int kSize, int kCount, bool kScaled>
struct Evaluate {
  static constexpr int kIn = kCount, kOut = kSize;

  template <int kPair, int kParity>
  static HWY_INLINE V half(const Line& in) {
    V sum = scaled(PowerFactor<kSize, kPair, kParity, kScaled>(), in[kParity]);
    unroll<(kCount - kParity + 1) / 2 - 1>([&](auto i) HWY_ATTR __attribute__((always_inline)) {
      sum = add_scaled(PowerFactor<kSize, kPair, 2 * (i + 1) + kParity, kScaled>(), in[2 * (i + 1) + kParity], sum);
    });
    return sum;
  }
  static HWY_INLINE void run(const Line& in, const LineOut& out) {
    out.set(0, scaled(ZeroFactor<kSize, kScaled>(), in[0]));
    unroll<WinogradPoints<kSize>::kPairs>([&](auto k) HWY_ATTR __attribute__((always_inline)) {
      const V even = half<k, 0>(in), odd = half<k, 1>(in);
      out.set(1 + 2 * k, hn::Add(even, odd));
      out.set(2 + 2 * k, hn::Sub(even, odd));
    });
    out.set(kSize - 1, in[kCount - 1]);
  }
};

// Aᵀ (scaled: Gᵀ): the transpose of Evaluate.
template <int kSize, int kCount, bool kScaled>
struct Collect {
  static constexpr int kIn = kSize, kOut = kCount;
  static HWY_INLINE void run(const Line& in, const LineOut& out) {
    unroll<kCount>([&](auto i) HWY_ATTR __attribute__((always_inline)) {
      const auto pair = [&](auto k) HWY_ATTR __attribute__((always_inline)) {
        return i % 2 == 0 ? hn::Add(in[1 + 2 * k], in[2 + 2 * k]) : hn::Sub(in[1 + 2 * k], in[2 + 2 * k]);
      };
      V sum = scaled(PowerFactor<kSize, 0, i, kScaled>(), pair(std::integral_constant<int, 0>{}));
      unroll<WinogradPoints<kSize>::kPairs - 1>([&](auto k) HWY_ATTR __attribute__((always_inline)) {
        sum = add_scaled(PowerFactor<kSize, k + 1, i, kScaled>(), pair(std::integral_constant<int, k + 1>{}), sum);
      });
      if constexpr (i == 0) sum = add_scaled(ZeroFactor<kSize, kScaled>(), in[0], sum);
      if constexpr (i == kCount - 1) sum = hn::Add(sum, in[kSize - 1]);
      out.set(i, sum);
    });
  }
};

// A square of vectors.
struct Square {
  const float* from;
  std::int64_t row, column;
};
struct SquareOut {
  float* to;
  std::int64_t row, column;
};

// The transform along columns, then along rows.
template <class T>
HWY_INLINE void transform(const Square& in, const SquareOut& out) {
  const std::int64_t lanes = float_lanes();
  HWY_ALIGN float between[T::kOut * T::kIn * kMostFloats];
  for (int j = 0; j < T::kIn; ++j) T::run({in.from + j * in.column, in.row}, {between + j * lanes, T::kIn * lanes});
  for (int i = 0; i < T::kOut; ++i) T::run({between + i * T::kIn * lanes, lanes}, {out.to + i * out.row, out.column});
}

// Pixels [row, row + count) × [column, column + count) of one vector of channels, zero beyond the rim.
template <int kCount, class T>
HWY_INLINE void fetch(const WinogradTile& t, std::int64_t channel, float* HWY_RESTRICT out) {
  const std::int64_t lanes = float_lanes();
  const std::int64_t left = std::clamp<std::int64_t>(-t.column, 0, kCount);
  const std::int64_t right = std::clamp<std::int64_t>(t.width - t.column, left, kCount);
  const std::int64_t count = t.channels - channel;
  for (int i = 0; i < kCount; ++i, out += kCount * lanes) {
    const bool inside = t.row + i >= 0 && t.row + i < t.height;
    const std::int64_t begin = inside ? left : kCount, end = inside ? right : kCount;
    const T* from = static_cast<const T*>(t.image) + ((t.row + i) * t.width + t.column) * t.channels + channel;
    for (std::int64_t j = 0; j < begin; ++j) hn::Store(hn::Zero(F32()), F32(), out + j * lanes);
    for (std::int64_t j = begin; j < end; ++j)
      hn::Store(load_floats(from + j * t.channels, count), F32(), out + j * lanes);
    for (std::int64_t j = end; j < kCount; ++j) hn::Store(hn::Zero(F32()), F32(), out + j * lanes);
  }
}

// Square tiles of `Transform::kIn` pixels to the transformed domain.
template <class Transform, class T>
void from_image(const WinogradTile& t, const WinogradPlace& to) {
  constexpr int kCount = Transform::kIn;
  const std::int64_t lanes = float_lanes();
  const bool inside =
      t.row >= 0 && t.row + kCount <= t.height && t.column >= 0 && t.column + kCount <= t.width && sizeof(T) == 4;
  for (std::int64_t c = 0; c < t.channels; c += lanes) {
    const SquareOut out{to.data + c / (2 * lanes) * to.panel + c % (2 * lanes), Transform::kOut * to.position,
                        to.position};
    if (inside && c + lanes <= t.channels) {
      const float* first = static_cast<const float*>(t.image) + (t.row * t.width + t.column) * t.channels + c;
      transform<Transform>({first, t.width * t.channels, t.channels}, out);
    } else {
      HWY_ALIGN float pixels[kCount * kCount * kMostFloats];
      fetch<kCount, T>(t, c, pixels);
      transform<Transform>({pixels, kCount * lanes, lanes}, out);
    }
  }
}

template <int kSize, int kOut, class T>
void to_image(const WinogradPlace& from, const WinogradTile& t, const WinogradFinish& finish) {
  const std::int64_t lanes = float_lanes();
  const std::int64_t rows = std::min<std::int64_t>(kOut, t.height - t.row);
  const std::int64_t columns = std::min<std::int64_t>(kOut, t.width - t.column);
  for (std::int64_t c = 0; c < finish.count; c += lanes) {
    HWY_ALIGN float pixels[kOut * kOut * kMostFloats];
    transform<Collect<kSize, kOut, false>>(
        {from.data + c / (2 * lanes) * from.panel + c % (2 * lanes), kSize * from.position, from.position},
        {pixels, kOut * lanes, lanes});
    const std::int64_t channel = finish.first + c, count = t.channels - channel;
    const V bias = finish.bias ? load_floats(finish.bias + channel, count) : hn::Zero(F32());
    // The second operand is the one that comes through as NaN.
    const V least = hn::Set(F32(), finish.relu ? 0.f : -std::numeric_limits<float>::infinity());
    for (std::int64_t i = 0; i < rows; ++i) {
      T* to = static_cast<T*>(t.image) + ((t.row + i) * t.width + t.column) * t.channels + channel;
      for (std::int64_t j = 0; j < columns; ++j, to += t.channels) {
        const V sum = hn::Add(hn::Load(F32(), pixels + (i * kOut + j) * lanes), bias);
        store_floats(hn::Max(least, sum), to, count);
      }
    }
  }
}

template <int kSize>
void deposit(const WinogradPlace& from, const WinogradTile& t) {
  const std::int64_t lanes = float_lanes();
  const std::int64_t top = std::max<std::int64_t>(-t.row, 0), bottom = std::min<std::int64_t>(kSize, t.height - t.row);
  const std::int64_t left = std::max<std::int64_t>(-t.column, 0);
  const std::int64_t right = std::min<std::int64_t>(kSize, t.width - t.column);
  for (std::int64_t c = 0; c < t.channels; c += lanes) {
    HWY_ALIGN float pixels[kSize * kSize * kMostFloats];
    transform<Deposit<kSize>>(
        {from.data + c / (2 * lanes) * from.panel + c % (2 * lanes), kSize * from.position, from.position},
        {pixels, kSize * lanes, lanes});
    const std::int64_t count = t.channels - c;
    for (std::int64_t i = top; i < bottom; ++i) {
      float* to = static_cast<float*>(t.image) + ((t.row + i) * t.width + t.column + left) * t.channels + c;
      for (std::int64_t j = left; j < right; ++j, to += t.channels)
        store_floats(hn::Add(load_floats(to, count), hn::Load(F32(), pixels + (i * kSize + j) * lanes)), to, count);
    }
  }
}

template <int kSize, int kKernel>
void filters(const float* from, std::int64_t tap, const WinogradPlace& to) {
  const std::int64_t lanes = float_lanes();
  for (int half = 0; half < 2; ++half)
    transform<Evaluate<kSize, kKernel, true>>({from + half * lanes, kKernel * tap, tap},
                                              {to.data + half * lanes, kSize * to.position, to.position});
}

template <int kSize, int kKernel, class T>
void filter_gradients(const WinogradPlace& from, void* to, std::int64_t tap, std::int64_t count) {
  const std::int64_t lanes = float_lanes();
  for (std::int64_t c = 0; c < count; c += lanes) {
    HWY_ALIGN float taps[kKernel * kKernel * kMostFloats];
    transform<Collect<kSize, kKernel, true>>({from.data + c, kSize * from.position, from.position},
                                             {taps, kKernel * lanes, lanes});
    for (int i = 0; i < kKernel * kKernel; ++i)
      store_floats(hn::Load(F32(), taps + i * lanes), static_cast<T*>(to) + i * tap + c, count - c);
  }
}

HWY_INLINE void finish_row(float* c, V low, V high, bool accumulate) {
  const std::size_t lanes = hn::Lanes(F32());
  if (accumulate) {
    low = hn::Add(low, hn::LoadU(F32(), c));
    high = hn::Add(high, hn::LoadU(F32(), c + lanes));
  }
  hn::StoreU(low, F32(), c);
  hn::StoreU(high, F32(), c + lanes);
}

void multiply(const WinogradProduct& p) {
  const F32 d;
  const std::size_t lanes = hn::Lanes(d);
  const std::int64_t row = p.a_row;
  for (std::int64_t i = 0; i < p.rows; i += kRows) {
    const float* HWY_RESTRICT a = p.a + i * row;
    const float* HWY_RESTRICT b = p.b;
    auto c00 = hn::Zero(d), c01 = c00, c10 = c00, c11 = c00, c20 = c00, c21 = c00;
    auto c30 = c00, c31 = c00, c40 = c00, c41 = c00, c50 = c00, c51 = c00;
    for (std::int64_t k = 0; k < p.k; ++k, a += p.a_k, b += 2 * lanes) {
      const auto low = hn::LoadU(d, b), high = hn::LoadU(d, b + lanes);
      auto x = hn::Set(d, a[0]);
      c00 = hn::MulAdd(x, low, c00);
      c01 = hn::MulAdd(x, high, c01);
      x = hn::Set(d, a[row]);
      c10 = hn::MulAdd(x, low, c10);
      c11 = hn::MulAdd(x, high, c11);
      x = hn::Set(d, a[2 * row]);
      c20 = hn::MulAdd(x, low, c20);
      c21 = hn::MulAdd(x, high, c21);
      x = hn::Set(d, a[3 * row]);
      c30 = hn::MulAdd(x, low, c30);
      c31 = hn::MulAdd(x, high, c31);
      x = hn::Set(d, a[4 * row]);
      c40 = hn::MulAdd(x, low, c40);
      c41 = hn::MulAdd(x, high, c41);
      x = hn::Set(d, a[5 * row]);
      c50 = hn::MulAdd(x, low, c50);
      c51 = hn::MulAdd(x, high, c51);
    }
    float* c = p.c + i * p.c_row;
    finish_row(c, c00, c01, p.accumulate);
    finish_row(c + p.c_row, c10, c11, p.accumulate);
    finish_row(c + 2 * p.c_row, c20, c21, p.accumulate);
    finish_row(c + 3 * p.c_row, c30, c31, p.accumulate);
    finish_row(c + 4 * p.c_row, c40, c41, p.accumulate);
    finish_row(c + 5 * p.c_row, c50, c51, p.accumulate);
  }
}

template <int kSize, int kOut, class T>
WinogradKernels kernels_of() {
  constexpr int kKernel = kSize - kOut + 1;
  return {kRows,
          static_cast<int>(2 * hn::Lanes(F32())),
          &from_image<Interpolate<kSize>, T>,
          &to_image<kSize, kOut, T>,
          &from_image<Evaluate<kSize, kOut, false>, T>,
          &deposit<kSize>,
          &filters<kSize, kKernel>,
          &filter_gradients<kSize, kKernel, T>,
          &multiply};
}

template <class T>
WinogradKernels of_size(WinogradSize s) {
  if (s == WinogradSize{4, 2}) return kernels_of<4, 2, T>();
  if (s == WinogradSize{6, 4}) return kernels_of<6, 4, T>();
  if (s == WinogradSize{6, 2}) return kernels_of<6, 2, T>();
  if (s == WinogradSize{8, 6}) return kernels_of<8, 6, T>();
  if (s == WinogradSize{8, 4}) return kernels_of<8, 4, T>();
  if (s == WinogradSize{8, 2}) return kernels_of<8, 2, T>();
  return {};
}

WinogradKernels find(WinogradSize size, DType images) {
  return images == bf16 ? of_size<bfloat16>(size) : of_size<float>(size);
}

}  // namespace
}  // namespace varve::cpu::plain::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace varve::cpu::plain {
HWY_EXPORT(find);

WinogradKernels winograd_kernels(WinogradSize size, DType images) { return HWY_DYNAMIC_DISPATCH(find)(size, images); }

}  // namespace varve::cpu::plain
#endif
