#include "train/checkpoint.h"

#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "train/run_folder.h"
#include "varve/io.h"

namespace varve::train {
namespace {

using nlohmann::json;

constexpr int kFormat = 1;
constexpr const char* kManifest = "varve.manifest";
constexpr const char* kChecksum = "varve.crc32";  // filled in and compared by the writer and reader of the file

// JSON has no infinities and no NaN; the library writes finite numbers so that they read back as the same bits.
json number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}
double to_double(const json& j) {
  if (!j.is_string()) return j.get<double>();
  const std::string word = j.get<std::string>();
  if (word == "nan") return std::numeric_limits<double>::quiet_NaN();
  return (word == "-inf" ? -1 : 1) * std::numeric_limits<double>::infinity();
}
json numbers(const std::vector<double>& values) {
  json list = json::array();
  for (const double value : values) list.push_back(number(value));
  return list;
}
std::vector<double> to_doubles(const json& list) {
  std::vector<double> values;
  for (const json& j : list) values.push_back(to_double(j));
  return values;
}

json from_history(const History& h) {
  json epochs = json::array();
  for (const Epoch& epoch : h.epochs) {
    json values = json::array();
    for (const auto& [name, value] : epoch.values) values.push_back({name, number(value)});
    epochs.push_back({{"epoch", epoch.epoch},
                      {"seconds", number(epoch.seconds)},
                      {"rate", number(epoch.rate)},
                      {"values", std::move(values)}});
  }
  return {{"epochs", std::move(epochs)}, {"monitor", h.monitor},         {"best_epoch", h.best_epoch},
          {"best", number(h.best)},      {"seconds", number(h.seconds)}, {"stopped", h.stopped}};
}
History to_history(const json& j) {
  History h;
  for (const json& e : j.at("epochs")) {
    Epoch epoch{
        .epoch = e.at("epoch"), .seconds = to_double(e.at("seconds")), .rate = to_double(e.at("rate")), .values = {}};
    for (const json& value : e.at("values")) epoch.values.push_back({value.at(0), to_double(value.at(1))});
    h.epochs.push_back(std::move(epoch));
  }
  h.monitor = j.at("monitor");
  h.best_epoch = j.at("best_epoch");
  h.best = to_double(j.at("best"));
  h.seconds = to_double(j.at("seconds"));
  h.stopped = j.at("stopped");
  return h;
}

std::string manifest_text(const Position& p) {
  json callbacks = json::object();
  for (const auto& [name, state] : p.callbacks) callbacks[name] = numbers(state);
  return json{{"format", kFormat},
              {"checksum", true},  // a file whose checksum was lost is a damaged one; older files have none
              {"seed", p.seed},
              {"batch", p.batch},
              {"samples", p.samples},
              {"accumulate", p.accumulate},
              {"shards", p.shards},
              {"optimizer", p.optimizer},
              {"loss", p.loss},
              {"epoch", p.epoch},
              {"step", p.step},
              {"total_steps", p.total_steps},
              {"sums", numbers(p.sums)},
              {"seen", number(p.seen)},
              {"history", from_history(p.history)},
              {"schedule", numbers(p.schedule)},
              {"callbacks", std::move(callbacks)}}
      .dump();
}

Position parse_manifest(const std::map<std::string, std::string>& metadata, const std::string& path) {
  const auto manifest = metadata.find(kManifest);
  if (manifest == metadata.end())
    throw Error(path +
                ": has no manifest, so it is not a checkpoint to resume from. Load weights with weights=… instead.");
  try {
    const json j = json::parse(manifest->second);
    if (j.value("checksum", false) && !metadata.count(kChecksum))
      throw Error(path + ": its checksum is missing, so the file is damaged. Resume from another file.");
    if (j.at("format") != kFormat)
      throw Error(path + ": checkpoint format " + j.at("format").dump() + " is not the one this version reads (" +
                  std::to_string(kFormat) + ").");
    Position p;
    p.seed = j.at("seed");
    p.batch = j.at("batch");
    p.samples = j.at("samples");
    p.accumulate = j.at("accumulate");
    p.shards = j.value("shards", std::int64_t{0});  // older files have none
    p.optimizer = j.at("optimizer");
    p.loss = j.at("loss");
    p.epoch = j.at("epoch");
    p.step = j.at("step");
    p.total_steps = j.at("total_steps");
    p.sums = to_doubles(j.at("sums"));
    p.seen = to_double(j.at("seen"));
    p.history = to_history(j.at("history"));
    p.schedule = to_doubles(j.at("schedule"));
    for (const auto& [name, state] : j.at("callbacks").items()) p.callbacks[name] = to_doubles(state);
    if (p.epoch < 0 || p.step < 0 || p.total_steps < 0)
      throw Error(path + ": the checkpoint's manifest is damaged (epoch " + std::to_string(p.epoch) + ", step " +
                  std::to_string(p.step) + " cannot be). Resume from another file.");
    return p;
  } catch (const json::exception& e) {
    throw Error(path + ": the checkpoint's manifest is damaged (" + e.what() + "). Resume from another file.");
  }
}

}  // namespace

