#include "data/transforms.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "base/text.h"
#include "data/boxes.h"

namespace varve::data {
namespace {

void check(bool good, const char* transform, const char* expected, double got) {
  if (!good) throw Error(cat(transform, ": expected ", expected, ", got ", got, "."));
}

bool within(double value, double low, double high) { return value >= low && value <= high; }  // no for NaN

// Larger than any picture, small enough for sums of positions.
constexpr std::int64_t kMostPixels = 1 << 30;

float* row_of(const Image& image, std::int64_t row) {
  return image.pixels.data() + static_cast<std::size_t>(row * image.width * image.channels);
}

void flip(Image& image) {
  for (std::int64_t row = 0; row < image.height; ++row) {
    float* begin = row_of(image, row);
    float* end = begin + image.width * image.channels;
    std::reverse(begin, end);
    if (image.channels == 1) continue;
    for (float* pixel = begin; pixel != end; pixel += image.channels) std::reverse(pixel, pixel + image.channels);
  }
}

void erase_square(Image& image, std::int64_t row, std::int64_t column, std::int64_t size) {
  const std::int64_t top = std::max<std::int64_t>(row, 0), bottom = std::min(row + size, image.height);
  const std::int64_t left = std::max<std::int64_t>(column, 0), right = std::min(column + size, image.width);
  for (std::int64_t r = top; r < bottom && left < right; ++r)
    std::fill_n(row_of(image, r) + left * image.channels, (right - left) * image.channels, 0.f);
}

void standardize(Image& image, const std::vector<double>& mean, const std::vector<double>& deviation) {
  const auto channels = static_cast<std::size_t>(image.channels);
  if (mean.size() != 1 && mean.size() != channels)
    throw Error(cat("normalize: ", mean.size(), " means were given, the image has ", channels, " channels."));
  for (std::size_t c = 0; c < channels; ++c) {
    const std::size_t i = mean.size() == 1 ? 0 : c;
    const auto middle = static_cast<float>(mean[i]), scale = static_cast<float>(1 / deviation[i]);
    for (std::size_t k = c; k < image.pixels.size(); k += channels)
      image.pixels[k] = (image.pixels[k] - middle) * scale;
  }
}

float between(float a, float b, float share) { return a + share * (b - a); }

// A pixel of the scratch picture at a place between pixels.
void blend(const Image& image, double y, double x, float* out) {
  const double above = std::floor(y), before = std::floor(x);
  const auto top = static_cast<std::int64_t>(above), left = static_cast<std::int64_t>(before);
  const auto v = static_cast<float>(y - above), u = static_cast<float>(x - before);
  const std::int64_t channels = image.channels, below = image.width * channels;
  if (top >= 0 && top + 1 < image.height && left >= 0 && left + 1 < image.width) {
    const float* corner = image.scratch.data() + top * below + left * channels;
    for (std::int64_t c = 0; c < channels; ++c, ++corner)
      out[c] = between(between(corner[0], corner[channels], u), between(corner[below], corner[below + channels], u), v);
    return;
  }
  const auto pixel = [&](std::int64_t row, std::int64_t column, std::int64_t channel) {
    const bool inside = row >= 0 && row < image.height && column >= 0 && column < image.width;
    return inside ? image.scratch[static_cast<std::size_t>(row * below + column * channels + channel)] : 0.f;
  };
  for (std::int64_t c = 0; c < channels; ++c)
    out[c] = between(between(pixel(top, left, c), pixel(top, left + 1, c), u),
                     between(pixel(top + 1, left, c), pixel(top + 1, left + 1, c), u), v);
}

}  // namespace

void shift(Image& image, std::int64_t down, std::int64_t right) {
  const std::int64_t width = image.width, height = image.height, channels = image.channels;
  const std::int64_t kept = std::max<std::int64_t>(width - std::abs(right), 0);
  const std::int64_t to = std::max<std::int64_t>(-right, 0), from = std::max<std::int64_t>(right, 0);
  for (std::int64_t i = 0; i < height; ++i) {
    const std::int64_t row = down >= 0 ? i : height - 1 - i;  // never over a row that is still needed
    float* out = row_of(image, row);
    const std::int64_t source = row + down;
    const std::int64_t columns = source >= 0 && source < height ? kept : 0;
    if (columns > 0) {
      const float* in = row_of(image, source) + from * channels;
      float* target = out + to * channels;
      // Within one row the ranges overlap.
      if (target <= in)
        std::copy(in, in + columns * channels, target);
      else
        std::copy_backward(in, in + columns * channels, target + columns * channels);
    }
    const std::int64_t before = columns > 0 ? to : 0;
    std::fill_n(out, before * channels, 0.f);
    std::fill_n(out + (before + columns) * channels, (width - before - columns) * channels, 0.f);
  }
}

namespace {

// Calls put(y, x, out) for each pixel `out`, with the place that it comes from.
template <class Put>
void each_source(Image& image, const Turn& from, const Put& put) {
  std::copy(image.pixels.begin(), image.pixels.end(), image.scratch.begin());
  const double middle_row = static_cast<double>(image.height - 1) / 2;
  const double middle_column = static_cast<double>(image.width - 1) / 2;
  float* out = image.pixels.data();
  for (std::int64_t row = 0; row < image.height; ++row) {
    const double down = static_cast<double>(row) - middle_row;
    for (std::int64_t column = 0; column < image.width; ++column, out += image.channels) {
      const double right = static_cast<double>(column) - middle_column;
      put(middle_row + from.down_down * down + from.down_right * right,
          middle_column + from.right_down * down + from.right_right * right, out);
    }
  }
}

}  // namespace

void resample(Image& image, const Turn& from) {
  each_source(image, from, [&](double y, double x, float* out) { blend(image, y, x, out); });
}

void resample_nearest(Image& image, const Turn& from) {
  each_source(image, from, [&](double y, double x, float* out) {
    const double row = std::floor(y + 0.5), column = std::floor(x + 0.5);
    const bool inside =
        row >= 0 && row < static_cast<double>(image.height) && column >= 0 && column < static_cast<double>(image.width);
    const std::int64_t at =
        inside ? static_cast<std::int64_t>(row) * image.width + static_cast<std::int64_t>(column) : 0;
    for (std::int64_t c = 0; c < image.channels; ++c)
      out[c] = inside ? image.scratch[static_cast<std::size_t>(at * image.channels + c)] : 0.f;
  });
}

namespace {

// Each box through `move`, which changes a row.
template <class Move>
void move_boxes(Boxes& boxes, const Move& move) {
  for (std::size_t at = 0; at + kBoxNumbers <= boxes.rows.size(); at += kBoxNumbers) {
    BoxRow row;
    std::copy_n(boxes.rows.begin() + static_cast<std::ptrdiff_t>(at), row.size(), row.begin());
    if (row[0] == kNoBox) continue;
    move(row);
    if (!cut_box(row)) row = {kNoBox, 0, 0, 0, 0};
    std::copy(row.begin(), row.end(), boxes.rows.begin() + static_cast<std::ptrdiff_t>(at));
  }
}

// The box around where the corners come to: what is drawn at from·p was at p before.
void turn_box(BoxRow& row, const Turn& from, const Boxes& boxes) {
  const double det = from.down_down * from.right_right - from.down_right * from.right_down;
  const auto height = static_cast<double>(boxes.height), width = static_cast<double>(boxes.width);
  double left = 1e30, top = 1e30, right = -1e30, bottom = -1e30;
  for (const std::size_t x : {1, 3})
    for (const std::size_t y : {2, 4}) {
      const double across = (row[x] - 0.5) * width, down = (row[y] - 0.5) * height;
      const double new_down = (from.right_right * down - from.down_right * across) / det;
      const double new_across = (from.down_down * across - from.right_down * down) / det;
      left = std::min(left, new_across / width + 0.5);
      right = std::max(right, new_across / width + 0.5);
      top = std::min(top, new_down / height + 0.5);
      bottom = std::max(bottom, new_down / height + 0.5);
    }
  row = {row[0], static_cast<float>(left), static_cast<float>(top), static_cast<float>(right),
         static_cast<float>(bottom)};
}

template <class TurnOf>
Transform turning(const char* name, const TurnOf& turn) {
  return {.name = name,
          .apply = [turn](Image& image, Random& random) { resample(image, turn(random)); },
          .to_targets = [turn](Image& targets, Random& random) { resample_nearest(targets, turn(random)); },
          .to_boxes =
              [turn](Boxes& boxes, Random& random) {
                const Turn from = turn(random);
                move_boxes(boxes, [&](BoxRow& row) { turn_box(row, from, boxes); });
              }};
}

Transform in_place(const char* name, std::function<void(Image&, Random&)> apply) {
  return {.name = name, .apply = std::move(apply), .to_targets = {}, .moves = false};
}

}  // namespace

Transform random_crop(std::int64_t padding) {
  check(padding >= 0 && padding <= kMostPixels, "random_crop", "a padding of 0 pixels or more",
        static_cast<double>(padding));
  const auto drawn = [padding](Random& random) {
    const std::int64_t down = random.integer(2 * padding + 1) - padding;
    const std::int64_t right = random.integer(2 * padding + 1) - padding;
    return std::pair(down, right);
  };
  const auto apply = [drawn](Image& image, Random& random) {
    const auto [down, right] = drawn(random);
    shift(image, down, right);
  };
  // Pixels are mixed with none, so that targets are moved as images are.
  return {.name = "crop", .apply = apply, .to_targets = apply, .to_boxes = [drawn](Boxes& boxes, Random& random) {
            const auto [down, right] = drawn(random);
            const float y = static_cast<float>(down) / static_cast<float>(boxes.height);
            const float x = static_cast<float>(right) / static_cast<float>(boxes.width);
            move_boxes(boxes, [&](BoxRow& row) { row = {row[0], row[1] - x, row[2] - y, row[3] - x, row[4] - y}; });
          }};
}

Transform random_flip() {
  const auto apply = [](Image& image, Random& random) {
    if (random.chance(0.5)) flip(image);
  };
  return {.name = "flip", .apply = apply, .to_targets = apply, .to_boxes = [](Boxes& boxes, Random& random) {
            if (random.chance(0.5))
              move_boxes(boxes, [](BoxRow& row) { row = {row[0], 1 - row[3], row[2], 1 - row[1], row[4]}; });
          }};
}

Transform random_rotate(double degrees) {
  check(within(degrees, 0, 360), "random_rotate", "0 to 360 degrees", degrees);
  return turning("rotate", [degrees](Random& random) {
    const double angle = random.uniform(-degrees, degrees) * std::numbers::pi / 180;
    const double c = std::cos(angle), s = std::sin(angle);
    return Turn{c, s, -s, c};
  });
}

Transform random_scale(double low, double high) {
  check(within(low, 0.01, 100), "random_scale", "a low factor of 0.01 to 100", low);
  check(within(high, low, 100), "random_scale", "a high factor from the low one to 100", high);
  return turning("scale", [low, high](Random& random) {
    const double back = 1 / random.uniform(low, high);
    return Turn{back, 0, 0, back};
  });
}

Transform cutout(std::int64_t size) {
  check(size >= 0 && size <= kMostPixels, "cutout", "a size of 0 pixels or more", static_cast<double>(size));
  return in_place("cutout", [size](Image& image, Random& random) {
    const std::int64_t row = random.integer(image.height), column = random.integer(image.width);
    erase_square(image, row - size / 2, column - size / 2, size);
  });
}

Transform jitter(double brightness, double contrast) {
  check(within(brightness, 0, 1), "jitter", "a brightness of 0 to 1", brightness);
  check(within(contrast, 0, 1), "jitter", "a contrast of 0 to 1", contrast);
  return in_place("jitter", [brightness, contrast](Image& image, Random& random) {
    const double bright = random.uniform(1 - brightness, 1 + brightness);
    const double apart = random.uniform(1 - contrast, 1 + contrast);
    const double mean = bright * std::accumulate(image.pixels.begin(), image.pixels.end(), 0.0) /
                        std::max(1.0, static_cast<double>(image.pixels.size()));
    const auto scale = static_cast<float>(bright * apart), offset = static_cast<float>(mean - apart * mean);
    for (float& pixel : image.pixels) pixel = std::clamp(pixel * scale + offset, 0.f, 1.f);
  });
}

Transform noise(double deviation) {
  check(within(deviation, 0, 1e6), "noise", "a deviation of 0 or more", deviation);
  return in_place("noise", [deviation](Image& image, Random& random) {
    for (float& pixel : image.pixels) pixel += static_cast<float>(deviation * random.normal());
  });
}

Transform normalize(std::vector<double> mean, std::vector<double> deviation) {
  if (mean.empty() || mean.size() != deviation.size())
    throw Error(
        cat("normalize: expected as many means as deviations, got ", mean.size(), " and ", deviation.size(), "."));
  for (const double value : mean) check(within(value, -1e30, 1e30), "normalize", "a finite mean", value);
  for (const double value : deviation) check(within(value, 1e-30, 1e30), "normalize", "a deviation above 0", value);
  return in_place("normalize", [mean = std::move(mean), deviation = std::move(deviation)](Image& image, Random&) {
    standardize(image, mean, deviation);
  });
}

}  // namespace varve::data
