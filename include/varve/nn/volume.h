// Layers of volumes [N, D, H, W, C], and resizing of signals, pictures and volumes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "varve/nn/layers.h"
#include "varve/vision.h"

namespace varve::nn {

// A number or one for each axis.
struct Triple {
  std::int64_t depth = 1, height = 1, width = 1;
  Triple(std::int64_t all) : depth(all), height(all), width(all) {}
  Triple(std::int64_t d, std::int64_t h, std::int64_t w) : depth(d), height(h), width(w) {}
  std::vector<std::int64_t> vec() const { return {depth, height, width}; }
};
// "valid" (none), "same" (output = ceil(input / stride)), or sizes.
struct VolumePadding {
  ConvPadding::Kind kind = ConvPadding::valid;
  std::vector<Padding> sides = {0, 0, 0};
  VolumePadding() = default;
  VolumePadding(const char* word) : kind(ConvPadding(word).kind) {}
  VolumePadding(const std::string& word) : kind(ConvPadding(word).kind) {}
  VolumePadding(std::int64_t all) : kind(ConvPadding::sizes), sides{all, all, all} {}
  VolumePadding(int all) : VolumePadding(std::int64_t{all}) {}
  VolumePadding(Padding depth, Padding rows, Padding columns) : kind(ConvPadding::sizes), sides{depth, rows, columns} {}
};

struct Conv3dOptions {
  Triple kernel = 3;
  Triple stride = 1;
  VolumePadding padding = "same";
  Triple dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  Activation activation = {};
  Initializer weight_init = {};  // empty: He for the relu family, Glorot otherwise
  Initializer bias_init = {};
};
class Conv3d : public Module {  // weight [O, KD, KH, KW, I / groups]
 public:
  explicit Conv3d(std::int64_t out, Conv3dOptions options = {});
  Tensor forward(Tensor x, Mode mode) override;
  std::string kind() const override { return "conv3d"; }
  Masking masking() const override { return Masking::refuses; }

 private:
  std::int64_t out_;
  Conv3dOptions options_;
};
inline Conv3d conv3d(std::int64_t out, Conv3dOptions options = {}) { return Conv3d(out, std::move(options)); }

struct Pool3dOptions {
  std::optional<Triple> stride = {};  // empty: the window
  VolumePadding padding = {};
  bool ceil_mode = false;
  bool count_padding = false;  // average only
};
class Pool3d : public Module {
 public:
  Pool3d(Pool2d::Kind kind, Triple window, Pool3dOptions options)
      : kind_(kind), window_(window), options_(std::move(options)) {}
  Tensor forward(Tensor x, Mode mode) override;
  std::string kind() const override { return kind_ == Pool2d::max ? "max_pool3d" : "avg_pool3d"; }
  Masking masking() const override { return Masking::refuses; }

 private:
  Pool2d::Kind kind_;
  Triple window_;
  Pool3dOptions options_;
};
inline Pool3d max_pool3d(Triple window = 2, Pool3dOptions options = {}) {
  return {Pool2d::max, window, std::move(options)};
}
inline Pool3d avg_pool3d(Triple window = 2, Pool3dOptions options = {}) {
  return {Pool2d::average, window, std::move(options)};
}
Function global_avg_pool3d();  // [N, D, H, W, C] -> [N, C]
Function global_max_pool3d();
Function adaptive_avg_pool3d(Triple size);

struct ResizeOptions {
  std::vector<std::int64_t> size = {};  // of the result, for each axis between batch and channels, or one for all
  double scale = 2;                     // without a size: of each such axis, rounded down
  Interpolation mode = Interpolation::linear;
  Alignment alignment = Alignment::half_pixel;
  bool antialias = false;
};
Function resize(ResizeOptions options = {});  // [N, L, C], [N, H, W, C] or [N, D, H, W, C]

}  // namespace varve::nn
