// Layers of images [H, W, C], and convolution along time.
#include "nn/text/keys.h"

namespace varve::nn {
namespace {

const LayerKey kOut = {"out", kWhole, "", "how many output channels"};
const LayerKey kGroups = {"groups", kWhole, "1", "channels fall into so many groups, convolved apart"};
LayerKey padding_key(const std::string& standard) {
  return {"padding", kPadding, '"' + standard + '"', "zeros around the image; same: output = input / stride"};
}

std::vector<LayerKey> window_keys() {
  return {{"kernel", kPair, "3", "size of the window"}, {"stride", kPair, "1", "step of the window"}};
}

Conv2dOptions conv_options(const Fields& f, std::int64_t groups) {
  return {.kernel = f.pair("kernel"),
          .stride = f.pair("stride"),
          .padding = f.padding("padding"),
          .dilation = f.pair("dilation"),
          .groups = groups,
          .bias = f.flag("bias"),
          .activation = f.activation("activation"),
          .weight_init = f.init("weight_init"),
          .bias_init = f.init("bias_init")};
}

LayerKind conv2d_kind() {
  return {{"conv2d", "Convolution of an image",
           std::vector<LayerKey>{kOut} + window_keys() +
               std::vector<LayerKey>{padding_key("same"),
                                     {"dilation", kPair, "1", "distance of the window's taps"},
                                     kGroups,
                                     bias_key(),
                                     activation_key()} +
               init_keys()},
          [](const Fields& f) { return layer(conv2d(f.size("out"), conv_options(f, f.size("groups")))); }};
}

LayerKind depthwise_kind() {
  return {{"depthwise_conv2d", "Convolution of each channel on its own",
           window_keys() +
               std::vector<LayerKey>{padding_key("same"),
                                     {"dilation", kPair, "1", "distance of the window's taps"},
                                     {"multiplier", kWhole, "1", "outputs from each channel"},
                                     bias_key(),
                                     activation_key()} +
               init_keys()},
          [](const Fields& f) { return layer(depthwise_conv2d(conv_options(f, 1), f.size("multiplier"))); }};
}

LayerKind conv1d_kind() {
  return {{"conv1d", "Convolution along time, [T, C]",
           std::vector<LayerKey>{kOut,
                                 {"kernel", kWhole, "3", "size of the window"},
                                 {"stride", kWhole, "1", "step of the window"},
                                 {"dilation", kWhole, "1", "distance of the window's taps"},
                                 kGroups,
                                 padding_key("same"),
                                 bias_key(),
                                 activation_key()} +
               init_keys()},
          [](const Fields& f) {
            return layer(conv1d(f.size("out"), {.kernel = f.size("kernel"),
                                                .stride = f.size("stride"),
                                                .dilation = f.size("dilation"),
                                                .groups = f.size("groups"),
                                                .padding = f.padding("padding"),
                                                .bias = f.flag("bias"),
                                                .activation = f.activation("activation"),
                                                .weight_init = f.init("weight_init"),
                                                .bias_init = f.init("bias_init")}));
          }};
}

LayerKind transpose_kind() {
  return {{"conv2d_transpose", "Transposed convolution: a larger image from a smaller one",
           std::vector<LayerKey>{kOut} + window_keys() +
               std::vector<LayerKey>{{"padding", kPair, "0", "cut off around the result"},
                                     {"output_padding", kPair, "0", "added to the result, after"},
                                     bias_key(),
                                     activation_key()} +
               init_keys()},
          [](const Fields& f) {
            return layer(conv2d_transpose(f.size("out"), {.kernel = f.pair("kernel"),
                                                          .stride = f.pair("stride"),
                                                          .padding = f.pair("padding", 0),
                                                          .output_padding = f.pair("output_padding", 0),
                                                          .bias = f.flag("bias"),
                                                          .activation = f.activation("activation"),
                                                          .weight_init = f.init("weight_init"),
                                                          .bias_init = f.init("bias_init")}));
          }};
}

LayerKind pool_kind(const std::string& name, const std::string& doc, Pool2d::Kind kind) {
  std::vector<LayerKey> keys = {
      {"window", kPair, "2", "size of the window"},
      {"stride", std::string(kPair) + " or \"window\"", "\"window\"", "step of the window; that of its size"},
      padding_key("valid"),
      {"ceil_mode", kFlag, "false", "whether a window that reaches over the edge counts"}};
  if (kind == Pool2d::average)
    keys.push_back({"count_padding", kFlag, "false", "whether padding counts in the average"});
  return {{name, doc, keys}, [kind](const Fields& f) {
            Pool2dOptions options{.padding = f.padding("padding"), .ceil_mode = f.flag("ceil_mode")};
            if (!f.is("stride", "window")) options.stride = f.pair("stride");
            if (kind == Pool2d::average) options.count_padding = f.flag("count_padding");
            return layer(Pool2d(kind, f.pair("window"), options));
          }};
}

LayerKind lrn_kind() {
  return {{"local_response_norm",
           "Each channel divided by the squares of its neighbours, as in AlexNet",
           {{"size", kWhole, "5", "how many neighbours"},
            {"alpha", kNumber, "1e-4", "weight of the squares"},
            {"beta", kNumber, "0.75", "exponent"},
            {"k", kNumber, "1.0", "added before the power"}}},
          [](const Fields& f) {
            return layer(local_response_norm({.size = f.size("size"),
                                              .alpha = f.number("alpha", 0, 1e6),
                                              .beta = f.number("beta", 0, 1e3),
                                              .k = f.number("k", 0, 1e6)}));
          }};
}

}  // namespace

std::vector<LayerKind> image_kinds() {
  return {
      conv2d_kind(),
      depthwise_kind(),
      conv1d_kind(),
      transpose_kind(),
      pool_kind("max_pool2d", "The largest of each window", Pool2d::max),
      pool_kind("avg_pool2d", "The average of each window", Pool2d::average),
      {{"global_avg_pool2d", "The average of each channel: [H, W, C] to [C]", {}},
       [](const Fields&) { return layer(global_avg_pool2d()); }},
      {{"global_max_pool2d", "The largest of each channel: [H, W, C] to [C]", {}},
       [](const Fields&) { return layer(global_max_pool2d()); }},
      {{"adaptive_avg_pool2d", "Averages that make an image of this size", {{"size", kPair, "", "of the result"}}},
       [](const Fields& f) { return layer(adaptive_avg_pool2d(f.pair("size"))); }},
      {{"zero_pad2d", "Zeros around the image", {{"padding", "integer or [rows, columns]", "", "how many"}}},
       [](const Fields& f) {
         const auto [rows, columns] = f.sides("padding");
         return layer(zero_pad2d(rows, columns));
       }},
      {{"upsample2d", "Each pixel several times", {{"factor", kPair, "2", "how many times"}}},
       [](const Fields& f) { return layer(upsample2d(f.pair("factor"))); }},
      {{"channel_shuffle", "Channels of groups interleaved, as in ShuffleNet", {{"groups", kWhole, "", "how many"}}},
       [](const Fields& f) { return layer(channel_shuffle(f.size("groups"))); }},
      lrn_kind(),
  };
}

}  // namespace varve::nn
