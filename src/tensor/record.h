// Recording: the one place where operator calls become nodes.
#pragma once

#include <vector>

#include "ir/graph.h"
#include "varve/tensor.h"

namespace varve {

// What a node's own gradient function answers: gradients of its inputs, and other outputs to go on from.
struct Pulled {
  std::vector<Tensor> grads;           // one for each input; undefined where none flows
  std::vector<Tensor> outputs, seeds;  // the walk continues from these, with these gradients
};

struct RecordExtras {
  std::vector<std::shared_ptr<const ir::Graph>> regions;
  std::vector<TensorType> types;  // of a node with regions
  ir::Extension extension;
};

// Checks shapes and types, makes the node, gives a handle to each output.
std::vector<Tensor> record(const OpRecord& op, const std::vector<Tensor>& inputs, Attrs attrs = {},
                           RecordExtras extras = {});

// A formula as a graph of the operators that its primitives are.
std::vector<Tensor> expand(const std::vector<expr::Expr>& exprs, const std::vector<Tensor>& inputs);
// The operator that computes one primitive; the table of operators fills it in.
const OpRecord& primitive_op(expr::Prim prim);
void set_primitive_op(expr::Prim prim, const OpRecord& record);
void register_primitives();  // all of them, defined with the table of operators; called at the first need

std::vector<ir::Value> values_of(const std::vector<Tensor>& tensors);
std::vector<Tensor> tensors_of(const std::vector<ir::Value>& values);

}  // namespace varve
