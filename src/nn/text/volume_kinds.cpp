// Layers of volumes [D, H, W, C], and resizing.
#include "nn/text/keys.h"
#include "varve/nn/volume.h"

namespace varve::nn {
namespace {

constexpr const char* kTriple = "integer or [depth, height, width]";
const LayerKey kVolumePadding = {"padding", "\"same\", \"valid\", integer or [depth, rows, columns]", "",
                                 "zeros around the volume; same: output = input / stride"};

LayerKey padding_of_volume(const char* standard) {
  LayerKey key = kVolumePadding;
  key.standard = std::string("\"") + standard + "\"";
  return key;
}

Triple triple(const Fields& f, const std::string& key) {
  const std::vector<std::int64_t> sizes = f.some_sizes(key, 1, {1, 3}, kTriple);
  return sizes.size() == 1 ? Triple(sizes[0]) : Triple(sizes[0], sizes[1], sizes[2]);
}

VolumePadding volume_padding(const Fields& f, const std::string& key) {
  for (const char* word : {"same", "valid"})
    if (f.is(key, word)) return word;
  const std::vector<std::int64_t> sizes =
      f.some_sizes(key, 0, {1, 3}, "\"same\", \"valid\", an integer or [depth, rows, columns]");
  return sizes.size() == 1 ? VolumePadding(sizes[0]) : VolumePadding(sizes[0], sizes[1], sizes[2]);
}

LayerKind conv3d_kind() {
  return {{"conv3d", "Convolution of a volume",
           std::vector<LayerKey>{{"out", kWhole, "", "how many output channels"},
                                 {"kernel", kTriple, "3", "size of the window"},
                                 {"stride", kTriple, "1", "step of the window"},
                                 padding_of_volume("same"),
                                 {"dilation", kTriple, "1", "distance of the window's taps"},
                                 {"groups", kWhole, "1", "channels fall into so many groups, convolved apart"},
                                 bias_key(),
                                 activation_key()} +
               init_keys()},
          [](const Fields& f) {
            return layer(conv3d(f.size("out"), {.kernel = triple(f, "kernel"),
                                                .stride = triple(f, "stride"),
                                                .padding = volume_padding(f, "padding"),
                                                .dilation = triple(f, "dilation"),
                                                .groups = f.size("groups"),
                                                .bias = f.flag("bias"),
                                                .activation = f.activation("activation"),
                                                .weight_init = f.init("weight_init"),
                                                .bias_init = f.init("bias_init")}));
          }};
}

LayerKind pool3d_kind(const std::string& name, const std::string& doc, Pool2d::Kind kind) {
  std::vector<LayerKey> keys = {
      {"window", kTriple, "2", "size of the window"},
      {"stride", std::string(kTriple) + " or \"window\"", "\"window\"", "step of the window; that of its size"},
      padding_of_volume("valid"),
      {"ceil_mode", kFlag, "false", "whether a window that reaches over the edge counts"}};
  if (kind == Pool2d::average)
    keys.push_back({"count_padding", kFlag, "false", "whether padding counts in the average"});
  return {{name, doc, keys}, [kind](const Fields& f) {
            Pool3dOptions options{.padding = volume_padding(f, "padding"), .ceil_mode = f.flag("ceil_mode")};
            if (!f.is("stride", "window")) options.stride = triple(f, "stride");
            if (kind == Pool2d::average) options.count_padding = f.flag("count_padding");
            return layer(Pool3d(kind, triple(f, "window"), options));
          }};
}

LayerKind resize_kind() {
  return {{"resize",
           "The picture, signal or volume in another size",
           {{"size", "integer, [sizes] or \"scaled\"", "\"scaled\"", "of the result; scaled: by the scale"},
            {"scale", kNumber, "2.0", "how many times the size, rounded down"},
            {"mode", "\"nearest\", \"linear\" or \"cubic\"", "\"linear\"", "how values between elements are found"},
            {"alignment", "\"half_pixel\", \"align_corners\" or \"asymmetric\"", "\"half_pixel\"",
             "where elements of the result lie in the input"},
            {"antialias", kFlag, "false", "whether a smaller picture averages over what it leaves out"}}},
          [](const Fields& f) {
            ResizeOptions options{
                .scale = f.number("scale", 1e-6, 1e6),
                .mode = f.choice<Interpolation>("mode", {{"nearest", Interpolation::nearest},
                                                         {"linear", Interpolation::linear},
                                                         {"cubic", Interpolation::cubic}}),
                .alignment = f.choice<Alignment>("alignment", {{"half_pixel", Alignment::half_pixel},
                                                               {"align_corners", Alignment::align_corners},
                                                               {"asymmetric", Alignment::asymmetric}}),
                .antialias = f.flag("antialias")};
            if (!f.is("size", "scaled"))
              options.size = f.some_sizes("size", 1, {1, 2, 3}, "an integer or an array of up to three");
            return layer(resize(std::move(options)));
          }};
}

}  // namespace

std::vector<LayerKind> volume_kinds() {
  return {
      conv3d_kind(),
      pool3d_kind("max_pool3d", "The largest of each window of a volume", Pool2d::max),
      pool3d_kind("avg_pool3d", "The average of each window of a volume", Pool2d::average),
      {{"global_avg_pool3d", "The average of each channel: [D, H, W, C] to [C]", {}},
       [](const Fields&) { return layer(global_avg_pool3d()); }},
      {{"global_max_pool3d", "The largest of each channel: [D, H, W, C] to [C]", {}},
       [](const Fields&) { return layer(global_max_pool3d()); }},
      {{"adaptive_avg_pool3d", "Averages that make a volume of this size", {{"size", kTriple, "", "of the result"}}},
       [](const Fields& f) { return layer(adaptive_avg_pool3d(triple(f, "size"))); }},
      resize_kind()};
}

}  // namespace varve::nn
