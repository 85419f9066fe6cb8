// A run as text: a network, its data and how it is trained, from a TOML file or the zoo, with key=value overrides.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "varve/distributed.h"
#include "varve/dtype.h"
#include "varve/nn/text.h"
#include "varve/op.h"

namespace varve::train {

using Numbers = std::vector<std::pair<std::string, double>>;
struct Named {
  std::string name;
  Numbers options;
};

struct Config {
  std::string name;                     // of the run: the file's, or the zoo's
  std::string network;                  // a name of the zoo; empty when `layers` holds it
  std::string layers;                   // the network as TOML text (input and [[layer]])
  std::map<std::string, double> sizes;  // options of a zoo network: classes, width, depth…
  std::string data = "digits";          // "": the network comes without data of its own, and the user must name some
  std::map<std::string, double> data_options;
  std::vector<Named> augment;           // of training samples, in order
  std::vector<double> mean, deviation;  // of all samples, by channel; empty: left as they are
  std::string loss = "cross_entropy";
  std::vector<std::string> metrics;
  // Of a network of several outputs, by the output's name: in place of `loss` and `metrics`.
  std::map<std::string, std::string> output_losses;
  std::map<std::string, double> loss_weights;
  std::map<std::string, std::vector<std::string>> output_metrics;
  Named optimizer = {"adam", {}};
  Named schedule = {"constant", {}};
  double warmup = 0;  // epochs
  double clip_norm = 0, clip_value = 0;
  int epochs = 5;
  std::int64_t batch = 128;
  double validation = 0.1;  // share of the training data held out, where the set has no part of its own
  std::int64_t seed = 0;
  std::int64_t accumulate = 1;
  double average = 0, mixup = 0, label_smoothing = 0;
  int swa = 0;                                    // the last epochs, whose weights are averaged
  std::vector<double> class_weights = {};         // what each class counts in the loss; empty: all the same
  std::optional<std::int64_t> ignore_index = {};  // a label that counts for nothing
  bool balanced = false;                          // each class is drawn as often as any other
  std::int64_t buckets = 0;                       // of samples of different lengths: batches of similar ones
  int patience = 0;                               // epochs without progress before it stops; 0: never
  std::string precision = "f32", device = "cpu";
  int threads = 0;  // 0: all cores
  bool deterministic = false;
  int workers = 1;
  distributed::Parallel parallel;
  bool tensorboard = false;
  double save_seconds = 60;
  std::int64_t save_steps = 0;
  std::string weights;  // a safetensors file to start from
  std::vector<std::string> freeze;
  bool reinitialize_mismatched = false;  // weights whose shapes differ (another number of classes) start anew
  std::string runs = "runs";

  std::string toml() const;  // all of it, with what was left at its standard value too
};

// A network file, the folder of a run, or a zoo name ("fnn-mnist", "resnet20"), then "key=value": values as TOML writes
// them, bare words are strings, dots reach inside ("optimizer.rate=1e-3", "data.words=10000"); "rate" is
// "optimizer.rate", and sizes of a zoo network may be given by their own names ("width=64"). Unknown keys: Error with
// the nearest known one.
Config load_config(const std::string& name_or_path, const std::vector<std::string>& overrides = {});
Config config_from_toml(const std::string& text, const std::string& name,
                        const std::vector<std::string>& overrides = {});

struct ConfigKey {
  std::string name, type, standard, doc;
};
const std::vector<ConfigKey>& config_keys();  // docs/network-files.md is written from this

nn::Layer make_network(const Config& config);    // not built
TensorType network_input(const Config& config);  // a sample, as the network file or the zoo says: its first input
std::vector<Field> network_inputs(const Config& config);  // all of them; a single one has no name

}  // namespace varve::train
