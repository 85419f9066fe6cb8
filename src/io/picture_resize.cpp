// Pictures of another size: each new pixel is a weighted mean of old ones.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/text.h"
#include "io/picture.h"

namespace varve {
namespace {

// Which pixels each new one is a mean of, and how much each counts. All have as many, some of which count nothing: a
// loop of one length is foreseen by the processor, one that changes is not.
struct Windows {
  std::vector<std::int64_t> begins;
  std::size_t count = 0;       // of each
  std::vector<float> weights;  // `count` for each
};

// A triangle as wide as the pixels are apart, in whichever picture that is more.
Windows windows(std::int64_t from, std::int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), support = std::max(scale, 1.0);
  const auto count = std::min(from, static_cast<std::int64_t>(std::ceil(2 * support)) + 1);
  Windows result = {.begins = {}, .count = static_cast<std::size_t>(count), .weights = {}};
  std::vector<double> weights(result.count);
  for (std::int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const auto begin =
        std::clamp<std::int64_t>(static_cast<std::int64_t>(std::floor(centre - support)), 0, from - count);
    double sum = 0;
    for (std::size_t k = 0; k < weights.size(); ++k) {
      const double at = static_cast<double>(begin) + static_cast<double>(k) + 0.5;
      weights[k] = std::max(0.0, 1 - std::abs(at - centre) / support);
      sum += weights[k];
    }
    result.begins.push_back(begin);
    for (const double weight : weights) result.weights.push_back(static_cast<float>(weight / sum));
  }
  return result;
}

// Loops of a fixed length become vector code: numbers of a row are mixed so many at a time, and a pixel's channels go
// through the columns together, as four.
constexpr std::size_t kRun = 64, kLanes = 4;

class Resizer {
 public:
  Resizer(const Picture& picture, const FilledPart& part, std::int64_t height, std::int64_t width)
      : picture_(picture),
        part_(part),
        channels_(static_cast<std::size_t>(picture.channels)),
        row_(static_cast<std::size_t>(part.width) * channels_),
        rows_(windows(part.height, height)),
        columns_(windows(part.width, width)),
        mixed_(row_ + kLanes),  // the last pixel is read as four numbers, too
        new_row_(static_cast<std::size_t>(width) * channels_ + kLanes) {
    result_ = {.height = height, .width = width, .channels = picture.channels, .pixels = {}};
    result_.pixels.resize(static_cast<std::size_t>(height * width) * channels_);
  }

  Picture run() {
    const std::size_t size = new_row_.size() - kLanes;
    for (std::size_t row = 0; row < rows_.begins.size(); ++row) {
      mix_rows(row);
      if (channels_ == 3)
        mix_columns<3>();
      else
        mix_columns<1>();
      round_row(result_.pixels.data() + row * size, size);
    }
    return std::move(result_);
  }

 private:
  // One row of the new height, still of the old width.
  void mix_rows(std::size_t row) {
    const std::size_t stride = static_cast<std::size_t>(picture_.width) * channels_;
    const float* weights = rows_.weights.data() + row * rows_.count;
    std::size_t begin = 0, count = rows_.count;  // of those that count
    while (count > 1 && weights[count - 1] == 0) --count;
    while (begin + 1 < count && weights[begin] == 0) ++begin;
    const std::uint8_t* const first = picture_.pixels.data() +
                                      (static_cast<std::size_t>(part_.top + rows_.begins[row]) + begin) * stride +
                                      static_cast<std::size_t>(part_.left) * channels_;
    weights += begin;
    count -= begin;
    std::size_t i = 0;
    for (; i + kRun <= row_; i += kRun) {
      std::array<float, kRun> sums{};
      for (std::size_t k = 0; k < count; ++k) {
        const std::uint8_t* const from = first + k * stride + i;
        const float weight = weights[k];
        for (std::size_t j = 0; j < kRun; ++j) sums[j] += weight * static_cast<float>(from[j]);
      }
      std::copy(sums.begin(), sums.end(), mixed_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    for (; i < row_; ++i) {
      float sum = 0;
      for (std::size_t k = 0; k < count; ++k) sum += weights[k] * static_cast<float>(first[k * stride + i]);
      mixed_[i] = sum;
    }
  }

  // Each pixel is stored as four numbers, of which the next one overwrites what is not its own.
  template <std::size_t channels>
  void mix_columns() {
    const float* weights = columns_.weights.data();
    float* to = new_row_.data();
    for (const std::int64_t begin : columns_.begins) {
      const float* from = mixed_.data() + static_cast<std::size_t>(begin) * channels;
      std::array<float, kLanes> sums{};
      for (std::size_t k = 0; k < columns_.count; ++k, from += channels)
        for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += weights[k] * from[lane];
      std::copy(sums.begin(), sums.end(), to);
      weights += columns_.count;
      to += channels;
    }
  }

  // Means of bytes are within their range.
  void round_row(std::uint8_t* to, std::size_t size) const {
    std::size_t i = 0;
    for (; i + kRun <= size; i += kRun) {
      std::array<std::uint8_t, kRun> bytes;
      for (std::size_t j = 0; j < kRun; ++j)
        bytes[j] = static_cast<std::uint8_t>(static_cast<std::int32_t>(new_row_[i + j] + 0.5f));
      std::copy(bytes.begin(), bytes.end(), to + i);
    }
    for (; i < size; ++i) to[i] = static_cast<std::uint8_t>(static_cast<std::int32_t>(new_row_[i] + 0.5f));
  }

  const Picture& picture_;
  FilledPart part_;
  std::size_t channels_, row_;  // row_: numbers in a row of the part
  Windows rows_, columns_;
  std::vector<float> mixed_, new_row_;
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
