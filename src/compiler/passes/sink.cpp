// A gradient's elementwise part often needs only what the forward pass had at hand (the mask of a ReLU is its output
// compared with zero), so grouping puts it into the forward group, which would store it for the whole step. Where it is
// cheap, each reader computes it again from values that are kept anyway.
#include <algorithm>
#include <optional>

#include "compiler/passes/clusters.h"

namespace varve::compiler {
namespace {

constexpr std::size_t kMostPrims = 12;  // computed again in each reader

// One vector instruction or so.
bool is_cheap(expr::Prim prim) {
  switch (prim) {
    case expr::Prim::div:
    case expr::Prim::pow:
    case expr::Prim::mod:
    case expr::Prim::atan2:
      return false;
    default:
      return prim <= expr::Prim::trunc || prim == expr::Prim::logical_not || prim == expr::Prim::is_nan;
  }
}

// Primitives of one node; more than are allowed when some of them is not cheap.
std::size_t count_prims(const ir::Node& node) {
  if (!node.op->elementwise()) return node.is("cast") || node.is("fill") ? 1 : kMostPrims + 1;
  std::size_t count = 0;
  for (const expr::Instr& instr : expr::flatten(static_cast<int>(node.inputs.size()), node.op->exprs).instrs) {
    if (instr.prim == expr::Prim::input || instr.prim == expr::Prim::constant) continue;
    count += is_cheap(instr.prim) ? 1 : kMostPrims + 1;
  }
  return count;
}

std::vector<int> with(std::vector<int> nodes, const std::vector<int>& more) {
  nodes.insert(nodes.end(), more.begin(), more.end());
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return nodes;
}

class Sinking {
 public:
  // Members of a cluster are computed at one time.
  explicit Sinking(Clusters& clusters) : c_(clusters), level_(c_.order.size(), 0) {
    for (std::size_t i = 0; i < c_.order.size(); ++i)
      for (const ir::Value& input : c_.order[i]->inputs) {
        const std::size_t from = c_.at(input.node);
        level_[i] = std::max(level_[i], level_[from] + (c_.of[i] >= 0 && c_.of[i] == c_.of[from] ? 0 : 1));
      }
  }

  // Upstream first: what stays in memory is known before it is asked whether others can be computed from it.
  void run() {
    for (int i = 0; i < static_cast<int>(c_.order.size()); ++i)
      if (home_of(i) >= 0 && !ends_group(*node(i))) consider(i);
  }

 private:
  struct Recipe {
    std::vector<int> nodes;          // to compute again
    std::vector<ir::Value> anchors;  // from these, which lie in memory anyway
  };

  std::optional<Recipe> recipe_of(int i) const;
  bool fits(const Cluster& reader, const Cluster& home, const Recipe& recipe) const;
  bool pays(int i, const std::vector<int>& readers, const Recipe& recipe) const;
  int last_read(const ir::Value& value) const;
  void consider(int i);
  const ir::NodePtr& node(int i) const { return c_.order[static_cast<std::size_t>(i)]; }
  int home_of(int i) const { return c_.of[static_cast<std::size_t>(i)]; }
  Cluster& cluster(int index) const { return c_.all[static_cast<std::size_t>(index)]; }

  Clusters& c_;
  std::vector<int> level_;  // longest path from the inputs: a clock
};

// Back from the node to what lies in memory.
std::optional<Sinking::Recipe> Sinking::recipe_of(int i) const {
  Recipe recipe;
  std::size_t prims = 0;
  std::vector<int> stack{i};
  while (!stack.empty()) {
    const int n = stack.back();
    stack.pop_back();
    if (std::find(recipe.nodes.begin(), recipe.nodes.end(), n) != recipe.nodes.end()) continue;
    recipe.nodes.push_back(n);
    prims += count_prims(*node(n));
    if (prims > kMostPrims) return std::nullopt;
    for (const ir::Value& input : node(n)->inputs) {
      if (c_.is_constant(input.node)) continue;
      const int from = static_cast<int>(c_.at(input.node));
      if (c_.state.count(input.node.get())) return std::nullopt;  // a late reader would forbid its update in place
      if (!c_.is_stored(input))
        stack.push_back(from);
      else if (std::find(recipe.anchors.begin(), recipe.anchors.end(), input) == recipe.anchors.end())
        recipe.anchors.push_back(input);
    }
  }
  return recipe;
}

bool Sinking::fits(const Cluster& reader, const Cluster& home, const Recipe& recipe) const {
  if (reader.shape != home.shape || reader.compute != home.compute) return false;
  const std::vector<int> nodes = with(with(reader.members, reader.copies), recipe.nodes);
  return nodes.size() <= kMostNodes && c_.inputs_of(nodes).size() <= kMostInputs;
}

int Sinking::last_read(const ir::Value& value) const {
  int last = 0;
  for (const int user : c_.users[c_.at(value.node)]) last = std::max(last, level_[static_cast<std::size_t>(user)]);
  return last;
}

// Less is held (bytes times the levels that they are held for), and not much more is read.
bool Sinking::pays(int i, const std::vector<int>& readers, const Recipe& recipe) const {
  const ir::Value value{node(i), 0};
  const double bytes = static_cast<double>(value.type().bytes());
  const int last = last_read(value);
  const double held = bytes * (last - level_[static_cast<std::size_t>(i)]);
  double held_instead = 0, read = 0;
  for (const ir::Value& anchor : recipe.anchors) {
    const double size = static_cast<double>(anchor.type().bytes());
    if (anchor.node->op != &ir::input_op()) held_instead += size * std::max(0, last - last_read(anchor));
    for (const int reader : readers) {
      const std::vector<ir::Value> known = c_.inputs_of(with(cluster(reader).members, cluster(reader).copies));
      if (std::find(known.begin(), known.end(), anchor) == known.end()) read += size;
    }
  }
  const double traffic = bytes * static_cast<double>(1 + readers.size());
  return held_instead < held && read <= 2 * traffic;
}

void Sinking::consider(int i) {
  const Readers readers = c_.readers_of({node(i), 0});
  if (readers.others || readers.clusters.empty()) return;
  const std::optional<Recipe> recipe = recipe_of(i);
  if (!recipe || !pays(i, readers.clusters, *recipe)) return;
  for (const int reader : readers.clusters)
    if (!fits(cluster(reader), cluster(home_of(i)), *recipe)) return;
  for (const int reader : readers.clusters) cluster(reader).copies = with(cluster(reader).copies, recipe->nodes);
  c_.sunk.insert({node(i), 0});
}

}  // namespace

void sink(Clusters& clusters) { Sinking(clusters).run(); }

}  // namespace varve::compiler
