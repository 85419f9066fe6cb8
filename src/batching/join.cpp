#include "batching/join.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "base/text.h"
#include "batching/agenda.h"
#include "batching/stack.h"
#include "ops/batching.h"
#include "tensor/record.h"
#include "varve/ops.h"

namespace varve {
namespace {

constexpr std::size_t kLeastNodes = 32;

// How many calls stand for how many nodes; rows and reshapes move nothing and count for neither.
Joined counted(const Recorded& graph, const Agenda& calls) {
  Joined count;
  for (const std::vector<int>& call : calls) {
    if (graph.moves[static_cast<std::size_t>(call[0])]) continue;
    const auto sum = graph.sums.find(call[0]);
    ++count.calls;
    count.nodes += sum == graph.sums.end() ? call.size() : sum->second.size();
  }
  return count;
}

// Calls are made for a few sizes, so that the programs that compute them are met again.
std::int64_t rounded_up(std::size_t calls) {
  std::int64_t size = 4;
  const auto count = static_cast<std::int64_t>(calls);
  if (count <= size) return count;
  while (size < count) {
    if (size / 2 * 3 >= count) return size / 2 * 3;
    size *= 2;
  }
  return size;
}

class Joiner {
 public:
  explicit Joiner(const Recorded& graph) : graph_(graph), places_(graph.nodes.size()) {}

  void run(const Agenda& calls) {
    look_up();
    for (const std::vector<int>& call : calls) {
      const auto first = static_cast<std::size_t>(call[0]);
      const ir::Node& node = *graph_.nodes[first];
      const ir::OriginScope origin(node.origin);
      if (!places_[first].empty()) continue;  // looked up already
      if (const auto terms = graph_.sums.find(call[0]); terms != graph_.sums.end())
        places_[first] = {{sum(terms->second)}};
      else if (call.size() > 1)
        together(call);
      else
        by_itself(first);
    }
  }

  Tensor value_of(const ir::Value& asked) { return stacks_.alone(place(graph_.number(asked), asked), asked.type()); }

 private:
  Place place(int node, const ir::Value& value) const {
    if (node < 0) return {Tensor(value)};
    return places_[static_cast<std::size_t>(node)][static_cast<std::size_t>(value.index)];
  }

  Place input_place(std::size_t n, std::size_t input) const {
    return place(graph_.inputs[graph_.first_input[n] + input], graph_.nodes[n]->inputs[input]);
  }

  std::vector<Place> operand(const std::vector<int>& call, std::size_t input) const {
    std::vector<Place> places;
    places.reserve(call.size());
    for (const int node : call) places.push_back(input_place(static_cast<std::size_t>(node), input));
    return places;
  }

  static bool all_equal(const std::vector<Place>& places) {
    return std::all_of(places.begin(), places.end(),
                       [&](const Place& p) { return p.row == places[0].row && p.of.value() == places[0].of.value(); });
  }

  // Rows of one table that are known beforehand are read all at once, and so is their gradient.
  void look_up() {
    std::vector<std::pair<ir::Value, std::vector<std::size_t>>> tables;
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      const ir::Node& node = *graph_.nodes[n];
      const std::size_t first = graph_.first_input[n];
      if (!node.is("embedding") || graph_.inputs[first] >= 0 || !indices_of(node)) continue;
      const auto same = [&](const auto& table) {
        const ir::Node& other = *graph_.nodes[table.second[0]];
        return table.first == node.inputs[0] && other.inputs[1].type().dtype == node.inputs[1].type().dtype;
      };
      auto table = std::find_if(tables.begin(), tables.end(), same);
      if (table == tables.end()) table = tables.insert(tables.end(), {node.inputs[0], {}});
      table->second.push_back(n);
    }
    for (const auto& [table, nodes] : tables) look_up(table, nodes);
  }

  static std::shared_ptr<const ir::Array> indices_of(const ir::Node& node) {
    const ir::Value& value = node.inputs[1];
    auto array = value.node->slots[static_cast<std::size_t>(value.index)].value();
    return array && !array->storage->is_far() && !array->storage->error && array->type.shape.numel() > 0 ? array
                                                                                                         : nullptr;
  }

  void look_up(const ir::Value& table, const std::vector<std::size_t>& nodes) {
    std::int64_t count = 0;
    for (const std::size_t n : nodes) count += graph_.nodes[n]->inputs[1].type().shape.numel();
    const DType dtype = graph_.nodes[nodes[0]]->inputs[1].type().dtype;
    const std::int64_t size = rounded_up(static_cast<std::size_t>(count));
    const auto all = ir::new_array({dtype, {size}});
    auto* to = static_cast<std::byte*>(all->storage->data());
    for (const std::size_t n : nodes) {
      ir::read_elements(*indices_of(*graph_.nodes[n]), to, dtype);
      to += graph_.nodes[n]->inputs[1].type().bytes();
    }
    for (std::int64_t i = count; i < size; ++i, to += size_of(dtype))  // the last again
      std::memcpy(to, to - size_of(dtype), size_of(dtype));
    const ir::OriginScope origin(graph_.nodes[nodes[0]]->origin);
    const Tensor rows = embedding(Tensor(table), Tensor(ir::Value{ir::constant_node(all), 0}));
    rows.node()->joined = true;
    std::int64_t at = 0;
    for (const std::size_t n : nodes) {
      const std::int64_t own = graph_.nodes[n]->inputs[1].type().shape.numel();
      places_[n].push_back({rows, at, own});
      at += own;
    }
  }

