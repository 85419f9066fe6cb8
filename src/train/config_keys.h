// The table of a configuration's keys: it reads them, writes them and documents them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "varve/toml.h"
#include "varve/train/config.h"

namespace varve::train {

struct KeyRow {
  ConfigKey key;
  std::function<void(Config&, const text::Value&, const text::Place&)> set;
  std::function<text::Value(const Config&)> get;  // named things with options as {name = …, option = …}
};
const std::vector<KeyRow>& key_rows();
const KeyRow* find_row(const std::string& name);  // null when there is none

// A name with options, as a string, {name = "adam", rate = 1e-3} or {adam = {rate = 1e-3}}.
Named read_named(const text::Value& value, const text::Place& place);
text::Value named_value(const Named& named);

}  // namespace varve::train
