// Networks as text: the [[layer]] tables of a TOML file. docs/network-files.md is the schema.
#pragma once

#include <string>
#include <vector>

#include "varve/nn/combine.h"

namespace varve::nn {

struct TextNetwork {
  std::string name;   // of the file, without its ending, or what `name =` says
  Shape input;        // of a sample
  DType dtype = f32;  // i32 when the first layer is an embedding
  Graph network;      // not built yet
};
// Errors name the file, the line and the key, and the nearest known key. Tables other than layers ([train]) are left to
// their readers, and must be known ones.
TextNetwork network_from_toml(const std::string& text, const std::string& name);
TextNetwork load_network(const std::string& path);

// What a layer of a network file accepts; docs/network-files.md is written from this.
struct LayerKey {
  std::string name, type, standard, doc;  // standard: what holds when the key is absent; "" when it is required
};
struct LayerSchema {
  std::string name, doc;
  std::vector<LayerKey> keys;
};
const std::vector<LayerSchema>& layer_schemas();

}  // namespace varve::nn
