// From a recorded graph to a plan.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "compiler/draft.h"
#include "compiler/plan.h"
#include "ir/graph.h"

namespace varve::compiler {

// A pass is a named function, graph to graph, verified after.
struct Pass {
  const char* name;
  ir::Graph (*run)(const ir::Graph& graph);
};
ir::Graph widen(const ir::Graph& graph);              // bf16 within a program as f32: for backends that gain nothing
ir::Graph simplify(const ir::Graph& graph);           // identities, algebra, stable forms
ir::Graph remove_duplicates(const ir::Graph& graph);  // equal pure calls once
ir::Graph multiply_tables(const ir::Graph& graph);    // products of embedded rows as products of their table
ir::Graph remove_reshapes(const ir::Graph& graph);    // those around what is computed element by element
ir::Graph trim_loops(const ir::Graph& graph);         // outputs of loops and branches that nobody reads
extern const std::vector<Pass> kGraphPasses;
// Among ranks: before anything else, all collectives get their place in one chain; after the graph passes, gradients
// that are to be summed travel in buckets, begun as soon as the last of a bucket is ready.
ir::Graph order_collectives(const ir::Graph& graph);
// Before that, what is placed on one rank is computed there, and what crosses is sent; when all have their order, of
// what concerns some ranks alone this one keeps its part.
ir::Graph place(const ir::Graph& graph);
ir::Graph keep_own_part(const ir::Graph& graph);
bool is_of_one_rank(const ir::Node& node);  // what it takes apart: messages, and what one rank keeps
// Parameters that ranks keep in parts are gathered for the forward pass and, ordered, once more for the backward pass.
ir::Graph regather(const ir::Graph& graph);
struct BackwardUse {
  const ir::Node* gather;
  std::uint64_t user;  // the first node of the backward pass that reads it: its id
};
std::vector<BackwardUse> backward_uses(const ir::Graph& graph);
ir::Graph bucket_gradients(const ir::Graph& graph);
Exchanges exchanges_of(const ir::Graph& graph);

// All graph passes, each verified.
ir::Graph optimize(ir::Graph graph);

// Kernels for every node: patterns first, decompositions where nobody claims, generated groups for the rest. Throws
// Error that lists every refusal when a node stays unclaimed.
Draft select(ir::Graph graph, const backend::Backend& backend, std::vector<Layout> input_layouts,
             backend::Choices choices = {});
// Of a node with regions: they are compiled by the same backend. Appends to `explain` who claimed what in them.
Unit region_unit(const ir::NodePtr& node, const backend::Backend& backend, backend::Choices choices,
                 std::string& explain);
// A pass over a draft, verified after as what it leaves.
struct DraftPass {
  const char* name;
  void (*run)(Draft& draft);
  Stage leaves;
};
extern const std::vector<DraftPass> kDraftPasses;
// Where the backend fuses: groups what is elementwise (and reductions of it) among the nodes that no unit covers yet.
void fuse(Draft& draft);
// Kernels that want to know only what of a value is above 0 read bits that its writer writes beside it.
void pass_sign_bits(Draft& draft);
// Aliases views, inserts the copies that kernels need, orders units by dependence.
void resolve_views(Draft& draft);
// Private layouts for parameters that the program only reads.
void choose_layouts(Draft& draft);
// The order with a low peak, memory for every value, kernels prepared.
std::shared_ptr<const Plan> make_plan(Draft draft);

// All of it. Inputs are bound with these layouts.
std::shared_ptr<const Plan> compile(const ir::Graph& graph, const backend::Backend& backend,
                                    std::vector<Layout> input_layouts);
// Of a loop or a branch.
std::shared_ptr<const Plan> compile_body(const ir::Graph& graph, const backend::Backend& backend,
                                         backend::Choices choices);
// Contiguous inputs; those marked as parameters may be asked for in a private layout.
std::shared_ptr<const Plan> compile(const ir::Graph& graph, const backend::Backend& backend,
                                    const std::vector<bool>& parameters = {}, backend::Choices choices = {});

}  // namespace varve::compiler
