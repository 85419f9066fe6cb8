#include <cmath>

#include "train/config_keys.h"

namespace varve::train {

using text::Place;
using text::Value;

namespace {

void add_option(Named& named, const std::string& key, const Value& value, const Place& place) {
  if (value.kind == Value::boolean)
    named.options.emplace_back(key, value.flag ? 1 : 0);
  else
    for (const double number : place.inside(key).numbers(value)) named.options.emplace_back(key, number);
}

}  // namespace

Named read_named(const Value& value, const Place& place) {
  if (value.kind == Value::string) return {value.word, {}};
  const Value* name = value.find("name");
  const bool nested = !name && value.fields.size() == 1 && value.fields.front().value.kind == Value::table;
  if (value.kind != Value::table || (!name && !nested))
    place.expected(value, "a name, or a name with its options such as {NAME = {option = 1}}");
  Named named{nested ? value.fields.front().key : place.inside("name").word(*name), {}};
  for (const auto& [key, option] : nested ? value.fields.front().value.fields : value.fields)
    if (nested || key != "name") add_option(named, key, option, place.inside(named.name));
  return named;
}

// A number given several times (the epochs of milestones) is an array.
Value named_value(const Named& named) {
  Value table;
  table.set("name", Value::of(named.name));
  for (const auto& [key, number] : named.options) {
    const bool whole = std::abs(number) < 1e15 && number == std::floor(number);
    const Value value = whole ? Value::of(static_cast<std::int64_t>(number)) : Value::of(number);
    const Value* before = table.find(key);
    if (!before) {
      table.set(key, value);
      continue;
    }
    Value list = *before;
    if (list.kind != Value::array) {
      list = {};
      list.kind = Value::array;
      list.items.push_back(*before);
    }
    list.items.push_back(value);
    table.set(key, list);
  }
  return table;
}

}  // namespace varve::train
