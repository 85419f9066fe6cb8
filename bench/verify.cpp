#include "bench/verify.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/hash.h"
#include "base/text.h"
#include "bench/equity.h"
#include "bench/flops.h"
#include "bench/scratch.h"
#include "bench/together.h"
#include "varve/io.h"
#include "varve/ops.h"

namespace varve::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kBatch = 16;
// Frameworks count a causal attention whole, we the half that is needed: 3% of gpt-small.
constexpr double kWorkTolerance = 0.05;
constexpr int kPerturbedRuns = 2;
constexpr double kLastBit = 0x1p-23;  // of a float32, relative

std::uint64_t file_hash(const fs::path& path) {
  std::error_code missing;
  if (!fs::exists(path, missing)) return 0;
  const std::string content = load_text(path.string());
  return hash_bytes(content.data(), content.size());
}

// What the result depends on: this program, the adapter with what it shares, and the environment's packages.
std::string fingerprint(const Framework& framework, const Workload& workload, const VerifyOptions& options) {
  static const std::uint64_t varve = file_hash(kThisProgram);
  std::uint64_t adapter = 0;
  std::string environment;
  if (!framework.adapter.empty()) {
    for (const char* shared : {framework.adapter.c_str(), "common.py", "process.py", "tasks.py"})
      adapter = hash_combine(adapter, file_hash(fs::path(adapters_folder()) / shared));
    std::error_code ignored;
    const fs::path python = python_of(framework);
    const auto changed = fs::last_write_time(python.parent_path().parent_path() / "lib", ignored);
    environment = cat(python.string(), " ", ignored ? 0 : changed.time_since_epoch().count());
  }
  return cat(varve, " ", adapter, " ", environment, " ", framework.name, " ", workload.name, " ", options.device);
}

fs::path cache_path(const std::string& print) {
  return fs::path(peers_folder()).parent_path() / "verified" /
         cat(std::hex, hash_bytes(print.data(), print.size()), ".json");
}

bool recall(const std::string& print, Checked& checked) {
  std::error_code ignored;
  if (!fs::exists(cache_path(print), ignored)) return false;
  try {
    const nlohmann::json json = nlohmann::json::parse(load_text(cache_path(print).string(), 1 << 20));
    if (json.at("fingerprint") != print) return false;
    checked.parameters = json.at("parameters");
    checked.losses = json.at("losses").get<std::vector<double>>();
    checked.worst = json.at("worst");
    checked.bound = json.at("bound");
    checked.cached = true;
    return true;
  } catch (const std::exception&) {
    return false;  // damaged: asked again
  }
}

void remember(const std::string& print, const Checked& checked) {
  std::error_code failed;  // a cache that cannot be written costs time, nothing else
  fs::create_directories(cache_path(print).parent_path(), failed);
  if (failed) return;
  const nlohmann::json json{{"fingerprint", print},
                            {"parameters", checked.parameters},
                            {"losses", checked.losses},
                            {"worst", checked.worst},
                            {"bound", checked.bound}};
  try {
    save_text(cache_path(print).string(), json.dump());
  } catch (const Error&) {
  }
}

void mismatch(Checked& checked, const std::string& reason) {
  checked.status = "mismatch";
  checked.reason = reason;
}

// The answer against what the sizes say.
void judge_sizes(const nlohmann::json& answer, const Workload& workload, Checked& checked) {
  const Work work = count_work(workload, kBatch);
  checked.parameters = answer.value("parameters", std::int64_t{0});
  for (const auto& loss : answer.at("losses")) checked.losses.push_back(loss.is_number() ? loss.get<double>() : NAN);
  if (checked.parameters != work.parameters)
    return mismatch(checked, cat("expected ", work.parameters, " trainable parameters, got ", checked.parameters));
  if (const auto flops = answer.find("flops"); flops != answer.end() && flops->is_number()) {
    const double count = flops->get<double>();
    if (std::abs(count / work.forward - 1) > kWorkTolerance)
      return mismatch(checked,
                      cat("expected ", work.forward, " operations in a forward pass of ", kBatch, ", got ", count));
  }
}

// The same weights, each moved by its last bit, up or down at random.
void perturb_weights(const std::string& from, const std::string& to, std::int64_t seed) {
  Safetensors weights = load_safetensors(from);
  for (auto& [name, value] : weights.tensors) {
    const Tensor up = cast(uniform(value.shape(), {.seed = seed++}) < 0.5, f32);
    value = value * (1.0 + kLastBit * (2.0 * up - 1.0));
  }
  save_safetensors(to, weights);
}

class Check {
 public:
  Check(const Workload& workload, const VerifyOptions& options) : workload_(workload), options_(options) {}

