#include "nn/text/schema.h"

namespace varve::nn {

const std::vector<LayerKind>& layer_kinds() {
  static const std::vector<LayerKind> all = [] {
    std::vector<LayerKind> kinds;
    for (const auto& part : {plain_kinds(), image_kinds(), volume_kinds(), sequence_kinds()})
      kinds.insert(kinds.end(), part.begin(), part.end());
    return kinds;
  }();
  return all;
}

const LayerKind* find_kind(const std::string& name) {
  for (const LayerKind& kind : layer_kinds())
    if (kind.schema.name == name) return &kind;
  return nullptr;
}

const std::vector<LayerSchema>& layer_schemas() {
  static const std::vector<LayerSchema> all = [] {
    std::vector<LayerSchema> schemas;
    for (const LayerKind& kind : layer_kinds()) schemas.push_back(kind.schema);
    return schemas;
  }();
  return all;
}

}  // namespace varve::nn
