// Steps, predictions and losses of Varve.
#include <chrono>
#include <cmath>

#include "base/text.h"
#include "bench/worker.h"
#include "varve/io.h"
#include "varve/ops.h"

namespace varve::bench {
namespace {

using nlohmann::ordered_json;

constexpr int kLosses = 5;

double milliseconds(const std::function<void()>& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

ordered_json timing_json(const Timing& timing) {
  return {{"samples_ms", timing.samples_ms},
          {"steps_per_sample", timing.calls_per_sample},
          {"cpu_seconds", timing.cpu_seconds},
          {"wall_seconds", timing.wall_seconds},
          {"timed", {timing.begin, timing.end}}};
}

// Of one step.
ordered_json wire_json(const Timing& timing) {
  const double steps = static_cast<double>(timing.samples_ms.size()) * static_cast<double>(timing.calls_per_sample);
  return {{"engine", distributed::engine()},
          {"busy_ms", 1e3 * timing.wire.busy_seconds / steps},
          {"waited_ms", 1e3 * timing.wire.waited_seconds / steps},
          {"bytes", timing.wire.sent_bytes / steps},
          {"messages", static_cast<double>(timing.wire.messages) / steps}};
}

// This rank's rows of a batch.
Tensor share_of(const Tensor& batch, const Request& request) {
  const std::int64_t own = request.batch / request.ranks;
  return request.ranks == 1 ? batch : batch.slice({{request.rank * own, (request.rank + 1) * own}});
}

// Who runs what, shortest form: each kernel's name once, with how often it occurs.
ordered_json kernels_of(const Profile& profile) {
  std::map<std::string, int> counts;
  for (const ProfileRow& row : profile.rows) ++counts[row.kernel];
  return counts;
}

}  // namespace

namespace {

// Another batch of other graphs at each call, made beforehand: none is met twice within a measurement of a minute.
ordered_json time_differing_steps(const Request& request) {
  constexpr int kBatches = 256;
  set_device(request.device);
  Network network = network_of(request);
  if (!request.weights.empty()) load_weights(network.model(), request.weights);
  std::vector<Sample> batches;
  for (int i = 0; i < kBatches; ++i)
    batches.push_back(synthetic_batch(network.workload(), request.batch, request.seed + i));
  const auto step = network.stepper();
  std::size_t next = 0;
  double loss = 0;
  const auto call = [&] {
    const Sample& sample = batches[next++ % kBatches];
    loss = step(sample.x, sample.y).item<float>();
  };
  const double first = milliseconds(call);
  const Timing timing = time_calls(
      call, [] {}, rules_of(request));
  ordered_json json = timing_json(timing);
  json["loss"] = loss;
  json["first_ms"] = first;
  json["parameters"] = network.parameters();
  json["peak_bytes"] = peak_memory(request);
  return json;
}

}  // namespace

ordered_json time_step(const Request& request) {
  if (find_workload(request.workload).differs()) return time_differing_steps(request);
  Network network = network_of(request);
  if (!request.weights.empty()) load_weights(network.model(), request.weights);
  const Sample sample = synthetic_batch(network.workload(), request.batch / request.ranks, request.seed + request.rank);
  auto step = network.step();
  Tensor last;
  double loss = 0;
  const auto call = [&] { last = step(sample.x, sample.y); };
  const auto read = [&] { loss = last.item<float>(); };
  const double first = milliseconds([&] { call(), read(); });
  const Timing timing = time_calls(call, read, rules_of(request));
  ordered_json json = timing_json(timing);
  if (request.ranks > 1) json["wire"] = wire_json(timing);
  json["loss"] = loss;
  json["first_ms"] = first;
  json["parameters"] = network.parameters();
  json["peak_bytes"] = peak_memory(request);  // before the profile below adds to it
  json["planned_bytes"] = step.peak_bytes(sample.x, sample.y);
  json["algorithms"] = kernels_of(step.profile(1, sample.x, sample.y));
  return json;
}

ordered_json time_inference(const Request& request) {
  Network network = network_of(request);
  const Sample sample = synthetic_batch(network.workload(), request.batch, request.seed);
  const auto predict = network.predictor();
  const auto call = [&] { predict(sample.x).eval(); };
  const auto wait = [&] { wait_for(request); };
  const double first = milliseconds([&] { call(), wait(); });
  TimingRules rules = rules_of(request);
  rules.sample_ms = 0;  // percentiles are of single calls
  ordered_json json = timing_json(time_calls(call, wait, rules));
  json["first_ms"] = first;
  json["parameters"] = network.parameters();
  return json;
}

ordered_json write_files(const Request& request) {
  Network network = network_of(request);
  const Workload& workload = network.workload();
  if (!request.weights.empty()) save_weights(network.model(), request.weights);
  if (!request.batches.empty()) {
    Safetensors file;
    for (int i = 0; i < kLosses; ++i) {
      const Sample sample = synthetic_batch(workload, request.batch, request.seed + 1 + i);
      file.tensors.emplace_back(cat("x", i), sample.x);
      if (workload.targets != Targets::input) file.tensors.emplace_back(cat("y", i), sample.y);
    }
    save_safetensors(request.batches, file);
  }
  if (!request.data.empty()) save_data(workload, request.data);
  return {{"parameters", network.parameters()}};
}

ordered_json first_losses(const Request& request) {
  Network network = network_of(request);
  if (network.workload().differs()) set_device(request.device);
  load_weights(network.model(), request.weights);
  const Safetensors batches = load_safetensors(request.batches);
  const auto step = network.stepper();
  std::vector<double> losses;
  for (int i = 0; i < kLosses; ++i) {
    const Tensor* x = batches.find(cat("x", i));
    const Tensor* y = batches.find(cat("y", i));
    if (y == nullptr && network.workload().targets == Targets::input) y = x;
    if (!x || !y) throw Error(cat(request.batches, ": expected x", i, " and y", i, "."));
    const Tensor loss = step(share_of(*x, request), share_of(*y, request));
    losses.push_back(distributed::all_mean(loss).item<float>());
  }
  ordered_json json{{"losses", losses}, {"parameters", network.parameters()}};
  if (!network.workload().network.stateful && request.ranks == 1) {  // such a network answers by what it saw before
    const auto predict = network.predictor();
    json["prediction"] = std::sqrt(mean(square(predict(*batches.find("x0")))).item<float>());
  }
  return json;
}

}  // namespace varve::bench
