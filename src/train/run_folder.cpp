#include "train/run_folder.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "varve/io.h"

namespace varve::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::int64_t kLargerInput = 16;  // than the one a network of the zoo was published with

void make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw Error("\"" + path.string() + "\": cannot make this folder: " + error.message() + ".");
}

}  // namespace

const std::vector<std::string>& run_files() {
  static const std::vector<std::string> names = {"last.safetensors", "best.safetensors", "results.csv",
                                                 "index.html",       "config.toml",      "model.json",
                                                 "environment.json", "test.json"};
  return names;
}

void save_test(const std::string& folder, const std::vector<std::pair<std::string, double>>& values) {
  json j = json::object();
  for (const auto& [name, value] : values) j[name] = value;  // not a number: null
  save_text(folder + "/test.json", j.dump(1) + "\n");
}

std::vector<std::pair<std::string, double>> load_test(const std::string& folder) {
  const std::string path = folder + "/test.json";
  std::vector<std::pair<std::string, double>> values;
  if (!fs::exists(path)) return values;
  try {
    const json all = json::parse(load_text(path, 1 << 20));
    for (json::const_iterator at = all.begin(); all.is_object() && at != all.end(); ++at)
      if (at->is_number()) values.push_back({at.key(), at->get<double>()});
  } catch (const json::exception& e) {
    throw Error(path + ": is not the test result that a run writes (" + e.what() + ").");
  }
  return values;
}

void write_run_page(const std::string& folder, const Report& report) {
  save_text(folder + "/results.csv", results_csv(report.history));
  save_text(folder + "/index.html", report_html(report));
}

std::string new_run_folder(const std::string& base, const std::string& name) {
  if (base.empty()) throw Error("runs: expected a folder to make the run's folder in, got \"\".");
  if ((base + name).find('\0') !=
      std::string::npos)  // the system would see the name cut off there: a folder that exists
    throw Error("runs: the name of a folder cannot hold a zero byte.");
  make_folder(base);
  for (int i = 1;; ++i) {
    const fs::path path = fs::path(base) / (name + "-" + std::to_string(i));
    std::error_code error;
    if (fs::create_directory(path, error)) return path.string();  // two runs that start at once get two folders
    if (error) throw Error("\"" + path.string() + "\": cannot make this folder: " + error.message() + ".");
  }
}

namespace {

// A network is built before its weights are read: what a damaged card says must not decide how much memory that takes.
void check_card(const std::string& folder, const ModelCard& card, const Config& config) {
  if (network_inputs(config).size() > 1) return;  // they are what the configuration says
  const TensorType known = network_input(config);
  const bool fits =
      config.network.empty() ? card.input == known.shape : card.input.numel() / kLargerInput <= known.shape.numel();
  if (!fits)
    throw Error(folder + "/model.json: a sample of " + card.input.str() + " does not fit the network of config.toml, " +
                "which takes " + known.shape.str() + ".");
}

}  // namespace

data::Info TrainedModel::info() const {
  return {.name = config.name,
          .classes = classes,
          .vocabulary = vocabulary,
          .table = table,
          .sound = sound,
          .target_classes = target_classes};
}

TrainedModel load_run(const std::string& folder, bool last) {
  if (!fs::is_directory(folder))
    throw Error(folder +
                ": is not the folder of a run. Runs are made by `varve train`, under runs/ unless told otherwise.");
  TrainedModel run;
  run.config = config_from_toml(load_text(folder + "/config.toml"), fs::path(folder).filename().string());
  const ModelCard card = load_card(folder);
  check_card(folder, card, run.config);
  run.input = card.input;
  run.dtype = card.dtype;
  run.classes = card.classes;
  run.vocabulary = card.info().vocabulary;
  run.table = card.table;
  run.sound = card.sound;
  run.model = make_network(run.config);
  run.target_classes = card.target_classes;
  run.inputs = network_inputs(run.config);
  if (run.inputs.size() == 1)
    run.inputs[0] = {"", {run.dtype, run.input}};
  else
    run.input = run.inputs[0].type.shape, run.dtype = run.inputs[0].type.dtype;
  run.model->build_all(run.inputs, {.dtype = run.dtype, .seed = run.config.seed, .batch = run.config.batch});
  const bool best = !last && fs::exists(best_weights(folder));
  // A checkpoint holds the optimiser's state beside the weights, hence partial.
  const nn::Loaded loaded = run.model->load(best ? best_weights(folder) : last_checkpoint(folder), {.partial = true});
  if (!loaded.missing.empty())
    throw Error(folder + ": its weights lack \"" + loaded.missing[0] +
                "\": they are not of the network in config.toml.");
  return run;
}

}  // namespace varve::train
