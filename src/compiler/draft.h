// A program between graph and plan: which kernels, over which values.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/backend.h"
#include "compiler/plan.h"

namespace varve::compiler {

// A kernel-to-be.
struct Unit {
  backend::Claim claim;
  std::shared_ptr<const Loop> loop;  // one of these set: a node with regions, which are compiled
  std::shared_ptr<const Choice> choice;
  std::shared_ptr<const Repeat> repeat;
  std::size_t region_scratch = 0;
  bool has_kernel() const { return !loop && !choice && !repeat; }
};

struct Draft {
  ir::Graph graph;
  const backend::Backend* backend = nullptr;
  backend::Choices choices = {};
  std::vector<Layout> input_layouts;
  std::unordered_map<const ir::Node*, std::size_t> input_at;  // place of each input node
  std::vector<bool> parameters;       // per input: a variable, which may lie in a private layout
  std::vector<ir::PackedPtr> packed;  // per input: the layout chosen for it, or null
  std::vector<Unit> units;            // each after those it reads from
  Exchanges exchanges = {};           // of all ranks, before each kept its part
  std::string explain;
};

// Throws Error, naming the pass, when the draft is not one that can be planned: a value that nobody writes or two units
// write, a type that contradicts its operator's shape rule, an in-place pair of operands that do not exist, state that
// is updated twice. Nodes that the fuse pass has yet to take make it incomplete; views are resolved when units are in
// order.
enum class Stage : std::uint8_t { incomplete, covered, in_order };
void verify(const Draft& draft, const std::string& after, Stage stage);

// The value behind views: what some unit writes, or an input.
ir::Value source(ir::Value value);
bool is_view(const ir::Node& node);

}  // namespace varve::compiler
