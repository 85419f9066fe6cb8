// Poolings, window by window.
#include <cmath>
#include <limits>

#include "ops/row.h"

namespace varve::test {
namespace {

using Index = std::vector<std::int64_t>;

// Half-open ranges of one output along one axis, in the input's coordinates.
struct Span {
  std::int64_t begin, end;  // what the window covers of the input
  std::int64_t counted;     // cells that a mean with counted padding divides by
};

std::vector<Span> spans(const PoolOptions& o, std::size_t axis, std::int64_t size) {
  const std::int64_t window = o.window[axis], stride = (o.stride.empty() ? o.window : o.stride)[axis];
  const std::int64_t before = o.padding[axis].before, after = o.padding[axis].after;
  std::vector<Span> all;
  for (std::int64_t begin = -before;; begin += stride) {
    const std::int64_t end = begin + window;
    const bool fits = end <= size + after;
    // With ceil_mode one more window may hang over the end, unless it would start in the padding there.
    const bool hangs = o.ceil_mode && begin < size && end - stride < size + after;
    if (!fits && !hangs) return all;
    all.push_back({std::max<std::int64_t>(begin, 0), std::min(end, size), std::min(end, size + after) - begin});
  }
}

using PoolFold = std::function<double(const std::vector<double>& values, double counted)>;

Doubles pooled(const Doubles& x, const std::vector<Span>& high, const std::vector<Span>& wide, const PoolFold& fold) {
  Doubles y = doubles({x.shape[0], std::ssize(high), std::ssize(wide), x.shape[3]});
  std::size_t next = 0;
  each_index(y.shape, [&](const Index& i) {
    const Span &rows = high[static_cast<std::size_t>(i[1])], &columns = wide[static_cast<std::size_t>(i[2])];
    std::vector<double> values;
    for (std::int64_t r = rows.begin; r < rows.end; ++r)
      for (std::int64_t c = columns.begin; c < columns.end; ++c) values.push_back(at(x, {i[0], r, c, i[3]}));
    y.data[next++] = fold(values, static_cast<double>(rows.counted * columns.counted));
  });
  return y;
}

double largest(const std::vector<double>& values, double) {
  double best = -kInfinity;
  for (const double v : values) {
    if (std::isnan(v)) return v;
    best = std::max(best, v);
  }
  return best;
}

double mean_of(const std::vector<double>& values, double) {
  double sum = 0;
  for (const double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

double mean_with_padding(const std::vector<double>& values, double counted) {
  return mean_of(values, 0) * static_cast<double>(values.size()) / counted;
}

Row max_row(const std::string& label, const PoolOptions& o, std::vector<std::vector<Shape>> shapes) {
  return {.op = "max_pool2d",
          .label = label,
          .covers = {"max_pool2d_grad", "max_pool2d_gather"},
          .call = [o](const Tensors& in) { return max_pool2d(in[0], o); },
          .oracle =
              [o](const DoublesList& in) {
                return pooled(in[0], spans(o, 0, in[0].shape[1]), spans(o, 1, in[0].shape[2]), largest);
              },
          .shapes = std::move(shapes),
          .values = {kNaN, -kInfinity, -0.0, 0.0, kInfinity, -kInfinity},
          .types = {f32, f64, bf16, f16, i32, u8},
          .distinct = true};
}

Row average_row(const std::string& label, const PoolOptions& o, std::vector<std::vector<Shape>> shapes) {
  return {.op = "avg_pool2d",
          .label = label,
          .covers = {"avg_pool2d_grad"},
          .call = [o](const Tensors& in) { return avg_pool2d(in[0], o); },
          .oracle =
              [o](const DoublesList& in) {
                return pooled(in[0], spans(o, 0, in[0].shape[1]), spans(o, 1, in[0].shape[2]),
                              o.count_padding ? mean_with_padding : mean_of);
              },
          .shapes = std::move(shapes),
          .terms = static_cast<double>(o.window[0] * o.window[1])};
}

// ---- adaptive: output i covers floor(i·size/outputs) to ceil((i+1)·size/outputs)

std::vector<Span> adaptive_spans(std::int64_t size, std::int64_t outputs) {
  std::vector<Span> all;
  for (std::int64_t i = 0; i < outputs; ++i) {
    const double step = static_cast<double>(size) / static_cast<double>(outputs);
    const auto begin = static_cast<std::int64_t>(std::floor(static_cast<double>(i) * step + 1e-9));
    const auto end = static_cast<std::int64_t>(std::ceil(static_cast<double>(i + 1) * step - 1e-9));
    all.push_back({begin, end, end - begin});
  }
  return all;
}

Row adaptive_row(const std::string& label, bool average, std::int64_t height, std::int64_t width) {
  return {.op = average ? "adaptive_avg_pool2d" : "adaptive_max_pool2d",
          .label = label,
          .call =
              [=](const Tensors& in) {
                return average ? adaptive_avg_pool2d(in[0], height, width) : adaptive_max_pool2d(in[0], height, width);
              },
          .oracle =
              [=](const DoublesList& in) {
                return pooled(in[0], adaptive_spans(in[0].shape[1], height), adaptive_spans(in[0].shape[2], width),
                              average ? mean_of : largest);
              },
          .shapes = {{{2, 6, 8, 3}}, {{1, 5, 7, 2}}, {{0, 6, 8, 3}}, {{1, 1, 1, 2}}},
          // Weights 1/n are rounded to the type before the product.
          .types = average ? std::vector<DType>{f32, f64} : std::vector<DType>{f32, f64, bf16, f16},
          .distinct = true,
          .terms = average ? 64 : 1};
}

Row global_row(bool average) {
  return {
      .op = average ? "global_avg_pool2d" : "global_max_pool2d",
      .call = [average](const Tensors& in) { return average ? global_avg_pool2d(in[0]) : global_max_pool2d(in[0]); },
      .oracle =
          [average](const DoublesList& in) {
            const std::vector<Span> high{{0, in[0].shape[1], 0}}, wide{{0, in[0].shape[2], 0}};
            Doubles y = pooled(in[0], high, wide, average ? mean_of : largest);
            y.shape = {y.shape[0], y.shape[3]};
            return y;
          },
      .shapes = {{{2, 3, 4, 5}}, {{0, 3, 4, 5}}, {{2, 1, 1, 3}}},
      .distinct = true,
      .terms = average ? 12 : 1};
}

}  // namespace

std::vector<Row> pool_rows() {
  const PoolOptions overlapping{.window = {3, 2}, .stride = {2, 1}, .padding = {1, Padding(0, 1)}};
  const PoolOptions gaps{.window = {2, 1}, .stride = {3, 4}};
  const PoolOptions ceil{.window = {3, 3}, .stride = {2, 2}, .padding = {1, 0}, .ceil_mode = true};
  PoolOptions counted = overlapping, counted_ceil = ceil;
  counted.count_padding = counted_ceil.count_padding = true;
  const std::vector<std::vector<Shape>> usual = {
      {{2, 4, 6, 3}}, {{1, 5, 7, 2}}, {{0, 4, 4, 3}}, {{2, 4, 4, 0}}, {{1, 9, 8, 17}}};
  // A window larger than the image fits with ceil_mode as long as the stride reaches its end.
  const std::vector<std::vector<Shape>> hanging = {{{2, 4, 6, 3}}, {{1, 6, 4, 2}}, {{1, 7, 8, 2}}, {{1, 2, 2, 1}}};
  return {
      max_row("", {}, usual),
      max_row("overlapping", overlapping, usual),
      max_row("gaps", gaps, usual),
      max_row("ceil", ceil, hanging),
      average_row("", {}, usual),
      average_row("overlapping", overlapping, usual),
      average_row("counted", counted, usual),
      average_row("gaps", gaps, usual),
      average_row("ceil", ceil, hanging),
      average_row("countedceil", counted_ceil, hanging),
      global_row(true),
      global_row(false),
      adaptive_row("even", true, 1, 1),
      adaptive_row("uneven", true, 4, 3),
      adaptive_row("even", false, 1, 1),
      adaptive_row("uneven", false, 4, 3),
  };
}

}  // namespace varve::test
