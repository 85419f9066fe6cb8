#include <algorithm>
#include <cmath>

#include "data/digits.h"

namespace varve::data {
namespace {

struct Spot {
  float x, y;
};

// A piece of the path between two near spots, drawn with a round nib of that radius.
struct Piece {
  Spot from, to;
  float radius;
};

float between(Random& random, double low, double high) { return static_cast<float>(random.uniform(low, high)); }

// In -1…1, small values more often than large ones.
float around(Random& random) { return static_cast<float>(random.uniform() + random.uniform() - 1.0); }

// How far a hand is from the ideal at each of 4×4 knots, smooth between them.
class Warp {
 public:
  Warp(Random& random, float strength) {
    for (Spot& knot : knots_) knot = {strength * around(random), strength * around(random)};
  }
  Spot operator()(Spot p) const {
    const float u = std::clamp(p.x * 3, 0.0f, 2.999f), v = std::clamp(p.y * 3, 0.0f, 2.999f);
    const int column = static_cast<int>(u), row = static_cast<int>(v);
    const float a = ease(u - static_cast<float>(column)), b = ease(v - static_cast<float>(row));
    const auto knot = [&](int dy, int dx) { return knots_[static_cast<std::size_t>((row + dy) * 4 + column + dx)]; };
    const auto mix = [&](float k00, float k01, float k10, float k11) {
      return (1 - b) * ((1 - a) * k00 + a * k01) + b * ((1 - a) * k10 + a * k11);
    };
    const Spot k00 = knot(0, 0), k01 = knot(0, 1), k10 = knot(1, 0), k11 = knot(1, 1);
    return {p.x + mix(k00.x, k01.x, k10.x, k11.x), p.y + mix(k00.y, k01.y, k10.y, k11.y)};
  }

 private:
  static float ease(float t) { return t * t * (3 - 2 * t); }
  std::array<Spot, 16> knots_;
};

// From the unit box to pixels: slant, aspect, rotation, scale, shift.
class Frame {
 public:
  explicit Frame(Random& random) {
    const float height = 19.0f * (1 + 0.28f * around(random));
    const float width = height * between(random, 0.48, 1.08);
    const float slant = 0.12f + 0.5f * around(random);
    // Half-angle form: a rotation without sin and cos, whose last bits differ between libraries.
    const float half = 0.22f * around(random);
    const float norm = 1 / (1 + half * half), cosine = (1 - half * half) * norm, sine = 2 * half * norm;
    xx_ = width * cosine;
    yx_ = width * sine;
    xy_ = -height * slant * cosine - height * sine;
    yy_ = -height * slant * sine + height * cosine;
    x_ = 13.5f + 3.0f * around(random);
    y_ = 13.5f + 3.0f * around(random);
  }
  Spot operator()(Spot p) const {
    const float u = p.x - 0.5f, v = p.y - 0.5f;
    return {x_ + xx_ * u + xy_ * v, y_ + yx_ * u + yy_ * v};
  }

 private:
  float xx_, xy_, yx_, yy_, x_, y_;
};

// The tangent at point i towards i + 1 (`side` 0) or from i - 1 (`side` -1): of the neighbours' chord, or of the one
// piece alone at ends and corners.
Spot tangent(const PenStroke& s, std::size_t i, int side) {
  const bool first = i == 0, last = i + 1 == s.size();
  const std::size_t before = first || (s[i].corner && side == 0) ? i : i - 1;
  const std::size_t after = last || (s[i].corner && side != 0) ? i : i + 1;
  const float scale = after - before == 2 ? 0.5f : 1.0f;
  return {(s[after].x - s[before].x) * scale, (s[after].y - s[before].y) * scale};
}

Spot hermite(Spot p, Spot m, Spot q, Spot n, float t) {
  const float t2 = t * t, t3 = t2 * t;
  const float a = 2 * t3 - 3 * t2 + 1, b = t3 - 2 * t2 + t, c = 3 * t2 - 2 * t3, d = t3 - t2;
  return {a * p.x + b * m.x + c * q.x + d * n.x, a * p.y + b * m.y + c * q.y + d * n.y};
}

class Hand {
 public:
  explicit Hand(Random& random)
      : random_(random),
        warp_(random, between(random, 0.03, 0.18)),
        frame_(random),
        jitter_(between(random, 0.02, 0.09)),
        radius_(between(random, 0.6, 1.9)),
        pressure_(between(random, 0.0, 0.35)) {}

