#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/norm/batch_norm_loops.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/highway.h>

#include <algorithm>

#include "backends/cpu/norm/batch_norm_loops.h"
#include "backends/cpu/simd/bf16-inl.h"
#include "backends/cpu/simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace varve::cpu::HWY_NAMESPACE {
namespace {

constexpr std::size_t kBlockBytes = 96 << 10;     // lines that stay in L2 between two visits
constexpr std::size_t kFewest = 16, kMost = 256;  // lines of a block

struct Single {
  using T = float;
  static HWY_INLINE Vf load(const T* from, std::size_t left) { return load_some(Floats(), from, left); }
  static HWY_INLINE void store(Vf v, T* to, std::size_t left) { store_some(Floats(), v, to, left); }
  static HWY_INLINE void nontemporal(Vf v, T* to) { hn::Stream(v, Floats(), to); }
  // What is read back from there.
  static HWY_INLINE Vf keep(Vf v, T* to, std::size_t left) {
    store(v, to, left);
    return v;
  }
};

using Shorts = hn::Rebind<std::uint16_t, Floats>;

struct Brief {
  using T = std::uint16_t;
  static HWY_INLINE Vf load(const T* from, std::size_t left) {
    return bf16_widen(Floats(), load_some(Shorts(), from, left));
  }
  static HWY_INLINE void store(Vf v, T* to, std::size_t left) {
    store_some(Shorts(), bf16_round(Floats(), v), to, left);
  }
  static HWY_INLINE void nontemporal(Vf v, T* to) { hn::Stream(bf16_round(Floats(), v), Shorts(), to); }
  static HWY_INLINE Vf keep(Vf v, T* to, std::size_t left) {
    const auto bits = bf16_round(Floats(), v);
    store_some(Shorts(), bits, to, left);
    return bf16_widen(Floats(), bits);
  }
};

template <class IO>
std::size_t block_lines(std::size_t width) {
  return std::clamp(kBlockBytes / (width * sizeof(typename IO::T)), kFewest, kMost);
}

HWY_INLINE Vf load_f32(const float* from, std::size_t left) { return load_some(Floats(), from, left); }
HWY_INLINE void add_f32(float* to, Vf v, std::size_t left) {
  store_some(Floats(), hn::Add(load_f32(to, left), v), to, left);
}

void add_wide(double* to, const float* from, std::size_t n) {
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) to[i] += from[i];
}

// body(line, whether four start there) over all lines in fours, then one by one.
template <class Body>
HWY_INLINE void by_fours(std::size_t lines, const Body& body) {
  std::size_t line = 0;
  for (; line + 4 <= lines; line += 4) body(line, std::true_type());
  for (; line < lines; ++line) body(line, std::false_type());
}

// Sum of term(line) over four lines, or one.
template <class Four, class Term>
HWY_INLINE Vf sum_lines(Four, std::size_t line, const Term& term) {
  if constexpr (Four::value)
    return hn::Add(hn::Add(term(line), term(line + 1)), hn::Add(term(line + 2), term(line + 3)));
  else
    return term(line);
}

// ---- moments: each block's about its own rough mean, then joined in double; small deviations around a large mean keep
// their digits

template <class IO>
void block_moments(const typename IO::T* x, std::size_t lines, std::size_t width, float* sums) {
  const Floats d;
  float *centre = sums, *rest = sums + width, *squares = sums + 2 * width;
  std::fill_n(sums, 3 * width, 0.0f);
  by_fours(lines, [&](std::size_t line, auto four) HWY_ATTR {
    for_row(width, [&](std::size_t i, std::size_t left) HWY_ATTR {
      add_f32(centre + i,
              sum_lines(four, line, [&](std::size_t l) HWY_ATTR { return IO::load(x + l * width + i, left); }), left);
    });
  });
  const Vf share = hn::Set(d, 1.0f / static_cast<float>(lines));
  for_row(width, [&](std::size_t i, std::size_t left)
                     HWY_ATTR { store_some(d, hn::Mul(load_f32(centre + i, left), share), centre + i, left); });
  by_fours(lines, [&](std::size_t line, auto four) HWY_ATTR {
    for_row(width, [&](std::size_t i, std::size_t left) HWY_ATTR {
      const Vf c = load_f32(centre + i, left);
      const auto away = [&](std::size_t l) HWY_ATTR { return hn::Sub(IO::load(x + l * width + i, left), c); };
      add_f32(rest + i, sum_lines(four, line, away), left);
      add_f32(squares + i,
              sum_lines(four, line,
                        [&](std::size_t l) HWY_ATTR {
                          const Vf v = away(l);
                          return hn::Mul(v, v);
                        }),
              left);
    });
  });
}

