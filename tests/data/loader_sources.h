// Sources whose samples say where they come from.
#pragma once

#include <atomic>
#include <cstring>
#include <memory>
#include <string>

#include "varve/data.h"

namespace varve::data {

// Sample i: a picture [height, width, channels] of which every pixel is i, and i modulo `classes`.
class Numbered : public Source {
 public:
  struct Options {
    std::int64_t height = 1, width = 2, channels = 1, classes = 10, streams = 0;
    std::int64_t broken = -1;  // this sample cannot be read
  };
  explicit Numbered(std::int64_t size) : Numbered(size, Options{}) {}
  Numbered(std::int64_t size, Options options) : size_(size), options_(options) {}
  std::int64_t size() const override { return size_; }
  TensorType x() const override { return {f32, {options_.height, options_.width, options_.channels}}; }
  TensorType y() const override { return {i32, {}}; }
  std::int64_t streams() const override { return options_.streams; }
  void read(std::int64_t index, std::byte* x, std::byte* y) const override {
    if (index == options_.broken) throw Error("sample " + std::to_string(index) + " is broken");
    ++reads;
    const auto value = static_cast<float>(index);
    const std::int64_t pixels = options_.height * options_.width * options_.channels;
    for (std::int64_t i = 0; i < pixels; ++i) std::memcpy(x + i * 4, &value, 4);
    const auto label = static_cast<std::int32_t>(index % options_.classes);
    std::memcpy(y, &label, 4);
  }
  mutable std::atomic<std::int64_t> reads = 0;

 private:
  std::int64_t size_;
  Options options_;
};

inline Dataset numbered(std::int64_t size, Numbered::Options options = {}) {
  return Dataset(std::make_shared<Numbered>(size, options), {.name = "numbered", .classes = {}, .vocabulary = nullptr});
}

// The samples of each batch that is left, by the number in them.
inline std::vector<std::vector<std::int64_t>> samples_of(Loader&& loader) {
  std::vector<std::vector<std::int64_t>> batches;
  for (const Batch& batch : loader) {
    const std::vector<float> pixels = batch.x.to_vector<float>();
    const auto rows = static_cast<std::size_t>(batch.x.dim(0));
    std::vector<std::int64_t> samples;
    for (std::size_t i = 0; i < rows; ++i)
      samples.push_back(static_cast<std::int64_t>(pixels[i * pixels.size() / rows]));
    batches.push_back(samples);
  }
  return batches;
}

}  // namespace varve::data
