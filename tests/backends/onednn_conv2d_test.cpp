// oneDNN's convolutions, all three passes, against plain loops.

#ifdef VARVE_HAS_ONEDNN

#include "backends/onednn_helpers.h"

namespace varve::cpu::dnn {
namespace {

// y[b,h,w,o] = sum of x · w; the three passes in one walk over all products.
template <class Visit>
void for_each_product(const Conv2dSpec& s, const Visit& visit) {
  const std::int64_t in = s.in_channels / s.groups, out = s.out_channels / s.groups;
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t oh = 0; oh < s.out_height(); ++oh)
      for (std::int64_t ow = 0; ow < s.out_width(); ++ow)
        for (std::int64_t o = 0; o < s.out_channels; ++o)
          for (std::int64_t kh = 0; kh < s.kernel_height; ++kh)
            for (std::int64_t kw = 0; kw < s.kernel_width; ++kw) {
              const std::int64_t h = oh * s.stride_height - s.pad_top + kh * s.dilation_height;
              const std::int64_t w = ow * s.stride_width - s.pad_left + kw * s.dilation_width;
              if (h < 0 || h >= s.in_height || w < 0 || w >= s.in_width) continue;
              for (std::int64_t i = 0; i < in; ++i) {
                visit(((b * s.in_height + h) * s.in_width + w) * s.in_channels + o / out * in + i,
                      ((o * s.kernel_height + kh) * s.kernel_width + kw) * in + i,
                      ((b * s.out_height() + oh) * s.out_width() + ow) * s.out_channels + o);
              }
            }
}

struct ConvCase {
  Values x, w, bias, dy, y, dx, dw, db;
};

ConvCase naive_conv(const Conv2dSpec& s) {
  ConvCase c;
  const std::int64_t outputs = s.batch * s.out_height() * s.out_width() * s.out_channels;
  c.x = values(s.batch * s.in_height * s.in_width * s.in_channels, 1);
  c.w = values(s.out_channels * s.kernel_height * s.kernel_width * (s.in_channels / s.groups), 2);
  c.bias = values(s.out_channels, 3);
  c.dy = values(outputs, 4);
  c.y.resize(outputs);
  c.dx.resize(c.x.size());
  c.dw.resize(c.w.size());
  c.db.resize(c.bias.size());
  for (std::int64_t i = 0; i < outputs; ++i) {
    c.y[i] = s.bias ? c.bias[i % s.out_channels] : 0;
    c.db[i % s.out_channels] += c.dy[i];
  }
  for_each_product(s, [&](std::int64_t x, std::int64_t w, std::int64_t y) {
    c.y[y] += c.x[x] * c.w[w];
    c.dx[x] += c.dy[y] * c.w[w];
    c.dw[w] += c.x[x] * c.dy[y];
  });
  for (float& y : c.y) y = static_cast<float>(activate(s.activation, y));
  return c;
}

void check_conv(Conv2dSpec s, const std::string& what) {
  for (const bool packed : {false, true}) {
    SCOPED_TRACE(what + (packed ? " packed" : " plain"));
    s.packed_weights = packed;
    ConvCase c = naive_conv(s);
    auto forward = Conv2d::prepare(Conv2dPass::forward, s);
    ASSERT_TRUE(forward) << forward.reason();
    const PackedLayout* shared = packed ? &forward->weights_layout() : nullptr;
    auto data = Conv2d::prepare(Conv2dPass::backward_data, s, shared);
    auto weights = Conv2d::prepare(Conv2dPass::backward_weights, s, shared);
    ASSERT_TRUE(data) << data.reason();
    ASSERT_TRUE(weights) << weights.reason();
    const Bytes scratch(std::max({forward->scratch_bytes(), data->scratch_bytes(), weights->scratch_bytes()}));
    const PackedLayout& layout = forward->weights_layout();
    const Bytes kept(layout.bytes()), gradient(layout.bytes());
    layout.pack(c.w.data(), kept.get());

    Values y(c.y.size(), kNan), dx(c.dx.size(), kNan), dw(c.dw.size(), kNan), db(c.db.size(), kNan);
    forward->run(
        {.x = c.x.data(), .weights = kept.get(), .bias = c.bias.data(), .y = y.data(), .scratch = scratch.get()});
    expect_near(c.y, y.data(), 1e-3, "y by " + forward->implementation());
    data->run({.x = dx.data(), .weights = kept.get(), .y = c.dy.data(), .scratch = scratch.get()});
    expect_near(c.dx, dx.data(), 1e-3, "dx by " + data->implementation());
    weights->run(
        {.x = c.x.data(), .weights = gradient.get(), .bias = db.data(), .y = c.dy.data(), .scratch = scratch.get()});
    layout.unpack(gradient.get(), dw.data());
    expect_near(c.dw, dw.data(), 2e-3, "dw by " + weights->implementation());
    if (s.bias) expect_near(c.db, db.data(), 1e-3, "db");
  }
}

TEST(OneDnnConv2d, Plain) {
  Conv2dSpec s{.batch = 2, .in_height = 9, .in_width = 11, .in_channels = 16, .out_channels = 32};
  check_conv(s, "1x1");
  s.kernel_height = s.kernel_width = 3;
  s.pad_top = s.pad_bottom = s.pad_left = s.pad_right = 1;
  s.bias = true;
  s.activation = Activation::relu;
  check_conv(s, "3x3, bias, relu");
  s.single_thread = true;
  check_conv(s, "3x3 by one thread");
}

TEST(OneDnnConv2d, ThreeChannelsAndStride) {
  check_conv({.batch = 2,
              .in_height = 17,
              .in_width = 15,
              .in_channels = 3,
              .out_channels = 20,
              .kernel_height = 5,
              .kernel_width = 4,
              .stride_height = 2,
              .stride_width = 3,
              .pad_top = 2,
              .pad_bottom = 1,
              .pad_left = 0,
              .pad_right = 3,
              .bias = true},
             "uneven");
}

TEST(OneDnnConv2d, OneChannel) {
  check_conv({.batch = 3,
              .in_height = 12,
              .in_width = 12,
              .in_channels = 1,
              .out_channels = 6,
              .kernel_height = 5,
              .kernel_width = 5,
              .bias = true},
             "LeNet's first");
}

TEST(OneDnnConv2d, Dilation) {
  check_conv({.batch = 1,
              .in_height = 14,
              .in_width = 13,
              .in_channels = 16,
              .out_channels = 16,
              .kernel_height = 3,
              .kernel_width = 3,
              .dilation_height = 2,
              .dilation_width = 3,
              .pad_top = 2,
              .pad_bottom = 2,
              .pad_left = 3,
              .pad_right = 3},
             "dilation");
}

TEST(OneDnnConv2d, GroupsAndDepthwise) {
  Conv2dSpec s{.batch = 2,
               .in_height = 8,
               .in_width = 8,
               .in_channels = 32,
               .out_channels = 64,
               .kernel_height = 3,
               .kernel_width = 3,
               .pad_top = 1,
               .pad_bottom = 1,
               .pad_left = 1,
               .pad_right = 1,
               .groups = 2,
               .bias = true};
  check_conv(s, "two groups");
  s.groups = s.out_channels = 32;
  check_conv(s, "depthwise");
}

TEST(OneDnnConv2d, RefusesWithAReason) {
  const auto refused = Conv2d::prepare(
      Conv2dPass::forward, {.in_height = 2, .in_width = 2, .in_channels = 3, .out_channels = 4, .kernel_height = 5});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.reason().find("kernel larger"), std::string::npos);
}

