// A network file read into a graph of layers.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "nn/text/schema.h"
#include "varve/io.h"

namespace varve::nn {

using text::Place;
using text::Value;

namespace {

constexpr int kDeepestBlock = 8;            // of blocks inside blocks
constexpr std::int64_t kMostLayers = 5000;  // blocks that hold blocks could ask for any number

const std::vector<std::string> kTopKeys = {"name",  "input", "inputs",  "outputs", "layer",
                                           "block", "train", "network", "sizes"};

// What stands in a [[layer]] table beside the layer itself.
const std::vector<std::string> kLayerKeys = {"name", "from", "repeat", "rank", "split"};
const std::vector<std::pair<std::string, Join>> kJoins = {
    {"concat", Join::concat}, {"add", Join::add}, {"multiply", Join::multiply}};

const Join* find_join(const std::string& name) {
  for (const auto& [known, join] : kJoins)
    if (known == name) return &join;
  return nullptr;
}

bool is_among(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Every value "$width" inside becomes what the parameter stands for.
Value substituted(const Value& value, const Value& parameters, const Place& place) {
  if (value.kind == Value::string && value.word.starts_with("$")) {
    const std::string name = value.word.substr(1);
    const Value* given = parameters.find(name);
    if (!given) {
      std::vector<std::string> known;
      for (const auto& field : parameters.fields) known.push_back(field.key);
      place.fail(value, "no parameter '" + name + "' in this block." + did_you_mean(name, known));
    }
    Value result = *given;
    result.line = value.line;
    return result;
  }
  Value result = value;
  for (Value& item : result.items) item = substituted(item, parameters, place);
  for (auto& field : result.fields) field.value = substituted(field.value, parameters, place);
  return result;
}

class Reader {
 public:
  explicit Reader(const Value& document, const std::string& file) : file_(file) {
    if (const Value* blocks = document.find("block")) {
      if (blocks->kind != Value::table) place("").fail(*blocks, "blocks are written [block.NAME].");
      blocks_ = *blocks;
    }
    for (const auto& [name, block] : blocks_.fields) check_block(name, block);
  }

  Graph graph(const Value& layers, const Embeddings* outer, int depth,
              const std::vector<std::string>& inputs = {"input"}) {
    if (layers.kind != Value::array) place("").fail(layers, "layers are written [[layer]], one after the other.");
    if (layers.items.empty()) place("").fail(layers, "a network needs at least one [[layer]].");
    Graph graph(inputs);
    if (depth == 0) inputs_ = inputs;
    Embeddings embeddings{{}, outer};
    std::map<std::string, int> counts;
    for (const Value& table : layers.items) {
      if (table.kind != Value::table) place("layer").expected(table, "a table");
      Graph::Step made = step(table, embeddings, counts, depth);
      try {
        graph.add_step(std::move(made));
      } catch (const Error& e) {
        place("").fail(table, e.what());
      }
    }
    return graph;
  }

  bool token_ids(const std::string& input) const { return is_among(token_ids_, input); }

 private:
  Place place(const std::string& what) const { return {file_, what}; }

  void check_block(const std::string& name, const Value& block) const {
    const Place here = place("block " + name);
    if (find_kind(name) || find_join(name) || is_among(kLayerKeys, name))
      here.fail(block, "the name is taken by a layer; choose another.");
    if (block.kind != Value::table) here.expected(block, "a table with [[block." + name + ".layer]]");
    const std::vector<std::string> known = {"parameters", "standard", "layer"};
    for (const auto& [key, value] : block.fields)
      if (!is_among(known, key)) here.fail(value, "unknown key '" + key + "'." + did_you_mean(key, known));
    if (!block.find("layer")) here.fail(block, "has no [[block." + name + ".layer]].");
  }

  // The one key of the table that names a layer, a join or a block.
  const text::Field& layer_of(const Value& table) const {
    std::vector<std::string> known = kLayerKeys;
    for (const LayerKind& kind : layer_kinds()) known.push_back(kind.schema.name);
    for (const auto& join : kJoins) known.push_back(join.first);
    for (const auto& block : blocks_.fields) known.push_back(block.key);
    const text::Field* found = nullptr;
    for (const auto& field : table.fields) {
      if (is_among(kLayerKeys, field.key)) continue;
      if (!is_among(known, field.key)) unknown_layer(field, known);
      if (found)
        place("layer").fail(
            field.value, "both '" + found->key + "' and '" + field.key + "': each layer has a [[layer]] of its own.");
      found = &field;
    }
    if (!found) place("layer").fail(table, "names no layer: write one such as dense = 10.");
    return *found;
  }

  [[noreturn]] void unknown_layer(const text::Field& field, const std::vector<std::string>& known) const {
    for (const Activation& activation : activations())
      if (activation.name == field.key)
        place("").fail(field.value, "'" + field.key + "' is an activation: write activation = \"" + field.key + "\".");
    place("").fail(field.value, "unknown layer '" + field.key + "'." + did_you_mean(field.key, known));
  }

  std::string name_of(const Value& table, const std::string& kind, std::map<std::string, int>& counts) const {
    const int number = ++counts[kind];
    const Value* name = table.find("name");
    if (!name) return kind + "_" + std::to_string(number);
    const std::string& word = place("name").word(*name);
    const bool plain = !word.empty() && word.size() <= 100 && std::all_of(word.begin(), word.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    });
    if (!plain) place("name").expected(*name, "letters, digits, '_' and '-'");
    if (word == "input") place("name").fail(*name, "'input' is what the network is given; choose another name.");
    return word;
  }

  Graph::Step step(const Value& table, Embeddings& embeddings, std::map<std::string, int>& counts, int depth) {
    const auto& [kind, value] = layer_of(table);
    Graph::Step step;
    step.name = name_of(table, kind, counts);
    const Value* from = table.find("from");
    if (from) step.from = place("from").words(*from);
    if (const Join* join = find_join(kind)) {
      if (from) place(kind).fail(*from, "its inputs are already listed: " + kind + " = [\"…\", \"…\"].");
      if (table.find("repeat")) place(kind).fail(table, "cannot be repeated.");
      if (table.find("rank") || table.find("split"))
        place(kind).fail(table, "cannot be placed: it is computed where the layers that it joins are.");
      step.from = place(kind).words(value);
      if (step.from.size() < 2) place(kind).expected(value, "an array of at least two names");
      step.join = *join;
      return step;
    }
    if (step.from.size() > 1)
      place(kind).fail(*from, "takes one input, not " + std::to_string(step.from.size()) +
                                  ": join them first (concat, add or multiply).");
    if (from && step.from.empty()) place("from").expected(*from, "a name");
    const bool first = counts.size() == 1 && counts.begin()->second == 1;
    const std::string source = !step.from.empty() ? step.from.front() : first ? inputs_.front() : "";
    const bool of_input = depth == 0 && is_among(inputs_, source);
    step.layer = repeated(table, kind, value, embeddings, of_input ? source : "", depth);
    if (const Value* rank = table.find("rank"))
      step.layer->place({.rank = static_cast<int>(place("rank").whole(*rank, 0, 65535))});
    if (const Value* how = table.find("split")) {
      try {
        step.layer->place({.split = split_by_name(place("split").word(*how))});
      } catch (const Error& e) {
        place("split").fail(*how, e.what());
      }
    }
    if (const auto* made = dynamic_cast<const Embedding*>(step.layer.get())) embeddings.made.emplace(step.name, *made);
    return step;
  }

  Layer repeated(const Value& table, const std::string& kind, const Value& value, const Embeddings& embeddings,
                 const std::string& input, int depth) {
    const Value* repeat = table.find("repeat");
    if (!repeat) return one(kind, value, embeddings, input, depth);
    Sequential all;
    const std::int64_t times = place("repeat").whole(*repeat, 1, kMostLayers);
    for (std::int64_t i = 0; i < times; ++i)
      all.push(one(kind, value, embeddings, i == 0 ? input : "", depth), std::to_string(i));
    return layer(std::move(all));
  }

  // `input`: which it takes directly; "": none.
  Layer one(const std::string& kind, const Value& value, const Embeddings& embeddings, const std::string& input,
            int depth) {
    if (++layers_ > kMostLayers)
      place(kind).fail(value, "the network has more than " + std::to_string(kMostLayers) + " layers.");
    const LayerKind* known = find_kind(kind);
    if (!known) return block(kind, value, embeddings, depth);
    if (!input.empty() && kind == "embedding") token_ids_.push_back(input);
    const Fields fields(known->schema, value, place(kind), embeddings);
    try {
      return known->make(fields);
    } catch (const Error& e) {
      const std::string message = e.what();  // what the layer itself refuses does not say where yet
      if (message.starts_with(file_ + ":")) throw;
      place("").fail(value, message);
    }
  }

  Layer block(const std::string& name, const Value& value, const Embeddings& embeddings, int depth) {
    const Place here = place(name);
    if (depth >= kDeepestBlock) here.fail(value, "blocks inside blocks reach too deep; does one hold itself?");
    const Value& definition = *blocks_.find(name);
    const Value parameters = block_parameters(definition, value, here);
    const Value layers = substituted(*definition.find("layer"), parameters, here);
    return layer(graph(layers, &embeddings, depth + 1));
  }

  Value block_parameters(const Value& definition, const Value& given, const Place& here) const {
    Value values;
    std::vector<std::string> known;
    if (const Value* names = definition.find("parameters")) known = here.inside("parameters").words(*names);
    const std::size_t required = known.size();
    if (const Value* standard = definition.find("standard")) {
      if (standard->kind != Value::table) here.inside("standard").expected(*standard, "a table");
      values = *standard;
      for (const auto& field : standard->fields) known.push_back(field.key);
    }
    if (given.kind != Value::table && required == 1)
      values.set(known.front(), given);  // the short form
    else if (given.kind != Value::table)
      here.expected(given, "a table with the block's parameters");
    for (const auto& [key, value] : given.fields) {
      if (!is_among(known, key)) here.fail(value, "unknown key '" + key + "'." + did_you_mean(key, known));
      values.set(key, value);
    }
    for (std::size_t i = 0; i < required; ++i)
      if (!values.find(known[i])) here.fail(given, "needs '" + known[i] + "'.");
    return values;
  }

  std::string file_;
  Value blocks_;
  std::int64_t layers_ = 0;
  std::vector<std::string> inputs_, token_ids_;  // those that an embedding takes
};

Shape shape_of(const Value& input, const Place& place) {
  if (input.kind != Value::array || input.items.empty() || input.items.size() > 6)
    place.expected(input, "the shape of a sample, such as [28, 28, 1]");
  Shape shape;
  double total = 1;
  for (const Value& size : input.items) {
    shape.push_back(place.whole(size, 1, kLargestSize));
    total *= static_cast<double>(shape.back());
  }
  if (total > 1e10) place.fail(input, "a sample of " + shape.str() + " is too large.");
  return shape;
}

// image = [28, 28, 1], or {shape = [20], dtype = "i32"}. Without a type: what its first layer takes.
struct Input {
  std::string name;
  Shape shape;
  std::optional<DType> dtype;
};

Input named_input(const std::string& name, const Value& value, const Place& place) {
  if (name.empty()) place.fail(value, "an input has no name.");
  if (value.kind != Value::table) return {name, shape_of(value, place), std::nullopt};
  const std::vector<std::string> known = {"shape", "dtype"};
  for (const auto& [key, field] : value.fields)
    if (!is_among(known, key)) place.fail(field, "unknown key '" + key + "'." + did_you_mean(key, known));
  const Value* shape = value.find("shape");
  if (!shape) place.fail(value, "needs 'shape', such as {shape = [20], dtype = \"i32\"}.");
  Input input{name, shape_of(*shape, place.inside("shape")), std::nullopt};
  if (const Value* dtype = value.find("dtype")) {
    const std::string& word = place.inside("dtype").word(*dtype);
    if (word != "f32" && word != "i32") place.inside("dtype").expected(*dtype, "\"f32\" or \"i32\"");
    input.dtype = word == "f32" ? f32 : i32;
  }
  return input;
}

std::vector<Input> inputs_of(const Value& document, const std::string& file) {
  const Value *input = document.find("input"), *inputs = document.find("inputs");
  if (input && inputs)
    Place{file, "inputs"}.fail(*inputs, "the file has an 'input' as well: leave one of the two out.");
  if (input) return {{"input", shape_of(*input, {file, "input"}), std::nullopt}};
  if (!inputs)
    Place{file, ""}.fail(document, "no input: write the shape of a sample first, such as input = [28, 28, 1].");
  if (inputs->kind != Value::table || inputs->fields.empty())
    Place{file, "inputs"}.expected(*inputs, "a table with the shape of each, such as image = [28, 28, 1]");
  std::vector<Input> all;
  for (const auto& [name, value] : inputs->fields) all.push_back(named_input(name, value, {file, "inputs: " + name}));
  return all;
}

}  // namespace

TextNetwork network_from_toml(const std::string& text, const std::string& name) {
  const Value document = text::parse_toml(text, name);
  for (const auto& [key, value] : document.fields)
    if (!is_among(kTopKeys, key))
      Place{name, ""}.fail(value, "unknown key '" + key + "'." + did_you_mean(key, kTopKeys));
  const Value* layers = document.find("layer");
  if (!layers) Place{name, ""}.fail(document, "no [[layer]]: a network file lists its layers.");
  TextNetwork network;
  network.name = std::filesystem::path(name).filename().string();
  if (network.name.ends_with(".toml")) network.name.erase(network.name.size() - 5);
  if (const Value* given = document.find("name")) network.name = Place{name, "name"}.word(*given);
  const std::vector<Input> inputs = inputs_of(document, name);
  std::vector<std::string> names;
  for (const Input& input : inputs) names.push_back(input.name);
  Reader reader(document, name);
  network.network = reader.graph(*layers, nullptr, 0, names);
  const bool named = document.find("inputs") != nullptr;
  for (const Input& input : inputs)
    network.inputs.push_back(
        {named ? input.name : "", {input.dtype.value_or(reader.token_ids(input.name) ? i32 : f32), input.shape}});
  network.input = network.inputs[0].type.shape;
  network.dtype = network.inputs[0].type.dtype;
  if (const Value* outputs = document.find("outputs")) {
    network.outputs = Place{name, "outputs"}.words(*outputs);
    if (network.outputs.empty()) Place{name, "outputs"}.expected(*outputs, "the names of layers");
    try {
      network.network.set_outputs(network.outputs);
    } catch (const Error& e) {
      Place{name, ""}.fail(*outputs, e.what());
    }
  }
  return network;
}

TextNetwork load_network(const std::string& path) { return network_from_toml(load_text(path, 8 << 20), path); }

}  // namespace varve::nn
