// One direction of a chart's plane: from values to drawing units, and where its ticks stand.
#pragma once

#include <cmath>
#include <string>
#include <vector>

namespace varve::page {

struct Tick {
  double place;
  std::string text;
};

struct Axis {
  double low, high;    // values, or their logarithms
  double begin, size;  // drawing units
  bool logarithmic = false;
  std::vector<Tick> ticks = {};

  double place(double value) const {
    return begin + ((logarithmic ? std::log10(value) : value) - low) / (high - low) * size;
  }
};

// A range with room in it, also around a single value.
void widen(double& low, double& high, double least_margin);
// 1, 2 or 5 times a power of ten, so that about `count` of them fill the range.
double round_step(double range, int count);

void round_ticks(Axis& axis, double step);
void decade_ticks(Axis& axis);
void ticks_at(Axis& axis, const std::vector<double>& values);  // those inside it

}  // namespace varve::page
