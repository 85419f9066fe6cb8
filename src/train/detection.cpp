#include "varve/train/detection.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "varve/ops.h"

namespace varve::train {
namespace {

constexpr std::int64_t kBoxValues = 5, kScoreBins = 100;  // numbers before those of the classes

// What a network says and what is there, by cell.
struct Cells {
  std::int64_t pictures, rows, columns, classes;
  Tensor logits;               // [N, cells]: whether there is a box
  Tensor x, y, width, height;  // [N, cells], in shares of the picture
  Tensor kinds;                // [N, cells, classes]: logits
  std::int64_t count() const { return rows * columns; }
};

Tensor part(const Tensor& all, std::int64_t at) {  // number `at` of the last axis
  return all.slice({{}, {}, {at, at + 1}}).reshape({all.dim(0), all.dim(1)});
}

Tensor column_of(std::int64_t rows, std::int64_t columns, bool across) {
  std::vector<float> places;
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column)
      places.push_back(static_cast<float>(across ? column : row));
  return tensor(places, {1, rows * columns});
}

void check(const Tensor& output, const char* who) {
  if (output.rank() != 4 || output.dim(3) <= kBoxValues || output.dim(1) < 1 || output.dim(2) < 1)
    throw Error(std::string(who) + ": expected an output of [N, rows, columns, 5 + classes], got " +
                output.type().str() + ".");
}

Cells cells_of(const Tensor& output, const char* who) {
  check(output, who);
  const std::int64_t n = output.dim(0), rows = output.dim(1), columns = output.dim(2), numbers = output.dim(3);
  const Tensor all = output.to(f32).reshape({n, rows * columns, numbers});
  Cells cells{.pictures = n, .rows = rows, .columns = columns, .classes = numbers - kBoxValues};
  cells.logits = part(all, 0);
  cells.x = (sigmoid(part(all, 1)) + column_of(rows, columns, true)) / static_cast<double>(columns);
  cells.y = (sigmoid(part(all, 2)) + column_of(rows, columns, false)) / static_cast<double>(rows);
  cells.width = sigmoid(part(all, 3));
  cells.height = sigmoid(part(all, 4));
  cells.kinds = all.slice({{}, {}, {kBoxValues}});
  return cells;
}

// Boxes of targets, [N, M] each.
struct Truth {
  Tensor kind, there, x, y, width, height;
};
Truth truth_of(const Tensor& target, const Cells& cells, const char* who) {
  if (target.rank() != 3 || target.dim(0) != cells.pictures || target.dim(2) != kBoxValues)
    throw Error(std::string(who) + ": expected targets of [" + std::to_string(cells.pictures) +
                ", boxes, 5], as data::voc gives them, got " + target.type().str() + ".");
  const Tensor boxes = target.to(f32);
  Truth truth;
  truth.kind = part(boxes, 0);
  truth.there = (truth.kind >= 0).to(f32);
  const Tensor left = part(boxes, 1), top = part(boxes, 2), right = part(boxes, 3), bottom = part(boxes, 4);
  truth.x = (left + right) / 2;
  truth.y = (top + bottom) / 2;
  truth.width = right - left;
  truth.height = bottom - top;
  return truth;
}

// [N, M, cells]: 1 where a box is that of a cell.
Tensor assigned(const Truth& truth, const Cells& cells) {
  const auto place = [](const Tensor& share, std::int64_t count) {
    return clip(floor(share * static_cast<double>(count)), 0, static_cast<double>(count - 1));
  };
  const Tensor cell = place(truth.y, cells.rows) * static_cast<double>(cells.columns) + place(truth.x, cells.columns);
  const Tensor all = one_hot(cell.to(i32), cells.count()) * expand_dims(truth.there, 2);
  return all * (cumsum(all, 1) < 1.5).to(f32);  // the first of those in a cell
}

// Intersection over union of boxes by their middles and sides; shapes broadcast.
Tensor overlap(const Tensor& x, const Tensor& y, const Tensor& w, const Tensor& h, const Tensor& x2, const Tensor& y2,
               const Tensor& w2, const Tensor& h2) {
  const auto shared = [](const Tensor& a, const Tensor& size, const Tensor& b, const Tensor& size2) {
    return maximum(minimum(a + size / 2, b + size2 / 2) - maximum(a - size / 2, b - size2 / 2), 0);
  };
  const Tensor both = shared(x, w, x2, w2) * shared(y, h, y2, h2);
  return both / (w * h + w2 * h2 - both + 1e-9);
}

Tensor detection_loss(const Tensor& output, const Tensor& target) {
  constexpr double kEmpty = 0.5, kAway = 5, kOverlap = 2;  // how much cells without a box, places and overlaps count
  const Cells cells = cells_of(output, "detection");
  const Truth truth = truth_of(target, cells, "detection");
  const Tensor mine = assigned(truth, cells);
  const Tensor full = sum(mine, {.axes = Axes{1}});  // [N, cells]
  // What the box of a cell is; 0 where there is none.
  const auto of_cell = [&](const Tensor& value) { return sum(mine * expand_dims(value, 2), {.axes = Axes{1}}); };
  const Tensor x = of_cell(truth.x), y = of_cell(truth.y), w = of_cell(truth.width), h = of_cell(truth.height);
  const Tensor count = maximum(sum(full), 1);
  const Tensor whether = softplus(cells.logits) - full * cells.logits;
  const Tensor away = abs(cells.x - x) + abs(cells.y - y) + abs(cells.width - w) + abs(cells.height - h);
  const Tensor apart = 1 - overlap(cells.x, cells.y, cells.width, cells.height, x, y, w, h);
  const Tensor kind = one_hot(of_cell(truth.kind).to(i32), cells.classes);
  const Tensor wrong = -sum(kind * log_softmax(cells.kinds), {.axes = Axes{-1}});
  return sum(whether * (kEmpty + (1 - kEmpty) * full) + full * (kAway * away + kOverlap * apart + wrong)) / count;
}

// How many of each class and bin of score are found rightly and wrongly, and how many there are: 2 · classes · bins and
// classes numbers.
Tensor map50_sums(const Tensor& output, const Tensor& target) {
  const Cells cells = cells_of(output, "map50");
  const Truth truth = truth_of(target, cells, "map50");
  const Tensor kind = argmax(cells.kinds).to(f32);  // [N, cells]
  const Tensor score = sigmoid(cells.logits) * max(softmax(cells.kinds), {.axes = Axes{-1}});
  const Tensor grid = score.reshape({cells.pictures, cells.rows, cells.columns, 1});
  const Tensor around = max_pool2d(grid, {.window = {3, 3}, .stride = {1, 1}, .padding = {1, 1}});
  const Tensor peak = (grid >= around).to(f32).reshape(score.shape());
  const auto by_cell = [](const Tensor& value) { return expand_dims(value, 1); };  // [N, 1, cells]
  const auto by_box = [](const Tensor& value) { return expand_dims(value, 2); };   // [N, M, 1]
  const Tensor shared = overlap(by_cell(cells.x), by_cell(cells.y), by_cell(cells.width), by_cell(cells.height),
                                by_box(truth.x), by_box(truth.y), by_box(truth.width), by_box(truth.height));
  const Tensor fits =
      (shared >= 0.5).to(f32) * (by_cell(kind) == by_box(truth.kind)).to(f32) * by_cell(peak) * by_box(truth.there);
  const Tensor scores = fits * by_cell(score);  // the surest one finds a box, others find it again: wrongly
  const Tensor best = max(scores, {.axes = Axes{-1}, .keep = true});
  const Tensor finds = (scores > 0).to(f32) * (scores >= best).to(f32);
  const Tensor right = minimum(sum(finds, {.axes = Axes{1}}), 1) * peak;
  const Tensor bin = clip(floor(score * static_cast<double>(kScoreBins)), 0, static_cast<double>(kScoreBins - 1));
  const Tensor place = (kind * static_cast<double>(kScoreBins) + bin).to(i64).reshape({-1});
  const std::int64_t places = cells.classes * kScoreBins;
  const Tensor rights = scatter_add(zeros({places}), place, right.reshape({-1}));
  const Tensor wrongs = scatter_add(zeros({places}), place, (peak - right).reshape({-1}));
  const Tensor real = one_hot(maximum(truth.kind, 0).to(i32), cells.classes) * expand_dims(truth.there, 2);
  return concat({rights, wrongs, sum(real, {.axes = Axes{0, 1}})}, 0);
}

// The area under precision over recall, precision being the best at any larger recall.
double average_precision(const double* right, const double* wrong, double there) {
  std::vector<std::pair<double, double>> curve;  // recall, precision
  double rights = 0, wrongs = 0;
  for (std::int64_t bin = kScoreBins - 1; bin >= 0; --bin) {
    rights += right[bin];
    wrongs += wrong[bin];
    if (rights + wrongs > 0) curve.emplace_back(rights / there, rights / (rights + wrongs));
  }
  double area = 0, best = 0;
  for (std::size_t i = curve.size(); i-- > 0;) {
    best = std::max(best, curve[i].second);
    area += best * (curve[i].first - (i > 0 ? curve[i - 1].first : 0));
  }
  return area;
}

double map50_value(const std::vector<double>& sums) {
  const auto classes = static_cast<std::int64_t>(sums.size()) / (2 * kScoreBins + 1);
  double total = 0, counted = 0;
  for (std::int64_t c = 0; c < classes; ++c) {
    const double there = sums[static_cast<std::size_t>(2 * classes * kScoreBins + c)];
    if (there < 1) continue;
    total += average_precision(sums.data() + c * kScoreBins, sums.data() + (classes + c) * kScoreBins, there);
    ++counted;
  }
  return counted > 0 ? total / counted : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

const Loss detection = {"detection", detection_loss};

Metric map50() { return {.name = "map50", .sums = map50_sums, .value = map50_value}; }

double box_overlap(const FoundBox& a, const FoundBox& b) {
  const double width = std::min(a.right, b.right) - std::max(a.left, b.left);
  const double height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  const double both = std::max(width, 0.0) * std::max(height, 0.0);
  const double all = (a.right - a.left) * (a.bottom - a.top) + (b.right - b.left) * (b.bottom - b.top) - both;
  return all > 0 ? both / all : 0;
}

std::vector<std::vector<FoundBox>> find_boxes(const Tensor& output, const FindBoxesOptions& options) {
  if (!(options.score >= 0 && options.score <= 1) || !(options.overlap >= 0 && options.overlap <= 1) ||
      options.most < 0)
    throw Error("find_boxes: expected a score and an overlap of 0 to 1, and 0 boxes or more at most.");
  const Cells cells = cells_of(output, "find_boxes");
  const Tensor kinds = softmax(cells.kinds);
  const Tensor score = sigmoid(cells.logits) * max(kinds, {.axes = Axes{-1}});
  const std::vector<double> scores = score.to_vector<double>(), x = cells.x.to_vector<double>(),
                            y = cells.y.to_vector<double>(), w = cells.width.to_vector<double>(),
                            h = cells.height.to_vector<double>(), kind = argmax(kinds).to_vector<double>();
  std::vector<std::vector<FoundBox>> all(static_cast<std::size_t>(cells.pictures));
  const auto count = static_cast<std::size_t>(cells.count());
  for (std::size_t picture = 0; picture < all.size(); ++picture) {
    std::vector<FoundBox> boxes;
    for (std::size_t i = picture * count; i < (picture + 1) * count; ++i)
      if (scores[i] >= options.score)
        boxes.push_back({static_cast<std::int64_t>(kind[i]), scores[i], std::max(x[i] - w[i] / 2, 0.0),
                         std::max(y[i] - h[i] / 2, 0.0), std::min(x[i] + w[i] / 2, 1.0),
                         std::min(y[i] + h[i] / 2, 1.0)});
    std::stable_sort(boxes.begin(), boxes.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
    std::vector<FoundBox>& kept = all[picture];
    for (const FoundBox& box : boxes) {
      if (std::ssize(kept) >= options.most) break;
      const bool again = std::any_of(kept.begin(), kept.end(), [&](const FoundBox& other) {
        return other.kind == box.kind && box_overlap(other, box) > options.overlap;
      });
      if (!again) kept.push_back(box);
    }
  }
  return all;
}

}  // namespace varve::train
