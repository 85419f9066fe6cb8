// Weights to files, and from files. Counters and carried states are a run's, not a model's: checkpoints keep them.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "nn/foreign.h"
#include "nn/state.h"
#include "varve/io.h"

namespace varve::nn {
namespace {

constexpr const char* kAliases = "varve.aliases";  // "decoder.weight=embedding.weight;…": stored once, named twice
constexpr const char* kLayout = "varve.layout";    // "varve" or "pytorch"

struct Weight {
  std::string path;
  Variable variable;
  bool parameter;
  ForeignLayout foreign;
};

std::vector<Weight> weights_of(Module::State& root) {
  std::vector<Weight> found;
  each_entry(root, [&](const std::string& path, const Module::State::Entry& entry) {
    if (entry.carried || (!entry.parameter && entry.name == "counter")) return;
    found.push_back({path, entry.variable, entry.parameter, entry.foreign});
  });
  return found;
}

bool has_path(const std::vector<Weight>& weights, const std::string& path) {
  return std::any_of(weights.begin(), weights.end(), [&](const Weight& weight) { return weight.path == path; });
}

std::string list(const std::vector<std::string>& names, const std::vector<std::string>& candidates) {
  constexpr std::size_t kMost = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i) {
    const std::string guess = nearest(names[i], candidates);
    text += (i ? ", " : "") + names[i] + (guess.empty() ? "" : " (nearest: " + guess + ")");
  }
  return names.size() > kMost ? text + " and " + std::to_string(names.size() - kMost) + " more" : text;
}

// One load: what the file has, and what is to become of it.
class Loading {
 public:
  Loading(const std::string& path, Safetensors file, std::vector<Weight> weights, const LoadOptions& options)
      : path_(path), weights_(std::move(weights)), options_(options), file_(std::move(file)) {
    for (const auto& [name, tensor] : file_.tensors) by_name_[name] = &tensor;
    read_aliases();
    check_layout();
  }

  Loaded run() {
    for (const Weight& weight : weights_) match(weight);
    for (const Weight& weight : weights_)
      if (!loaded_.count(weight.variable.state().get())) missing_.push_back(weight.path);
    for (const auto& [name, tensor] : file_.tensors)
      if (!used_.count(name) && !ignored(name)) unexpected_.push_back(name);
    if (!options_.partial && !(missing_.empty() && unexpected_.empty())) throw mismatch();
    for (auto& [variable, value] : assignments_) value.eval();
    for (auto& [variable, value] : assignments_) variable.assign(value);
    return {missing_, unexpected_};
  }

 private:
  Error error(const std::string& what) const { return Error("load '" + path_ + "': " + what); }

