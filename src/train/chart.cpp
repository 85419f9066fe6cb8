// Line charts as SVG. Colours are CSS variables of the page around them, with light ones for a file that stands alone.
#include <algorithm>
#include <cmath>
#include <limits>

#include "train/markup.h"
#include "train/numbers.h"
#include "train/report.h"

namespace varve::train {
namespace {

constexpr double kWidth = 420, kHeight = 292;
constexpr double kLeft = 62, kRight = 14, kTop = 68, kBottom = 46;
constexpr std::size_t kMostDots = 60;  // more points than that are a line only
const char* const kColors[] = {"var(--s1,#2563c9)", "var(--s2,#c2560a)", "var(--s3,#15803d)",
                               "var(--s4,#9333b8)", "var(--s5,#b4234c)", "var(--s6,#0e7490)"};

std::string at(double value) { return fixed(value, 1); }

struct Tick {
  double place;
  std::string text;
};

// One direction of the plane: from values to drawing units.
struct Axis {
  double low, high;    // values, or their logarithms
  double begin, size;  // drawing units
  bool logarithmic = false;
  std::vector<Tick> ticks = {};

  double place(double value) const {
    return begin + ((logarithmic ? std::log10(value) : value) - low) / (high - low) * size;
  }
};

constexpr double kLargest = 1e100;  // what a diverged run may show: differences must stay finite

bool drawn(double x, double y, bool log_x) {
  return std::abs(x) < kLargest && std::abs(y) < kLargest && (!log_x || x > 0);
}

// A range with room in it, also around a single value.
void widen(double& low, double& high, double least_margin) {
  if (high - low > std::max(1e-9 * std::max(std::abs(low), std::abs(high)), 1e-30)) return;
  const double margin = std::max(std::abs(high) / 2, least_margin);
  low -= margin, high += margin;
}

// 1, 2 or 5 times a power of ten, so that about `count` of them fill the range.
double round_step(double range, int count) {
  const double raw = range / count, power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (raw <= factor * power * 1.0001) return factor * power;
  return 10 * power;
}

void round_ticks(Axis& axis, double step) {
  for (double k = std::ceil(axis.low / step - 1e-9); k * step <= axis.high + step * 1e-9; ++k)
    axis.ticks.push_back(
        {axis.begin + (k * step - axis.low) / (axis.high - axis.low) * axis.size, general(k == 0 ? 0 : k * step, 4)});
}

void decade_ticks(Axis& axis) {
  const double every = std::max(1.0, std::ceil((axis.high - axis.low) / 8));
  for (double k = std::ceil(axis.low - 1e-9); k <= axis.high + 1e-9; k += every)
    axis.ticks.push_back({axis.begin + (k - axis.low) / (axis.high - axis.low) * axis.size,
                          k >= -2 && k <= 3 ? general(std::pow(10, k), 4) : "1e" + general(k, 3)});
}

struct Plane {
  Axis x, y;
};

Plane plane_of(const std::vector<Series>& series, const ChartOptions& options) {
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
  widen(x0, x1, 0.5);
  widen(y0, y1, 1e-6);
  const double step = round_step(y1 - y0, 5);
  y0 = std::floor(y0 / step + 1e-9) * step, y1 = std::ceil(y1 / step - 1e-9) * step;
  Plane plane = {.x = {x0, x1, kLeft, kWidth - kLeft - kRight, options.log_x},
                 .y = {y0, y1, kHeight - kBottom, -(kHeight - kTop - kBottom)}};
  if (options.log_x)
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
  const double bottom = kHeight - kBottom, right = kWidth - kRight;
  std::string svg = "<g stroke=\"var(--line,#d8dee6)\" stroke-width=\"1\">\n";
  for (const Tick& tick : plane.y.ticks)
    svg += "<path d=\"M" + at(kLeft) + " " + at(tick.place) + "H" + at(right) + "\"/>\n";
  for (const Tick& tick : plane.x.ticks) svg += "<path d=\"M" + at(tick.place) + " " + at(bottom) + "v4\"/>\n";
  svg += "<path d=\"M" + at(kLeft) + " " + at(bottom) + "H" + at(right) +
         "\" stroke=\"var(--muted,#5b6673)\"/>\n</g>\n<g fill=\"var(--muted,#5b6673)\" font-size=\"13\">\n";
  for (const Tick& tick : plane.y.ticks) svg += text(kLeft - 8, tick.place + 4.5, "end", tick.text);
  for (const Tick& tick : plane.x.ticks) svg += text(tick.place, bottom + 18, "middle", tick.text);
  svg += text((kLeft + right) / 2, kHeight - 8, "middle", options.x_label);
  if (!options.y_label.empty()) {
    const std::string middle = at((kTop + bottom) / 2);
    svg += text(14, (kTop + bottom) / 2, "middle", options.y_label, " transform=\"rotate(-90 14 " + middle + ")\"");
  }
  return svg + "</g>\n";
}

std::string legend(const std::vector<Series>& series) {
  if (series.size() < 2) return "";
  std::string svg = "<g fill=\"var(--ink,#1b222b)\" font-size=\"13\">\n";
  double x = kLeft;
  for (std::size_t i = 0; i < series.size(); ++i) {
    const std::string name = shortened(series[i].name, 20);
    svg += "<path d=\"M" + at(x) + " 40h18\" stroke=\"" + kColors[i % std::size(kColors)] + "\" stroke-width=\"3\"/>\n";
    svg += text(x + 24, 44.5, "start", name);
    x += 42 + 7.2 * static_cast<double>(name.size());
  }
  return svg + "</g>\n";
}

std::string mark(const Plane& plane, const ChartOptions& options) {
  if (options.mark_x == 0 || (options.log_x && options.mark_x < 0)) return "";
  const double x = plane.x.place(options.mark_x);
  if (!(x >= kLeft - 0.5 && x <= kWidth - kRight + 0.5)) return "";
  const double room = 4 + 3.7 * static_cast<double>(options.mark_label.size());  // half the words
  return "<path d=\"M" + at(x) + " " + at(kTop) + "V" + at(kHeight - kBottom) +
         "\" stroke=\"var(--muted,#5b6673)\" stroke-width=\"1.5\" stroke-dasharray=\"4 4\"/>\n" +
         text(std::min(x, kWidth - room), kTop - 5, "middle", options.mark_label,
              " fill=\"var(--muted,#5b6673)\" font-size=\"13\"");
}

// A gap in the numbers is a gap in the line; every point says its values to who points at it.
std::string curve(const Series& series, const Plane& plane, const std::string& color, const ChartOptions& options) {
  std::string path, dots;
  bool joined = false;
  std::size_t shown = 0;
  const std::size_t count = std::min(series.x.size(), series.y.size());
  for (std::size_t i = 0; i < count; ++i) {
    const bool here = drawn(series.x[i], series.y[i], options.log_x);
    if (here) {
      const std::string x = at(plane.x.place(series.x[i])), y = at(plane.y.place(series.y[i]));
      path += (joined ? "L" : "M") + x + " " + y;
      dots += "<circle cx=\"" + x + "\" cy=\"" + y + "\" r=\"3\"><title>" +
              escaped(series.name + ", " + options.x_label + " " + general(series.x[i], 6) + ": " +
                      general(series.y[i], 6)) +
              "</title></circle>\n";
      ++shown;
    }
    joined = here;
  }
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
  const Plane plane = plane_of(series, options);
  std::string svg =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 420 292\" role=\"img\" " +
      std::string("font-family=\"system-ui,sans-serif\">\n<title>") + escaped(options.title) + "</title>\n<desc>" +
      escaped(description(series, options)) + "</desc>\n" +
      "<rect width=\"420\" height=\"292\" rx=\"8\" fill=\"var(--card,#fff)\"/>\n" +
      text(kLeft, 24, "start", options.title, " fill=\"var(--ink,#1b222b)\" font-size=\"16\" font-weight=\"600\"");
  svg += legend(series) + axes(plane, options) + mark(plane, options);
  for (std::size_t i = 0; i < series.size(); ++i)
    svg += curve(series[i], plane, kColors[i % std::size(kColors)], options);
  return svg + "</svg>\n";
}

}  // namespace varve::train
