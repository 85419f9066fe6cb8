// Tensors as text, as NumPy prints arrays: columns aligned, lines of 75 characters, long ones abridged.
#include <algorithm>
#include <cmath>
#include <functional>
#include <ostream>

#include "base/convert.h"
#include "tensor/print_number.h"
#include "varve/tensor.h"

namespace varve {
namespace {

constexpr std::int64_t kMostElements = 1000;  // more are abridged
constexpr std::int64_t kEdge = 3;             // elements shown at either end then
constexpr std::size_t kLineWidth = 75;
constexpr int kPrecision = 8;

using Format = std::function<std::string(std::int64_t element)>;

struct Printed {
  const void* data;
  DType dtype;
  const Shape& shape;
  bool abridged;

  double number(std::int64_t i) const { return load_f(data, dtype, i); }
  bool cut(int axis) const { return abridged && shape[axis] > 2 * kEdge; }
};

// The positions along an axis that are shown.
std::vector<std::int64_t> shown(const Printed& p, int axis) {
  std::vector<std::int64_t> positions;
  for (std::int64_t i = 0; i < p.shape[axis]; ++i) {
    if (p.cut(axis) && i == kEdge) i = p.shape[axis] - kEdge;
    positions.push_back(i);
  }
  return positions;
}

void collect_elements(const Printed& p, int axis, std::int64_t first, std::vector<std::int64_t>& elements) {
  if (axis == p.shape.rank()) return elements.push_back(first);
  for (const std::int64_t i : shown(p, axis)) collect_elements(p, axis + 1, first * p.shape[axis] + i, elements);
}

std::string padded(const std::string& text, std::size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

Format whole_format(const Printed& p, const std::vector<std::int64_t>& elements) {
  const auto text = [p](std::int64_t i) {
    if (p.dtype == boolean) return std::string(load_i(p.data, p.dtype, i) ? "True" : "False");
    return std::to_string(load_i(p.data, p.dtype, i));
  };
  std::size_t width = p.dtype == boolean && !elements.empty() ? 5 : 0;
  for (const std::int64_t i : elements) width = std::max(width, text(i).size());
  return [text, width](std::int64_t i) { return padded(text(i), width); };
}

// Sizes of the columns that floating-point numbers are written in.
struct Columns {
  bool exponents = false;
  int digits = 0, exponent_digits = 2;  // with exponents: of every number
  std::size_t left = 0, right = 0;
};

bool needs_exponents(const Printed& p, const std::vector<std::int64_t>& elements) {
  double largest = 0, smallest = INFINITY;
  for (const std::int64_t i : elements) {
    const double size = std::abs(p.number(i));
    if (size == 0 || !std::isfinite(size)) continue;
    largest = std::max(largest, size);
    smallest = std::min(smallest, size);
  }
  const double limit = std::min(1e8, largest_plain(p.dtype));
  return largest > 0 && (largest >= limit || smallest < 1e-4 || largest / smallest > 1000);
}

Columns measure(const Printed& p, const std::vector<std::int64_t>& elements) {
  Columns c;
  c.exponents = needs_exponents(p, elements);
  std::size_t fraction = 0, exponent = 0;
  bool nan = false, infinite = false, minus_infinite = false;
  for (const std::int64_t i : elements) {
    const double value = p.number(i);
    nan = nan || std::isnan(value);
    infinite = infinite || std::isinf(value);
    minus_infinite = minus_infinite || (std::isinf(value) && value < 0);
    if (!std::isfinite(value)) continue;
    const std::string text =
        c.exponents ? scientific(value, p.dtype, kPrecision) : positional(value, p.dtype, kPrecision);
    const std::size_t point = text.find('.'), e = std::min(text.find('e'), text.size());
    c.left = std::max(c.left, point);
    fraction = std::max(fraction, e - point - 1);
    exponent = std::max(exponent, text.size() - e);
  }
  c.digits = static_cast<int>(fraction);
  c.exponent_digits = static_cast<int>(exponent) - 2;
  c.right = fraction + exponent;
  // NaN and infinity take the place of the whole number, point included.
  const auto room_for = [&](std::size_t length) { c.left = std::max(c.left + c.right + 1, length) - c.right - 1; };
  if (nan || infinite) room_for(minus_infinite ? 4 : 3);
  return c;
}

Format floating_format(const Printed& p, const std::vector<std::int64_t>& elements) {
  const Columns c = measure(p, elements);
  return [p, c](std::int64_t i) {
    const double value = p.number(i);
    if (!std::isfinite(value)) return padded(scalar_text(value, p.dtype), c.left + 1 + c.right);
    if (c.exponents) return padded(scientific_fixed(value, c.digits, c.exponent_digits), c.left + 1 + c.right);
    const std::string text = positional(value, p.dtype, kPrecision);
    const std::size_t point = text.find('.');
    return std::string(c.left - point, ' ') + text + std::string(c.right - (text.size() - point - 1), ' ');
  };
}

// One innermost row, broken into lines.
std::string row_text(const Printed& p, const Format& format, std::int64_t first, const std::string& indent,
                     std::size_t width) {
  std::string done, line = indent;
  const auto append = [&](const std::string& word, bool last) {
    if (line.size() + word.size() > width && line.size() > indent.size()) {
      line.erase(line.find_last_not_of(' ') + 1);
      done += line + '\n';
      line = indent;
    }
    line += word;
    if (!last) line += ' ';
  };
  const int axis = p.shape.rank() - 1;
  const std::vector<std::int64_t> positions = shown(p, axis);
  for (std::size_t k = 0; k < positions.size(); ++k) {
    if (p.cut(axis) && k == static_cast<std::size_t>(kEdge)) append("...", false);
    append(format(first * p.shape[axis] + positions[k]), k + 1 == positions.size());
  }
  return done + line;
}

std::string block_text(const Printed& p, const Format& format, int axis, std::int64_t first, const std::string& indent,
                       std::size_t width) {
  const int axes_left = p.shape.rank() - axis;
  std::string text;
  if (axes_left == 1) {
    text = row_text(p, format, first, indent, width - 1);
  } else {
    const std::vector<std::int64_t> positions = shown(p, axis);
    const std::string apart(static_cast<std::size_t>(axes_left - 1), '\n');
    for (std::size_t k = 0; k < positions.size(); ++k) {
      if (p.cut(axis) && k == static_cast<std::size_t>(kEdge)) text += indent + "..." + apart;
      text += indent + block_text(p, format, axis + 1, first * p.shape[axis] + positions[k], indent + ' ', width - 1);
      if (k + 1 < positions.size()) text += apart;
    }
  }
  return '[' + text.substr(indent.size()) + ']';
}

}  // namespace

std::string Tensor::str() const {
  if (!defined()) return "undefined";
  const Printed p{data(), dtype(), shape(), numel() > kMostElements};
  if (numel() == 0) return "[]";
  if (rank() == 0) {
    if (is_floating(p.dtype)) return scalar_text(p.number(0), p.dtype);
    return whole_format(p, {})(0);
  }
  std::vector<std::int64_t> elements;
  collect_elements(p, 0, 0, elements);
  const Format format = is_floating(p.dtype) ? floating_format(p, elements) : whole_format(p, elements);
  return block_text(p, format, 0, 0, " ", kLineWidth);
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) { return out << tensor.str(); }

}  // namespace varve