  Checked of(const std::string& name) {
    const Framework& framework = find_framework(name);
    Checked checked{.framework = name};
    if (checked.reason = missing(framework); !checked.reason.empty()) {
      checked.status = "missing";
      return checked;
    }
    const std::string print = fingerprint(framework, workload_, options_);
    if (options_.ranks > 1) return of_ranks(framework, checked);
    const bool kept = options_.device == "cpu";  // a GPU's kernels are in a library that the fingerprint does not know
    if (kept && !options_.fresh && recall(print, checked)) return checked;
    if (options_.say) options_.say(cat("verify ", workload_.name, ": ", name));
    if (name != "varve" && reference_.empty()) reference_ = varve_losses(request("losses"), &prediction_);
    const Answer answer = ask(framework, request("losses"), options_.limit_seconds);
    if (!answer.ok()) {
      checked.status = answer.status();
      checked.reason = answer.json.value("reason", "");
      return checked;
    }
    judge_sizes(answer.json, workload_, checked);
    if (name == "varve") reference_ = checked.losses, prediction_ = answer.json.value("prediction", 0.0);
    if (checked.status == "ok") judge_losses(checked);
    if (checked.status == "ok") judge_prediction(answer.json, checked);
    if (kept && checked.status == "ok") remember(print, checked);
    return checked;
  }

 private:
  Checked of_ranks(const Framework& framework, Checked checked) {
    if (options_.say)
      options_.say(cat("verify ", workload_.name, ": ", framework.name, ", ", options_.ranks, " ranks"));
    Request asked = request("losses");
    const bool varve = framework.name == "varve", own_statistics = has_batch_norm() && !varve;
    asked.sync_batch_norm = has_batch_norm() && varve;
    if (reference_.empty()) reference_ = varve_losses(request("losses"));
    if (own_statistics && !judged_by_ranks_) {
      judged_by_ranks_ = true;
      perturbed_.clear();
      reference_ = varve_losses(asked);
    }
    const Answer answer = ask_together(framework, asked, {.ranks = options_.ranks}, options_.limit_seconds);
    if (!answer.ok()) {
      checked.status = answer.status(), checked.reason = answer.json.value("reason", "");
      return checked;
    }
    for (const auto& loss : answer.json.at("losses"))
      checked.losses.push_back(loss.is_number() ? loss.get<double>() : NAN);
    judge_losses(checked);
    return checked;
  }
  bool has_batch_norm() const { return workload_.network.batch_norm || workload_.network.family == "resnet"; }

  Request request(const std::string& task) {
    if (!files_) {
      files_ = true;
      const Answer written = ask(find_framework("varve"), request("files"), options_.limit_seconds);
      if (!written.ok()) throw Error(cat("verify ", workload_.name, ": ", written.json.value("reason", "")));
    }
    return {.task = task,
            .workload = workload_.name,
            .batch = (kBatch + options_.ranks - 1) / options_.ranks * options_.ranks,
            .threads = options_.threads,
            .device = options_.device,
            .weights = folder_.path("weights.safetensors"),
            .batches = folder_.path("batches.safetensors"),
            .dropout = false,
            .rate = workload_.checked_rate};
  }
  Losses varve_losses(const Request& request, double* prediction = nullptr) {
    const Framework& varve = find_framework("varve");
    const Answer answer = judged_by_ranks_
                              ? ask_together(varve, request, {.ranks = options_.ranks}, options_.limit_seconds)
                              : ask(varve, request, options_.limit_seconds);
    if (!answer.ok()) throw Error(cat("verify ", workload_.name, ": ", answer.json.value("reason", "")));
    if (prediction) *prediction = answer.json.value("prediction", 0.0);
    return answer.json.at("losses").get<Losses>();
  }
  // Only who is outside the narrow bounds costs perturbed runs.
  void judge_losses(Checked& checked) {
    LossComparison found = compare_losses(checked.losses, reference_, bounds());
    if (!found.objection.empty() && perturbed_.empty()) {
      run_perturbed();
      found = compare_losses(checked.losses, reference_, bounds());
    }
    checked.worst = found.worst, checked.bound = bounds().back();
    if (!found.objection.empty()) mismatch(checked, found.objection);
  }
  void judge_prediction(const nlohmann::json& answer, Checked& checked) const {
    if (!(prediction_ > 0)) return;
    const auto given = answer.find("prediction");
    if (given == answer.end() || !given->is_number()) return mismatch(checked, "its predictions are no numbers");
    if (const std::string why = prediction_objection(*given, prediction_); !why.empty()) mismatch(checked, why);
  }
  std::vector<double> bounds() const { return loss_bounds(reference_, perturbed_); }
  void run_perturbed() {
    for (int i = 0; i < kPerturbedRuns; ++i) {
      if (options_.say) options_.say(cat("verify ", workload_.name, ": how far rounding leads, ", i + 1));
      Request moved = request("losses");
      moved.weights = folder_.path(cat("weights-", i, ".safetensors"));
      perturb_weights(folder_.path("weights.safetensors"), moved.weights, 1000 * (i + 1));
      perturbed_.push_back(varve_losses(moved));
    }
  }

  const Workload& workload_;
  VerifyOptions options_;
  Scratch folder_;
  bool files_ = false;
  Losses reference_;               // Varve's
  double prediction_ = 0;          // Varve's; 0: the network has none
  bool judged_by_ranks_ = false;   // reference_ is of several ranks
  std::vector<Losses> perturbed_;  // Varve's, from weights with other last bits
};

}  // namespace

std::vector<Checked> verify(const Workload& workload, const std::vector<std::string>& frameworks,
                            const VerifyOptions& options) {
  Check check(workload, options);
  std::vector<Checked> all = {check.of("varve")};
  for (const std::string& name : frameworks)
    if (name != "varve") all.push_back(check.of(name));
  return all;
}

}  // namespace varve::bench
