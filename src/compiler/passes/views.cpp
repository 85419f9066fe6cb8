// Views share their input's buffer where every reader can take its strides; otherwise a copy stands between.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/text.h"
#include "compiler/homes.h"
#include "compiler/pipeline.h"
#include "tensor/record.h"
#include "varve/ops.h"

namespace varve::compiler {
namespace {

// The units that the outputs need, each after those it reads from. A pattern may have made some literal superfluous.
std::vector<Unit> ordered(std::vector<Unit> units, const std::vector<ir::Value>& outputs) {
  std::unordered_map<ir::Value, std::size_t, ir::ValueHash> writer;
  for (std::size_t u = 0; u < units.size(); ++u)
    for (const ir::Value& output : units[u].claim.outputs) writer[output] = u;
  std::vector<Unit> order;
  std::vector<int> state(units.size(), 0);
  std::vector<std::pair<std::size_t, std::size_t>> stack;
  for (const ir::Value& output : outputs) {
    const auto root = writer.find(source(output));
    if (root == writer.end() || state[root->second]) continue;
    state[root->second] = 1;
    stack.push_back({root->second, 0});
    while (!stack.empty()) {
      auto& [u, next] = stack.back();
      const auto& inputs = units[u].claim.inputs;
      if (next < inputs.size()) {
        const auto it = writer.find(source(inputs[next++]));
        if (it == writer.end() || state[it->second]) continue;
        state[it->second] = 1;
        stack.push_back({it->second, 0});
      } else {
        const std::size_t done = u;
        stack.pop_back();
        order.push_back(std::move(units[done]));
      }
    }
  }
  return order;
}

class Views {
 public:
  explicit Views(Draft& draft) : draft_(draft) {}

  void run() {
    std::vector<Unit> units = ordered(std::move(draft_.units), draft_.graph.outputs);
    for (Unit& unit : units) {
      for (std::size_t i = 0; i < unit.claim.inputs.size(); ++i) {
        const bool strided = i < unit.claim.memory.size() && unit.claim.memory[i] == backend::Memory::strided;
        unit.claim.inputs[i] = usable(unit.claim.inputs[i], strided);
      }
      for (const ir::Value& output : unit.claim.outputs) written_.insert(output);
      out_.push_back(std::move(unit));
    }
    own_outputs();
    draft_.units = std::move(out_);
  }

 private:
  // The value itself, or a contiguous copy of it.
  ir::Value usable(const ir::Value& value, bool strided) {
    const std::optional<Layout> layout = layout_of(draft_, value);
    if (layout && (strided || is_contiguous(value.type().shape, *layout))) return value;
    if (layout) return copy(value);
    // A view of something too scattered: make that contiguous first, then the view is free.
    const ir::Value base = usable(value.node->inputs[0], false);
    const ir::NodePtr view = ir::with_inputs(*value.node, {base});
    return usable({view, value.index}, strided);
  }

  ir::Value copy(const ir::Value& value) {
    const auto known = copies_.find(value);
    if (known != copies_.end()) return known->second;
    return copies_[value] = fresh_copy(value);
  }

  ir::Value fresh_copy(const ir::Value& value) {
    const ir::NodePtr node = ir::make_node(copy_op(), {value}, {}, {value.type()});
    node->origin = value.node->origin;
    const backend::Backend* backend = draft_.backend;
    Unit unit;
    unit.claim = backend::Claim::of(
        "copy", node, [backend](const std::vector<backend::Port>& in, const std::vector<backend::Port>& out) {
          return backend->prepare_copy(in[0], out[0]);
        });
    unit.claim.memory = {backend::Memory::strided};
    out_.push_back(std::move(unit));
    written_.insert({node, 0});
    return {node, 0};
  }

  // Every output is a value of its own that some unit writes whole: not a view, not an input, not another output.
  void own_outputs() {
    std::unordered_set<ir::Value, ir::ValueHash> taken;
    for (ir::Value& output : draft_.graph.outputs) {
      if (is_view(*output.node)) {
        const ir::Value plain = usable(output, true);
        output = written_.count(plain) && !taken.count(plain) ? plain : fresh_copy(plain);
      }
      if (!written_.count(output) || taken.count(output)) output = fresh_copy(output);
      taken.insert(output);
    }
  }

  Draft& draft_;
  std::vector<Unit> out_;
  std::unordered_map<ir::Value, ir::Value, ir::ValueHash> copies_;
  std::unordered_set<ir::Value, ir::ValueHash> written_;
};

}  // namespace

const OpRecord& copy_op() {
  static const OpRecord& record = define({.name = "copy",
                                          .doc = "The same elements, contiguous.",
                                          .family = "compiler",
                                          .shape = [](const Call& call) { return call.in; }})
                                      .record();
  return record;
}

std::optional<Layout> layout_of(const Draft& draft, const ir::Value& value) {
  // Down the chain of views to what has a buffer, then up again.
  std::vector<ir::Value> chain{value};
  while (is_view(*chain.back().node)) chain.push_back(chain.back().node->inputs[0]);
  const ir::Value& base = chain.back();
  std::optional<Layout> layout = contiguous(base.type().shape);
  if (const auto input = draft.input_at.find(base.node.get()); input != draft.input_at.end())
    layout = draft.input_layouts[input->second];
  for (auto it = chain.rbegin() + 1; layout && it != chain.rend(); ++it) {
    const std::vector<TensorType> in = ir::input_types(*it->node);
    layout = it->node->op->view({*it->node->op, in, it->node->attrs}, *layout, it->type());
  }
  return layout;
}

void resolve_views(Draft& draft) { Views(draft).run(); }

}  // namespace varve::compiler
