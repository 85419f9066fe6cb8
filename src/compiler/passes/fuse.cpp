// Generated groups: what is elementwise runs in one pass over memory, with the reductions of it.
#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "base/levers.h"
#include "base/text.h"
#include "compiler/pipeline.h"
#include "varve/error.h"

namespace varve::compiler {
namespace {

using backend::Group;
using backend::Reduce;

constexpr std::size_t kMostInputs = 16;  // pointers a group may read
constexpr std::size_t kMostNodes = 64;   // keeps tile registers in the first-level cache

// The type in which tiles of this node are computed.
DType compute_dtype(const ir::Node& node) {
  const DType from = node.inputs.empty() ? node.types[0].dtype : node.inputs[0].type().dtype;
  if (from == f64) return f64;
  if (is_integer(from)) return node.types[0].dtype == f64 ? f64 : i64;
  if (from == boolean && node.is("cast"))
    return is_integer(node.types[0].dtype) ? i64 : node.types[0].dtype == f64 ? f64 : f32;
  if (from == boolean && is_integer(node.types[0].dtype)) return i64;  // a sum of flags counts
  return f32;
}

Reduce reduction(const ir::Node& node) {
  if (node.is("sum")) return Reduce::sum;
  if (node.is("prod")) return Reduce::prod;
  if (node.is("max")) return Reduce::max;
  if (node.is("min")) return Reduce::min;
  return Reduce::none;
}

// A conversion that loses digits ends a group: what reads it must see the rounded value.
bool rounds(const ir::Node& node) {
  if (!node.is("cast")) return false;
  const DType from = node.inputs[0].type().dtype, to = node.types[0].dtype;
  if (to == boolean || from == boolean) return false;  // flags are exact in every type
  return size_of(to) < size_of(from) || is_floating(from) != is_floating(to) || (is_floating(to) && size_of(to) == 2);
}

// What such a node gives is read from memory, once all of it is there.
bool ends_group(const ir::Node& node) { return reduction(node) != Reduce::none || rounds(node); }

const Shape& space(const ir::Node& node) {
  return reduction(node) == Reduce::none ? node.types[0].shape : node.inputs[0].type().shape;
}

struct Cluster {
  std::vector<int> members;  // positions in the order
  Shape shape;
  DType compute = f32;
  std::vector<bool> axes;  // reduced ones; empty while there is no reduction
};

std::vector<bool> reduced_axes(const ir::Node& node) {
  std::vector<bool> axes(static_cast<std::size_t>(node.inputs[0].type().shape.rank()), false);
  for (const std::int64_t axis : node.attrs.ints("axes")) axes[static_cast<std::size_t>(axis)] = true;
  return axes;
}

class Fusion {
 public:
  explicit Fusion(Draft& draft) : draft_(draft), order_(ir::topological(draft.graph)) {
    for (std::size_t i = 0; i < order_.size(); ++i) position_[order_[i].get()] = static_cast<int>(i);
    std::unordered_set<const ir::Node*> covered;
    for (const Unit& unit : draft.units)
      for (const ir::NodePtr& node : unit.claim.nodes) covered.insert(node.get());
    cluster_of_.assign(order_.size(), -1);
    users_.resize(order_.size());
    for (std::size_t i = 0; i < order_.size(); ++i) {
      for (const ir::Value& input : order_[i]->inputs) users_[at(input.node)].push_back(static_cast<int>(i));
      loose_.push_back(!covered.count(order_[i].get()) && !is_view(*order_[i]) && order_[i]->op != &ir::input_op());
    }
    // A unit computes all its nodes at once: whoever reads one of its late inputs is before all its outputs.
    for (const Unit& unit : draft.units) {
      std::vector<int> members;
      for (const ir::NodePtr& node : unit.claim.nodes) members.push_back(static_cast<int>(at(node)));
      for (const int a : members)
        for (const int b : members)
          if (a != b) users_[static_cast<std::size_t>(a)].push_back(b);
    }
    for (const ir::Value& output : draft.graph.outputs) outputs_.insert(output);
    find_horizons();
  }

  void run() {
    for (std::size_t i = 0; i < order_.size(); ++i)
      if (loose_[i] && (!is_constant(order_[i]) || read_from_memory(i))) place(static_cast<int>(i));
    for (std::size_t c = 0; c < clusters_.size(); ++c)
      if (!clusters_[c].members.empty()) emit(clusters_[c]);
  }

 private:
  std::size_t at(const ir::NodePtr& node) const { return static_cast<std::size_t>(position_.at(node.get())); }
  // Scalars known at compile time become immediates of whoever reads them, unless a backend makes them its own way.
  bool is_constant(const ir::NodePtr& node) const {
    return node->is("fill") && node->types[0].shape.rank() == 0 && loose_[at(node)] && !outputs_.count({node, 0});
  }