void join_moments(const float* sums, std::size_t width, double lines, double before, double* mean, double* squares) {
  const float *centre = sums, *rest = sums + width, *own = sums + 2 * width;
  const double share = 1 / lines, weight = lines / (before + lines);
#pragma omp simd
  for (std::size_t i = 0; i < width; ++i) {
    const double off = rest[i] * share;
    const double apart = centre[i] + off - mean[i];
    squares[i] += own[i] - off * off * lines + apart * apart * (before * weight);
    mean[i] += apart * weight;
  }
}

template <class IO>
void moments(const MomentsTask& t) {
  const std::size_t width = t.in.width, block = block_lines<IO>(width);
  std::fill_n(t.mean, width, 0.0);
  std::fill_n(t.squares, width, 0.0);
  for (std::size_t line = 0; line < t.in.lines; line += block) {
    const std::size_t lines = std::min(block, t.in.lines - line);
    block_moments<IO>(static_cast<const typename IO::T*>(t.in.x) + line * width, lines, width, t.sums);
    join_moments(t.sums, width, static_cast<double>(lines), static_cast<double>(line), t.mean, t.squares);
  }
}

// ---- normalisation

HWY_INLINE Vf normalised(const NormLines& in, Vf x, std::size_t i, std::size_t left) {
  return hn::MulAdd(hn::Sub(x, load_f32(in.mean + i, left)), load_f32(in.gain + i, left), load_f32(in.shift + i, left));
}

template <class IO, bool kAdded, bool kRelu, bool kStream>
void normalise_lines(const NormaliseTask& t) {
  using T = typename IO::T;
  const Floats d;
  const std::size_t width = t.in.width;
  for (std::size_t line = 0; line < t.in.lines; ++line) {
    const T* x = static_cast<const T*>(t.in.x) + line * width;
    const T* added = kAdded ? static_cast<const T*>(t.added) + line * width : nullptr;
    T* y = static_cast<T*>(t.y) + line * width;
    for_row(width, [&](std::size_t i, std::size_t left) HWY_ATTR {
      Vf v = normalised(t.in, IO::load(x + i, left), i, left);
      if constexpr (kAdded) v = hn::Add(v, IO::load(added + i, left));
      if constexpr (kRelu) v = hn::IfThenElse(hn::Lt(v, hn::Zero(d)), hn::Zero(d), v);  // NaN stays
      if constexpr (kStream)
        IO::nontemporal(v, y + i);
      else
        IO::store(v, y + i, left);
    });
  }
}

template <class IO, bool kAdded, bool kRelu>
void normalise_to(const NormaliseTask& t) {
  return t.nontemporal ? normalise_lines<IO, kAdded, kRelu, true>(t) : normalise_lines<IO, kAdded, kRelu, false>(t);
}

template <class IO>
void normalise(const NormaliseTask& t) {
  if (t.added != nullptr) return t.relu ? normalise_to<IO, true, true>(t) : normalise_to<IO, true, false>(t);
  return t.relu ? normalise_to<IO, false, true>(t) : normalise_to<IO, false, false>(t);
}

// ---- gradient

template <class IO, Passing passing, bool kMore>
struct Source {
  using T = typename IO::T;
  const NormLines& in;
  const T *dy, *more, *output;

  Source(const NormLines& lines, const GradientSource& from)
      : in(lines),
        dy(static_cast<const T*>(from.dy)),
        more(static_cast<const T*>(from.more)),
        output(static_cast<const T*>(from.output)) {}

  // At element `at` of the matrix, which stands in column i and holds x.
  HWY_INLINE Vf load(std::size_t at, Vf x, std::size_t i, std::size_t left) const {
    const Floats d;
    Vf g = IO::load(dy + at, left);
    if constexpr (kMore) g = hn::Add(g, IO::load(more + at, left));
    if constexpr (passing == Passing::output)
      g = hn::IfThenElseZero(hn::Gt(IO::load(output + at, left), hn::Zero(d)), g);
    if constexpr (passing == Passing::recomputed)
      g = hn::IfThenElseZero(hn::Gt(normalised(in, x, i, left), hn::Zero(d)), g);
    return g;
  }
};

