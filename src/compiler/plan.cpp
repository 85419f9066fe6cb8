// The last steps of compilation: kernels prepared, order and memory decided, everything bound to places.
#include "compiler/plan.h"

#include <algorithm>

#include "base/text.h"
#include "compiler/homes.h"
#include "compiler/memory.h"
#include "compiler/pipeline.h"

namespace varve::compiler {
namespace {

ir::PackedPtr packed_layout(const Draft& draft, const ir::Value& value) {
  const auto input = draft.input_at.find(value.node.get());
  return input == draft.input_at.end() ? nullptr : draft.packed[input->second];
}

backend::Port port_of(const Draft& draft, const ir::Value& value) {
  Layout layout = *layout_of(draft, value);
  layout.offset = 0;  // the pointer is the first element
  return {value.type(), std::move(layout), packed_layout(draft, value)};
}

Place place_of(const Draft& draft, const Memory& memory, const ir::Value& value) {
  Place place = memory.buffers[static_cast<std::size_t>(root(memory, memory.of.at(source(value))))].place;
  const std::int64_t offset = layout_of(draft, value)->offset;
  place.offset += offset * static_cast<std::int64_t>(size_of(value.type().dtype));
  return place;
}

double flops_of(const Plan& plan) {
  double flops = 0;
  for (const PlanStep& step : plan.steps) flops += step.cost.flops;
  return flops;
}

// Of branches the dearer one; of a loop that ends by a value, its bound, or one step where there is none.
// The least that must move: every operand once, or what the records say where that is less (rows of a table).
Cost unit_cost(const Unit& unit) {
  Cost cost;
  double recorded = 0;
  for (const ir::NodePtr& node : unit.claim.nodes) {
    const std::vector<TensorType> in = ir::input_types(*node);
    const Cost own = node->op->cost({*node->op, in, node->attrs}, node->types);
    cost.flops += own.flops;
    recorded += own.bytes;
  }
  for (const ir::Value& input : unit.claim.inputs) cost.bytes += static_cast<double>(input.type().bytes());
  for (const ir::Value& output : unit.claim.outputs) cost.bytes += static_cast<double>(output.type().bytes());
  if (unit.has_kernel()) cost.bytes = std::min(cost.bytes, recorded);
  if (unit.loop) cost.flops += flops_of(*unit.loop->body) * static_cast<double>(unit.loop->steps);
  if (unit.choice) cost.flops += std::max(flops_of(*unit.choice->then), flops_of(*unit.choice->otherwise));
  if (unit.repeat)
    cost.flops += (flops_of(*unit.repeat->condition) + flops_of(*unit.repeat->body)) *
                  static_cast<double>(std::max<std::int64_t>(unit.repeat->max_steps, 1));
  return cost;
}

std::string op_names(const Unit& unit) {
  std::string text;
  for (const ir::NodePtr& node : unit.claim.nodes) {
    if (text.size() > 60) return text + "+…";
    text += (text.empty() ? "" : "+") + node->op->name;
  }
  return text;
}

PlanStep describe(const Draft& draft, const Unit& unit) {
  PlanStep step;
  step.kernel = unit.claim.kernel;
  step.op = op_names(unit);
  if (!unit.claim.outputs.empty()) step.shape = unit.claim.outputs[0].type().str();
  const ir::Origin& origin = unit.claim.nodes.front()->origin;
  step.origin = origin.gradient_of.empty()
                    ? origin.path
                    : cat(origin.path, origin.path.empty() ? "" : " ", "gradient of ", origin.gradient_of);
  for (const ir::Value& input : unit.claim.inputs) step.in_ports.push_back(port_of(draft, input));
  for (const ir::Value& output : unit.claim.outputs) step.out_ports.push_back(port_of(draft, output));
  step.prepare = unit.claim.prepare;
  step.loop = unit.loop;
  step.choice = unit.choice;
  step.repeat = unit.repeat;
  step.cost = unit_cost(unit);
  return step;
}

std::size_t scratch_of(const Unit& unit, const PlanStep& step) {
  return unit.has_kernel() ? step.prepare(step.in_ports, step.out_ports).scratch_bytes : unit.region_scratch;
}

bool decides(const PlanStep& step) { return step.choice || step.repeat || (step.loop && step.loop->body->decides); }

}  // namespace

std::shared_ptr<const Plan> make_plan(Draft draft) {
  auto plan = std::make_shared<Plan>();
  std::vector<PlanStep> steps;
  Memory memory = make_memory(draft);
  for (const Unit& unit : draft.units) steps.push_back(describe(draft, unit));
  for (const bool measuring : {false, true})
    for (std::size_t u = 0; u < draft.units.size(); ++u)
      if (draft.units[u].claim.measures == measuring) steps[u].scratch_bytes = scratch_of(draft.units[u], steps[u]);
  memory.scratch.assign(steps.size(), -1);
  for (std::size_t u = 0; u < steps.size(); ++u) {
    if (!steps[u].scratch_bytes) continue;
    Buffer buffer;
    buffer.bytes = steps[u].scratch_bytes;
    buffer.writer = static_cast<int>(u);
    memory.scratch[u] = static_cast<int>(memory.buffers.size());
    memory.buffers.push_back(buffer);
  }
  const std::vector<int> order = schedule(draft, memory);
  plan->arena_bytes = plan_arena(draft, order, memory);
  for (const int u : order) {
    PlanStep step = std::move(steps[static_cast<std::size_t>(u)]);
    const backend::Claim& claim = draft.units[static_cast<std::size_t>(u)].claim;
    for (const ir::Value& input : claim.inputs) step.in.push_back(place_of(draft, memory, input));
    for (const ir::Value& output : claim.outputs) step.out.push_back(place_of(draft, memory, output));
    if (memory.scratch[static_cast<std::size_t>(u)] >= 0)
      step.scratch = memory.buffers[static_cast<std::size_t>(memory.scratch[static_cast<std::size_t>(u)])].place;
    plan->steps.push_back(std::move(step));
  }
  for (const auto& [out, in] : memory.late) {
    const ir::Value& output = draft.graph.outputs[out];
    plan->copies.push_back(
        {place_of(draft, memory, output), {Place::Kind::input, static_cast<int>(in), 0}, output.type().bytes()});
    memory.written[in] = true;
  }
  for (std::size_t i = 0; i < draft.graph.inputs.size(); ++i)
    plan->inputs.push_back({draft.graph.inputs[i]->types[0], draft.input_layouts[i], draft.packed[i]});
  for (const ir::Value& output : draft.graph.outputs) plan->outputs.push_back(output.type());
  plan->updates = draft.graph.updates;
  plan->written = memory.written;
  plan->returned = memory.returned;
  plan->text = ir::print(draft.graph);
  plan->graphviz = ir::graphviz(draft.graph);
  plan->explain = std::move(draft.explain);
  for (const std::string& report : memory.reports) plan->explain += report + "\n";
  plan->exchanges = exchanges_of(draft.graph);
  plan->exchanges.any |= draft.exchanges.any;
  plan->exchanges.hash ^= draft.exchanges.hash;
  plan->choices = draft.choices;
  plan->executes = draft.backend->executes();
  plan->decides = std::any_of(plan->steps.begin(), plan->steps.end(), decides);
  plan->device = draft.backend->device();
  return plan;
}

}  // namespace varve::compiler
