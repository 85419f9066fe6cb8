// Pictures of another size: each new pixel is a weighted mean of old ones.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/text.h"
#include "io/picture.h"

namespace varve {
namespace {

// The pixels that one new pixel is a mean of, and how much each counts.
struct Window {
  std::int64_t begin = 0;
  std::vector<float> weights;
};

// A triangle as wide as the pixels are apart, in whichever picture that is more.
std::vector<Window> windows(std::int64_t from, std::int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), support = std::max(scale, 1.0);
  std::vector<Window> result(static_cast<std::size_t>(to));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const auto begin = std::max<std::int64_t>(0, static_cast<std::int64_t>(std::floor(centre - support)));
    const auto end = std::min<std::int64_t>(from, static_cast<std::int64_t>(std::ceil(centre + support)));
    std::vector<double> weights;
    double sum = 0;
    for (std::int64_t at = begin; at < end; ++at) {
      weights.push_back(std::max(0.0, 1 - std::abs(static_cast<double>(at) + 0.5 - centre) / support));
      sum += weights.back();
    }
    result[i].begin = begin;
    for (const double weight : weights) result[i].weights.push_back(static_cast<float>(weight / sum));
  }
  return result;
}

// Loops of a fixed length become vector code. Rows are mixed so many numbers at a time, and eight new rows go through
// their columns together.
constexpr std::size_t kRun = 32, kLanes = 8;

class Resizer {
 public:
  Resizer(const Picture& picture, const FilledPart& part, std::int64_t height, std::int64_t width)
      : picture_(picture),
        part_(part),
        channels_(static_cast<std::size_t>(picture.channels)),
        row_(static_cast<std::size_t>(part.width) * channels_),
        rows_(windows(part.height, height)),
        columns_(windows(part.width, width)),
        mixed_(row_ * kLanes) {
    result_ = {.height = height, .width = width, .channels = picture.channels, .pixels = {}};
    result_.pixels.resize(static_cast<std::size_t>(height * width) * channels_);
  }

  Picture run() {
    for (std::size_t row = 0; row < rows_.size(); row += kLanes) {
      const std::size_t count = std::min(kLanes, rows_.size() - row);
      for (std::size_t lane = 0; lane < count; ++lane) mix_rows(rows_[row + lane], lane);
      mix_columns(row, count);
    }
    return std::move(result_);
  }

 private:
  // One row of the new height, still of the old width: number i of lane l is at i · kLanes + l.
  void mix_rows(const Window& window, std::size_t lane) {
    const std::size_t stride = static_cast<std::size_t>(picture_.width) * channels_;
    const std::uint8_t* const first = picture_.pixels.data() +
                                      (static_cast<std::size_t>(part_.top + window.begin)) * stride +
                                      static_cast<std::size_t>(part_.left) * channels_;
    std::size_t i = 0;
    for (; i + kRun <= row_; i += kRun) {
      std::array<float, kRun> sums{};
      for (std::size_t k = 0; k < window.weights.size(); ++k) {
        const std::uint8_t* const from = first + k * stride + i;
        const float weight = window.weights[k];
        for (std::size_t j = 0; j < kRun; ++j) sums[j] += weight * static_cast<float>(from[j]);
      }
      float* const to = mixed_.data() + i * kLanes + lane;
      for (std::size_t j = 0; j < kRun; ++j) to[j * kLanes] = sums[j];
    }
    for (; i < row_; ++i) {
      float sum = 0;
      for (std::size_t k = 0; k < window.weights.size(); ++k)
        sum += window.weights[k] * static_cast<float>(first[k * stride + i]);
      mixed_[i * kLanes + lane] = sum;
    }
  }

  void mix_columns(std::size_t row, std::size_t count) {
    const std::size_t stride = columns_.size() * channels_;
    std::uint8_t* to = result_.pixels.data() + row * stride;
    for (const Window& window : columns_) {
      for (std::size_t c = 0; c < channels_; ++c, ++to) {
        const float* from = mixed_.data() + (static_cast<std::size_t>(window.begin) * channels_ + c) * kLanes;
        std::array<float, kLanes> sums{};
        for (const float weight : window.weights) {
          for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += weight * from[lane];
          from += channels_ * kLanes;
        }
        std::array<std::int32_t, kLanes> values;
        for (std::size_t lane = 0; lane < kLanes; ++lane)
          values[lane] = static_cast<std::int32_t>(std::min(std::max(sums[lane] + 0.5f, 0.f), 255.f));
        for (std::size_t lane = 0; lane < count; ++lane) to[lane * stride] = static_cast<std::uint8_t>(values[lane]);
      }
    }
  }

  const Picture& picture_;
  FilledPart part_;
  std::size_t channels_, row_;  // row_: numbers in a row of the part
  std::vector<Window> rows_, columns_;
  std::vector<float> mixed_;
  Picture result_;
};

}  // namespace

Picture resize(const Picture& picture, std::int64_t height, std::int64_t width) {
  io::check_picture(picture, "resize");
  io::check_size(height, width, 0, std::numeric_limits<std::int64_t>::max(), "resize: the new size");
  const FilledPart whole = {0, 0, picture.height, picture.width, picture.height, picture.width};
  return Resizer(picture, whole, height, width).run();
}

Picture resize_to_fill(const Picture& picture, std::int64_t height, std::int64_t width) {
  io::check_picture(picture, "resize_to_fill");
  io::check_size(height, width, 0, std::numeric_limits<std::int64_t>::max(), "resize_to_fill: the new size");
  return Resizer(picture, filled_part(picture.height, picture.width, height, width), height, width).run();
}

}  // namespace varve
