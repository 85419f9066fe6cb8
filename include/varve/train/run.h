// A run from its configuration: data, network, training, test and the folder that keeps them. `varve train` is this.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "varve/data.h"
#include "varve/train.h"
#include "varve/train/config.h"

namespace varve::train {

// What a configuration comes to.
struct Prepared {
  Config config;  // with what was left open filled in: the number of classes, the length of sequences
  data::Splits data;
  nn::Layer model;  // built; weights, where the configuration names a file, loaded; frozen parts frozen
};
// Makes the configured device, number of threads and determinism current.
void use_machine(const Config& config);
// Training samples are augmented, all are normalised, and the validation share is held out.
// `like`: of the data that a network was trained with before, so that these samples are prepared as those were.
// `samples`: in place of what config.data names.
data::Splits load_data(const Config& config, const data::FetchOptions& fetch = {}, const data::Info& like = {},
                       const data::Splits& samples = {});
// What a trained network must be given: the name of the data it was trained with, how its samples were prepared, and
// their shape. Empty where it is not known.
struct TrainedWith {
  std::string data;
  data::Info info;
  Shape input;
};
TrainedWith trained_with(const std::string& weights);  // as a file of weights says
// What to score a trained network with: the test part of the data it was trained with. Other data that has no test part
// of its own is taken whole.
data::Dataset test_data(const Config& config, const TrainedWith& trained, const data::FetchOptions& fetch = {});
std::vector<data::Transform> normalization(const Config& config, const TensorType& x);  // none, or one, for pictures
Prepared prepare(const Config& config, const data::FetchOptions& fetch = {}, const data::Info& like = {},
                 const data::Splits& samples = {});
FitOptions fit_options(const Prepared& prepared);
EvaluateOptions evaluate_options(const Config& config, const data::Dataset& dataset);

// A network for data that nobody named one for: small, of the size that its samples ask for, with a head for its
// classes or numbers. `overrides` name the data ("data=table.csv") and may change everything else.
struct Chosen {
  Config config;
  std::string what;  // which network, for which samples, in one line
};
Chosen choose_network(const std::vector<std::string>& overrides, const data::FetchOptions& fetch = {});

struct RunStart {
  const Prepared& prepared;
  std::string folder;
  std::int64_t peak_bytes;  // of a training step
};
struct RunOptions {
  std::string folder = "";  // "": a new one in config.runs
  bool resume = false;      // go on from the folder's last checkpoint
  Verbosity verbosity = Verbosity::automatic;
  data::FetchOptions fetch = {};
  std::vector<CallbackPtr> callbacks = {};
  ProgressSink progress = {};                         // empty: standard error
  std::function<void(const RunStart&)> started = {};  // when everything is ready for the first step
  data::Splits samples = {};                          // in place of what the configuration names
};
struct RunResult {
  Config config;
  History history;
  bool tested = false;       // there was test data, and the run was not interrupted
  bool tested_best = false;  // with the best weights on the validation data; otherwise with the last
  Score test;
  std::int64_t parameters = 0;
  std::string folder, page;
};
RunResult run(const Config& config, const RunOptions& options = {});

// A run's folder, looked at without its weights.
enum class RunState : std::uint8_t { training, finished, stopped, interrupted };  // stopped: early, by itself
std::string name(RunState state);
struct RunInfo {
  std::string folder;
  RunState state = RunState::interrupted;
  std::string holder;  // the process that writes it: "process 4711 on host"
  Config config;
  History history;
  std::vector<std::pair<std::string, double>> test;  // scores, where it was tested
};
RunInfo inspect_run(const std::string& folder);
bool is_run_folder(const std::string& folder);                    // it has a config.toml and a checkpoint
std::vector<std::string> run_folders(const std::string& folder);  // those inside it, by name and number

}  // namespace varve::train