  void together(const std::vector<int>& call) {
    const ir::Node& node = *graph_.nodes[static_cast<std::size_t>(call[0])];
    Batching all{*node.op, node.attrs, {}, {}, rounded_up(call.size()), false, &node};
    bool any = false;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const std::vector<Place> places = operand(call, i);
      const bool shared = is_literal(node.inputs[i]) || all_equal(places);
      any = any || !shared;
      const TensorType& type = node.inputs[i].type();
      all.in.push_back(shared ? stacks_.alone(places[0], type) : stacks_.stacked(places, type, all.size));
      all.batched.push_back(!shared);
    }
    const auto outputs = any ? batched_call(all) : std::nullopt;
    if (!outputs) return one_by_one(call, any);
    for (const Tensor& output : *outputs) {
      output.node()->joined = true;
      stacks_.note_filled(output, static_cast<std::int64_t>(call.size()));
    }
    for (std::size_t row = 0; row < call.size(); ++row)
      for (const Tensor& output : *outputs)
        places_[static_cast<std::size_t>(call[row])].push_back({output, static_cast<std::int64_t>(row)});
  }

  // No rule for this call; or all of them are the same call, which runs once.
  void one_by_one(const std::vector<int>& call, bool differ) {
    for (const int node : call) {
      if (differ || node == call[0])
        by_itself(static_cast<std::size_t>(node));
      else
        places_[static_cast<std::size_t>(node)] = places_[static_cast<std::size_t>(call[0])];
    }
  }

  Tensor sum(const std::vector<Recorded::Term>& terms) {
    std::vector<Place> places;
    for (const Recorded::Term& term : terms) places.push_back(place(term.node, term.value));
    return varve::sum(stacks_.stacked(places, terms[0].value.type(), static_cast<std::int64_t>(places.size())),
                      {.axes = Axes{0}});
  }

  void by_itself(std::size_t n) {
    const ir::NodePtr node = graph_.nodes[n]->shared_from_this();
    if (graph_.moves[n] && follow(n, *node)) return;
    if (node->is("concat") && of_rows(n, *node)) return;
    std::vector<ir::Value> inputs;
    for (std::size_t i = 0; i < node->inputs.size(); ++i)
      inputs.push_back(stacks_.alone(input_place(n, i), node->inputs[i].type()).value());
    const ir::NodePtr same = inputs == node->inputs ? node : ir::with_inputs(*node, std::move(inputs));
    for (int i = 0; i < static_cast<int>(node->types.size()); ++i) places_[n].push_back({Tensor(ir::Value{same, i})});
  }

  // A row of a row, or a row in another shape, is a row of the same elements.
  bool follow(std::size_t n, const ir::Node& node) {
    const Place from = input_place(n, 0);
    const Shape& shape = node.types[0].shape;
    if (shape.numel() == 0) return false;
    if (from.rows > 0 && (node.is("reshape") || shape.numel() * from.of.dim(0) != from.of.numel())) return false;
    if (node.is("reshape")) {
      if (from.row < 0) return false;
      places_[n].push_back({stacks_.in_rows_of(from.of, shape), from.row});
    } else {
      const std::int64_t within = node.attrs.ints("begin")[0], rows = node.inputs[0].type().shape[0];
      const std::int64_t before = from.row < 0 ? 0 : from.rows > 0 ? from.row : from.row * rows;
      places_[n].push_back({stacks_.in_rows_of(from.of, shape), before + within});
    }
    return true;
  }

  // Rows that are joined along an axis come from the stacks in one piece.
  bool of_rows(std::size_t n, const ir::Node& node) {
    constexpr std::size_t kLeastParts = 4;
    if (node.inputs.size() < kLeastParts) return false;
    const TensorType& type = node.inputs[0].type();
    std::vector<Place> places;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      places.push_back(input_place(n, i));
      if (node.inputs[i].type() != type || places.back().row < 0 || places.back().rows > 0) return false;
    }
    const int axis = static_cast<int>(node.attrs.integer("axis"));
    const Tensor all = stacks_.stacked(places, type, static_cast<std::int64_t>(places.size()));
    const Tensor rows = with_axis_at(all, 0, axis);
    places_[n].push_back({rows.reshape(node.types[0].shape)});
    return true;
  }

  const Recorded& graph_;
  std::vector<std::vector<Place>> places_;  // of each output of each node
  Stacks stacks_;
};

}  // namespace

std::optional<Joined> join_equal_calls(const std::vector<ir::Value>& asked,
                                       const std::unordered_set<const ir::Node*>& apart) {
  const Recorded graph = recorded(asked, apart);
  if (!graph.can_be_joined || graph.nodes.size() < kLeastNodes) return std::nullopt;
  const Agenda calls = agenda(graph);
  Joined joined = counted(graph, calls);
  if (joined.nodes < kLeastNodes || joined.calls * 3 > joined.nodes * 2) return std::nullopt;
  if (const char* const explain = std::getenv("VARVE_EXPLAIN"); explain && *explain && *explain != '0')
    std::cerr << cat("-- joined: ", joined.calls, " calls stand for ", joined.nodes, "\n") << std::flush;
  Joiner joiner(graph);
  joiner.run(calls);
  for (const ir::Value& value : asked) joined.values.push_back(joiner.value_of(value).value());
  return joined;
}

}  // namespace varve
