// Forward, gradient, update and data loading apart, and layer by layer.
#include <algorithm>
#include <memory>

#include "bench/statistics.h"
#include "bench/worker.h"
#include "varve/data.h"

namespace varve::bench {
namespace {

using nlohmann::ordered_json;

std::vector<double> less(const std::vector<double>& whole, double part) {
  std::vector<double> rest;
  for (const double ms : whole) rest.push_back(std::max(ms - part, 0.0));
  return rest;
}

// Kernels know the layer they come from: "features.0", or "features.0 gradient of conv2d".
ordered_json layers_of(const Profile& profile) {
  struct Part {
    std::string name;
    double forward_ms = 0, gradient_ms = 0;
  };
  std::vector<Part> parts;
  for (const ProfileRow& row : profile.rows) {
    const std::size_t gradient = row.origin.find("gradient of ");
    std::string name = row.origin.substr(0, gradient);
    while (name.ends_with(' ')) name.pop_back();
    if (name.empty()) name = "(loss)";
    auto part = std::find_if(parts.begin(), parts.end(), [&](const Part& p) { return p.name == name; });
    if (part == parts.end()) part = parts.insert(parts.end(), {name});
    (gradient == std::string::npos ? part->forward_ms : part->gradient_ms) += row.ms;
  }
  ordered_json json = ordered_json::array();
  for (const Part& p : parts)
    json.push_back({{"name", p.name}, {"forward_ms", p.forward_ms}, {"gradient_ms", p.gradient_ms}});
  return json;
}

// Batches from the workload's own data where it is here, else from memory.
Timing time_loading(const Workload& w, std::int64_t batch, const TimingRules& rules) {
  const Sample sample = synthetic_batch(w, batch, 0);
  const bool real = !w.protocol.data.empty() && data::present(w.protocol.data);
  const data::Dataset set =
      real ? data::load(w.protocol.data, w.protocol.data_options).train : data::from_tensors(sample.x, sample.y);
  std::int64_t epoch = 0;
  const auto loader = [&] { return data::Loader(set, {.batch = std::min(batch, set.size()), .epoch = epoch++}); };
  auto now = std::make_unique<data::Loader>(loader());
  data::Batch taken;
  return time_calls(
      [&] {
        while (!now->next(taken)) now = std::make_unique<data::Loader>(loader());
      },
      [] {}, rules);
}

}  // namespace

ordered_json time_parts(const Request& request) {
  Network network = network_of(request);
  const Sample sample = synthetic_batch(network.workload(), request.batch, request.seed);
  const TimingRules rules = rules_of(request);
  auto forward = network.forward();
  auto gradients = network.gradients();
  const auto wait = [&] { wait_for(request); };
  const Timing ahead = time_calls([&] { forward(sample.x, sample.y).eval(); }, wait, rules);
  const Timing both = time_calls([&] { gradients(sample.x, sample.y)[0].eval(); }, wait, rules);
  std::vector<Tensor> found = gradients(sample.x, sample.y);
  found.erase(found.begin());
  auto update = network.update(found);
  const Timing applied = time_calls([&] { update(); }, wait, rules);
  ordered_json json{{"forward_ms", ahead.samples_ms},
                    {"gradient_ms", less(both.samples_ms, median(ahead.samples_ms))},
                    {"update_ms", applied.samples_ms},
                    {"data_ms", time_loading(network.workload(), request.batch, rules).samples_ms},
                    {"layers", layers_of(gradients.profile(3, sample.x, sample.y))},
                    {"parameters", network.parameters()}};
  return json;
}

}  // namespace varve::bench