std::string position_text(const Position& position) { return manifest_text(position); }

Position position_of(const std::string& text, const std::string& source) {
  return parse_manifest({{kManifest, text}, {kChecksum, ""}}, source);
}

void save_checkpoint(const std::string& path, const std::vector<Kept>& variables, const Position& position,
                     const std::map<std::string, std::string>& metadata) {
  Safetensors content{.tensors = {}, .metadata = metadata};
  content.tensors.reserve(variables.size());
  for (const Kept& kept : variables) {
    const Tensor value = kept.variable.value().eval();
    if (!path.empty()) content.tensors.push_back({kept.name, value});
  }
  if (path.empty()) return;
  content.metadata["format"] = "varve";
  content.metadata[kManifest] = manifest_text(position);
  content.metadata[kChecksum] = "";
  save_safetensors(path, content);
}

namespace {

// What another number of ranks had, each its own: the sum is what counts, and is shared evenly.
Tensor shared_evenly(const Tensor& saved, const TensorType& type) {
  const Tensor one = sum(saved, {.axes = Axes{0}, .keep = true}) * (1.0 / static_cast<double>(type.shape[0]));
  return broadcast_to(one, type.shape).eval();
}

bool is_of_other_ranks(const TensorType& saved, const TensorType& now) {
  TensorType same = saved;
  if (saved == now || saved.shape.rank() == 0 || now.shape.rank() != saved.shape.rank()) return false;
  same.shape[0] = now.shape[0];
  return same == now;
}

}  // namespace

Position load_checkpoint(const std::string& path, const std::vector<Kept>& variables, std::vector<Tensor>* values) {
  const Safetensors content = load_safetensors(path);
  Position position = parse_manifest(content.metadata, path);
  std::vector<Tensor> found;
  for (const Kept& kept : variables) {
    const Tensor* tensor = content.find(kept.name);
    const TensorType type = kept.variable.type();
    if (distributed::is_of_each_rank(kept.variable) && (tensor == nullptr || is_of_other_ranks(tensor->type(), type))) {
      found.push_back(tensor ? shared_evenly(*tensor, type) : zeros(type.shape, type.dtype));
      continue;
    }
    if (tensor == nullptr)
      throw Error(path + ": lacks \"" + kept.name + "\": the network or the optimiser is not the one that was saved.");
    if (tensor->type() != kept.variable.type())
      throw Error(path + ": \"" + kept.name + "\" is " + tensor->type().str() + ", but this run needs " +
                  kept.variable.type().str() + ".");
    found.push_back(*tensor);
  }
  for (std::size_t i = 0; i < variables.size(); ++i) {
    if (values) values->push_back(found[i]);
    if (!values || distributed::kept_of(variables[i].variable).same(variables[i].variable))
      Variable(variables[i].variable).assign(found[i]);
  }
  return position;
}

Position peek_checkpoint(const std::string& path) { return parse_manifest(load_safetensors_metadata(path), path); }

std::string what_is_trained(const std::string& folder) {
  const bool weights = std::filesystem::exists(best_weights(folder));
  if (!std::filesystem::exists(last_checkpoint(folder))) return weights ? "trained weights" : "";
  const auto counted = [](std::int64_t count, const char* what) {
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
  };
  try {
    const Position at = peek_checkpoint(last_checkpoint(folder));
    if (at.epoch > 0) return counted(at.epoch, "epoch");
    return at.total_steps > 0 ? counted(at.total_steps, "step") : weights ? "trained weights" : "";
  } catch (const Error&) {
    return "a checkpoint that cannot be read";
  }
}

void check_same_run(const std::string& path, const Position& saved, const Position& now) {
  const auto check = [&](const std::string& what, const auto& was, const auto& is) {
    if (was == is) return;
    std::string was_text, is_text;
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(was)>>) {
      was_text = std::to_string(was);
      is_text = std::to_string(is);
    } else {
      was_text = was;
      is_text = is;
    }
    throw Error(path + ": the run was begun with " + what + " " + was_text + ", and cannot go on with " + is_text +
                ". Start a new run, or keep what it had.");
  };
  check("seed", saved.seed, now.seed);
  check("batch", saved.batch, now.batch);
  check("training samples", saved.samples, now.samples);
  check("accumulate", saved.accumulate, now.accumulate);
  check("shards", saved.shards, now.shards);
  check("optimizer", saved.optimizer, now.optimizer);
  check("loss", saved.loss, now.loss);
}

}  // namespace varve::train
