// Convolutions of well-known networks, pooling and batch normalisation.
#include "base/text.h"
#include "cli/bench/cases.h"
#include "varve/varve.h"

namespace varve::cli {
namespace {

struct Conv {
  std::int64_t batch, size, in, out, kernel, stride = 1;

  std::string str() const {
    return cat(batch, "x", size, "x", size, "x", in, " ", kernel, "x", kernel, stride > 1 ? cat("/", stride) : "", " ",
               out);
  }
  Shape image() const { return {batch, size, size, in}; }
  Shape weights() const { return {out, kernel, kernel, in}; }
  Conv2dOptions options() const {
    const Padding same = same_padding(size, kernel, stride);
    return {.stride = {stride, stride}, .padding = {same, same}};
  }
  Shape result() const {
    const std::int64_t side = (size + stride - 1) / stride;
    return {batch, side, side, out};
  }
};

BenchCase forward(const Conv& c) {
  return {"conv2d", c.str(), [c] {
            return runner([c, w = weight(c.weights())](Tensor x) { return conv2d(x, w, c.options()); },
                          data(c.image()));
          }};
}

BenchCase backward(const Conv& c, bool of_weights) {
  return {of_weights ? "conv2d_weight_grad" : "conv2d_input_grad", c.str(), [c, of_weights] {
            return runner(
                [c, of_weights, w = weight(c.weights())](Tensor x, Tensor dy) {
                  const Tensor now = w;
                  return gradients({conv2d(x, now, c.options())}, {dy}, {of_weights ? now : x})[0];
                },
                data(c.image()), data(c.result()));
          }};
}

}  // namespace

void add_image_cases(std::vector<BenchCase>& cases) {
  const Conv resnet_stem{16, 224, 3, 64, 7, 2}, resnet3{16, 56, 64, 64, 3}, vgg{80, 16, 128, 128, 3};
  for (const Conv& c : {resnet_stem, resnet3, Conv{16, 56, 64, 256, 1}, Conv{16, 28, 128, 128, 3},
                        Conv{16, 14, 256, 256, 3}, Conv{16, 14, 1024, 256, 1}, Conv{16, 7, 512, 512, 3},
                        Conv{16, 56, 256, 512, 1, 2}, vgg, Conv{80, 32, 64, 64, 3}})
    cases.push_back(forward(c));
  for (const Conv& c : {resnet3, vgg}) {
    cases.push_back(backward(c, false));
    cases.push_back(backward(c, true));
  }
  cases.push_back({"max_pool2d", "16x112x112x64 3x3/2", [] {
                     const PoolOptions options{.window = {3, 3}, .stride = {2, 2}, .padding = {1, 1}};
                     return runner([options](Tensor x) { return max_pool2d(x, options); }, data({16, 112, 112, 64}));
                   }});
  cases.push_back({"batch_norm_train", "16x56x56x256", [] {
                     return runner(
                         [s = weight({256}), t = weight({256})](Tensor x) {
                           const BatchNorm r = batch_norm_train(x, s, t);
                           return std::vector<Tensor>{r.y, r.mean, r.var};
                         },
                         data({16, 56, 56, 256}));
                   }});
}

}  // namespace varve::cli