  bool read_from_memory(std::size_t i) const {
    return std::any_of(users_[i].begin(), users_[i].end(),
                       [&](int user) { return !loose_[static_cast<std::size_t>(user)]; });
  }

  void find_horizons();
  void place(int i);
  bool cyclic(const std::vector<int>& members) const;
  bool try_merge(int a, int b);
  void emit(const Cluster& cluster);
  std::size_t count_inputs(const std::vector<int>& members) const;

  Draft& draft_;
  std::vector<ir::NodePtr> order_;
  std::unordered_map<const ir::Node*, int> position_;
  std::vector<std::vector<int>> users_;
  std::vector<bool> loose_;
  std::vector<int> horizon_;  // per position: no path from beyond it leads back to here
  std::vector<int> cluster_of_;
  std::vector<Cluster> clusters_;
  std::unordered_set<ir::Value, ir::ValueHash> outputs_;
};

// Edges lead forward, but for those within a unit: a position that no unit straddles is a point of no return.
void Fusion::find_horizons() {
  std::vector<int> straddling(order_.size() + 1, 0);
  for (const Unit& unit : draft_.units) {
    std::size_t low = order_.size(), high = 0;
    for (const ir::NodePtr& node : unit.claim.nodes) {
      low = std::min(low, at(node));
      high = std::max(high, at(node));
    }
    if (low >= high) continue;
    ++straddling[low];
    --straddling[high];
  }
  std::partial_sum(straddling.begin(), straddling.end(), straddling.begin());
  horizon_.resize(order_.size());
  for (std::size_t i = order_.size(); i-- > 0;)
    horizon_[i] = straddling[i] == 0 ? static_cast<int>(i) : horizon_[i + 1];
}

// A path that leaves the set and comes back would make it wait for itself. Other groups are single kernels too:
// reaching one member reaches all, earlier ones included.
bool Fusion::cyclic(const std::vector<int>& members) const {
  const int horizon = horizon_[static_cast<std::size_t>(members.back())];
  std::vector<bool> inside(static_cast<std::size_t>(horizon) + 1, false), seen = inside;
  for (const int m : members) inside[static_cast<std::size_t>(m)] = true;
  std::vector<int> stack;
  auto push = [&](int i) {
    if (i > horizon || inside[static_cast<std::size_t>(i)] || seen[static_cast<std::size_t>(i)]) return;
    seen[static_cast<std::size_t>(i)] = true;
    stack.push_back(i);
  };
  for (const int m : members)
    for (const int user : users_[static_cast<std::size_t>(m)]) {
      const bool within = user <= horizon && inside[static_cast<std::size_t>(user)];
      if (within && ends_group(*order_[static_cast<std::size_t>(m)])) return true;
      push(user);
    }
  while (!stack.empty()) {
    const auto i = static_cast<std::size_t>(stack.back());
    stack.pop_back();
    if (cluster_of_[i] >= 0)
      for (const int m : clusters_[static_cast<std::size_t>(cluster_of_[i])].members) push(m);
    for (const int user : users_[i]) {
      if (user <= horizon && inside[static_cast<std::size_t>(user)]) return true;
      push(user);
    }
  }
  return false;
}

std::size_t Fusion::count_inputs(const std::vector<int>& members) const {
  std::unordered_set<ir::Value, ir::ValueHash> inside, inputs;
  for (const int m : members)
    for (std::size_t o = 0; o < order_[static_cast<std::size_t>(m)]->types.size(); ++o)
      inside.insert({order_[static_cast<std::size_t>(m)], static_cast<int>(o)});
  for (const int m : members)
    for (const ir::Value& input : order_[static_cast<std::size_t>(m)]->inputs)
      if (!inside.count(input)) inputs.insert(input);
  return inputs.size();
}

bool Fusion::try_merge(int a, int b) {
  if (!lever("groups")) return false;
  Cluster& into = clusters_[static_cast<std::size_t>(a)];
  Cluster& from = clusters_[static_cast<std::size_t>(b)];
  if (into.shape != from.shape || into.compute != from.compute) return false;
  if (!into.axes.empty() && !from.axes.empty() && into.axes != from.axes) return false;
  std::vector<int> members = into.members;
  members.insert(members.end(), from.members.begin(), from.members.end());
  std::sort(members.begin(), members.end());
  if (members.size() > kMostNodes || count_inputs(members) > kMostInputs) return false;
  for (const int m : from.members) cluster_of_[static_cast<std::size_t>(m)] = a;
  if (cyclic(members)) {
    for (const int m : from.members) cluster_of_[static_cast<std::size_t>(m)] = b;
    return false;
  }
  into.members = std::move(members);
  if (into.axes.empty()) into.axes = from.axes;
  from.members.clear();
  return true;
}

// A node starts a group of its own, which then joins the groups of its producers where that is legal.
void Fusion::place(int i) {
  const ir::NodePtr& node = order_[static_cast<std::size_t>(i)];
  Cluster own{{i}, space(*node), compute_dtype(*node), {}};
  if (reduction(*node) != Reduce::none) own.axes = reduced_axes(*node);
  cluster_of_[static_cast<std::size_t>(i)] = static_cast<int>(clusters_.size());
  clusters_.push_back(std::move(own));
  for (const ir::Value& input : node->inputs) {
    const int producer = cluster_of_[at(input.node)];
    const int mine = cluster_of_[static_cast<std::size_t>(i)];
    if (producer < 0 || producer == mine) continue;
    if (ends_group(*input.node)) continue;
    try_merge(producer, mine);
  }
}

void Fusion::emit(const Cluster& cluster) {
  Group group;
  group.shape = cluster.shape;
  group.compute = cluster.compute;
  group.reduced_axes =
      cluster.axes.empty() ? std::vector<bool>(static_cast<std::size_t>(cluster.shape.rank()), false) : cluster.axes;
  std::unordered_map<ir::Value, expr::Expr, ir::ValueHash> exprs;
  std::unordered_set<int> members(cluster.members.begin(), cluster.members.end());
  auto read = [&](const ir::Value& value) {
    const auto known = exprs.find(value);
    if (known != exprs.end()) return known->second;
    if (is_constant(value.node)) return expr::Expr(value.node->attrs.number("value"));
    const expr::Expr input = expr::Expr::input(static_cast<int>(group.inputs.size()));
    group.inputs.push_back(value);
    exprs.emplace(value, input);
    return input;
  };
  std::vector<expr::Expr> results;
  for (const int m : cluster.members) {
    const ir::NodePtr& node = order_[static_cast<std::size_t>(m)];
    group.nodes.push_back(node);
    std::vector<expr::Expr> in;
    for (const ir::Value& input : node->inputs) in.push_back(read(input));
    std::vector<expr::Expr> outs;
    if (reduction(*node) != Reduce::none)
      outs = {in[0]};
    else if (node->is("fill"))
      outs = {expr::Expr(node->attrs.number("value"))};
    else if (node->is("cast"))
      outs = {node->types[0].dtype == boolean && node->inputs[0].type().dtype != boolean ? in[0] != 0 : in[0]};
    else
      for (const expr::Expr& e : node->op->exprs) outs.push_back(expr::substitute(e, in));
    for (int o = 0; o < static_cast<int>(outs.size()); ++o) {
      const ir::Value value{node, o};
      const bool reduces = reduction(*node) != Reduce::none;
      if (!reduces) exprs.emplace(value, outs[static_cast<std::size_t>(o)]);
      bool outside = outputs_.count(value) || reduces;
      for (const int user : users_[static_cast<std::size_t>(m)])
        if (!members.count(user))
          for (const ir::Value& input : order_[static_cast<std::size_t>(user)]->inputs)
            outside = outside || input == value;
      if (!outside) continue;
      group.outputs.push_back(value);
      group.reduce.push_back(reduction(*node));
      results.push_back(outs[static_cast<std::size_t>(o)]);
    }
  }
  if (group.outputs.empty()) return;
  group.code = expr::flatten(static_cast<int>(group.inputs.size()), results);
  backend::Claim claim = draft_.backend->claim_group(group);
  if (!claim.accepted())
    throw Error(cat("no kernel for a generated group of backend '", draft_.backend->name(), "': ", claim.refusal));
  draft_.explain += cat(claim.kernel, "  <-  group of ", group.nodes.size(), " over ", group.shape.str(), "\n");
  // Element by element, an output may take the place of any input that is read just there. A reduction may not: its
  // inputs are read again after its first result is written.
  for (int o = 0; o < static_cast<int>(group.outputs.size()); ++o)
    for (int i = 0; i < static_cast<int>(group.inputs.size()); ++i)
      if (group.reduce[static_cast<std::size_t>(o)] == Reduce::none &&
          group.inputs[static_cast<std::size_t>(i)].type() == group.outputs[static_cast<std::size_t>(o)].type())
        claim.in_place.push_back({o, i});
  draft_.units.push_back({std::move(claim), nullptr, 0});
}

}  // namespace

void fuse(Draft& draft) { Fusion(draft).run(); }

}  // namespace varve::compiler
