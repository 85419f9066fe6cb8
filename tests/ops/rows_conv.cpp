// Convolutions: the plain sum over taps, and its transpose, with every option.
#include "ops/row.h"

namespace varve::test {
namespace {

using Index = std::vector<std::int64_t>;

double* at(Doubles& x, const Index& index) { return &x.data[static_cast<std::size_t>(offset(x.shape, index))]; }
struct Taps {
  Index stride = {1, 1}, before = {0, 0}, after = {0, 0}, dilation = {1, 1};
  std::int64_t groups = 1;
};

Taps taps_of(const Conv2dOptions& o) {
  return {o.stride,
          {o.padding[0].before, o.padding[1].before},
          {o.padding[0].after, o.padding[1].after},
          o.dilation,
          o.groups};
}

// Calls visit(output y, x; kernel y, x; input y, x) for every tap that meets the image.
void each_tap(const Taps& t, const Shape& image, const Shape& kernel, const Shape& out,
              const std::function<void(const Index&)>& visit) {
  each_index({out[1], out[2], kernel[1], kernel[2]}, [&](const Index& i) {
    const std::int64_t y = i[0] * t.stride[0] + i[2] * t.dilation[0] - t.before[0];
    const std::int64_t x = i[1] * t.stride[1] + i[3] * t.dilation[1] - t.before[1];
    if (y >= 0 && y < image[1] && x >= 0 && x < image[2]) visit({i[0], i[1], i[2], i[3], y, x});
  });
}

std::int64_t shrunk(const Taps& t, std::size_t axis, std::int64_t size, std::int64_t kernel) {
  std::int64_t count = 0;  // windows that fit, one after the other
  while (count * t.stride[axis] + (kernel - 1) * t.dilation[axis] < size + t.before[axis] + t.after[axis]) ++count;
  return count;
}

Doubles convolved(const Doubles& x, const Doubles& w, const Taps& t) {
  Doubles y =
      doubles({x.shape[0], shrunk(t, 0, x.shape[1], w.shape[1]), shrunk(t, 1, x.shape[2], w.shape[2]), w.shape[0]});
  const std::int64_t in_group = w.shape[3], out_group = w.shape[0] / t.groups;
  each_tap(t, x.shape, w.shape, y.shape, [&](const Index& tap) {
    each_index({x.shape[0], w.shape[0], in_group}, [&](const Index& c) {
      const std::int64_t channel = c[1] / out_group * in_group + c[2];
      *at(y, {c[0], tap[0], tap[1], c[1]}) +=
          at(x, {c[0], tap[4], tap[5], channel}) * at(w, {c[1], tap[2], tap[3], c[2]});
    });
  });
  return y;
}

// Every input pixel stamps the kernel onto the output.
Doubles stamped(const Doubles& x, const Doubles& w, const Taps& t, const Index& extra) {
  const auto grown = [&](std::size_t axis) {
    const int a = static_cast<int>(axis) + 1;
    return (x.shape[a] - 1) * t.stride[axis] + (w.shape[a] - 1) * t.dilation[axis] + 1 - t.before[axis] -
           t.after[axis] + extra[axis];
  };
  Doubles y = doubles({x.shape[0], grown(0), grown(1), w.shape[3] * t.groups});
  const std::int64_t in_group = x.shape[3] / t.groups, out_group = w.shape[3];
  each_tap(t, y.shape, w.shape, x.shape, [&](const Index& tap) {
    each_index({x.shape[0], x.shape[3], out_group}, [&](const Index& c) {
      const std::int64_t channel = c[1] / in_group * out_group + c[2];
      *at(y, {c[0], tap[4], tap[5], channel}) +=
          at(x, {c[0], tap[0], tap[1], c[1]}) * at(w, {c[1], tap[2], tap[3], c[2]});
    });
  });
  return y;
}

double taps_in(const std::vector<Shape>& s) { return static_cast<double>(Shape{s[1][1], s[1][2], s[1][3]}.numel()); }

Row conv_row(const std::string& label, const Conv2dOptions& o, std::vector<std::vector<Shape>> shapes,
             std::vector<std::vector<Shape>> gradient_shapes = {}) {
  return {.op = "conv2d",
          .label = label,
          .covers = {"conv2d_input_grad", "conv2d_weight_grad"},
          .call = [o](const Tensors& in) { return conv2d(in[0], in[1], o); },
          .oracle = [o](const DoublesList& in) { return convolved(in[0], in[1], taps_of(o)); },
          .shapes = std::move(shapes),
          .terms = taps_in,
          .gradient_shapes = std::move(gradient_shapes)};
}

Row transpose_row(const std::string& label, const ConvTransposeOptions& o, std::vector<std::vector<Shape>> shapes) {
  return {.op = "conv2d_input_grad",
          .label = label,
          .call = [o](const Tensors& in) { return conv2d_transpose(in[0], in[1], o); },
          .oracle =
              [o](const DoublesList& in) {
                return stamped(in[0], in[1], taps_of({o.stride, o.padding, o.dilation, o.groups}), o.output_padding);
              },
          .shapes = std::move(shapes),
          .terms =
              [](const std::vector<Shape>& s) {
                return static_cast<double>(Shape{s[1][0], s[1][1], s[1][2]}.numel());
              }};
}

Row conv1d_row(const std::string& label, const Conv1dOptions& o) {
  return {.op = "conv1d",
          .label = label,
          .call = [o](const Tensors& in) { return conv1d(in[0], in[1], o); },
          .oracle =
              [o](const DoublesList& in) {
                const auto flat = [](const Doubles& x) {
                  return Doubles{{x.shape[0], 1, x.shape[1], x.shape[2]}, x.data};
                };
                const Taps taps{{1, o.stride}, {0, o.padding.before}, {0, o.padding.after}, {1, o.dilation}, o.groups};
                Doubles y = convolved(flat(in[0]), flat(in[1]), taps);
                y.shape = {y.shape[0], y.shape[2], y.shape[3]};
                return y;
              },
          .shapes = {{{2, 9, 4}, {6, 3, 4 / o.groups}}, {{0, 9, 4}, {2, 3, 4 / o.groups}}},
          .terms = 12};
}

}  // namespace

std::vector<Row> conv_rows() {
  return {
      conv_row("", {},
               {{{1, 1, 1, 1}, {1, 1, 1, 1}},
                {{2, 5, 6, 3}, {4, 3, 2, 3}},
                {{0, 5, 5, 3}, {4, 3, 3, 3}},
                {{2, 4, 4, 0}, {3, 2, 2, 0}},
                {{2, 4, 4, 3}, {0, 2, 2, 3}},
                {{1, 7, 5, 17}, {33, 1, 1, 17}},
                {{1, 3, 3, 2}, {2, 3, 3, 2}},
                {{2, 12, 11, 16}, {24, 3, 3, 16}}},
               {{{2, 4, 5, 3}, {2, 3, 2, 3}}, {{0, 5, 5, 3}, {4, 3, 3, 3}}, {{1, 3, 3, 2}, {2, 3, 3, 2}}}),
      conv_row("same", {.padding = {1, 1}}, {{{2, 5, 6, 3}, {4, 3, 3, 3}}, {{1, 1, 1, 2}, {3, 3, 3, 2}}}),
      conv_row("strided", {.stride = {2, 3}, .padding = {1, 2}},
               {{{2, 7, 8, 3}, {2, 3, 3, 3}}, {{1, 6, 9, 2}, {3, 2, 5, 2}}}),
      conv_row("strideoverkernel", {.stride = {3, 4}}, {{{2, 8, 9, 3}, {2, 2, 1, 3}}, {{2, 7, 7, 3}, {2, 1, 1, 3}}}),
      conv_row("dilated", {.padding = {2, 1}, .dilation = {2, 3}}, {{{1, 7, 8, 3}, {2, 3, 3, 3}}}),
      conv_row("asymmetric", {.stride = {2, 1}, .padding = {Padding(0, 1), Padding(3, 0)}},
               {{{2, 5, 4, 3}, {2, 3, 3, 3}}, {{1, 4, 4, 2}, {3, 2, 4, 2}}}),
      conv_row("grouped", {.padding = {1, 1}, .groups = 2},
               {{{2, 5, 4, 6}, {4, 3, 3, 3}}, {{1, 4, 4, 32}, {16, 3, 3, 16}}}, {{{2, 3, 4, 4}, {4, 3, 3, 2}}}),
      conv_row("depthwise", {.stride = {2, 2}, .padding = {1, 1}, .groups = 4},
               {{{2, 5, 5, 4}, {4, 3, 3, 1}}, {{2, 5, 5, 4}, {8, 3, 3, 1}}}),
      conv_row("everything",
               {.stride = {2, 1}, .padding = {Padding(1, 2), Padding(0, 3)}, .dilation = {1, 2}, .groups = 3},
               {{{2, 6, 7, 6}, {9, 3, 3, 2}}, {{0, 6, 7, 6}, {9, 3, 3, 2}}}, {{{1, 4, 5, 3}, {3, 3, 2, 1}}}),
      conv1d_row("", {}),
      conv1d_row("everything", {.stride = 2, .padding = Padding(2, 1), .dilation = 2, .groups = 2}),
      transpose_row("", {}, {{{2, 3, 4, 3}, {3, 3, 2, 2}}, {{0, 3, 3, 2}, {2, 2, 2, 3}}}),
      transpose_row("strided", {.stride = {2, 3}, .padding = {1, 1}, .output_padding = {1, 2}},
                    {{{2, 3, 4, 3}, {3, 3, 3, 2}}}),
      transpose_row("everything",
                    {.stride = {2, 2},
                     .padding = {Padding(0, 1), Padding(2, 0)},
                     .output_padding = {0, 1},
                     .dilation = {2, 1},
                     .groups = 2},
                    {{{2, 3, 3, 4}, {4, 3, 2, 3}}}),
  };
}

}  // namespace varve::test
