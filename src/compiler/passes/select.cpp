// Who computes what: the backend claims patterns; what nobody claims is decomposed, and the question asked again.
#include <unordered_set>

#include "base/text.h"
#include "compiler/pipeline.h"
#include "tensor/record.h"

namespace varve::compiler {

bool is_view(const ir::Node& node) { return static_cast<bool>(node.op->view); }

ir::Value source(ir::Value value) {
  while (is_view(*value.node)) value = value.node->inputs[0];
  return value;
}

namespace {

bool is_leaf(const ir::Node& node) { return node.op == &ir::input_op(); }

// Nodes that the fuse pass may take: it looks at what selection left.
bool is_fusible(const ir::Node& node) {
  static const std::unordered_set<std::string> reductions = {"sum", "prod", "max", "min"};
  return node.op->elementwise() || node.is("fill") ||
         (reductions.count(node.op->name) && node.inputs[0].type().shape.numel() > 0);
}

std::string describe(const ir::Node& node) {
  std::string text = cat(node.op->name, "(");
  for (std::size_t i = 0; i < node.inputs.size(); ++i) text += cat(i ? ", " : "", node.inputs[i].type().str());
  return cat(text, ") -> ", node.types.empty() ? std::string() : node.types[0].str());
}

class Selection {
 public:
  Selection(const ir::Graph& graph, const backend::Backend& backend, backend::Choices choices)
      : graph_(graph), backend_(backend), choices_(choices), users_(ir::uses(graph)) {}

  void run(Draft& draft) {
    for (const ir::NodePtr& node : ir::topological(graph_)) visit(node, draft);
  }
  const std::vector<ir::NodePtr>& unclaimed() const { return unclaimed_; }
  const std::string& refusals() const { return refusals_; }

 private:
  void visit(const ir::NodePtr& node, Draft& draft) {
    if (is_leaf(*node) || is_view(*node) || covered_.count(node.get())) return;
    if (!node->regions.empty()) return add_regions(node, draft);
    std::string refused;
    backend::Claim* best = nullptr;
    std::vector<backend::Claim> offered = claims(node);
    for (backend::Claim& claim : offered) {
      if (claim.accepted() && free(claim) && (!best || is_cheaper(claim, *best))) best = &claim;
      if (!claim.accepted() && !best) refused += cat("    ", claim.kernel, ": ", claim.refusal, "\n");
    }
    if (best) {
      draft.explain += cat(best->kernel, "  <-  ", describe(*node), "\n", refused);
      for (const ir::NodePtr& covered : best->nodes) covered_.insert(covered.get());
      Unit unit;
      unit.claim = std::move(*best);
      draft.units.push_back(std::move(unit));
      return;
    }
    if (backend_.fuses() && is_fusible(*node)) return;
    unclaimed_.push_back(node);
    refusals_ += cat("  ", describe(*node), ":\n", refused);
  }

  // A user's own kernel goes before those of the backend.
  std::vector<backend::Claim> claims(const ir::NodePtr& node) const {
    std::vector<backend::Claim> all = backend_.claims({graph_, users_, node, choices_});
    if (const backend::UserKernel* kernel = backend::find_user_kernel(*node->op, backend_.name()))
      all.insert(all.begin(), backend::Claim::of(cat("user ", node->op->name), node, (*kernel)(*node)));
    return all;
  }

  // Among claims that cover as much. One that states no cost keeps its place in the backend's order.
  static bool is_cheaper(const backend::Claim& claim, const backend::Claim& than) {
    return claim.nodes.size() == than.nodes.size() && claim.cost > 0 && than.cost > 0 && claim.cost < than.cost;
  }

  bool free(const backend::Claim& claim) const {
    for (const ir::NodePtr& node : claim.nodes)
      if (covered_.count(node.get())) return false;
    return true;
  }

  void add_regions(const ir::NodePtr& node, Draft& draft);

  const ir::Graph& graph_;
  const backend::Backend& backend_;
  const backend::Choices choices_;
  const std::unordered_map<ir::Value, std::vector<ir::Use>, ir::ValueHash> users_;
  std::unordered_set<const ir::Node*> covered_;
  std::vector<ir::NodePtr> unclaimed_;
  std::string refusals_;
};

void Selection::add_regions(const ir::NodePtr& node, Draft& draft) {
  std::string inside;
  Unit unit = region_unit(node, backend_, choices_, inside);
  draft.explain += cat(unit.claim.kernel, "  <-  ", describe(*node), "\n", inside);
  covered_.insert(node.get());
  draft.units.push_back(std::move(unit));
}

ir::Graph decompose(const ir::Graph& graph, const std::vector<ir::NodePtr>& nodes, const std::string& refusals,
                    const backend::Backend& backend) {
  std::unordered_set<const ir::Node*> which;
  for (const ir::NodePtr& node : nodes) {
    which.insert(node.get());
    if (!node->op->decompose && !node->op->elementwise())
      throw Error(cat("no kernel of backend '", backend.name(), "' computes ", describe(*node),
                      ", and it has no decomposition. Refusals:\n", refusals));
  }
  return ir::rewrite(graph, [&](const ir::NodePtr& node, const ir::NodePtr& original) -> std::vector<ir::Value> {
    if (!which.count(original.get())) return {};
    const ir::OriginScope origin(node->origin);
    const std::vector<Tensor> in = tensors_of(node->inputs);
    return values_of(node->op->decompose ? node->op->decompose(in, node->attrs) : expand(node->op->exprs, in));
  });
}

}  // namespace

Draft select(ir::Graph graph, const backend::Backend& backend, std::vector<Layout> input_layouts,
             backend::Choices choices) {
  constexpr int kDeepest = 16;  // a decomposition that never ends is an operator's mistake
  for (int depth = 0; depth < kDeepest; ++depth) {
    Draft draft;
    Selection selection(graph, backend, choices);
    selection.run(draft);
    if (selection.unclaimed().empty()) {
      draft.graph = std::move(graph);
      draft.backend = &backend;
      draft.input_layouts = std::move(input_layouts);
      for (std::size_t i = 0; i < draft.graph.inputs.size(); ++i) draft.input_at[draft.graph.inputs[i].get()] = i;
      return draft;
    }
    graph = optimize(decompose(graph, selection.unclaimed(), selection.refusals(), backend));
  }
  throw Error(cat("decomposition does not end for backend '", backend.name(), "'."));
}

}  // namespace varve::compiler
