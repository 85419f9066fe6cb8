// What the forward pass computed is often read in the backward pass as well: the input of a layer, for the gradient of
// its weights. Where a kernel of the backward pass reads anyway what such a value was computed from, that kernel writes
// it once more, just before it is read, and nothing is kept in between.
#include <algorithm>

#include "base/text.h"
#include "compiler/passes/clusters.h"

namespace varve::compiler {
namespace {

constexpr std::size_t kLeastRecomputedBytes = std::size_t{1} << 18;  // less is not worth the write
constexpr std::size_t kLeastBetween = 4;                             // kernels for which it would be kept at least,
constexpr std::size_t kLeastShare = 8;                               // and one of so many kernels of the program

class Recomputation {
 public:
  Recomputation(Draft& draft, Clusters& clusters);

  void run() {
    for (std::size_t c = 0; c < c_.all.size(); ++c)
      for (const ir::Value& value : computable_in(static_cast<int>(c))) consider(units() + c, value);
    for (std::size_t u = 0; u < units(); ++u)
      if (draft_.units[u].claim.recomputes.node) consider(u, draft_.units[u].claim.recomputes);
  }

 private:
  // Units, then clusters: each is one kernel.
  std::size_t units() const { return draft_.units.size(); }
  bool is_cluster(std::size_t kernel) const { return kernel >= units(); }
  std::vector<ir::Value> inputs_of(const Cluster& cluster) const;
  std::vector<ir::Value> computable_in(int index) const;
  std::vector<bool> before(std::size_t kernel) const;
  void consider(std::size_t host, const ir::Value& value);
  ir::Value add_output(std::size_t host, const ir::Value& value, const std::vector<std::size_t>& readers);
  void redirect(std::size_t reader, const ir::Value& value, const ir::Value& again);

