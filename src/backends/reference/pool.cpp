#include <algorithm>
#include <cmath>

#include "backends/reference/kernels.h"

namespace varve::reference {
namespace {

// x [N,H,W,C]  y [N,OH,OW,C]
struct Pool {
  Shape x, y;
  Ints window, stride, padding;

  Pool(const Attrs& attrs, const Shape& x_, const Shape& y_)
      : x(x_), y(y_), window(attrs.ints("window")), stride(attrs.ints("stride")), padding(attrs.ints("padding")) {}

  // Calls visit(position in y, positions in x that its window covers, row by row).
  template <class Visit>
  void each_window(Visit visit) const {
    if (y.numel() == 0) return;  // without channels, any number of images is no work
    std::vector<std::int64_t> cells;
    std::int64_t to = 0;
    for (std::int64_t n = 0; n < y[0]; ++n)
      for (std::int64_t oy = 0; oy < y[1]; ++oy)
        for (std::int64_t ox = 0; ox < y[2]; ++ox)
          for (std::int64_t c = 0; c < y[3]; ++c) {
            cells.clear();
            const auto [top, bottom] = covered(0, oy);
            const auto [left, right] = covered(1, ox);
            for (std::int64_t iy = top; iy < bottom; ++iy)
              for (std::int64_t ix = left; ix < right; ++ix) cells.push_back(((n * x[1] + iy) * x[2] + ix) * x[3] + c);
            visit(to++, cells);
          }
  }

 private:
  // The elements of x, begin and end, under window i along one side.
  std::pair<std::int64_t, std::int64_t> covered(std::size_t side, std::int64_t i) const {
    const std::int64_t begin = i * stride[side] - padding[2 * side];
    return {std::max<std::int64_t>(begin, 0), std::min(begin + window[side], x[1 + static_cast<int>(side)])};
  }
};

// The first of the largest; a NaN is larger than anything.
std::int64_t largest(const View& x, const std::vector<std::int64_t>& cells) {
  std::int64_t best = cells[0];
  for (const std::int64_t cell : cells) {
    if (x.integral() ? x.get_int(cell) > x.get_int(best) : x.get(cell) > x.get(best)) best = cell;
    if (!x.integral() && std::isnan(x.get(cell))) return cell;
  }
  return best;
}

void max_pool(const ir::Node& node, const std::vector<View>& in, const std::vector<View>& out, backend::ErrorWord&) {
  Pool(node.attrs, in[0].shape(), out[0].shape())
      .each_window([&](std::int64_t y, const std::vector<std::int64_t>& cells) {
        out[0].copy(y, in[0], largest(in[0], cells));
      });
}

// x, dy -> dx
void max_pool_grad(const ir::Node& node, const std::vector<View>& in, const std::vector<View>& out,
                   backend::ErrorWord&) {
  std::vector<double> dx(static_cast<std::size_t>(out[0].numel()), 0.0);
  Pool(node.attrs, in[0].shape(), in[1].shape())
      .each_window([&](std::int64_t y, const std::vector<std::int64_t>& cells) {
        dx[static_cast<std::size_t>(largest(in[0], cells))] += in[1].get(y);
      });
  for (std::size_t i = 0; i < dx.size(); ++i) out[0].set(static_cast<std::int64_t>(i), dx[i]);
}

// x, values of x's shape -> y
void max_pool_gather(const ir::Node& node, const std::vector<View>& in, const std::vector<View>& out,
                     backend::ErrorWord&) {
  Pool(node.attrs, in[0].shape(), out[0].shape())
      .each_window([&](std::int64_t y, const std::vector<std::int64_t>& cells) {
        out[0].copy(y, in[1], largest(in[0], cells));
      });
}

// What a window's sum is divided by.
double divisor(const Attrs& attrs, const Pool& pool, const std::vector<std::int64_t>& cells) {
  return attrs.flag("count_padding") ? static_cast<double>(pool.window[0]) * static_cast<double>(pool.window[1])
                                     : static_cast<double>(cells.size());
}

void avg_pool(const ir::Node& node, const std::vector<View>& in, const std::vector<View>& out, backend::ErrorWord&) {
  const Pool pool(node.attrs, in[0].shape(), out[0].shape());
  pool.each_window([&](std::int64_t y, const std::vector<std::int64_t>& cells) {
    double sum = 0;
    for (const std::int64_t cell : cells) sum += in[0].get(cell);
    out[0].set(y, sum / divisor(node.attrs, pool, cells));
  });
}

// dy -> dx
void avg_pool_grad(const ir::Node& node, const std::vector<View>& in, const std::vector<View>& out,
                   backend::ErrorWord&) {
  std::vector<double> dx(static_cast<std::size_t>(out[0].numel()), 0.0);
  const Pool pool(node.attrs, out[0].shape(), in[0].shape());
  pool.each_window([&](std::int64_t y, const std::vector<std::int64_t>& cells) {
    for (const std::int64_t cell : cells)
      dx[static_cast<std::size_t>(cell)] += in[0].get(y) / divisor(node.attrs, pool, cells);
  });
  for (std::size_t i = 0; i < dx.size(); ++i) out[0].set(static_cast<std::int64_t>(i), dx[i]);
}

}  // namespace

void add_pool_kernels(KernelMap& map) {
  map["max_pool2d"] = max_pool;
  map["max_pool2d_grad"] = max_pool_grad;
  map["max_pool2d_gather"] = max_pool_gather;
  map["avg_pool2d"] = avg_pool;
  map["avg_pool2d_grad"] = avg_pool_grad;
}

}  // namespace varve::reference
