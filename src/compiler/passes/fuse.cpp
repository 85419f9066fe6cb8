// Generated groups: what is elementwise runs in one pass over memory, with the reductions of it.
#include <algorithm>
#include <numeric>

#include "base/levers.h"
#include "base/text.h"
#include "compiler/passes/clusters.h"
#include "compiler/pipeline.h"
#include "varve/error.h"

namespace varve::compiler {
namespace {

using backend::Group;
using backend::Reduce;

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

const Shape& space(const ir::Node& node) {
  return reduction(node) == Reduce::none ? node.types[0].shape : node.inputs[0].type().shape;
}

std::vector<bool> reduced_axes(const ir::Node& node) {
  std::vector<bool> axes(static_cast<std::size_t>(node.inputs[0].type().shape.rank()), false);
  for (const std::int64_t axis : node.attrs.ints("axes")) axes[static_cast<std::size_t>(axis)] = true;
  return axes;
}

class Fusion {
 public:
  explicit Fusion(Draft& draft) : draft_(draft), c_(draft) { find_horizons(); }

  void run() {
    for (std::size_t i = 0; i < c_.order.size(); ++i)
      if (c_.loose[i] && (!c_.is_constant(c_.order[i]) || read_from_memory(i))) place(static_cast<int>(i));
    sink(c_);
    if (draft_.backend->recomputes() && lever("recompute")) recompute(draft_, c_);
    emit();
  }

 private:
  bool read_from_memory(std::size_t i) const {
    return std::any_of(c_.users[i].begin(), c_.users[i].end(),
                       [&](int user) { return !c_.loose[static_cast<std::size_t>(user)]; });
  }

  void find_horizons();
  void place(int i);
  bool cyclic(const std::vector<int>& members) const;
  bool try_merge(int a, int b);
  void emit();
  void add_unit(backend::Claim claim, const std::vector<Group>& groups);
  bool is_sink(const Group& group) const;
  bool is_root(const Group& group) const;

