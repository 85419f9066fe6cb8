// Operators on pictures and volumes, channels last, beside the convolution and pooling of ops.h.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "varve/ops.h"

namespace varve {

// ---- resizing (src/ops/resize.cpp) of signals [N,L,C], pictures [N,H,W,C] and volumes [N,D,H,W,C]
enum class Interpolation : std::uint8_t { nearest, linear, cubic };
// Where the centre of output element i lies in the input. half_pixel: (i + 0.5) · in / out - 0.5.
// align_corners: i · (in - 1) / (out - 1). asymmetric: i · in / out.
enum class Alignment : std::uint8_t { half_pixel, align_corners, asymmetric };
enum class Rounding : std::uint8_t { half_down, half_up, down, up };  // to the nearest element
// Unless changed: PyTorch's interpolate with align_corners=False, and ONNX's Resize. PyTorch's "nearest" is alignment
// asymmetric with rounding down, its "nearest-exact" half_pixel with half_up.
struct ResizeOptions {
  Interpolation mode = Interpolation::linear;
  Alignment alignment = Alignment::half_pixel;
  bool antialias = false;  // a smaller picture averages over what it leaves out
  Rounding rounding = Rounding::half_down;
  std::optional<double> cubic = {};  // the cubic's coefficient; -0.75, or -0.5 with antialias
  bool exclude_outside = false;      // elements beyond the border get no weight, instead of the border's value
  std::vector<double> scales = {};   // out / in for positions, where rounding of sizes changed it
};
Tensor resize(const Tensor& x, const std::vector<std::int64_t>& sizes, const ResizeOptions& = {});

// ---- sampling (src/ops/grid_sample.cpp)
enum class GridPadding : std::uint8_t { zeros, border, reflection };
struct GridSampleOptions {
  Interpolation mode = Interpolation::linear;
  GridPadding padding = GridPadding::zeros;
  bool align_corners = false;  // -1 and 1 are the centres of the outermost elements, not their outer edges
};
// x [N,H,W,C] at places (x, y) in -1 … 1 of a grid [N,OH,OW,2]: [N,OH,OW,C].
Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& = {});

// ---- volumes (src/ops/volume.cpp)
struct Conv3dOptions {
  std::vector<std::int64_t> stride = {1, 1, 1};
  std::vector<Padding> padding = {0, 0, 0};
  std::vector<std::int64_t> dilation = {1, 1, 1};
  std::int64_t groups = 1;
};
Tensor conv3d(const Tensor& x, const Tensor& w, const Conv3dOptions& = {});  // x [N,D,H,W,I] · w [O,KD,KH,KW,I/groups]
struct Pool3dOptions {
  std::vector<std::int64_t> window = {2, 2, 2};
  std::vector<std::int64_t> stride = {};  // empty: the window
  std::vector<Padding> padding = {0, 0, 0};
  bool count_padding = false;  // average: divide by the whole window at the border too
  bool ceil_mode = false;
};
Tensor max_pool3d(const Tensor& x, const Pool3dOptions& = {});
Tensor avg_pool3d(const Tensor& x, const Pool3dOptions& = {});
Tensor global_avg_pool3d(const Tensor& x);  // [N,D,H,W,C] -> [N,C]
Tensor global_max_pool3d(const Tensor& x);
Tensor adaptive_avg_pool3d(const Tensor& x, std::int64_t depth, std::int64_t height, std::int64_t width);
Tensor adaptive_max_pool3d(const Tensor& x, std::int64_t depth, std::int64_t height, std::int64_t width);

}  // namespace varve
