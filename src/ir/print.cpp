// Graphs as text, as Graphviz, and as the key under which programs are kept.
#include <unordered_map>

#include "base/text.h"
#include "ir/graph.h"

namespace varve::ir {
namespace {

using Names = std::unordered_map<const Node*, std::size_t>;

Names number(const std::vector<NodePtr>& order) {
  Names names;
  for (const NodePtr& node : order) names.emplace(node.get(), names.size());
  return names;
}

std::string value_name(const Names& names, const Value& value) {
  const std::string name = cat("%", names.at(value.node.get()));
  return value.node->types.size() > 1 ? cat(name, ".", value.index) : name;
}

std::string types_text(const Node& node) {
  std::string text;
  for (const TensorType& type : node.types) text += cat(text.empty() ? "" : ", ", type.str());
  return text;
}

std::string indented(const std::string& text) {
  std::string result = "    ";
  for (const char c : text) {
    result += c;
    if (c == '\n') result += "    ";
  }
  result.resize(result.find_last_not_of(' ') + 1);
  return result;
}

std::string line(const Names& names, const Node& node) {
  std::string text = cat("%", names.at(&node), " = ", node.op->name, "(");
  for (std::size_t i = 0; i < node.inputs.size(); ++i) text += cat(i ? ", " : "", value_name(names, node.inputs[i]));
  text += ")";
  if (!node.attrs.entries().empty()) text += cat(" {", node.attrs.str(), "}");
  text += cat(" : ", types_text(node));
  if (!node.origin.path.empty()) text += cat("   # ", node.origin.path);
  if (!node.origin.gradient_of.empty()) text += cat("   # gradient of ", node.origin.gradient_of);
  text += "\n";
  for (const auto& region : node.regions) text += indented(print(*region));
  return text;
}

}  // namespace

std::string print(const Graph& graph) {
  const std::vector<NodePtr> order = topological(graph);
  const Names names = number(order);
  std::string text;
  for (const NodePtr& node : order) text += line(names, *node);
  text += "return";
  for (const Value& output : graph.outputs) text += cat(" ", value_name(names, output));
  text += "\n";
  for (const auto& [in, out] : graph.updates)
    text += cat("update ", value_name(names, {graph.inputs[static_cast<std::size_t>(in)], 0}), " <- ",
                value_name(names, graph.outputs[static_cast<std::size_t>(out)]), "\n");
  return text;
}

std::string graphviz(const Graph& graph) {
  const std::vector<NodePtr> order = topological(graph);
  const Names names = number(order);
  std::string text = "digraph varve {\n  rankdir=TB;\n  node [shape=box, fontname=\"sans-serif\"];\n";
  for (const NodePtr& node : order) {
    const bool leaf = node->inputs.empty();
    text += cat("  n", names.at(node.get()), " [label=\"", node->op->name, "\\n", types_text(*node), "\"",
                leaf ? ", style=rounded" : "", "];\n");
    for (const Value& input : node->inputs)
      text += cat("  n", names.at(input.node.get()), " -> n", names.at(node.get()), ";\n");
  }
  for (std::size_t i = 0; i < graph.outputs.size(); ++i)
    text += cat("  out", i, " [shape=ellipse, label=\"output ", i, "\"];\n  n", names.at(graph.outputs[i].node.get()),
                " -> out", i, ";\n");
  return text + "}\n";
}

std::string structure(const Graph& graph) {
  const std::vector<NodePtr> order = topological(graph);
  const Names names = number(order);
  std::string text;
  for (const NodePtr& node : order) {
    text += cat(reinterpret_cast<std::uintptr_t>(node->op), "(");  // two records may share a name
    for (const Value& input : node->inputs) text += cat(names.at(input.node.get()), ".", input.index, ",");
    text += cat("){", node->op == &input_op() ? "" : node->attrs.str(), "}:", types_text(*node), ";");
    for (const auto& region : node->regions) text += cat("[", structure(*region), "]");
  }
  for (const NodePtr& input : graph.inputs) text += cat("<", names.at(input.get()));
  for (const Value& output : graph.outputs) text += cat(">", names.at(output.node.get()), ".", output.index);
  for (const auto& [in, out] : graph.updates) text += cat("u", in, "-", out);
  return text;
}

}  // namespace varve::ir
