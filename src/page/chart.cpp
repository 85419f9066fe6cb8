#include "page/chart.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "page/axis.h"
#include "page/markup.h"
#include "page/numbers.h"

namespace varve::page {
namespace {

constexpr double kWidth = 420, kPlane = 178;  // the whole width; the height between the axes
constexpr double kLeft = 62, kRight = 14, kHead = 68, kTitleOnly = 44, kBottom = 46, kLegendRow = 19;
constexpr std::size_t kMostDots = 60;  // more points than that are a line only
constexpr double kLargest = 1e100;     // what a diverged run may show: differences must stay finite
const char* const kColors[kStyles] = {"var(--s1,#2563c9)", "var(--s2,#c2560a)", "var(--s3,#15803d)",
                                      "var(--s4,#9333b8)", "var(--s5,#b4234c)", "var(--s6,#0e7490)"};

std::string at(double value) { return fixed(value, 1); }

bool drawn(double x, double y, bool log_x) {
  return std::abs(x) < kLargest && std::abs(y) < kLargest && (!log_x || x > 0);
}

int style_of(const std::vector<Series>& series, std::size_t i) {
  return (series[i].style >= 0 ? series[i].style : static_cast<int>(i)) % kStyles;
}

struct LegendEntry {
  std::string name;
  double x, y;
};

// Entries from left to right, in as many rows as they need.
std::vector<LegendEntry> legend_of(const std::vector<Series>& series, const ChartOptions& options) {
  std::vector<LegendEntry> entries;
  if (series.size() < 2 || !options.legend) return entries;
  double x = kLeft, y = 40;
  for (const Series& each : series) {
    const std::string name = shortened(each.name, 24);
    const double width = 42 + 7.2 * static_cast<double>(name.size());
    if (x > kLeft && x + width - 18 > kWidth) x = kLeft, y += kLegendRow;
    entries.push_back({name, x, y});
    x += width;
  }
  return entries;
}

struct Plane {
  Axis x, y;
  double top, bottom, height;  // of the drawing
};

Plane plane_of(const std::vector<Series>& series, const ChartOptions& options, double top) {
  double x0 = INFINITY, x1 = -INFINITY, y0 = INFINITY, y1 = -INFINITY;
  bool whole = true;
  for (const Series& each : series)
    for (std::size_t i = 0; i < std::min(each.x.size(), each.y.size()); ++i) {
      if (!drawn(each.x[i], each.y[i], options.log_x)) continue;
      const double x = options.log_x ? std::log10(each.x[i]) : each.x[i];
      x0 = std::min(x0, x), x1 = std::max(x1, x);
      y0 = std::min(y0, each.y[i]), y1 = std::max(y1, each.y[i]);
      whole = whole && x == std::floor(x);
    }
  if (!(x0 <= x1)) x0 = y0 = 0, x1 = y1 = 1;  // nothing to draw
  if (options.y_from_zero) y0 = std::min(y0, 0.0);
  widen(x0, x1, 0.5);
  widen(y0, y1, 1e-6);
  const double step = round_step(y1 - y0, 5);
  y0 = std::floor(y0 / step + 1e-9) * step, y1 = std::ceil(y1 / step - 1e-9) * step;
  const double bottom = top + kPlane;
  Plane plane = {.x = {x0, x1, kLeft, kWidth - kLeft - kRight, options.log_x},
                 .y = {y0, y1, bottom, -kPlane},
                 .top = top,
                 .bottom = bottom,
                 .height = bottom + kBottom};
  if (!options.x_ticks.empty())
    ticks_at(plane.x, options.x_ticks);
  else if (options.log_x)
    decade_ticks(plane.x);
  else
    round_ticks(plane.x, std::max(round_step(x1 - x0, 7), whole ? 1.0 : 0.0));
  round_ticks(plane.y, step);
  return plane;
}

std::string text(double x, double y, const std::string& anchor, const std::string& content,
                 const std::string& more = "") {
  return "<text x=\"" + at(x) + "\" y=\"" + at(y) + "\" text-anchor=\"" + anchor + "\"" + more + ">" +
         escaped(content) + "</text>\n";
}

std::string axes(const Plane& plane, const ChartOptions& options) {
  const double right = kWidth - kRight;
  std::string svg = "<g stroke=\"var(--line,#d8dee6)\" stroke-width=\"1\">\n";
  for (const Tick& tick : plane.y.ticks)
    svg += "<path d=\"M" + at(kLeft) + " " + at(tick.place) + "H" + at(right) + "\"/>\n";
  for (const Tick& tick : plane.x.ticks) svg += "<path d=\"M" + at(tick.place) + " " + at(plane.bottom) + "v4\"/>\n";
  svg += "<path d=\"M" + at(kLeft) + " " + at(plane.bottom) + "H" + at(right) +
         "\" stroke=\"var(--muted,#5b6673)\"/>\n</g>\n<g fill=\"var(--muted,#5b6673)\" font-size=\"13\">\n";
  for (const Tick& tick : plane.y.ticks) svg += text(kLeft - 8, tick.place + 4.5, "end", tick.text);
  for (const Tick& tick : plane.x.ticks) {
    const double half = 3.8 * static_cast<double>(tick.text.size());
    svg += text(std::min(tick.place, kWidth - half - 2), plane.bottom + 18, "middle", tick.text);
  }
  svg += text((kLeft + right) / 2, plane.height - 8, "middle", options.x_label);
  if (!options.y_label.empty()) {
    const double middle = (plane.top + plane.bottom) / 2;
    svg += text(14, middle, "middle", options.y_label, " transform=\"rotate(-90 14 " + at(middle) + ")\"");
  }
  return svg + "</g>\n";
}

std::string mark(const Plane& plane, const ChartOptions& options) {
  if (options.mark_x == 0 || (options.log_x && options.mark_x < 0)) return "";
  const double x = plane.x.place(options.mark_x);
  if (!(x >= kLeft - 0.5 && x <= kWidth - kRight + 0.5)) return "";
  const double room = 4 + 3.7 * static_cast<double>(options.mark_label.size());  // half the words
  return "<path d=\"M" + at(x) + " " + at(plane.top) + "V" + at(plane.bottom) +
         "\" stroke=\"var(--muted,#5b6673)\" stroke-width=\"1.5\" stroke-dasharray=\"4 4\"/>\n" +
         text(std::min(x, kWidth - room), plane.top - 5, "middle", options.mark_label,
              " fill=\"var(--muted,#5b6673)\" font-size=\"13\"");
}

// Shapes differ as well as colours, for those who cannot tell the colours apart.
std::string marker(int style, double x, double y, const std::string& title) {
  const std::string inside = title.empty() ? "/>\n" : "><title>" + escaped(title) + "</title></";
  const auto shape = [&](const std::string& name, const std::string& attributes) {
    return "<" + name + " " + attributes + inside + (title.empty() ? "" : name + ">\n");
  };
  const auto path = [&](const std::string& moves) {
    return shape("path", "d=\"M" + at(x) + " " + at(y) + moves + "\"");
  };
  switch (style) {
    case 0:
      return shape("circle", "cx=\"" + at(x) + "\" cy=\"" + at(y) + "\" r=\"3\"");
    case 1:
      return path("m-3 -3h6v6h-6z");
    case 2:
      return path("m0 -4l4 7h-8z");
    case 3:
      return path("m0 -4.2l4.2 4.2l-4.2 4.2l-4.2 -4.2z");
    case 4:
      return path("m0 4l4 -7h-8z");
    default:
      return path("m-4 -1.2h2.8v-2.8h2.4v2.8h2.8v2.4h-2.8v2.8h-2.4v-2.8h-2.8z");
  }
}

std::string legend(const std::vector<LegendEntry>& entries, const std::vector<Series>& series) {
  if (entries.empty()) return "";
  std::string svg = "<g fill=\"var(--ink,#1b222b)\" font-size=\"13\">\n";
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const int style = style_of(series, i);
    const auto& [name, x, y] = entries[i];
    svg += "<path d=\"M" + at(x) + " " + at(y) + "h18\" stroke=\"" + kColors[style] + "\" stroke-width=\"3\"/>\n";
    svg += "<g fill=\"" + std::string(kColors[style]) + "\">" + marker(style, x + 9, y, "") + "</g>\n";
    svg += text(x + 24, y + 4.5, "start", name);
  }
  return svg + "</g>\n";
}

// A gap in the numbers is a gap in the line; every point says its values to who points at it.
std::string curve(const Series& series, const Plane& plane, int style, const ChartOptions& options) {
  std::string path, dots;
  bool joined = false;
  std::size_t shown = 0;
  const std::size_t count = std::min(series.x.size(), series.y.size());
  for (std::size_t i = 0; i < count; ++i) {
    const bool here = drawn(series.x[i], series.y[i], options.log_x);
    if (here) {
      const double x = plane.x.place(series.x[i]), y = plane.y.place(series.y[i]);
      path += (joined ? "L" : "M") + at(x) + " " + at(y);
      dots +=
          marker(style, x, y,
                 series.name + ", " + options.x_label + " " + general(series.x[i], 6) + ": " + general(series.y[i], 6));
      ++shown;
    }
    joined = here;
  }
  const std::string color = kColors[style];
  std::string svg = "<path d=\"" + path + "\" fill=\"none\" stroke=\"" + color +
                    "\" stroke-width=\"2.2\" stroke-linejoin=\"round\" stroke-linecap=\"round\"/>\n";
  if (shown <= kMostDots) svg += "<g fill=\"" + color + "\">\n" + dots + "</g>\n";
  return svg;
}

std::string description(const std::vector<Series>& series, const ChartOptions& options) {
  std::string words = "Line chart of " + options.title + " over " + options.x_label + ".";
  for (const Series& each : series)
    if (!each.y.empty())
      words += " " + each.name + ": from " + general(each.y.front(), 4) + " to " + general(each.y.back(), 4) + ".";
  return words;
}

}  // namespace

