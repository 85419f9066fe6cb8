// The graph itself: what verify refuses, how graphs print, which graphs count as equal, rewriting.
#include "ir/graph.h"

#include <gtest/gtest.h>

#include "tensor/record.h"
#include "varve/ops.h"

namespace varve::ir {
namespace {

// sum(tanh(x) · w, axis 1) and a state update of w.
struct Sample {
  NodePtr x = input_node({f32, {2, 3}}, "x"), w = input_node({f32, {2, 3}}, "w");
  Graph graph;
  Sample() {
    const Tensor product = varve::tanh(Tensor(Value{x, 0})) * Tensor(Value{w, 0});
    graph.inputs = {x, w};
    graph.outputs = {sum(product, {.axes = Axes{1}}).value(), product.value()};
    graph.updates = {{1, 1}};
  }
};

std::string refusal(const Graph& graph) {
  try {
    verify(graph, "test");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Graph, PrintsOneLineANode) {
  EXPECT_EQ(print(Sample().graph),
            "%0 = input() {name=\"x\"} : f32 [2, 3]\n"
            "%1 = tanh(%0) : f32 [2, 3]\n"
            "%2 = input() {name=\"w\"} : f32 [2, 3]\n"
            "%3 = multiply(%1, %2) : f32 [2, 3]\n"
            "%4 = sum(%3) {axes=[1], keep=false} : f32 [2]\n"
            "return %4 %3\n"
            "update %2 <- %3\n");
}

TEST(Graph, PrintsOriginAndSeveralOutputs) {
  const OriginScope scope({"net/fc1", "matmul"});
  const NodePtr x = input_node({f32, {4}}, "x");
  const std::pair<Tensor, Tensor> best = top_k(Tensor(Value{x, 0}), 2);
  const std::string text = print({{x}, {best.first.value(), best.second.value()}, {}});
  EXPECT_NE(text.find("# net/fc1   # gradient of matmul"), std::string::npos) << text;
  EXPECT_NE(text.find("net/fc1"), std::string::npos) << text;
  if (best.first.node() == best.second.node()) {
    EXPECT_NE(text.find(".0 "), std::string::npos) << text;
  }
  EXPECT_EQ(OriginScope::current().path, "net/fc1");
}

TEST(Graph, OriginScopesNest) {
  EXPECT_EQ(OriginScope::current().path, "");
  {
    const OriginScope outer({"a", ""});
    { const OriginScope inner({"b", ""}); }
    EXPECT_EQ(OriginScope::current().path, "a");
  }
  EXPECT_EQ(OriginScope::current().path, "");
}

TEST(Graph, UnreadInputsKeepTheirPlace) {
  const NodePtr read = input_node({f32, {}}, "read"), unread = input_node({f32, {}}, "unread");
  const Graph graph{{unread, read}, {varve::exp(Tensor(Value{read, 0})).value()}, {}};
  verify(graph, "test");
  EXPECT_NE(print(graph).find("unread"), std::string::npos);
}

TEST(Graph, Graphviz) {
  const std::string text = graphviz(Sample().graph);
  EXPECT_EQ(text.rfind("digraph varve {", 0), 0u);
  EXPECT_NE(text.find("n1 [label=\"tanh\\nf32 [2, 3]\"]"), std::string::npos) << text;
  EXPECT_NE(text.find("n0 -> n1;"), std::string::npos) << text;
  EXPECT_NE(text.find("n4 -> out0;"), std::string::npos) << text;
  EXPECT_EQ(text.substr(text.size() - 2), "}\n");
}

TEST(Graph, StructureIgnoresNamesAndIdentities) {
  Sample a, b;
  EXPECT_EQ(structure(a.graph), structure(b.graph));
  b.graph.updates.clear();
  EXPECT_NE(structure(a.graph), structure(b.graph));
  Sample c;
  std::swap(c.graph.outputs[0], c.graph.outputs[1]);
  EXPECT_NE(structure(a.graph), structure(c.graph));
}

TEST(Graph, VerifyAcceptsAndNamesWhatIsBroken) {
  Sample good;
  EXPECT_EQ(refusal(good.graph), "");

  Graph unlisted = good.graph;
  unlisted.inputs = {good.x};
  unlisted.updates.clear();
  EXPECT_NE(refusal(unlisted).find("after 'test'"), std::string::npos) << refusal(unlisted);
  EXPECT_NE(refusal(unlisted).find("does not list"), std::string::npos);

  Graph twice = good.graph;
  twice.inputs.push_back(good.x);
  EXPECT_NE(refusal(twice).find("twice"), std::string::npos);

  Graph no_input = good.graph;
  no_input.inputs[0] = good.graph.outputs[0].node;
  EXPECT_NE(refusal(no_input).find("is none"), std::string::npos);

  Graph update = good.graph;
  update.updates = {{1, 0}};
  EXPECT_NE(refusal(update).find("is updated by a value of type f32 [2]"), std::string::npos) << refusal(update);
}

TEST(Graph, VerifyChecksTypesArityAndIndices) {
  const NodePtr x = input_node({f32, {2}}, "x");
  const OpRecord& tanh_op = find_operator("tanh");
  const auto graph = [&](const NodePtr& node) { return Graph{{x}, {{node, 0}}, {}}; };
  EXPECT_NE(refusal(graph(make_node(tanh_op, {{x, 0}}, {}, {{f32, {3}}}))).find("should be f32 [2], is f32 [3]"),
            std::string::npos);
  EXPECT_NE(refusal(graph(make_node(tanh_op, {{x, 0}, {x, 0}}, {}, {{f32, {2}}}))).find("takes 1 inputs, has 2"),
            std::string::npos);
  EXPECT_NE(refusal(graph(make_node(tanh_op, {{x, 1}}, {}, {{f32, {2}}}))).find("reads output 1"), std::string::npos);
  EXPECT_NE(refusal(graph(make_node(constant_op(), {}, {}, {{f32, {2}}}))).find("without a value"), std::string::npos);
}

TEST(Graph, ReplaceCutsAndInlineCopies) {
  Sample s;
  const NodePtr other = input_node({f32, {2, 3}}, "other");
  const Graph cut = replace(s.graph, {{s.graph.outputs[1], Value{other, 0}}});
  EXPECT_EQ(cut.outputs[1].node, other);
  EXPECT_EQ(cut.outputs[0].node->inputs[0].node, other);

  const NodePtr y = input_node({f32, {2, 3}}, "y");
  const std::vector<Value> copied = inline_graph(s.graph, {{y, 0}, {y, 0}});
  const Graph result{{y}, copied, {}};
  verify(result, "inline");
  EXPECT_NE(copied[0].node, s.graph.outputs[0].node);
  EXPECT_EQ(copied[0].type(), s.graph.outputs[0].type());
}

TEST(Graph, UsesCountsEveryReader) {
  const NodePtr x = input_node({f32, {2}}, "x");
  const Tensor square_of = Tensor(Value{x, 0}) * Tensor(Value{x, 0});
  const auto users = uses({{x}, {square_of.value()}, {}});
  EXPECT_EQ(users.at(Value{x, 0}).size(), 2u);
  EXPECT_EQ(users.count(square_of.value()), 0u);
}

TEST(Graph, ALongChainIsWalkedAndDestroyedWithoutRecursion) {
  const OpRecord& op = find_operator("tanh");
  NodePtr node = input_node({f32, {}}, "x");
  for (int i = 0; i < 1000000; ++i) node = make_node(op, {{node, 0}}, {}, {{f32, {}}});
  EXPECT_EQ(topological(std::vector<Value>{{node, 0}}).size(), 1000001u);
  node = nullptr;
}

// ---- attributes

TEST(Attrs, SortedTypedAndExact) {
  Attrs attrs{{"keep", true}, {"axis", 1}, {"order", Ints{1, 0}}, {"rate", 0.1}, {"mode", "same"}, {"dtype", bf16}};
  EXPECT_EQ(attrs.str(), "axis=1, dtype=bf16, keep=true, mode=\"same\", order=[1, 0], rate=0.1");
  EXPECT_EQ(attrs.integer("axis"), 1);
  EXPECT_EQ(attrs.number("axis"), 1.0);
  EXPECT_TRUE(attrs.flag("keep"));
  EXPECT_EQ(attrs.ints("order"), (Ints{1, 0}));
  EXPECT_EQ(attrs.text("mode"), "same");
  EXPECT_EQ(attrs.dtype("dtype"), bf16);
  attrs.set("axis", 2);
  EXPECT_EQ(attrs.integer("axis"), 2);
  attrs.erase("axis");
  EXPECT_FALSE(attrs.has("axis"));
  EXPECT_THROW(attrs.integer("axis"), Error);
  EXPECT_THROW(attrs.integer("rate"), Error);
  EXPECT_THROW(attrs.flag("mode"), Error);
  EXPECT_EQ(Attr(0.1 + 0.2).str(), "0.30000000000000004");  // the key of a program tells them apart
  EXPECT_NE(Attr(0.1 + 0.2).str(), Attr(0.3).str());
}

TEST(Attrs, RecordsNeedARuleAndAName) {
  EXPECT_THROW(define({.name = "nothing", .doc = "", .family = ""}), Error);
  EXPECT_THROW(define(OpRecord{}), Error);
  EXPECT_THROW(elementwise({.name = "nothing", .doc = "", .formula = {}}), Error);
}

}  // namespace
}  // namespace varve::ir