  void read_aliases() {
    const auto entry = file_.metadata.find(kAliases);
    if (entry == file_.metadata.end()) return;
    const std::string& text = entry->second;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find(';', begin), text.size()), equals = text.find('=', begin);
      if (equals < end) {
        const auto target = by_name_.find(text.substr(equals + 1, end - equals - 1));
        if (target != by_name_.end()) aliases_[text.substr(begin, equals - begin)] = target->first;
      }
      begin = end + 1;
    }
  }

  void check_layout() const {
    const auto entry = file_.metadata.find(kLayout);
    if (entry == file_.metadata.end()) return;
    if (options_.pytorch && entry->second == "varve")
      throw error("was saved in Varve's layouts; load it without {.pytorch = true}.");
    if (!options_.pytorch && entry->second == "pytorch")
      throw error("was saved in PyTorch's layouts; load it with {.pytorch = true}.");
  }

  bool ignored(const std::string& name) const {
    static const std::string count = "num_batches_tracked";
    return options_.pytorch && name.size() >= count.size() &&
           name.compare(name.size() - count.size(), count.size(), count) == 0;
  }

  const Tensor* find(const std::string& name) {
    auto found = by_name_.find(name);
    if (found == by_name_.end()) {
      const auto alias = aliases_.find(name);
      if (alias == aliases_.end()) return nullptr;
      found = by_name_.find(alias->second);
    }
    used_.insert(found->first);
    return found->second;
  }

  void match(const Weight& weight) {
    const Tensor* stored = find(weight.path);
    if (!stored) return;
    if (!fits(weight, *stored)) {
      if (!options_.partial) throw does_not_fit(weight, *stored);
      used_.erase(weight.path);
      return;
    }
    // A tied variable may be in the file under each of its names: the first counts.
    if (!loaded_.insert(weight.variable.state().get()).second) return;
    Tensor value = stored->to(weight.variable.type().dtype);
    const std::string second = options_.pytorch ? second_bias(weight.path) : "";
    if (!second.empty() && !has_path(weights_, second)) {
      const Tensor* other = find(second);
      if (other && other->type() != stored->type())
        throw error("expected '" + second + "' as " + stored->type().str() + ", got " + other->type().str() + ".");
      if (other) value = value + other->to(value.dtype());
    }
    assignments_.emplace_back(weight.variable, options_.pytorch ? from_foreign(value, weight.foreign) : value);
  }

  Shape expected(const Weight& weight) const {
    return options_.pytorch ? foreign_shape(weight.variable.shape(), weight.foreign) : weight.variable.shape();
  }
  bool fits(const Weight& weight, const Tensor& stored) const {
    return stored.shape() == expected(weight) &&
           is_floating(stored.dtype()) == is_floating(weight.variable.type().dtype);
  }
  Error does_not_fit(const Weight& weight, const Tensor& stored) const {
    const bool foreign = !options_.pytorch && stored.shape() == foreign_shape(weight.variable.shape(), weight.foreign);
    return error("expected '" + weight.path + "' as " +
                 TensorType{weight.variable.type().dtype, expected(weight)}.str() + ", got " + stored.type().str() +
                 "." + (foreign ? " That is PyTorch's layout: load with {.pytorch = true}." : ""));
  }

  Error mismatch() const {
    std::vector<std::string> paths, names;
    for (const Weight& weight : weights_) paths.push_back(weight.path);
    for (const auto& [name, tensor] : file_.tensors) names.push_back(name);
    std::string what = "the file and the model differ; nothing was loaded.";
    if (!missing_.empty()) what += "\n  missing in the file: " + list(missing_, names) + ".";
    if (!unexpected_.empty()) what += "\n  not in the model: " + list(unexpected_, paths) + ".";
    return error(
        what +
        "\n  To load what fits: load(path, {.partial = true}), or reinitialize_mismatched=true for the command.");
  }

  std::string path_;
  std::vector<Weight> weights_;
  LoadOptions options_;
  Safetensors file_;
  std::unordered_map<std::string, const Tensor*> by_name_;
  std::unordered_map<std::string, std::string> aliases_;
  std::unordered_set<std::string> used_;
  std::unordered_set<const void*> loaded_;
  std::vector<std::pair<Variable, Tensor>> assignments_;
  std::vector<std::string> missing_, unexpected_;
};

void check_built(const Module& module, const std::string& what) {
  if (!module.built())
    throw Error(module.kind() + ": " + what +
                " before its variables are made. Call build({…}) with the shape of a "
                "sample, or run a batch, first.");
}

}  // namespace

Safetensors Module::weights(const SaveOptions& options) const {
  check_built(*this, "save()");
  if (!is_floating(options.dtype))
    throw Error(std::string("save: expected dtype f32, f16 or bf16, got ") + name(options.dtype) + ".");
  const std::vector<Weight> weights = weights_of(*state_);
  Safetensors file{.tensors = {}, .metadata = options.metadata};
  std::unordered_map<const void*, std::string> stored;
  std::string aliases;
  for (const Weight& weight : weights) {
    const auto [first, fresh] = stored.emplace(weight.variable.state().get(), weight.path);
    if (!fresh) {
      aliases += (aliases.empty() ? "" : ";") + weight.path + "=" + first->second;
      continue;
    }
    Tensor value = weight.variable;
    const bool kept = value.dtype() == f64 && options.dtype == f32;  // f32 is what nobody asked for
    if (weight.parameter && is_floating(value.dtype()) && !kept) value = value.to(options.dtype);
    file.tensors.emplace_back(weight.path, options.pytorch ? to_foreign(value, weight.foreign) : value);
    const std::string second = options.pytorch ? second_bias(weight.path) : "";
    if (!second.empty() && !has_path(weights, second))
      file.tensors.emplace_back(second, zeros(value.shape(), value.dtype()));
  }
  if (!aliases.empty()) file.metadata[kAliases] = aliases;
  file.metadata[kLayout] = options.pytorch ? "pytorch" : "varve";
  if (options.pytorch) file.metadata.emplace("format", "pt");
  return file;
}

void Module::save(const std::string& path, const SaveOptions& options) const {
  save_safetensors(path, weights(options));
}

Loaded Module::load(const std::string& path, const LoadOptions& options) {
  check_built(*this, "load()");
  if (tracing()) throw Error(kind() + ": load() inside a compiled function.");
  return Loading(path, load_safetensors(path), weights_of(*state_), options).run();
}

Loaded Module::set_weights(Safetensors weights, const LoadOptions& options, const std::string& name) {
  check_built(*this, "set_weights()");
  if (tracing()) throw Error(kind() + ": set_weights() inside a compiled function.");
  return Loading(name, std::move(weights), weights_of(*state_), options).run();
}

}  // namespace varve::nn
