// Charts as SVG. Colours are CSS variables of the page around them, with light ones for a file that stands alone.
#pragma once

#include <string>
#include <vector>

namespace varve::page {

// A line chart with axes, grid, legend and, when `log_x`, a logarithmic axis.
struct Series {
  std::string name;
  std::vector<double> x, y;  // NaN: a gap
  int style = -1;            // which colour and marker; -1: its place among the series
};
struct ChartOptions {
  std::string title, x_label, y_label = "";
  bool log_x = false;
  std::vector<double> x_ticks = {};  // where given, these and no others
  bool y_from_zero = false;
  bool legend = true;  // where there are two series or more
  double mark_x = 0;   // a vertical line there, when not 0
  std::string mark_label = "";
};
std::string line_chart_svg(const std::vector<Series>& series, const ChartOptions& options);

constexpr int kStyles = 6;  // then they begin again
// A small picture of a series' line and marker, for a legend outside the charts.
std::string swatch_svg(int style);

}  // namespace varve::page
