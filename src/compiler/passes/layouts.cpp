// Parameters that a program only reads may lie in the layout that their kernels like best.
#include <unordered_map>

#include "base/levers.h"
#include "base/text.h"
#include "compiler/pipeline.h"

namespace varve::compiler {
namespace {

// The one layout that every reader asks for, or null.
ir::PackedPtr common_wish(const Draft& draft, const ir::Value& input) {
  ir::PackedPtr wish;
  for (const Unit& unit : draft.units)
    for (std::size_t i = 0; i < unit.claim.inputs.size(); ++i) {
      if (source(unit.claim.inputs[i]) != input) continue;
      const ir::PackedPtr wanted =
          unit.claim.inputs[i] == input && i < unit.claim.wants.size() ? unit.claim.wants[i] : nullptr;
      if (!wanted || (wish && wish->key() != wanted->key())) return nullptr;
      wish = wanted;
    }
  return wish;
}

bool is_updated(const ir::Graph& graph, std::size_t input) {
  for (const auto& [in, out] : graph.updates)
    if (static_cast<std::size_t>(in) == input) return true;
  return false;
}

}  // namespace

void choose_layouts(Draft& draft) {
  draft.packed.assign(draft.graph.inputs.size(), nullptr);
  if (!lever("layouts")) return;
  for (std::size_t i = 0; i < draft.parameters.size(); ++i) {
    if (!draft.parameters[i] || is_updated(draft.graph, i)) continue;
    draft.packed[i] = common_wish(draft, {draft.graph.inputs[i], 0});
    if (draft.packed[i])
      draft.explain +=
          cat("parameter '", draft.graph.inputs[i]->attrs.text("name"), "' lies as ", draft.packed[i]->key(), "\n");
  }
}

}  // namespace varve::compiler
