#include <algorithm>
#include <cmath>

#include "ops/row.h"
#include "varve/indexing.h"

namespace varve::test {

namespace {

using ScatterIndex = std::vector<std::int64_t>;

double joined(ScatterMode mode, double now, double update) {
  switch (mode) {
    case ScatterMode::max:
      return std::isnan(now) || std::isnan(update) ? kNaN : std::max(now, update);
    case ScatterMode::min:
      return std::isnan(now) || std::isnan(update) ? kNaN : std::min(now, update);
    case ScatterMode::product:
      return now * update;
    case ScatterMode::sum:
      return now + update;
    case ScatterMode::assign:
      break;
  }
  return update;
}

// Update `index` of a tensor whose axis was replaced by `places` axes goes to x[.., indices[..], ..].
Doubles written(Doubles x, const Doubles& indices, const Doubles& updates, int axis, bool singly, ScatterMode mode) {
  each_index(updates.shape, [&](const ScatterIndex& index) {
    ScatterIndex to = index;
    const auto first = to.begin() + axis;
    if (singly) {
      *first = static_cast<std::int64_t>(at(indices, index));
    } else {
      const auto row = at(indices, ScatterIndex(first, first + indices.shape.rank()));
      to.erase(first, first + indices.shape.rank());
      to.insert(to.begin() + axis, static_cast<std::int64_t>(row));
    }
    double& place = x.data[static_cast<std::size_t>(offset(x.shape, to))];
    place = joined(mode, place, at(updates, index));
  });
  return x;
}

Row writing_row(const std::string& label, bool singly, int axis, ScatterMode mode, std::int64_t below,
                std::vector<std::vector<Shape>> shapes) {
  const bool product = mode == ScatterMode::product;
  return {.op = singly ? "put_along_axis" : "scatter",
          .label = label,
          .call =
              [=](const Tensors& in) {
                return singly ? put_along_axis(in[0], in[1], in[2], axis - in[0].rank(), mode)
                              : scatter(in[0], in[1], in[2], {.mode = mode, .axis = axis});
              },
          .oracle = [=](const DoublesList& in) { return written(in[0], in[1], in[2], axis, singly, mode); },
          .shapes = std::move(shapes),
          .types = product ? std::vector<DType>{f32, f64, bf16, f16, i64, i32} : kEveryType,
          .integer_inputs = {{1, below}},
          .distinct = mode == ScatterMode::max || mode == ScatterMode::min,
          .terms = product ? Terms([](const std::vector<Shape>& s) { return static_cast<double>(s[2].numel() + 1); })
                           : Terms(1),
          .bitwise = !product,
          .second = false};
}

}  // namespace

std::vector<Row> scatter_rows() {
  std::vector<Row> rows;
  const std::pair<const char*, ScatterMode> modes[] = {{"Assign", ScatterMode::assign},
                                                       {"Max", ScatterMode::max},
                                                       {"Min", ScatterMode::min},
                                                       {"Product", ScatterMode::product}};
  for (const auto& [name, mode] : modes) {
    rows.push_back(
        writing_row(std::string("first") + name, false, 0, mode, 4,
                    {{{4, 3}, {5}, {5, 3}}, {{4}, {2, 3}, {2, 3}}, {{4, 2}, Shape{}, {2}}, {{4, 3}, {0}, {0, 3}}}));
    rows.push_back(writing_row(std::string("middle") + name, false, 1, mode, 3,
                               {{{2, 3, 4}, {2, 2}, {2, 2, 2, 4}}, {{2, 3, 1}, {7}, {2, 7, 1}}}));
    rows.push_back(writing_row(std::string("last") + name, true, 1, mode, 5,
                               {{{3, 5}, {3, 2}, {3, 2}}, {{3, 5}, {3, 9}, {3, 9}}, {{0, 5}, {0, 2}, {0, 2}}}));
    rows.push_back(
        writing_row(std::string("first") + name, true, 0, mode, 3, {{{3, 4}, {5, 4}, {5, 4}}, {{3}, {7}, {7}}}));
  }
  rows.push_back(writing_row("manyAssign", false, 0, ScatterMode::assign, 64, {{{64, 33}, {131}, {131, 33}}}));
  rows.back().gradient_shapes = {{{64, 2}, {9}, {9, 2}}};
  rows.push_back(writing_row("manyAssign", true, 0, ScatterMode::assign, 7, {{{7, 3}, {9000, 3}, {9000, 3}}}));
  rows.back().gradient = false;
  return rows;
}

}  // namespace varve::test
