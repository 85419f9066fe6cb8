#include "compiler/pipeline.h"

#include "tensor/trace.h"

namespace varve::compiler {

const std::vector<Pass> kGraphPasses = {
    {"simplify", simplify},
    {"remove duplicates", remove_duplicates},
    {"multiply tables", multiply_tables},
    {"remove reshapes", remove_reshapes},
    {"simplify again", simplify},
    {"remove duplicates again", remove_duplicates},
    {"trim loops", trim_loops},
};

const std::vector<DraftPass> kDraftPasses = {
    {"fuse", fuse, Stage::covered},
    {"pass sign bits", pass_sign_bits, Stage::covered},
    {"resolve views", resolve_views, Stage::in_order},
    {"choose layouts", choose_layouts, Stage::in_order},
};

ir::Graph optimize(ir::Graph graph) {
  ir::verify(graph, "recording");
  for (const Pass& pass : kGraphPasses) {
    graph = pass.run(graph);
    ir::verify(graph, pass.name);
  }
  return graph;
}

namespace {

// In types that the backend gains from.
ir::Graph in_gainful_types(const ir::Graph& graph, const backend::Backend& backend) {
  if (backend.gains_from(bf16)) return graph;
  ir::Graph wide = widen(graph);
  ir::verify(wide, "widen");
  return wide;
}

std::shared_ptr<const Plan> compile_draft(const ir::Graph& graph, const backend::Backend& backend,
                                          std::vector<Layout> layouts, const std::vector<bool>& parameters,
                                          backend::Choices choices, const Exchanges& exchanges) {
  ir::Graph bucketed = bucket_gradients(optimize(in_gainful_types(graph, backend)));
  ir::verify(bucketed, "bucket gradients");
  Draft draft = select(std::move(bucketed), backend, std::move(layouts), choices);
  draft.parameters = parameters;
  draft.choices = choices;
  draft.exchanges = exchanges;
  verify(draft, "select", backend.fuses() ? Stage::incomplete : Stage::covered);
  for (const DraftPass& pass : kDraftPasses) {
    pass.run(draft);
    verify(draft, pass.name, pass.leaves);
  }
  return make_plan(std::move(draft));
}

// What this rank does of the program that all of them have recorded.
ir::Graph part_of_this_rank(const ir::Graph& graph, Exchanges& exchanges) {
  const ir::Graph placed = place(graph);
  ir::verify(placed, "place");
  const ir::Graph ordered = order_collectives(placed);
  ir::verify(ordered, "order collectives");
  const ir::Graph gathered = regather(ordered);
  ir::verify(gathered, "regather");
  ir::Graph own = keep_own_part(gathered);
  if (own.outputs != gathered.outputs) exchanges = exchanges_of(gathered);
  ir::verify(own, "keep own part");
  return own;
}

std::shared_ptr<const Plan> compile_program(const ir::Graph& graph, const backend::Backend& backend,
                                            std::vector<Layout> layouts, const std::vector<bool>& parameters,
                                            backend::Choices choices) {
  const Trace recording;  // decompositions record nodes that nobody may evaluate
  Exchanges exchanges;
  const ir::Graph own = part_of_this_rank(graph, exchanges);
  return compile_draft(own, backend, std::move(layouts), parameters, choices, exchanges);
}

std::vector<Layout> contiguous_inputs(const ir::Graph& graph) {
  std::vector<Layout> layouts;
  for (const ir::NodePtr& input : graph.inputs) layouts.push_back(contiguous(input->types[0].shape));
  return layouts;
}

}  // namespace

std::shared_ptr<const Plan> compile(const ir::Graph& graph, const backend::Backend& backend,
                                    std::vector<Layout> input_layouts) {
  return compile_program(graph, backend, std::move(input_layouts), {}, {});
}

std::shared_ptr<const Plan> compile(const ir::Graph& graph, const backend::Backend& backend,
                                    const std::vector<bool>& parameters, backend::Choices choices) {
  return compile_program(graph, backend, contiguous_inputs(graph), parameters, choices);
}

std::shared_ptr<const Plan> compile_body(const ir::Graph& graph, const backend::Backend& backend,
                                         backend::Choices choices) {
  const Trace recording;
  return compile_draft(graph, backend, contiguous_inputs(graph), {}, choices, {});
}

}  // namespace varve::compiler
