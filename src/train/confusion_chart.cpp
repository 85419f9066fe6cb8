// A confusion matrix as SVG: rows are true classes, the shade is the share of the row.
#include <algorithm>
#include <cmath>

#include "page/markup.h"
#include "page/numbers.h"
#include "train/report.h"

namespace varve::train {
namespace {

using page::escaped;
using page::fixed;
using page::general;
using page::shortened;

constexpr std::size_t kMostShownClasses = 100;  // beyond that cells are too small to see
constexpr std::size_t kMostNumbers = 24;        // classes whose cells have room for a count
constexpr std::size_t kLabelCharacters = 14;

std::string at(double value) { return fixed(value, 1); }

// "1234", "12k", "3.4M": four characters fit a cell.
std::string count_text(double count) {
  if (count < 9999.5) return general(std::round(count), 4);
  for (const auto& [unit, letter] : {std::pair{1e3, "k"}, {1e6, "M"}, {1e9, "G"}})
    if (count < unit * 999.5) return general(count / unit, count < unit * 99.5 ? 2 : 3) + letter;
  return general(count, 1);
}

struct Matrix {
  const std::vector<double>& counts;
  std::vector<std::string> names;
  std::size_t size;
  double cell, left, top;

  double at(std::size_t row, std::size_t column) const { return counts[row * size + column]; }
};

Matrix lay_out(const std::vector<double>& counts, const std::vector<std::string>& classes) {
  const auto size = static_cast<std::size_t>(std::llround(std::sqrt(counts.size())));
  Matrix matrix = {.counts = counts, .names = {}, .size = size, .cell = 34, .left = 0, .top = 0};
  std::size_t longest = 1;
  for (std::size_t i = 0; i < size; ++i) {
    matrix.names.push_back(i < classes.size() && !classes[i].empty() ? classes[i] : std::to_string(i));
    longest = std::max(longest, std::min(matrix.names.back().size(), kLabelCharacters));
  }
  if (size > 12) matrix.cell = size > kMostNumbers ? std::max(6.0, 560.0 / static_cast<double>(size)) : 28;
  matrix.left = matrix.top = 34 + 7.5 * static_cast<double>(longest);
  return matrix;
}

// Where the cells are too small for a name each, every second, fifth, tenth… has one.
std::size_t label_step(const Matrix& matrix) {
  const double per_label = 13 / matrix.cell;
  for (const std::size_t step : {1, 2, 5, 10})
    if (static_cast<double>(step) >= per_label) return step;
  return 20;
}

std::string labels(const Matrix& matrix) {
  std::string svg = "<g fill=\"var(--muted,#5b6673)\" font-size=\"12\">\n";
  for (std::size_t i = 0; i < matrix.size; i += label_step(matrix)) {
    const std::string name = escaped(shortened(matrix.names[i], kLabelCharacters));
    const double middle = matrix.cell * (static_cast<double>(i) + 0.5) + 4;
    svg += "<text x=\"" + at(matrix.left - 6) + "\" y=\"" + at(matrix.top + middle) + "\" text-anchor=\"end\">" + name +
           "</text>\n";
    svg += "<text transform=\"translate(" + at(matrix.left + middle) + " " + at(matrix.top - 6) + ") rotate(-90)\">" +
           name + "</text>\n";
  }
  const double half = matrix.cell * static_cast<double>(matrix.size) / 2;
  svg += "<text x=\"" + at(matrix.left + half) + "\" y=\"14\" text-anchor=\"middle\">predicted</text>\n";
  svg += "<text text-anchor=\"middle\" transform=\"translate(14 " + at(matrix.top + half) +
         ") rotate(-90)\">true</text>\n";
  return svg + "</g>\n";
}

std::string cells(const Matrix& matrix) {
  std::string svg = "<g font-size=\"12\" text-anchor=\"middle\">\n";
  for (std::size_t row = 0; row < matrix.size; ++row) {
    double total = 0;
    for (std::size_t column = 0; column < matrix.size; ++column) total += matrix.at(row, column);
    for (std::size_t column = 0; column < matrix.size; ++column) {
      const double count = matrix.at(row, column), share = total > 0 ? count / total : 0;
      if (!(count > 0)) continue;
      const double x = matrix.left + matrix.cell * static_cast<double>(column);
      const double y = matrix.top + matrix.cell * static_cast<double>(row);
      // Even one wrong answer among thousands must be seen.
      const std::string shade = fixed(0.08 + 0.92 * share, 3);
      svg += "<rect x=\"" + at(x) + "\" y=\"" + at(y) + "\" width=\"" + at(matrix.cell) + "\" height=\"" +
             at(matrix.cell) + "\" fill=\"var(" + (row == column ? "--s1,#2563c9" : "--s2,#c2560a") +
             ")\" fill-opacity=\"" + shade + "\"><title>" +
             escaped("true " + matrix.names[row] + ", predicted " + matrix.names[column] + ": " + general(count, 10) +
                     " (" + fixed(100 * share, 1) + " %)") +
             "</title></rect>\n";
      if (matrix.size <= kMostNumbers)
        svg += "<text x=\"" + at(x + matrix.cell / 2) + "\" y=\"" + at(y + matrix.cell / 2 + 4) + "\" fill=\"var(" +
               (share > 0.5 ? "--on,#fff" : "--ink,#1b222b") + ")\" pointer-events=\"none\">" + count_text(count) +
               "</text>\n";
    }
  }
  return svg + "</g>\n";
}

}  // namespace

std::string confusion_svg(const std::vector<double>& counts, const std::vector<std::string>& classes) {
  const Matrix matrix = lay_out(counts, classes);
  if (matrix.size * matrix.size != counts.size())
    throw Error("confusion_svg: " + std::to_string(counts.size()) + " counts are not those of a square matrix.");
  if (matrix.size == 0 || matrix.size > kMostShownClasses) return "";
  const double side = matrix.cell * static_cast<double>(matrix.size);
  const std::string width = at(matrix.left + side + 8), height = at(matrix.top + side + 8);
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + width + " " + height +
         "\" style=\"max-width:" + width +
         "px\" role=\"img\" font-family=\"system-ui,sans-serif\">\n<title>Confusion matrix</title>\n<desc>" +
         std::to_string(matrix.size) + " classes; rows are true classes, columns predictions.</desc>\n" +
         "<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"var(--card,#fff)\"/>\n" + cells(matrix) + "<rect x=\"" +
         at(matrix.left) + "\" y=\"" + at(matrix.top) + "\" width=\"" + at(side) + "\" height=\"" + at(side) +
         "\" fill=\"none\" stroke=\"var(--line,#d8dee6)\"/>\n" + labels(matrix) + "</svg>\n";
}

}  // namespace varve::train
