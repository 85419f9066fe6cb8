#include <algorithm>

#include "nn/text/schema.h"

namespace varve::nn {

using text::Place;
using text::Value;

namespace {

std::vector<std::string> key_names(const LayerSchema& schema) {
  std::vector<std::string> names;
  for (const LayerKey& key : schema.keys) names.push_back(key.name);
  return names;
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// Runs `f`, and puts the place before what it complains about.
template <class F>
auto located(const Place& place, const Value& at, const F& f) {
  try {
    return f();
  } catch (const Error& e) {
    place.fail(at, e.what());
  }
}

}  // namespace

Fields::Fields(const LayerSchema& schema, const Value& value, const Place& place, const Embeddings& embeddings)
    : schema_(schema), place_(place), embeddings_(embeddings) {
  const std::vector<std::string> known = key_names(schema);
  if (value.kind == Value::table) {
    values_ = value;
  } else if (known.empty()) {
    place.fail(value, "takes no settings: write " + schema.name + " = {}.");
  } else {
    values_.set(known.front(), value);
  }
  values_.line = value.line;
  for (const auto& [key, given] : values_.fields)
    if (std::find(known.begin(), known.end(), key) == known.end())
      place.fail(given.line ? given : value,
                 "unknown key '" + key + "'." + did_you_mean(key, known) +
                     (known.empty() ? " It takes no settings." : " Known: " + listed(known) + "."));
  for (const LayerKey& key : schema.keys) {
    if (values_.find(key.name)) continue;
    if (key.standard.empty()) place.fail(value, "needs '" + key.name + "' (" + key.doc + ").");
    Value standard = text::parse_toml_value(key.standard);
    standard.line = value.line;
    values_.set(key.name, standard);
  }
}

const Value& Fields::at(const std::string& key) const {
  const Value* value = values_.find(key);
  if (!value) throw Error("the table of layers has no key '" + key + "' for " + schema_.name + ".");
  return *value;
}

std::int64_t Fields::whole(const std::string& key, std::int64_t low, std::int64_t high) const {
  return place_.inside(key).whole(at(key), low, high);
}
double Fields::number(const std::string& key, double low, double high) const {
  return place_.inside(key).number(at(key), low, high);
}
bool Fields::flag(const std::string& key) const { return place_.inside(key).flag(at(key)); }
bool Fields::is(const std::string& key, const std::string& word) const {
  return at(key).kind == Value::string && at(key).word == word;
}

Pair Fields::pair(const std::string& key, std::int64_t low) const {
  const Value& value = at(key);
  const Place place = place_.inside(key);
  if (value.kind == Value::array && value.items.size() == 2)
    return {place.whole(value.items[0], low, kLargestSize), place.whole(value.items[1], low, kLargestSize)};
  if (value.kind != Value::integer) place.expected(value, "an integer or [height, width]");
  return {place.whole(value, low, kLargestSize)};
}

Padding Fields::side(const Value& value, const std::string& key) const {
  const Place place = place_.inside(key);
  if (value.kind == Value::array && value.items.size() == 2)
    return {place.whole(value.items[0], 0, kLargestSize), place.whole(value.items[1], 0, kLargestSize)};
  if (value.kind != Value::integer) place.expected(value, "an integer or [before, after]");
  return {place.whole(value, 0, kLargestSize)};
}

ConvPadding Fields::padding(const std::string& key) const {
  const Value& value = at(key);
  if (value.kind != Value::string) {
    const auto [rows, columns] = sides(key);
    return {rows, columns};
  }
  return located(place_.inside(key), value, [&] { return ConvPadding(value.word); });
}

std::pair<Padding, Padding> Fields::sides(const std::string& key) const {
  const Value& value = at(key);
  if (value.kind == Value::array && value.items.size() == 2)
    return {side(value.items[0], key), side(value.items[1], key)};
  if (value.kind != Value::integer)
    place_.inside(key).expected(value, "an integer or [rows, columns], each an integer or [before, after]");
  return {side(value, key), side(value, key)};
}

Activation Fields::activation(const std::string& key) const {
  const Place place = place_.inside(key);
  return located(place, at(key), [&] { return activation_by_name(Place{"", ""}.word(at(key))); });
}

Initializer Fields::init(const std::string& key) const {
  using Make = Initializer (*)(double);
  static const std::map<std::string, Make> scaled = {{"constant", init::constant},
                                                     {"normal", init::normal},
                                                     {"truncated_normal", init::truncated_normal},
                                                     {"uniform", init::uniform},
                                                     {"orthogonal", init::orthogonal}};
  const Value& value = at(key);
  const Place place = place_.inside(key);
  if (is(key, "auto")) return {};
  if (value.kind == Value::string) return located(place, value, [&] { return init::by_name(value.word); });
  if (value.kind != Value::table || value.fields.size() != 1)
    place.expected(value, "a name (\"he_normal\") or one with its number ({normal = 0.01})");
  const auto& [name, amount] = value.fields.front();
  const auto found = scaled.find(name);
  if (found == scaled.end()) {
    std::vector<std::string> known;
    for (const auto& entry : scaled) known.push_back(entry.first);
    place.fail(value, "no initialiser '" + name + "' takes a number." + did_you_mean(name, known) +
                          " Known: " + listed(known) + ".");
  }
  return found->second(place.inside(name).number(amount, -1e6, 1e6));
}

std::vector<std::int64_t> Fields::sizes(const std::string& key, std::int64_t low) const {
  const Value& value = at(key);
  const Place place = place_.inside(key);
  if (value.kind == Value::integer) return {place.whole(value, low, kLargestSize)};
  if (value.kind != Value::array || value.items.empty() || value.items.size() > 8)
    place.expected(value, "an array of one to eight integers");
  std::vector<std::int64_t> all;
  for (const Value& item : value.items) all.push_back(place.whole(item, low, kLargestSize));
  return all;
}

std::vector<std::int64_t> Fields::some_sizes(const std::string& key, std::int64_t low,
                                             const std::vector<std::size_t>& counts, const char* expected) const {
  const Value& value = at(key);
  const bool many = value.kind == Value::array;
  const std::size_t count = many ? value.items.size() : 1;
  if ((!many && value.kind != Value::integer) || std::find(counts.begin(), counts.end(), count) == counts.end())
    place_.inside(key).expected(value, expected);
  return sizes(key, low);
}

void Fields::unknown_word(const std::string& key, const std::vector<std::string>& known) const {
  const std::string& word = place_.inside(key).word(at(key));
  place_.inside(key).fail(at(key),
                          "no '" + word + "' here." + did_you_mean(word, known) + " Known: " + listed(known) + ".");
}

Embedding Fields::embedding(const std::string& key) const {
  const Place place = place_.inside(key);
  const std::string& name = place.word(at(key));
  std::vector<std::string> known;
  for (const Embeddings* scope = &embeddings_; scope; scope = scope->outer) {
    if (const auto found = scope->made.find(name); found != scope->made.end()) return found->second;
    for (const auto& entry : scope->made) known.push_back(entry.first);
  }
  place.fail(at(key), "no embedding named '" + name + "' before this layer." + did_you_mean(name, known));
}

}  // namespace varve::nn
