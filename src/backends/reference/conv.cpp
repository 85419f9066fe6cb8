#include <vector>

#include "backends/reference/kernels.h"

namespace varve::reference {
namespace {

// x [N,H,W,I]  w [O,KH,KW,I/groups]  y [N,OH,OW,O]
struct Conv {
  Shape x, w, y;
  Ints stride, padding, dilation;
  std::int64_t groups;

  Conv(const Attrs& attrs, const Shape& x_, const Shape& w_, const Shape& y_)
      : x(x_),
        w(w_),
        y(y_),
        stride(attrs.ints("stride")),
        padding(attrs.ints("padding")),
        dilation(attrs.ints("dilation")),
        groups(attrs.integer("groups")) {}

  // Calls visit(position in x, position in w, position in y) for every product of the convolution.
  template <class Visit>
  void each_product(Visit visit) const {
    if (y.numel() == 0) return;  // without channels, any number of images is no work
    for (std::int64_t n = 0; n < y[0]; ++n)
      for (std::int64_t oy = 0; oy < y[1]; ++oy)
        for (std::int64_t ox = 0; ox < y[2]; ++ox)
          for (std::int64_t o = 0; o < y[3]; ++o) products_of(n, oy, ox, o, visit);
  }

 private:
  template <class Visit>
  void products_of(std::int64_t n, std::int64_t oy, std::int64_t ox, std::int64_t o, Visit& visit) const {
    const std::int64_t to = ((n * y[1] + oy) * y[2] + ox) * y[3] + o;
    const std::int64_t first_channel = o / (w[0] / groups) * w[3];
    for (std::int64_t ky = 0; ky < w[1]; ++ky) {
      const std::int64_t iy = oy * stride[0] + ky * dilation[0] - padding[0];
      if (iy < 0 || iy >= x[1]) continue;
      for (std::int64_t kx = 0; kx < w[2]; ++kx) {
        const std::int64_t ix = ox * stride[1] + kx * dilation[1] - padding[2];
        if (ix < 0 || ix >= x[2]) continue;
        const std::int64_t from = ((n * x[1] + iy) * x[2] + ix) * x[3] + first_channel;
        const std::int64_t filter = ((o * w[1] + ky) * w[2] + kx) * w[3];
        for (std::int64_t i = 0; i < w[3]; ++i) visit(from + i, filter + i, to);
      }
    }
  }
};

std::vector<double> values(const View& view) {
  std::vector<double> all(static_cast<std::size_t>(view.numel()));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = view.get(static_cast<std::int64_t>(i));
  return all;
}

// Each of the three operators sums products of two operands into the third; `roles` tells which positions are whose.
template <class Roles>
void sum_products(const Conv& conv, const std::vector<View>& in, const View& out, Roles roles) {
  const std::vector<double> a = values(in[0]), b = values(in[1]);
  std::vector<double> sums(static_cast<std::size_t>(out.numel()), 0.0);
  conv.each_product([&](std::int64_t x, std::int64_t w, std::int64_t y) {
    const auto [to, i, j] =
        roles(static_cast<std::size_t>(x), static_cast<std::size_t>(w), static_cast<std::size_t>(y));
    sums[to] += a[i] * b[j];
  });
  for (std::size_t i = 0; i < sums.size(); ++i) out.set(static_cast<std::int64_t>(i), sums[i]);
}

struct Part {
  std::size_t out, first, second;
};

void conv2d(const ir::Node& node, const std::vector<View>& in, const std::vector<View>& out, backend::ErrorWord&) {
  sum_products(Conv(node.attrs, in[0].shape(), in[1].shape(), out[0].shape()), in, out[0],
               [](std::size_t x, std::size_t w, std::size_t y) {
                 return Part{y, x, w};
               });
}

void input_grad(const ir::Node& node, const std::vector<View>& in, const std::vector<View>& out, backend::ErrorWord&) {
  sum_products(Conv(node.attrs, out[0].shape(), in[1].shape(), in[0].shape()), in, out[0],
               [](std::size_t x, std::size_t w, std::size_t y) {
                 return Part{x, y, w};
               });
}

void weight_grad(const ir::Node& node, const std::vector<View>& in, const std::vector<View>& out, backend::ErrorWord&) {
  sum_products(Conv(node.attrs, in[0].shape(), out[0].shape(), in[1].shape()), in, out[0],
               [](std::size_t x, std::size_t w, std::size_t y) {
                 return Part{w, x, y};
               });
}

}  // namespace

void add_conv_kernels(KernelMap& map) {
  map["conv2d"] = conv2d;
  map["conv2d_input_grad"] = input_grad;
  map["conv2d_weight_grad"] = weight_grad;
}

}  // namespace varve::reference