  Draft& draft_;
  Clusters c_;
  std::vector<int> horizon_;  // per position: no path from beyond it leads back to here
};

// Edges lead forward, but for those within a unit and between messages: a position that none straddles is a point of no
// return.
void Fusion::find_horizons() {
  std::vector<int> straddling(c_.order.size() + 1, 0);
  for (const Unit& unit : draft_.units) {
    std::size_t low = c_.order.size(), high = 0;
    for (const ir::NodePtr& node : unit.claim.nodes) {
      low = std::min(low, c_.at(node));
      high = std::max(high, c_.at(node));
    }
    if (low >= high) continue;
    ++straddling[low];
    --straddling[high];
  }
  for (const auto& [low, high] : c_.backward) {
    ++straddling[static_cast<std::size_t>(low)];
    --straddling[static_cast<std::size_t>(high)];
  }
  std::partial_sum(straddling.begin(), straddling.end(), straddling.begin());
  horizon_.resize(c_.order.size());
  for (std::size_t i = c_.order.size(); i-- > 0;)
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
    for (const int user : c_.users[static_cast<std::size_t>(m)]) {
      const bool within = user <= horizon && inside[static_cast<std::size_t>(user)];
      if (within && ends_group(*c_.order[static_cast<std::size_t>(m)])) return true;
      push(user);
    }
  while (!stack.empty()) {
    const auto i = static_cast<std::size_t>(stack.back());
    stack.pop_back();
    if (c_.of[i] >= 0)
      for (const int m : c_.all[static_cast<std::size_t>(c_.of[i])].members) push(m);
    for (const int user : c_.users[i]) {
      if (user <= horizon && inside[static_cast<std::size_t>(user)]) return true;
      push(user);
    }
  }
  return false;
}

bool Fusion::try_merge(int a, int b) {
  if (!lever("groups")) return false;
  Cluster& into = c_.all[static_cast<std::size_t>(a)];
  Cluster& from = c_.all[static_cast<std::size_t>(b)];
  if (into.shape != from.shape || into.compute != from.compute) return false;
  if (!into.axes.empty() && !from.axes.empty() && into.axes != from.axes) return false;
  std::vector<int> members = into.members;
  members.insert(members.end(), from.members.begin(), from.members.end());
  std::sort(members.begin(), members.end());
  if (members.size() > kMostNodes || c_.inputs_of(members).size() > kMostInputs) return false;
  for (const int m : from.members) c_.of[static_cast<std::size_t>(m)] = a;
  if (cyclic(members)) {
    for (const int m : from.members) c_.of[static_cast<std::size_t>(m)] = b;
    return false;
  }
  into.members = std::move(members);
  if (into.axes.empty()) into.axes = from.axes;
  from.members.clear();
  return true;
}

// A node starts a group of its own, which then joins the groups of its producers where that is legal.
void Fusion::place(int i) {
  const ir::NodePtr& node = c_.order[static_cast<std::size_t>(i)];
  Cluster own{{i}, space(*node), compute_dtype(*node), {}};
  if (reduction(*node) != Reduce::none) own.axes = reduced_axes(*node);
  c_.of[static_cast<std::size_t>(i)] = static_cast<int>(c_.all.size());
  c_.all.push_back(std::move(own));
  for (const ir::Value& input : node->inputs) {
    const int producer = c_.of[c_.at(input.node)];
    const int mine = c_.of[static_cast<std::size_t>(i)];
    if (producer < 0 || producer == mine) continue;
    if (ends_group(*input.node)) continue;
    try_merge(producer, mine);
  }
}

void Fusion::add_unit(backend::Claim claim, const std::vector<Group>& groups) {
  if (!claim.accepted())
    throw Error(cat("no kernel for a generated group of backend '", draft_.backend->name(), "': ", claim.refusal));
  int first_in = 0, first_out = 0;
  for (const Group& group : groups) {
    draft_.explain += cat(claim.kernel, "  <-  group of ", group.nodes.size(), " over ", group.shape.str(), "\n");
    // Element by element, an output may take the place of any input that is read just there. A reduction may not: its
    // inputs are read again after its first result is written.
    for (int o = 0; o < static_cast<int>(group.outputs.size()); ++o)
      for (int i = 0; i < static_cast<int>(group.inputs.size()); ++i)
        if (group.reduce[static_cast<std::size_t>(o)] == Reduce::none &&
            group.inputs[static_cast<std::size_t>(i)].type() == group.outputs[static_cast<std::size_t>(o)].type())
          claim.in_place.push_back({first_out + o, first_in + i});
    first_in += static_cast<int>(group.inputs.size());
    first_out += static_cast<int>(group.outputs.size());
  }
  draft_.units.emplace_back().claim = std::move(claim);
}

// Nothing in the program waits for it: the update of a parameter, a counter.
bool Fusion::is_sink(const Group& group) const {
  return std::all_of(group.outputs.begin(), group.outputs.end(),
                     [&](const ir::Value& output) { return c_.users[c_.at(output.node)].empty(); });
}

// It waits for nothing in the program: weights in another type. What it gives replaces no state: its readers would have
// to come first.
bool Fusion::is_root(const Group& group) const {
  const bool given = std::all_of(group.inputs.begin(), group.inputs.end(),
                                 [](const ir::Value& input) { return source(input).node->op == &ir::input_op(); });
  return given && std::none_of(group.outputs.begin(), group.outputs.end(),
                               [&](const ir::Value& output) { return c_.outputs.count(output) > 0; });
}

// Small groups that begin the program share a launch, and those that end it another, where the backend can: no cycle
// can come of it. Large ones are worth their own, and what they read would be kept for longer.
void Fusion::emit() {
  constexpr std::int64_t kSmall = std::int64_t{1} << 20;  // elements
  std::vector<Group> alone, roots, sinks;
  for (const Cluster& cluster : c_.all) {
    if (cluster.members.empty()) continue;
    Group group = group_of(c_, cluster);
    if (group.outputs.empty()) continue;
    const bool small = group.shape.numel() <= kSmall && draft_.backend->joins_groups() && lever("launches");
    (small && is_sink(group) ? sinks : small && is_root(group) ? roots : alone).push_back(std::move(group));
  }
  if (!roots.empty()) add_unit(draft_.backend->claim_together(roots), roots);
  for (const Group& group : alone) add_unit(draft_.backend->claim_group(group), {group});
  if (!sinks.empty()) add_unit(draft_.backend->claim_together(sinks), sinks);
}

}  // namespace

void fuse(Draft& draft) {
  if (draft.backend->fuses()) Fusion(draft).run();
}

}  // namespace varve::compiler
