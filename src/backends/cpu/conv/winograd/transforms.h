// The numbers of Winograd's minimal filtering: polynomials through the points 0, ±p and infinity (Toom and Cook).
//
// A row of `size` pixels d and a filter g of r taps give m = size − r + 1 results
//   y = Aᵀ[(G·g) ⊙ (Bᵀ·d)]
// where A and G evaluate polynomials at the points and B interpolates. Points come in pairs, so that each pair shares
// the sums of its even and of its odd powers.
#pragma once

namespace varve::cpu::plain {

// Transformed values stand in the order 0, +p₀, −p₀, +p₁, −p₁ …, infinity.
template <int kSize>
struct WinogradPoints {
  static constexpr int kPairs = (kSize - 2) / 2;

  // Powers of two, whose products are exact; these keep the matrices smallest.
  static constexpr double point(int pair) { return pair == 0 ? 1 : pair == 1 ? 2 : 0.5; }

  static constexpr double power(int pair, int exponent) {
    double result = 1;
    for (int i = 0; i < exponent; ++i) result *= point(pair);
    return result;
  }

  // The factor of x²ⁱ in the product of (x² − p²) over all pairs but `left_out` (−1: over all).
  static constexpr double product(int left_out, int i) {
    double factors[kPairs + 1] = {1};
    int degree = 0;
    for (int pair = 0; pair < kPairs; ++pair) {
      if (pair == left_out) continue;
      const double square = point(pair) * point(pair);
      ++degree;
      for (int d = degree; d > 0; --d) factors[d] = factors[d - 1] - square * (d < degree ? factors[d] : 0);
      factors[0] *= -square;
    }
    return i <= degree ? factors[i] : 0;
  }

  // What G divides by: the distance of a point from all others, multiplied.
  static constexpr double zero_scale() { return 1 / product(-1, 0); }
  static constexpr double scale(int pair) {
    const double square = point(pair) * point(pair);
    double product = 2 * square;
    for (int other = 0; other < kPairs; ++other)
      if (other != pair) product *= square - point(other) * point(other);
    return 1 / product;
  }
};

}  // namespace varve::cpu::plain