std::string line_chart_svg(const std::vector<Series>& series, const ChartOptions& options) {
  const std::vector<LegendEntry> entries = legend_of(series, options);
  const double head = options.legend || options.mark_x != 0 ? kHead : kTitleOnly;
  const Plane plane = plane_of(series, options, entries.empty() ? head : head + entries.back().y - 40);
  const std::string size = "420 " + general(plane.height, 6), height = general(plane.height, 6);
  std::string svg =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + size + "\" role=\"img\" " +
      "font-family=\"system-ui,sans-serif\">\n<title>" + escaped(options.title) + "</title>\n<desc>" +
      escaped(description(series, options)) + "</desc>\n" + "<rect width=\"420\" height=\"" + height +
      "\" rx=\"8\" fill=\"var(--card,#fff)\"/>\n" +
      text(kLeft, 24, "start", options.title, " fill=\"var(--ink,#1b222b)\" font-size=\"16\" font-weight=\"600\"");
  svg += legend(entries, series) + axes(plane, options) + mark(plane, options);
  for (std::size_t i = 0; i < series.size(); ++i) svg += curve(series[i], plane, style_of(series, i), options);
  return svg + "</svg>\n";
}

std::string swatch_svg(int style) {
  const std::string color = kColors[style % kStyles];
  return "<svg class=\"swatch\" viewBox=\"0 0 22 12\" aria-hidden=\"true\"><path d=\"M1 6h20\" stroke=\"" + color +
         "\" stroke-width=\"3\"/><g fill=\"" + color + "\">" + marker(style % kStyles, 11, 6, "") + "</g></svg>";
}

}  // namespace varve::page
