// Layers for any kind of data.
#include "nn/text/keys.h"

namespace varve::nn {
namespace {

LayerKind dense_kind() {
  return {{"dense", "A fully connected layer, over the last axis",
           std::vector<LayerKey>{{"out", kWhole, "", "how many outputs"}, activation_key(), bias_key()} + init_keys()},
          [](const Fields& f) {
            return layer(dense(f.size("out"), {.activation = f.activation("activation"),
                                               .bias = f.flag("bias"),
                                               .weight_init = f.init("weight_init"),
                                               .bias_init = f.init("bias_init")}));
          }};
}

LayerKind batch_norm_kind() {
  return {{"batch_norm",
           "Batch normalisation over the last axis",
           {{"momentum", kNumber, "0.1", "of the new batch in the running statistics"},
            {"epsilon", kNumber, "1e-5", "added to the variance"},
            {"scale", kFlag, "true", "whether a scale is learnt"},
            {"shift", kFlag, "true", "whether a shift is learnt"},
            activation_key()}},
          [](const Fields& f) {
            return layer(batch_norm({.momentum = f.share("momentum"),
                                     .epsilon = f.share("epsilon"),
                                     .scale = f.flag("scale"),
                                     .shift = f.flag("shift"),
                                     .activation = f.activation("activation")}));
          }};
}

LayerKind norm_kind(const std::string& name, const std::string& doc, Norm::Kind kind) {
  std::vector<LayerKey> keys;
  if (kind == Norm::group) keys.push_back({"groups", kWhole, "", "into how many groups the channels fall"});
  keys.push_back({"epsilon", kNumber, kind == Norm::rms ? "1e-6" : "1e-5", "added to the variance"});
  keys.push_back({"scale", kFlag, "true", "whether a scale is learnt"});
  if (kind != Norm::rms) keys.push_back({"shift", kFlag, "true", "whether a shift is learnt"});
  return {{name, doc, keys}, [kind](const Fields& f) {
            const NormOptions options{
                .epsilon = f.share("epsilon"), .scale = f.flag("scale"), .shift = kind != Norm::rms && f.flag("shift")};
            return layer(Norm(kind, options, kind == Norm::group ? f.size("groups") : 1));
          }};
}

}  // namespace

std::vector<LayerKind> plain_kinds() {
  return {
      dense_kind(),
      {{"activation", "An activation on its own", {{"name", kWord, "", "relu, tanh, gelu, softmax…"}}},
       [](const Fields& f) { return layer(activation(f.activation("name"))); }},
      {{"dropout", "Sets a share of its input to zero in training", {{"rate", kNumber, "0.5", "that share"}}},
       [](const Fields& f) { return layer(dropout(f.share("rate"))); }},
      {{"flatten", "Each sample as one row", {}}, [](const Fields&) { return layer(flatten()); }},
      {{"reshape", "Each sample to another shape", {{"shape", "array of integers", "", "its sizes; one may be -1"}}},
       [](const Fields& f) { return layer(reshape(Shape(f.sizes("shape", -1)))); }},
      {{"permute", "The axes of a sample in another order", {{"order", "array of integers", "", "counted from 1"}}},
       [](const Fields& f) { return layer(permute(f.sizes("order", 1))); }},
      {{"identity", "Its input, unchanged", {}}, [](const Fields&) { return layer(identity()); }},
      batch_norm_kind(),
      norm_kind("layer_norm", "Layer normalisation over the last axis", Norm::layer),
      norm_kind("rms_norm", "Division by the root of the mean square of the last axis", Norm::rms),
      norm_kind("group_norm", "Normalisation over groups of channels", Norm::group),
      norm_kind("instance_norm", "Normalisation of each channel of each sample", Norm::instance),
  };
}

}  // namespace varve::nn