template <class IO, Passing passing, bool kMore, bool kPassed>
void gradient_sums_of(const GradientSumsTask& t) {
  using T = typename IO::T;
  const Source<IO, passing, kMore> source(t.in, t.from);
  const std::size_t width = t.in.width;
  const T* x = static_cast<const T*>(t.in.x);
  T* passed = static_cast<T*>(t.passed);
  float *sum = t.sums, *product = t.sums + width;
  std::fill_n(t.sum, width, 0.0);
  std::fill_n(t.product, width, 0.0);
  for (std::size_t begin = 0; begin < t.in.lines; begin += kMost) {
    const std::size_t end = std::min(begin + kMost, t.in.lines);
    std::fill_n(t.sums, 2 * width, 0.0f);
    by_fours(end - begin, [&](std::size_t line, auto four) HWY_ATTR {
      for_row(width, [&](std::size_t i, std::size_t left) HWY_ATTR {
        const Vf mean = load_f32(t.in.mean + i, left);
        Vf g[4];
        Vf products[4];
        for (std::size_t l = 0; l < (decltype(four)::value ? 4 : 1); ++l) {
          const std::size_t at = (begin + line + l) * width + i;
          const Vf v = IO::load(x + at, left);
          g[l] = source.load(at, v, i, left);
          if constexpr (kPassed) g[l] = IO::keep(g[l], passed + at, left);  // as the second pass will read it
          products[l] = hn::Mul(g[l], hn::Sub(v, mean));
        }
        add_f32(sum + i, sum_lines(four, 0, [&](std::size_t l) HWY_ATTR { return g[l]; }), left);
        add_f32(product + i, sum_lines(four, 0, [&](std::size_t l) HWY_ATTR { return products[l]; }), left);
      });
    });
    add_wide(t.sum, sum, width);
    add_wide(t.product, product, width);
  }
}

template <class IO>
void gradient_sums(const GradientSumsTask& t) {
  const bool more = t.from.more != nullptr, passed = t.passed != nullptr;
  if (t.from.passing == Passing::everywhere) return gradient_sums_of<IO, Passing::everywhere, false, false>(t);
  if (t.from.passing == Passing::recomputed) return gradient_sums_of<IO, Passing::recomputed, false, false>(t);
  if (more) return gradient_sums_of<IO, Passing::output, true, true>(t);
  return passed ? gradient_sums_of<IO, Passing::output, false, true>(t)
                : gradient_sums_of<IO, Passing::output, false, false>(t);
}

template <class IO, Passing passing>
void gradient_of(const GradientTask& t) {
  using T = typename IO::T;
  const Source<IO, passing, false> source(t.in, t.from);
  const std::size_t width = t.in.width;
  for (std::size_t line = 0; line < t.in.lines; ++line) {
    for_row(width, [&](std::size_t i, std::size_t left) HWY_ATTR {
      const std::size_t at = line * width + i;
      const Vf x = IO::load(static_cast<const T*>(t.in.x) + at, left);
      const Vf g = source.load(at, x, i, left);
      const Vf flat = hn::MulSub(g, load_f32(t.in.gain + i, left), load_f32(t.offset + i, left));
      const Vf away = hn::Sub(x, load_f32(t.in.mean + i, left));
      IO::store(hn::NegMulAdd(away, load_f32(t.slope + i, left), flat), static_cast<T*>(t.dx) + at, left);
    });
  }
}

template <class IO>
void gradient(const GradientTask& t) {
  switch (t.from.passing) {
    case Passing::everywhere:
      return gradient_of<IO, Passing::everywhere>(t);
    case Passing::output:
      return gradient_of<IO, Passing::output>(t);
    case Passing::recomputed:
      return gradient_of<IO, Passing::recomputed>(t);
  }
}

template <class IO>
BatchNormLoops loops() {
  return {&moments<IO>, &normalise<IO>, &gradient_sums<IO>, &gradient<IO>};
}

BatchNormLoops loops_of(DType dtype) { return dtype == DType::bf16 ? loops<Brief>() : loops<Single>(); }

}  // namespace
}  // namespace varve::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace varve::cpu {
HWY_EXPORT(loops_of);

BatchNormLoops batch_norm_loops(DType dtype) { return HWY_DYNAMIC_DISPATCH(loops_of)(dtype); }
}  // namespace varve::cpu
#endif
