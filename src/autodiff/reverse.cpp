#include "autodiff/reverse.h"

#include <algorithm>

#include "base/text.h"
#include "ir/lineage.h"
#include "tensor/record.h"
#include "varve/ops.h"

namespace varve {
namespace {

// ∂y_o/∂x_i summed over the outputs, for an operator known by its formula.
std::vector<Tensor> formula_gradients(const Vjp& v) {
  const auto& exprs = v.op.exprs;
  const int inputs = static_cast<int>(v.in.size());
  std::vector<Tensor> grads(v.in.size());
  for (int i = 0; i < inputs; ++i) {
    const auto slot = static_cast<std::size_t>(i);
    if (!v.needs[slot]) continue;
    Tensor total;
    for (std::size_t o = 0; o < exprs.size(); ++o) {
      if (!v.dys[o].defined()) continue;
      std::vector<Tensor> operands = v.in;
      expr::Expr partial = 0.0;
      if (v.op.derivative && o == 0) {
        operands.insert(operands.end(), v.out.begin(), v.out.end());
        partial = v.op.derivative.on_inputs()[slot];
      } else {
        partial = expr::derivative(exprs[o], i);
      }
      const expr::ExprNode& node = partial.node();
      if (node.prim == expr::Prim::constant && node.value == 0) continue;
      operands.push_back(v.dys[o]);
      const expr::Expr product = partial * expr::Expr::input(static_cast<int>(operands.size()) - 1);
      const Tensor term = expand({product}, operands)[0];
      total = total.defined() ? total + term : term;
    }
    if (total.defined()) grads[slot] = sum_to(total, v.in[slot].shape());
  }
  return grads;
}

}  // namespace

ReverseWalk::ReverseWalk(const std::vector<Tensor>& wrt) : wrt_(values_of(wrt)) {
  for (const ir::Value& value : wrt_) reaches_[value.node.get()] = true;
}

bool ReverseWalk::reaches(const ir::NodePtr& root) {
  std::vector<std::pair<const ir::Node*, std::size_t>> stack{{root.get(), 0}};
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    const auto known = reaches_.find(node);
    if (known != reaches_.end()) {
      stack.pop_back();
      continue;
    }
    bool found = reached(*node), waiting = false;
    while (!found && next < node->inputs.size()) {
      const ir::Node* input = node->inputs[next].node.get();
      const auto it = reaches_.find(input);
      if (it == reaches_.end()) {
        stack.push_back({input, 0});
        waiting = true;
        break;
      }
      if (it->second) {
        found = true;
        break;
      }
      ++next;
    }
    if (waiting) continue;
    reaches_[node] = found;
    stack.pop_back();
  }
  return reaches_.at(root.get());
}

bool ReverseWalk::reached(const ir::Node& node) const {
  const std::shared_ptr<const ir::Lineage> lineage = node.lineage();
  return lineage &&
         std::any_of(wrt_.begin(), wrt_.end(), [&](const ir::Value& v) { return lineage->may_include(*v.node); });
}

void ReverseWalk::seed(const Tensor& output, const Tensor& dy) { accumulate(output.value(), dy); }

void ReverseWalk::accumulate(const ir::Value& value, const Tensor& dy) {
  if (!dy.defined() || !is_floating(value.type().dtype) || !reaches(value.node)) return;
  if (dy.shape() != value.type().shape)
    throw Error(cat("gradient of ", value.node->op->name, ": expected shape ", value.type().shape.str(), ", got ",
                    dy.shape().str(), "."));
  Tensor& slot = grads_[value];
  const Tensor typed = dy.to(value.type().dtype);
  slot = slot.defined() ? slot + typed : typed;
  if (!queued_[value.node.get()]) {
    queued_[value.node.get()] = true;
    pending_.push(value.node);
  }
}

std::vector<Tensor> ReverseWalk::run() {
  while (!pending_.empty()) {
    const ir::NodePtr node = pending_.top();
    pending_.pop();
    differentiate(node);
  }
  std::vector<Tensor> result;
  for (const ir::Value& value : wrt_) {
    const auto it = grads_.find(value);
    result.push_back(it == grads_.end() ? Tensor() : it->second);
  }
  return result;
}

std::vector<Tensor> ReverseWalk::input_gradients(const Vjp& v, const ir::Node& node) {
  if (node.extension) {
    const Pulled pulled = node.extension(v);
    for (std::size_t o = 0; o < pulled.outputs.size(); ++o) accumulate(pulled.outputs[o].value(), pulled.seeds[o]);
    return pulled.grads;
  }
  if (v.op.gradient) return v.op.gradient(v);
  if (v.op.elementwise()) return formula_gradients(v);
  if (!v.op.decompose) throw Error(cat(v.op.name, ": has no gradient."));
  // Differentiate what it stands for: the new nodes have larger ids and are met next.
  const std::vector<Tensor> outputs = v.op.decompose(v.in, v.attrs);
  for (std::size_t o = 0; o < outputs.size(); ++o) accumulate(outputs[o].value(), v.dys[o]);
  return std::vector<Tensor>(v.in.size());
}

void ReverseWalk::differentiate(const ir::NodePtr& node) {
  if (reached(*node))
    throw Error(cat(
        "gradients: a gradient flows into ",
        node->op == &ir::constant_op() ? "the result of a compiled function" : cat("the result of ", node->op->name),
        " (", node->types[0].str(), "), which was computed already: what it was computed from is gone.\n",
        "  A read, a compiled call and a chain of 10,000 operators compute. Ask for the gradient before, or use grad, "
        "value_and_grad or vjp, which keep what they need."));
  bool below = false;
  std::vector<bool> needs;
  for (const ir::Value& input : node->inputs) {
    const bool need = is_floating(input.type().dtype) && reaches(input.node);
    needs.push_back(need);
    below = below || need;
  }
  if (!below || !node->op->differentiable) return;
  const ir::OriginScope origin({node->origin.path, node->op->name, node->origin.rank});
  Vjp v{*node->op, node->attrs, tensors_of({node->inputs.begin(), node->inputs.end()}), {}, {}, needs, {}};
  for (int i = 0; i < static_cast<int>(node->types.size()); ++i) {
    v.out.emplace_back(ir::Value{node, i});
    const auto it = grads_.find({node, i});
    v.dys.push_back(it == grads_.end() ? Tensor() : it->second);
  }
  v.dy = v.dys[0].defined() ? v.dys[0] : zeros(node->types[0].shape, node->types[0].dtype);
  const std::vector<Tensor> grads = input_gradients(v, *node);
  if (grads.size() != node->inputs.size())
    throw Error(cat(node->op->name, ": its gradient rule returned ", grads.size(), " gradients for ",
                    node->inputs.size(), " inputs."));
  for (std::size_t i = 0; i < grads.size(); ++i)
    if (needs[i]) accumulate(node->inputs[i], grads[i]);
}

}  // namespace varve