  Draft& draft_;
  Clusters& c_;
  std::unordered_map<ir::Value, std::size_t, ir::ValueHash> writer_;
  std::unordered_map<ir::Value, std::vector<std::size_t>, ir::ValueHash> readers_;
  std::vector<std::vector<std::size_t>> waits_for_;    // per kernel
  std::unordered_set<ir::Value, ir::ValueHash> kept_;  // to the end, or written again already
};

Recomputation::Recomputation(Draft& draft, Clusters& clusters) : draft_(draft), c_(clusters) {
  waits_for_.resize(units() + c_.all.size());
  for (const ir::Value& output : draft_.graph.outputs) kept_.insert(source(output));
  for (std::size_t u = 0; u < units(); ++u)
    for (const ir::Value& output : draft_.units[u].claim.outputs) writer_[output] = u;
  for (std::size_t i = 0; i < c_.order.size(); ++i)
    for (int o = 0; c_.of[i] >= 0 && o < static_cast<int>(c_.order[i]->types.size()); ++o)
      writer_[{c_.order[i], o}] = units() + static_cast<std::size_t>(c_.of[i]);
  for (std::size_t k = 0; k < waits_for_.size(); ++k)
    for (const ir::Value& input : is_cluster(k) ? inputs_of(c_.all[k - units()]) : draft_.units[k].claim.inputs) {
      std::vector<std::size_t>& readers = readers_[source(input)];
      if (readers.empty() || readers.back() != k) readers.push_back(k);
      if (const auto writer = writer_.find(source(input)); writer != writer_.end())
        waits_for_[k].push_back(writer->second);
    }
}

std::vector<ir::Value> Recomputation::inputs_of(const Cluster& cluster) const {
  std::vector<int> nodes = cluster.members;
  nodes.insert(nodes.end(), cluster.copies.begin(), cluster.copies.end());
  return c_.inputs_of(nodes);
}

// Results of other groups that follow, element by element, from what this group reads. Not from inputs of the program:
// copies of weights in another type would wait for their update.
std::vector<ir::Value> Recomputation::computable_in(int index) const {
  const Cluster& host = c_.all[static_cast<std::size_t>(index)];
  const std::vector<ir::Value> inputs = inputs_of(host);
  const auto known = [&](const ir::Value& value) {
    return c_.is_constant(value.node) || std::find(inputs.begin(), inputs.end(), value) != inputs.end();
  };
  std::vector<ir::Value> found;
  for (const ir::Value& input : inputs) {
    if (!writer_.count(source(input))) continue;
    for (const int user : c_.users[c_.at(input.node)]) {
      const ir::NodePtr& node = c_.order[static_cast<std::size_t>(user)];
      const int home = c_.of[static_cast<std::size_t>(user)];
      if (home < 0 || home == index || !node->op->elementwise() || node->types.size() != 1) continue;
      if (node->types[0].shape != host.shape || c_.all[static_cast<std::size_t>(home)].compute != host.compute)
        continue;
      if (std::all_of(node->inputs.begin(), node->inputs.end(), known) && c_.is_stored({node, 0}))
        found.push_back({node, 0});
    }
  }
  return found;
}

// The kernels that this one must wait for.
std::vector<bool> Recomputation::before(std::size_t kernel) const {
  std::vector<bool> seen(waits_for_.size(), false);
  std::vector<std::size_t> stack{kernel};
  while (!stack.empty()) {
    const std::size_t k = stack.back();
    stack.pop_back();
    for (const std::size_t earlier : waits_for_[k]) {
      if (seen[earlier]) continue;
      seen[earlier] = true;
      stack.push_back(earlier);
    }
  }
  return seen;
}

// Readers that the host waits for have the value as it was first written, all others as the host writes it: they come
// after the host, which cannot make it wait for itself.
void Recomputation::consider(std::size_t host, const ir::Value& value) {
  if (kept_.count(value) || value.type().bytes() < kLeastRecomputedBytes || !writer_.count(value)) return;
  const std::vector<bool> earlier = before(host);
  const auto count = [](const std::vector<bool>& kernels) { return std::count(kernels.begin(), kernels.end(), true); };
  std::vector<std::size_t> late;
  std::ptrdiff_t until = -1;  // kernels before the last of the early readers
  for (const std::size_t reader : readers_[value]) {
    if (earlier[reader])
      until = std::max(until, count(before(reader)));
    else
      late.push_back(reader);
  }
  const std::size_t least = std::max(kLeastBetween, waits_for_.size() / kLeastShare);
  if (until < 0 || count(earlier) - until < static_cast<std::ptrdiff_t>(least)) return;
  if (late.empty() || std::any_of(late.begin(), late.end(), [&](std::size_t reader) {
        return reader == host || is_cluster(reader);  // a group that reads it keeps it
      }))
    return;
  const ir::Value again = add_output(host, value, late);
  for (const std::size_t reader : late) {
    redirect(reader, value, again);
    waits_for_[reader].push_back(host);
  }
  kept_.insert(value);
  draft_.explain += cat(value.node->op->name, " ", value.type().str(), " of '", value.node->origin.path,
                        "' is recomputed in the backward pass\n");
}

ir::Value Recomputation::add_output(std::size_t host, const ir::Value& value, const std::vector<std::size_t>& readers) {
  const ir::NodePtr node = ir::with_inputs(*value.node, value.node->inputs);
  const ir::Value again{node, value.index};
  if (is_cluster(host)) {
    std::vector<int> positions;
    for (const std::size_t reader : readers)
      positions.push_back(static_cast<int>(c_.at(draft_.units[reader].claim.nodes.front())));
    c_.add_result(static_cast<int>(host - units()), node, std::move(positions));
    return again;
  }
  backend::Claim& claim = draft_.units[host].claim;
  const int output = static_cast<int>(claim.outputs.size());
  claim.outputs.push_back(again);
  const std::vector<std::pair<int, int>> pairs = claim.in_place;
  for (const auto& [o, i] : pairs) claim.in_place.push_back({output, i});
  return again;
}

// The same view of the value as it is written again.
ir::Value moved(const ir::Value& view, const ir::Value& from, const ir::Value& to) {
  if (view == from) return to;
  std::vector<ir::Value> inputs = view.node->inputs;
  inputs[0] = moved(inputs[0], from, to);
  return {ir::with_inputs(*view.node, std::move(inputs)), view.index};
}

void Recomputation::redirect(std::size_t reader, const ir::Value& value, const ir::Value& again) {
  for (ir::Value& input : draft_.units[reader].claim.inputs)
    if (source(input) == value) input = moved(input, value, again);
}

}  // namespace

void recompute(Draft& draft, Clusters& clusters) { Recomputation(draft, clusters).run(); }

}  // namespace varve::compiler
