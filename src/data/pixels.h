// Pictures kept as bytes, delivered as f32 in 0…1.
#pragma once

#include <cstdint>
#include <vector>

#include "varve/data.h"

namespace varve::data {

// Each byte over 255, as f32, to memory that may have any alignment.
void deliver_pixels(const std::uint8_t* pixels, std::int64_t count, std::byte* out);

// The class of a sample, i32, to memory that may have any alignment.
void deliver_class(std::int32_t label, std::byte* out);

// Error that names the file when a label is not one of info.classes (where those are known).
void check_labels(const std::vector<std::uint8_t>& labels, const Info& info, const std::string& path);

// Pictures of one size, all in memory.
class PixelSource : public Source {
 public:
  PixelSource(Shape shape, std::vector<std::uint8_t> pixels, std::vector<std::uint8_t> labels);
  std::int64_t size() const override { return static_cast<std::int64_t>(labels_.size()); }
  TensorType x() const override { return {f32, shape_}; }
  TensorType y() const override { return {i32, {}}; }
  void read(std::int64_t index, std::byte* x, std::byte* y) const override;

 private:
  Shape shape_;
  std::int64_t bytes_;  // of one picture
  std::vector<std::uint8_t> pixels_, labels_;
};

}  // namespace varve::data
