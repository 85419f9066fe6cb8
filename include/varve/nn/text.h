// Networks as text: the [[layer]] tables of a TOML file. docs/network-files.md is the schema.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "varve/nn/combine.h"
#include "varve/nn/layers.h"

namespace varve::nn {

struct TextNetwork {
  std::string name;                  // of the file, without its ending, or what `name =` says
  Shape input;                       // of a sample: of several inputs, the first
  DType dtype = f32;                 // i32 when the first layer is an embedding
  std::vector<Field> inputs;         // all of them; a single one has no name
  std::vector<std::string> outputs;  // the steps that are given, where there are several
  Graph network;                     // not built yet
};
// Errors name the file, the line and the key, and the nearest known key. Tables other than layers ([train]) are left to
// their readers, and must be known ones.
TextNetwork network_from_toml(const std::string& text, const std::string& name);
TextNetwork load_network(const std::string& path);

// While one is alive, network text that this thread reads may also name these initialisers and activations.
class OwnNames {
 public:
  OwnNames(std::map<std::string, Initializer> initializers, std::map<std::string, Activation> activations);
  ~OwnNames();
  OwnNames(const OwnNames&) = delete;
  OwnNames& operator=(const OwnNames&) = delete;
  static const Initializer* initializer(const std::string& name);  // null: none of that name
  static const Activation* activation(const std::string& name);

 private:
  std::map<std::string, Initializer> initializers_;
  std::map<std::string, Activation> activations_;
  const OwnNames* outer_;
};

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
