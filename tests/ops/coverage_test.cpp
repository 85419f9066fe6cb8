// No operator without a row, a way to differentiate it, a description and a cost.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "ops/compare.h"
#include "ops/row.h"
#include "ops/values.h"
#include "tensor/record.h"

namespace varve::test {

namespace {

// Ends of graphs: they hold values, and compute nothing.
bool is_leaf(const OpRecord& op) { return op.name == "input" || op.name == "constant"; }

TEST(Coverage, EveryOperatorHasARow) {
  // Nothing to one rank: tests/distributed runs them on several.
  std::set<std::string> covered = {
      "send",           "recv",       "rank_barrier", "all_sum_begin", "all_sum_end", "all_gather_begin",
      "all_gather_end", "send_begin", "send_end",     "recv_begin",    "recv_end",    "exchanged",
      "owned",          "keep"};
  for (const Row& row : table()) {
    covered.insert(row.op);
    covered.insert(row.covers.begin(), row.covers.end());
  }
  for (const OpRecord* op : operators())
    EXPECT_TRUE(is_leaf(*op) || covered.count(op->name))
        << op->name << " has no row: add one to tests/ops/rows_" << op->family << ".cpp";
}

TEST(Coverage, EveryOperatorCanBeDifferentiatedOrSaysThatItCannot) {
  for (const OpRecord* op : operators())
    EXPECT_TRUE(is_leaf(*op) || op->gradient || op->elementwise() || op->decompose || !op->differentiable)
        << op->name << " has no gradient, formula or decomposition, and is not marked differentiable = false";
}

TEST(Coverage, EveryOperatorIsDescribed) {
  std::set<std::string> names;
  for (const OpRecord* op : operators()) {
    EXPECT_FALSE(op->doc.empty()) << op->name << " has no doc";
    EXPECT_FALSE(op->family.empty()) << op->name << " has no family";
    EXPECT_TRUE(names.insert(op->name).second) << op->name << " is defined twice";
    EXPECT_EQ(&find_operator(op->name), op);
  }
}

TEST(Coverage, RowsAreComplete) {
  std::set<std::string> names;
  for (const Row& row : table()) {
    EXPECT_TRUE(row.call) << row.op << " " << row.label;
    EXPECT_TRUE(row.oracle || row.check) << row.op << " " << row.label;
    EXPECT_FALSE(row.shapes.empty()) << row.op << " " << row.label;
    EXPECT_TRUE(names.insert(row.op + "/" + row.label).second)
        << row.op << " has two rows labelled '" << row.label << "'";
  }
}

// A row that claims an operator must reach it: otherwise the operator is not tested at all.
TEST(Coverage, RowsReachTheOperatorsTheyName) {
  for (const Row& row : table()) {
    std::set<std::string> reached;
    for (const std::vector<Shape>& shapes : row.shapes) {
      const DoublesList in = make_inputs(row, shapes, row.types.front(), Purpose::values);
      for (const ir::NodePtr& node : ir::topological(values_of(row.call(to_tensors(row, in, row.types.front())))))
        reached.insert(node->op->name);
    }
    bool is_record = false;
    for (const OpRecord* op : operators()) is_record |= op->name == row.op;
    EXPECT_TRUE(!is_record || reached.count(row.op))
        << "the row of " << row.op << " " << row.label << " never calls it";
  }
}

TEST(Coverage, CostsAreFiniteAndNotNegative) {
  for (const Row& row : table())
    for (const std::vector<Shape>& shapes : row.shapes) {
      const DoublesList in = make_inputs(row, shapes, row.types.front(), Purpose::values);
      for (const ir::NodePtr& node : ir::topological(values_of(row.call(to_tensors(row, in, row.types.front()))))) {
        if (!node->op->cost) continue;
        const std::vector<TensorType> types = ir::input_types(*node);
        const Cost cost = node->op->cost({*node->op, types, node->attrs}, node->types);
        EXPECT_TRUE(std::isfinite(cost.flops) && cost.flops >= 0) << node->op->name << " " << print(shapes);
        EXPECT_TRUE(std::isfinite(cost.bytes) && cost.bytes >= 0) << node->op->name << " " << print(shapes);
      }
    }
}

}  // namespace

}  // namespace varve::test
