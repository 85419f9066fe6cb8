#include "page/axis.h"

#include <algorithm>

#include "page/numbers.h"

namespace varve::page {
namespace {

// "40k" rather than 4e+04.
std::string tick_text(double value) {
  const double size = std::abs(value);
  if (size >= 1e4 && size < 1e6) return general(value / 1e3, 4) + "k";
  if (size >= 1e6 && size < 1e9) return general(value / 1e6, 4) + "M";
  return general(value, 4);
}

}  // namespace

void widen(double& low, double& high, double least_margin) {
  if (high - low > std::max(1e-9 * std::max(std::abs(low), std::abs(high)), 1e-30)) return;
  const double margin = std::max(std::abs(high) / 2, least_margin);
  low -= margin, high += margin;
}

double round_step(double range, int count) {
  const double raw = range / count, power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (raw <= factor * power * 1.0001) return factor * power;
  return 10 * power;
}

void round_ticks(Axis& axis, double step) {
  for (double k = std::ceil(axis.low / step - 1e-9); k * step <= axis.high + step * 1e-9; ++k)
    axis.ticks.push_back(
        {axis.begin + (k * step - axis.low) / (axis.high - axis.low) * axis.size, tick_text(k == 0 ? 0 : k * step)});
}

void decade_ticks(Axis& axis) {
  const double every = std::max(1.0, std::ceil((axis.high - axis.low) / 8));
  for (double k = std::ceil(axis.low - 1e-9); k <= axis.high + 1e-9; k += every)
    axis.ticks.push_back({axis.begin + (k - axis.low) / (axis.high - axis.low) * axis.size,
                          k >= -2 && k <= 3 ? general(std::pow(10, k), 4) : "1e" + general(k, 3)});
}

void ticks_at(Axis& axis, const std::vector<double>& values) {
  for (const double value : values) {
    const double at = axis.logarithmic ? std::log10(value) : value;
    if (at >= axis.low - 1e-9 && at <= axis.high + 1e-9) axis.ticks.push_back({axis.place(value), general(value, 6)});
  }
}

}  // namespace varve::page
