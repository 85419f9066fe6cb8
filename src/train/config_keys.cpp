#include "train/config_keys.h"

#include <algorithm>

#include "train/parallel.h"
#include "varve/data.h"
#include "varve/optim.h"
#include "varve/train.h"

namespace varve::train {

using text::Place;
using text::Value;

namespace {

constexpr double kHuge = 1e12;

// Runs `check`, and puts the place before what it complains about.
template <class F>
void located(const Place& place, const Value& at, const F& check) {
  try {
    check();
  } catch (const Error& e) {
    place.fail(at, e.what());
  }
}

Value list_of(const std::vector<Value>& items) {
  Value list;
  list.kind = Value::array;
  list.items = items;
  return list;
}

// ---- rows for plain fields

struct Doc {
  const char* name;
  const char* doc;
};

KeyRow whole_row(Doc d, std::int64_t Config::*field, std::int64_t low, std::int64_t high = 1'000'000'000) {
  return {{d.name, "integer", "", d.doc},
          [=](Config& c, const Value& v, const Place& p) { c.*field = p.whole(v, low, high); },
          [=](const Config& c) { return Value::of(c.*field); }};
}
KeyRow whole_row(Doc d, int Config::*field, std::int64_t low, std::int64_t high) {
  return {{d.name, "integer", "", d.doc},
          [=](Config& c, const Value& v, const Place& p) { c.*field = static_cast<int>(p.whole(v, low, high)); },
          [=](const Config& c) { return Value::of(static_cast<std::int64_t>(c.*field)); }};
}
KeyRow number_row(Doc d, double Config::*field, double low, double high) {
  return {{d.name, "number", "", d.doc},
          [=](Config& c, const Value& v, const Place& p) { c.*field = p.number(v, low, high); },
          [=](const Config& c) { return Value::of(c.*field); }};
}
KeyRow flag_row(Doc d, bool Config::*field) {
  return {{d.name, "boolean", "", d.doc},
          [=](Config& c, const Value& v, const Place& p) { c.*field = p.flag(v); },
          [=](const Config& c) { return Value::of(c.*field); }};
}
KeyRow word_row(Doc d, std::string Config::*field, std::function<void(const std::string&)> check = {}) {
  return {{d.name, "string", "", d.doc},
          [=](Config& c, const Value& v, const Place& p) {
            if (check) located(p, v, [&] { check(Place{}.word(v)); });
            c.*field = p.word(v);
          },
          [=](const Config& c) { return Value::of(c.*field); }};
}
KeyRow words_row(Doc d, std::vector<std::string> Config::*field, std::function<void(const std::string&)> check = {}) {
  return {{d.name, "array of strings", "", d.doc},
          [=](Config& c, const Value& v, const Place& p) {
            const std::vector<std::string> words = p.words(v);
            if (check)
              for (const std::string& word : words) located(p, v, [&] { check(word); });
            c.*field = words;
          },
          [=](const Config& c) {
            std::vector<Value> items;
            for (const std::string& word : c.*field) items.push_back(Value::of(word));
            return list_of(items);
          }};
}
KeyRow numbers_row(Doc d, std::vector<double> Config::*field) {
  return {{d.name, "array of numbers", "", d.doc},
          [=](Config& c, const Value& v, const Place& p) { c.*field = p.numbers(v); },
          [=](const Config& c) {
            std::vector<Value> items;
            for (const double number : c.*field) items.push_back(Value::of(number));
            return list_of(items);
          }};
}
KeyRow named_row(Doc d, Named Config::*field, std::function<void(const Named&)> check) {
  return {{d.name, "name or {name = {options}}", "", d.doc},
          [=](Config& c, const Value& v, const Place& p) {
            const Named named = read_named(v, p);
            located(p, v, [&] { check(named); });
            c.*field = named;
          },
          [=](const Config& c) { return named_value(c.*field); }};
}

// ---- rows of their own

// A file or folder of one's own may be named without its kind.
std::string with_kind(const std::string& name) {
  if (name.empty() || name.find(':') != std::string::npos) return name;
  const std::vector<data::CatalogEntry> sets = data::catalog();
  if (std::any_of(sets.begin(), sets.end(), [&](const auto& set) { return set.name == name; })) return name;
  const std::string kind = data::kind_of_path(name.substr(0, name.rfind('#')));
  return kind.empty() ? name : kind + ":" + name;
}

void check_data(const Named& named) {
  if (named.name.find(':') != std::string::npos || named.name.empty()) return;  // folder:path and its like
  std::vector<std::string> known;
  for (const data::CatalogEntry& entry : data::catalog()) {
    known.push_back(entry.name);
    if (entry.name != named.name) continue;
    for (const auto& option : named.options)
      if (std::find(entry.options.begin(), entry.options.end(), option.first) == entry.options.end())
        throw Error("data set '" + named.name + "' has no option '" + option.first + "'." +
                    did_you_mean(option.first, entry.options));
    return;
  }
  throw Error("unknown data set '" + named.name + "'." + did_you_mean(named.name, known) +
              " `varve datasets` lists them; folder:PATH, text:PATH, audio:PATH, voc:PATH, csv:PATH, jsonl:PATH, "
              "chars:PATH, npz:PATH and shards:PATTERN read "
              "your own.");
}

// Options that are words stand as numbers in the configuration.
Value words_as_numbers(Value value, const std::string& data, const Place& place) {
  for (auto& [key, option] : value.fields) {
    if (option.kind == Value::table) option = words_as_numbers(option, with_kind(key), place);
    if (option.kind != Value::string || key == "name") continue;
    const std::vector<std::string> words = data::option_words(data, key);
    const auto found = std::find(words.begin(), words.end(), option.word);
    if (words.empty()) continue;  // what is wrong with it is said by whoever wants a number
    if (found == words.end()) {
      std::string known;
      for (const std::string& word : words) known += (known.empty() ? "" : ", ") + word;
      place.fail(option, "'" + option.word + "' is no value of data." + key + "." + did_you_mean(option.word, words) +
                             " Known: " + known + ".");
    }
    option = Value::of(static_cast<std::int64_t>(found - words.begin()));
  }
  return value;
}

Value numbers_as_words(Value value, const std::string& data) {
  for (auto& [key, option] : value.fields) {
    const std::vector<std::string> words = data::option_words(data, key);
    if (option.kind == Value::integer && option.whole >= 0 && option.whole < std::ssize(words))
      option = Value::of(words[static_cast<std::size_t>(option.whole)]);
  }
  return value;
}

KeyRow data_row() {
  return {
      {"data", "name or {name = {options}}", "",
       "the data set: a name that `varve datasets` lists, or folder:PATH, text:PATH, audio:PATH, csv:PATH, "
       "chars:PATH, npz:PATH; a folder, or a file that ends in .csv, .tsv, .txt or .npz, needs no kind before it"},
      [](Config& c, const Value& v, const Place& p) {
        const Value* name = v.find("name");
        const std::string data = name ? with_kind(p.inside("name").word(*name)) : "";
        const Named named = read_named(words_as_numbers(v, data, p), p);
        located(p, v, [&] { check_data({with_kind(named.name), named.options}); });
        c.data = with_kind(named.name);
        c.data_options = {named.options.begin(), named.options.end()};
      },
      [](const Config& c) {
        return numbers_as_words(named_value({c.data, Numbers(c.data_options.begin(), c.data_options.end())}), c.data);
      }};
}

KeyRow augment_row() {
  return {{"augment", "array of names or {name = {options}}", "",
           "done to training images: crop, flip, rotate, scale, cutout, jitter, noise"},
          [](Config& c, const Value& v, const Place& p) {
            std::vector<Named> all;
            for (const Value& item : v.kind == Value::array ? v.items : std::vector<Value>{v}) {
              all.push_back(read_named(item, p));
              located(p, item, [&] { data::transform_by_name(all.back().name, all.back().options); });
            }
            c.augment = all;
          },
          [](const Config& c) {
            std::vector<Value> items;
            for (const Named& named : c.augment) items.push_back(named_value(named));
            return list_of(items);
          }};
}

// A label, or "none".
KeyRow label_row(Doc d, std::optional<std::int64_t> Config::*field) {
  constexpr std::int64_t kLargest = std::int64_t{1} << 31;
  return {{d.name, "integer or \"none\"", "", d.doc},
          [=](Config& c, const Value& v, const Place& p) {
            if (v.kind == Value::string && v.word == "none")
              c.*field = std::nullopt;
            else
              c.*field = p.whole(v, -kLargest, kLargest);
          },
          [=](const Config& c) { return c.*field ? Value::of(*(c.*field)) : Value::of(std::string("none")); }};
}

std::vector<KeyRow> data_rows() {
  return {
      data_row(),
      augment_row(),
      numbers_row({"mean", "subtracted from all samples, by channel or one number"}, &Config::mean),
      numbers_row({"deviation", "all samples are divided by it, by channel or one number"}, &Config::deviation),
      number_row({"validation", "share of the training data held out, where the set has no part of its own; 0: none"},
                 &Config::validation, 0, 0.9),
      number_row({"mixup", "α of mixup; 0: off"}, &Config::mixup, 0, 100),
      flag_row({"balanced", "each class is drawn as often as any other"}, &Config::balanced),
      whole_row(
          {"buckets", "of samples of different lengths: batches of similar ones, padded to so many lengths; 0: off"},
          &Config::buckets, 0, 256),
      whole_row({"workers", "threads that read ahead"}, &Config::workers, 1, 256),
  };
}

Value table_of(const std::map<std::string, std::string>& words) {
  Value table;
  for (const auto& [key, word] : words) table.set(key, Value::of(word));
  return table;
}

// One loss, or one for each of several outputs.
KeyRow loss_row() {
  return {{"loss", "string or {output = string}", "",
           "cross_entropy, binary_cross_entropy, mse, mae, huber, reconstruction, detection, "
           "contrastive_divergence; of several "
           "outputs: {NAME = LOSS, …}"},
          [](Config& c, const Value& v, const Place& p) {
            const auto checked = [](const Value& value, const Place& place) {
              located(place, value, [&] { loss_by_name(Place{}.word(value)); });
              return value.word;
            };
            std::map<std::string, std::string> losses;
            if (v.kind != Value::table) {
              c.loss = checked(v, p);
            } else {
              if (v.fields.empty()) p.expected(v, "a loss, or {OUTPUT = LOSS, …}");
              for (const auto& [output, value] : v.fields) losses[output] = checked(value, p.inside(output));
            }
            c.output_losses = losses;
          },
          [](const Config& c) { return c.output_losses.empty() ? Value::of(c.loss) : table_of(c.output_losses); }};
}

KeyRow loss_weights_row() {
  return {{"loss_weights", "{output = number}", "", "of each output's loss in their sum; those left out: 1"},
          [](Config& c, const Value& v, const Place& p) {
            if (v.kind != Value::table) p.expected(v, "a table such as {NAME = 0.1}");
            c.loss_weights.clear();
            for (const auto& [output, value] : v.fields)
              c.loss_weights[output] = p.inside(output).number(value, 0, kHuge);
          },
          [](const Config& c) {
            Value table;
            for (const auto& [output, weight] : c.loss_weights) table.set(output, Value::of(weight));
            return table;
          }};
}

Value strings(const std::vector<std::string>& words) {
  std::vector<Value> items;
  for (const std::string& word : words) items.push_back(Value::of(word));
  return list_of(items);
}

KeyRow metrics_row() {
  return {{"metrics", "array of strings or {output = array}", "",
           "measured beside the loss: accuracy, top5, f1, auc…; empty: what fits; of several outputs: {NAME = […], …}"},
          [](Config& c, const Value& v, const Place& p) {
            const auto checked = [](const Value& value, const Place& place) {
              const std::vector<std::string> words = place.words(value);
              for (const std::string& word : words) located(place, value, [&] { metric_by_name(word); });
              return words;
            };
            c.metrics.clear();
            c.output_metrics.clear();
            if (v.kind != Value::table)
              c.metrics = checked(v, p);
            else
              for (const auto& [output, value] : v.fields) c.output_metrics[output] = checked(value, p.inside(output));
          },
          [](const Config& c) {
            if (c.output_metrics.empty()) return strings(c.metrics);
            Value table;
            for (const auto& [output, words] : c.output_metrics) table.set(output, strings(words));
            return table;
          }};
}

std::vector<KeyRow> learning_rows() {
  return {
      loss_row(),
      loss_weights_row(),
      metrics_row(),
      named_row({"optimizer", "sgd, adam, adamw, rmsprop, adagrad, adadelta, lamb; `rate=` on the command line is its"},
                &Config::optimizer, [](const Named& n) { optim::by_name(n.name, n.options); }),
      named_row({"schedule",
                 "of the rate: constant, step_decay, exponential, milestones, cosine, one_cycle, polynomial, "
                 "plateau"},
                &Config::schedule, [](const Named& n) { optim::schedule_by_name(n.name, n.options); }),
      number_row({"warmup", "epochs in which the rate rises from 0"}, &Config::warmup, 0, 1e6),
      number_row({"clip_norm", "largest norm of all gradients together; 0: off"}, &Config::clip_norm, 0, kHuge),
      number_row({"clip_value", "largest entry of a gradient; 0: off"}, &Config::clip_value, 0, kHuge),
      whole_row({"epochs", "how often the training data is gone through"}, &Config::epochs, 1, 1'000'000),
      whole_row({"batch", "samples in a step"}, &Config::batch, 1, 1'000'000),
      whole_row({"accumulate", "batches whose gradients make one step"}, &Config::accumulate, 1, 1'000'000),
      number_row({"average", "decay of an average of the weights that is used in their place; 0: off"},
                 &Config::average, 0, 1),
      whole_row({"swa", "the last epochs, at whose ends the weights are averaged, each the same; 0: off"}, &Config::swa,
                0, 1'000'000),
      number_row({"label_smoothing", "of cross_entropy"}, &Config::label_smoothing, 0, 1),
      numbers_row({"class_weights", "of cross_entropy: what each class counts; []: all the same"},
                  &Config::class_weights),
      label_row({"ignore_index", "of cross_entropy: a label that counts for nothing"}, &Config::ignore_index),
      whole_row({"patience", "epochs without progress before it stops; 0: never"}, &Config::patience, 0, 1'000'000),
  };
}

std::vector<KeyRow> run_rows() {
  return {
      whole_row({"seed", "of weights, order of samples and everything random"}, &Config::seed, 0),
      word_row({"precision", "of products: f32; tf32 on a GPU, as f32 elsewhere; bf16, with master weights in f32"},
               &Config::precision, [](const std::string& word) { parse_precision(word); }),
      word_row({"device", "where it computes: cpu, cuda (or cuda:1, …), reference"}, &Config::device),
      whole_row({"threads", "how many; 0: all cores"}, &Config::threads, 0, 1024),
      flag_row({"deterministic", "the same bits for any number of threads"}, &Config::deterministic),
      parallel_row(),
      flag_row({"tensorboard", "event files in the run's folder"}, &Config::tensorboard),
      number_row({"save_seconds", "a checkpoint at least this often"}, &Config::save_seconds, 0, kHuge),
      whole_row({"save_steps", "and after so many steps; 0: off"}, &Config::save_steps, 0),
      word_row({"weights", "a safetensors file to start from"}, &Config::weights),
      words_row({"freeze", "parameters that stay as they are: paths, with * and ?"}, &Config::freeze),
      flag_row({"reinitialize_mismatched", "weights whose shapes differ start anew"}, &Config::reinitialize_mismatched),
      word_row({"runs", "the folder that run folders are made in"}, &Config::runs),
  };
}

std::vector<KeyRow> all_rows() {
  std::vector<KeyRow> rows = data_rows();
  for (const auto& part : {learning_rows(), run_rows()}) rows.insert(rows.end(), part.begin(), part.end());
  const Config standard;
  for (KeyRow& row : rows) {
    const Value value = row.get(standard);
    const bool name_only = value.kind == Value::table && value.fields.size() == 1;
    row.key.standard = (name_only ? value.fields.front().value : value).str();
  }
  return rows;
}

}  // namespace

const std::vector<KeyRow>& key_rows() {
  static const std::vector<KeyRow> rows = all_rows();
  return rows;
}

const KeyRow* find_row(const std::string& name) {
  for (const KeyRow& row : key_rows())
    if (row.key.name == name) return &row;
  return nullptr;
}

const std::vector<ConfigKey>& config_keys() {
  static const std::vector<ConfigKey> keys = [] {
    std::vector<ConfigKey> all;
    for (const KeyRow& row : key_rows()) all.push_back(row.key);
    return all;
  }();
  return keys;
}

}  // namespace varve::train