  void write(PenStroke stroke, std::vector<Piece>& pieces) {
    constexpr int kSteps = 6;
    for (PenPoint& p : stroke) {
      p.x = p.x * 0.01f + jitter_ * around(random_);
      p.y = p.y * 0.01f + jitter_ * around(random_);
    }
    const float early = 1 + pressure_ * around(random_), late = 1 + pressure_ * around(random_);
    const float count = static_cast<float>(stroke.size() - 1);
    Spot from = place({stroke[0].x, stroke[0].y});
    for (std::size_t i = 0; i + 1 < stroke.size(); ++i) {
      const Spot p = {stroke[i].x, stroke[i].y}, q = {stroke[i + 1].x, stroke[i + 1].y};
      const Spot m = tangent(stroke, i, 0), n = tangent(stroke, i + 1, -1);
      for (int step = 1; step <= kSteps; ++step) {
        const float t = static_cast<float>(step) / kSteps;
        const Spot to = place(hermite(p, m, q, n, t));
        const float way = (static_cast<float>(i) + t) / count;
        pieces.push_back({from, to, radius_ * ((1 - way) * early + way * late)});
        from = to;
      }
    }
  }

  // A dash anywhere on the sheet, thinner than the digit.
  Piece stray() {
    const Spot from = {between(random_, 1, 26), between(random_, 1, 26)};
    const Spot to = {from.x + 4 * around(random_), from.y + 4 * around(random_)};
    return {from, to, radius_ * between(random_, 0.3, 0.7)};
  }

 private:
  Spot place(Spot p) const { return frame_(warp_(p)); }

  Random& random_;
  Warp warp_;
  Frame frame_;
  float jitter_, radius_, pressure_;
};

using Canvas = std::array<float, kDigitSide * kDigitSide>;

// The ink of one piece: full inside the nib, fading over `soft` pixels at its edge.
void ink(const Piece& piece, float soft, Canvas& canvas) {
  const float reach = piece.radius + soft;
  const auto low = [&](float a, float b) { return std::max(0, static_cast<int>(std::min(a, b) - reach + 1)); };
  const auto high = [&](float a, float b) {
    return std::min(kDigitSide - 1, static_cast<int>(std::max({a, b, -reach}) + reach));
  };
  const float dx = piece.to.x - piece.from.x, dy = piece.to.y - piece.from.y;
  const float length2 = dx * dx + dy * dy, inverse = length2 > 1e-6f ? 1 / length2 : 0;
  const float scale = 1 / soft;
  const int left = low(piece.from.x, piece.to.x), right = high(piece.from.x, piece.to.x);
  const int bottom = high(piece.from.y, piece.to.y);
  for (int row = low(piece.from.y, piece.to.y); row <= bottom; ++row) {
    float* line = canvas.data() + row * kDigitSide;
    const float v = static_cast<float>(row) - piece.from.y;
    for (int column = left; column <= right; ++column) {
      const float u = static_cast<float>(column) - piece.from.x;
      const float t = std::clamp((u * dx + v * dy) * inverse, 0.0f, 1.0f);
      const float ex = u - t * dx, ey = v - t * dy;
      const float shade = (piece.radius - std::sqrt(ex * ex + ey * ey)) * scale + 0.5f;
      line[column] = std::max(line[column], std::min(shade, 1.0f));
    }
  }
}

std::vector<Piece> write_digit(int digit, Random& random) {
  const std::vector<Glyph>& ways = glyphs(digit);
  const Glyph& glyph = ways[static_cast<std::size_t>(random.integer(static_cast<std::int64_t>(ways.size())))];
  Hand hand(random);
  std::vector<Piece> pieces;
  pieces.reserve(80);
  for (const PenStroke& stroke : glyph) hand.write(stroke, pieces);
  if (random.chance(0.12)) {  // the pen lifts for a moment
    const auto gap = static_cast<std::ptrdiff_t>(random.integer(static_cast<std::int64_t>(pieces.size()) - 2));
    pieces.erase(pieces.begin() + gap, pieces.begin() + gap + 2);
  }
  if (random.chance(0.12)) pieces.push_back(hand.stray());
  return pieces;
}

}  // namespace

DigitPicture draw_digit(int digit, Random& random) {
  Canvas canvas{};
  const float soft = between(random, 0.9, 1.7);
  for (const Piece& piece : write_digit(digit, random)) ink(piece, soft, canvas);
  const float strength = 255 * between(random, 0.7, 1.0), grain = 255 * between(random, -0.15, 0.3);
  DigitPicture picture;
  for (std::size_t i = 0; i < canvas.size(); ++i) {
    // A third of the sheets are clean; on the others the grain shows on paper and in ink alike.
    const float noise = grain > 0 ? grain * (static_cast<float>(random.uniform()) - 0.5f) : 0;
    picture[i] = static_cast<std::uint8_t>(std::clamp(canvas[i] * strength + noise, 0.0f, 255.0f) + 0.5f);
  }
  return picture;
}

}  // namespace varve::data
