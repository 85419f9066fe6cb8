#include "varve/train/config.h"

#include <algorithm>
#include <filesystem>

#include "train/config_keys.h"
#include "varve/io.h"
#include "varve/zoo.h"

namespace varve::train {

using text::Place;
using text::Value;

namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kTopKeys = {"name",  "input",   "inputs", "outputs", "layer",
                                           "block", "network", "sizes",  "train"};

std::vector<std::string> row_names() {
  std::vector<std::string> names;
  for (const KeyRow& row : key_rows()) names.push_back(row.key.name);
  return names;
}

// A thing without options is written as its name alone.
Value simplified(const Value& value) {
  if (value.kind == Value::table && value.fields.size() == 1 && value.find("name")) return *value.find("name");
  Value result = value;
  for (Value& item : result.items) item = simplified(item);
  return result;
}

void read_train(Config& config, const Value& train, const std::string& file) {
  if (train.kind != Value::table) Place{file, "train"}.expected(train, "a table");
  for (const auto& [key, value] : train.fields) {
    const KeyRow* row = find_row(key);
    if (!row) Place{file, "train"}.fail(value, "unknown key '" + key + "'." + did_you_mean(key, row_names()));
    row->set(config, value, {file, key});
  }
}

void read_sizes(Config& config, const Value& sizes, const Place& place) {
  if (sizes.kind != Value::table) place.expected(sizes, "a table");
  for (const auto& [key, value] : sizes.fields) config.sizes[key] = place.inside(key).number(value, 0, 1e12);
}

void read_network(Config& config, const Value& document, const std::string& text, const std::string& file) {
  const Value* network = document.find("network");
  if (network) {
    const Place place{file, "network"};
    if (document.find("layer")) place.fail(*network, "the file has layers of its own: leave one of the two out.");
    config.network = place.word(*network);
    try {
      zoo::find(config.network);
    } catch (const Error& e) {
      place.fail(*network, e.what());
    }
    if (const Value* sizes = document.find("sizes")) read_sizes(config, *sizes, {file, "sizes"});
    return;
  }
  if (const Value* sizes = document.find("sizes"))
    Place{file, "sizes"}.fail(*sizes, "only networks of the zoo have sizes; these layers say theirs themselves.");
  nn::network_from_toml(text, file);  // what is wrong with the layers is said now, with the file's own lines
  Value layers;
  for (const auto& [key, value] : document.fields)
    if (key == "input" || key == "inputs" || key == "outputs" || key == "layer" || key == "block")
      layers.set(key, value);
  config.layers = text::toml_document(layers);
}

// ---- key=value

bool is_size(const Config& config, const std::string& key) {
  if (config.network.empty()) return false;
  const std::vector<std::string>& sizes = zoo::find(config.network).sizes;
  return key == "classes" || std::find(sizes.begin(), sizes.end(), key) != sizes.end();
}

Value one_value(const std::string& word) {
  try {
    return text::parse_toml_value(word);
  } catch (const Error&) {
    return Value::of(word);  // a bare word
  }
}

// "a,b" for a key that takes several is ["a", "b"].
Value value_of(const std::string& word, const KeyRow* row) {
  const bool list = row && row->key.type.starts_with("array") && word.find(',') != std::string::npos;
  if (!list || word.find_first_of("[{\"'") != std::string::npos) return one_value(word);
  Value all;
  all.kind = Value::array;
  for (std::size_t at = 0; at <= word.size();) {
    const std::size_t end = std::min(word.find(',', at), word.size());
    all.items.push_back(one_value(word.substr(at, end - at)));
    at = end + 1;
  }
  return all;
}

[[noreturn]] void unknown_override(const Config& config, const std::string& key) {
  std::vector<std::string> known = row_names();
  known.insert(known.end(), {"rate", "name"});
  if (!config.network.empty()) {
    const std::vector<std::string>& sizes = zoo::find(config.network).sizes;
    known.insert(known.end(), sizes.begin(), sizes.end());
    known.push_back("classes");
  }
  throw Error("unknown key '" + key + "'." + did_you_mean(key, known, " `varve schema` lists the keys."));
}

void set_inside(Config& config, const KeyRow& row, const std::string& field, const Value& value) {
  Value table = row.get(config);
  if (table.kind != Value::table) throw Error(row.key.name + ": has nothing inside it to set, got '." + field + "'.");
  table.set(field, value);
  row.set(config, table, {"", row.key.name});
}

struct Override {
  std::string key, word;
};

Override parse_override(const Config& config, const std::string& setting) {
  const std::size_t equals = setting.find('=');
  if (equals == std::string::npos || equals == 0) throw Error("expected key=value, got '" + setting + "'.");
  std::string key = setting.substr(0, equals);
  if (key == "rate") key = "optimizer.rate";
  if (key != "name" && !find_row(key) && is_size(config, key)) key = "sizes." + key;
  return {key, setting.substr(equals + 1)};
}

void apply_override(Config& config, const Override& setting) {
  const auto& [key, word] = setting;
  if (key == "name") return static_cast<void>(config.name = word);
  const std::size_t dot = key.find('.');
  const std::string head = key.substr(0, dot), field = dot == std::string::npos ? "" : key.substr(dot + 1);
  if (head == "sizes" && !field.empty() && !config.network.empty()) {
    config.sizes[field] = Place{"", field}.number(one_value(word), 0, 1e12);
    return;
  }
  const KeyRow* row = find_row(head);
  if (!row) unknown_override(config, head);
  const Value value = value_of(word, field.empty() ? row : nullptr);
  if (field.empty())
    row->set(config, value, {"", key});
  else
    set_inside(config, *row, field, value);
}

// The same settings in any order mean the same: first what a key is as a whole (optimizer=sgd), then what is inside it
// (rate=0.5). A key with two values has no meaning.
void apply_overrides(Config& config, const std::vector<std::string>& settings) {
  std::vector<Override> all;
  for (const std::string& setting : settings) {
    all.push_back(parse_override(config, setting));
    for (const Override& other : all)
      if (other.key == all.back().key && other.word != all.back().word)
        throw Error(other.key + " is set twice, to " + other.word + " and to " + all.back().word +
                    ". Leave one of them out.");
  }
  const auto inside = [](const Override& one) { return one.key.find('.') != std::string::npos; };
  std::sort(all.begin(), all.end(),
            [&](const Override& a, const Override& b) { return inside(a) != inside(b) ? inside(b) : a.key < b.key; });
  for (const Override& one : all) apply_override(config, one);
}

void check_name(const Config& config) {
  if (config.name.empty() || config.name.size() > 200 || config.name.find('/') != std::string::npos ||
      printable(config.name) != config.name || config.name.find_first_of("\n\t") != std::string::npos ||
      config.name.starts_with("."))
    throw Error("name: expected a word that can name a folder, got " + text::quoted(config.name) + ".");
}

}  // namespace

