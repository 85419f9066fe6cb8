// Running a tile group on vectors of doubles, and the plain meaning of the same group.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/cpu/tile/reduction.h"
#include "backends/cpu/tile/tile.h"
#include "base/convert.h"

namespace varve::cpu::testing {

// Elements of any type with room around them, to see whether a kernel writes where it should not.
struct Buffer {
  DType dtype;
  std::vector<std::byte> bytes;
  std::int64_t offset;
  static constexpr std::int64_t kMargin = 64;

  Buffer(DType type, const std::vector<double>& values, std::int64_t misalign = 0)
      : dtype(type),
        bytes((values.size() + 2 * kMargin + 64) * size_of(type), std::byte{0xAB}),
        offset(kMargin + misalign) {
    for (std::size_t i = 0; i < values.size(); ++i) set(static_cast<std::int64_t>(i), values[i]);
  }
  void* data() { return bytes.data() + offset * static_cast<std::int64_t>(size_of(dtype)); }
  void set(std::int64_t i, double value) { store_f(data(), dtype, i, value); }
  double get(std::int64_t i) const {
    return load_f(bytes.data() + offset * static_cast<std::int64_t>(size_of(dtype)), dtype, i);
  }
};

inline std::vector<std::int64_t> row_major(const std::vector<std::int64_t>& extents) {
  std::vector<std::int64_t> strides(extents.size());
  std::int64_t stride = 1;
  for (std::size_t d = extents.size(); d-- > 0; stride *= extents[d]) strides[d] = stride;
  return strides;
}

// Runs with exactly the scratch it asks for.
inline void run(const Group& group, const std::vector<void*>& in, const std::vector<void*>& out) {
  const TileKernel kernel(group);
  std::vector<std::byte> scratch(kernel.scratch_bytes());
  kernel.run(in.data(), out.data(), scratch.data());
}

inline double combine(Reduce op, double a, double b) {
  switch (op) {
    case Reduce::sum:
      return combine_pair<Reduce::sum>(a, b);
    case Reduce::prod:
      return combine_pair<Reduce::prod>(a, b);
    case Reduce::max:
      return combine_pair<Reduce::max>(a, b);
    default:
      return combine_pair<Reduce::min>(a, b);
  }
}

// Point by point in double, by expr::evaluate: out[o][element offset].
inline std::vector<std::vector<double>> plain(const Group& group, const std::vector<Buffer*>& in,
                                              const std::vector<std::int64_t>& sizes) {
  std::vector<std::vector<double>> out;
  for (std::size_t o = 0; o < group.outputs.size(); ++o) {
    const bool reduces = group.reduce[o] != Reduce::none;
    out.emplace_back(sizes[o], reduces ? identity<double>(group.reduce[o]) : 0.0);
  }
  std::int64_t points = 1;
  for (const std::int64_t extent : group.extents) points *= extent;
  const auto offset = [&group](const Access& access, std::int64_t point) {
    std::int64_t at = 0;
    for (std::size_t d = group.extents.size(); d-- > 0; point /= group.extents[d]) {
      at += point % group.extents[d] * access.strides[d];
    }
    return at;
  };
  std::vector<double> values(group.inputs.size() + 1);
  for (std::int64_t point = 0; point < points; ++point) {
    for (std::size_t i = 0; i < group.inputs.size(); ++i) values[i] = in[i]->get(offset(group.inputs[i], point));
    for (std::size_t o = 0; o < group.outputs.size(); ++o) {
      const double value = expr::evaluate(group.code, values.data(), static_cast<int>(o));
      double& to = out[o][static_cast<std::size_t>(offset(group.outputs[o], point))];
      to = group.reduce[o] == Reduce::none ? value : combine(group.reduce[o], to, value);
    }
  }
  return out;
}

inline double pseudo_random(std::int64_t i) {  // in (-2, 2)
  const auto mixed = static_cast<std::uint64_t>(i + 1) * 0x9E3779B97F4A7C15ull;
  return static_cast<double>(mixed >> 11) / 9007199254740992.0 * 4 - 2;
}
inline std::vector<double> pseudo_randoms(std::int64_t n, std::int64_t seed = 0) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(pseudo_random(i + seed * 1000003));
  return values;
}

inline expr::Expr x(int index) { return expr::Expr::input(index); }

inline bool close(double got, double want, double rtol, double atol) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(want) || std::isinf(got)) return got == want;
  return std::abs(got - want) <= atol + rtol * std::abs(want);
}

}  // namespace varve::cpu::testing