TEST(OneDnnConv2d, Bf16) {
  Conv2dSpec s{.batch = 2,
               .in_height = 8,
               .in_width = 8,
               .in_channels = 16,
               .out_channels = 32,
               .kernel_height = 3,
               .kernel_width = 3,
               .input = Type::bf16};
  ConvCase c = naive_conv(s);
  Halves x = to_bf16(c.x), w = to_bf16(c.w), dy = to_bf16(c.dy);
  auto forward = Conv2d::prepare(Conv2dPass::forward, s);
  auto data = Conv2d::prepare(Conv2dPass::backward_data, s);
  auto weights = Conv2d::prepare(Conv2dPass::backward_weights, s);
  if (!has_bf16()) {
    for (const auto* offer : {&forward, &data, &weights}) {
      ASSERT_FALSE(*offer);
      EXPECT_EQ(offer->reason(), "conv2d: this CPU has no bf16 products");
    }
    return;
  }
  ASSERT_TRUE(forward) << forward.reason();
  ASSERT_TRUE(data) << data.reason();
  ASSERT_TRUE(weights) << weights.reason();
  const Bytes scratch(std::max({forward->scratch_bytes(), data->scratch_bytes(), weights->scratch_bytes()}));
  Values y(c.y.size()), dx(c.dx.size()), dw(c.dw.size());
  forward->run({.x = x.data(), .weights = w.data(), .y = y.data(), .scratch = scratch.get()});
  data->run({.x = dx.data(), .weights = w.data(), .y = dy.data(), .scratch = scratch.get()});
  weights->run({.x = x.data(), .weights = dw.data(), .y = dy.data(), .scratch = scratch.get()});
  // The oracle saw the values before they were cut to bf16.
  expect_near(c.y, y.data(), 0.2, forward->implementation());
  expect_near(c.dx, dx.data(), 0.3, data->implementation());
  expect_near(c.dw, dw.data(), 0.3, weights->implementation());
}

}  // namespace
}  // namespace varve::cpu::dnn

#endif  // VARVE_HAS_ONEDNN