std::string Config::toml() const {
  std::string text = "name = " + text::quoted(name) + "\n";
  if (network.empty()) {
    text += layers;
  } else {
    text += "network = " + text::quoted(network) + "\n";
    if (!sizes.empty()) text += "\n[sizes]\n";
    for (const auto& [key, number] : sizes) {
      const Value value = named_value({"", {{key, number}}});
      text += text::toml_key(key) + " = " + value.find(key)->str() + "\n";
    }
  }
  text += "\n[train]\n";
  for (const KeyRow& row : key_rows()) text += row.key.name + " = " + simplified(row.get(*this)).str() + "\n";
  return text;
}

Config config_from_toml(const std::string& text, const std::string& name, const std::vector<std::string>& overrides) {
  const Value document = text::parse_toml(text, name);
  for (const auto& [key, value] : document.fields)
    if (std::find(kTopKeys.begin(), kTopKeys.end(), key) == kTopKeys.end()) {
      const bool inside = find_row(key) != nullptr;
      Place{name, ""}.fail(
          value, "unknown key '" + key + "'." + (inside ? " It belongs under [train]." : did_you_mean(key, kTopKeys)));
    }
  Config config;
  config.name = fs::path(name).filename().string();
  if (config.name.ends_with(".toml")) config.name.erase(config.name.size() - 5);
  if (const Value* given = document.find("name")) config.name = Place{name, "name"}.word(*given);
  read_network(config, document, text, name);
  if (const Value* train = document.find("train"))
    read_train(config, *train, name);
  else if (!config.network.empty())
    config.data.clear();
  apply_overrides(config, overrides);
  check_name(config);
  return config;
}

namespace {

bool in_zoo(const std::string& name) {
  return std::any_of(zoo::entries().begin(), zoo::entries().end(),
                     [&](const auto& entry) { return entry.name == name; });
}

Config config_of(const zoo::Entry& entry, const std::vector<std::string>& overrides) {
  std::string text = "network = " + text::quoted(entry.name) + "\n";
  if (!entry.train.empty()) text += entry.train.starts_with("[train]") ? entry.train : "[train]\n" + entry.train;
  return config_from_toml(text, entry.name, overrides);
}

}  // namespace

// A name of the zoo means the zoo, also beside a folder that happens to be called so.
Config load_config(const std::string& name_or_path, const std::vector<std::string>& overrides) {
  const fs::path path = name_or_path;
  std::error_code ignored;
  const std::string file = (path / "config.toml").string();
  if (fs::exists(file, ignored)) return config_from_toml(load_text(file, 8 << 20), file, overrides);
  if (in_zoo(name_or_path)) return config_of(zoo::find(name_or_path), overrides);
  if (fs::is_directory(path, ignored))
    throw Error(name_or_path +
                ": is a folder without config.toml, so not the folder of a run. `varve runs` lists runs.");
  if (name_or_path.ends_with(".toml") || fs::exists(path, ignored))
    return config_from_toml(load_text(name_or_path, 8 << 20), name_or_path, overrides);
  if (name_or_path.find('/') != std::string::npos) throw Error(name_or_path + ": there is no such file or folder.");
  return config_of(zoo::find(name_or_path), overrides);  // throws, with the nearest name
}

nn::Layer make_network(const Config& config) {
  if (config.network.empty()) return nn::layer(nn::network_from_toml(config.layers, config.name).network);
  return zoo::make(config.network, config.sizes);
}

std::vector<Field> network_inputs(const Config& config) {
  if (config.network.empty()) return nn::network_from_toml(config.layers, config.name).inputs;
  const zoo::Entry& entry = zoo::find(config.network);
  return {{"", {entry.dtype, entry.input}}};
}

TensorType network_input(const Config& config) { return network_inputs(config)[0].type; }

}  // namespace varve::train
