// Handwriting by program: the strokes of each digit, and a pen that draws them with a hand's unsteadiness.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "varve/data.h"

namespace varve::data {

inline constexpr int kDigitSide = 28;
using DigitPicture = std::array<std::uint8_t, kDigitSide * kDigitSide>;

// A point that the pen passes, in hundredths of the digit's box; y points down. The path is smooth but at corners.
struct PenPoint {
  float x, y;
  bool corner = false;
};
using PenStroke = std::vector<PenPoint>;
using Glyph = std::vector<PenStroke>;

const std::vector<Glyph>& glyphs(int digit);  // the ways in which people write it

// Draws with arithmetic that IEEE fixes to the last bit (+ - * / sqrt), so that every machine draws the same bytes.
DigitPicture draw_digit(int digit, Random& random);

}  // namespace varve::data
