// What a model is made of, and what a training step of it takes.
#include <cstdio>
#include <iostream>
#include <unordered_set>

#include "nn/state.h"
#include "varve/autodiff.h"
#include "varve/compile.h"
#include "varve/distributed.h"
#include "varve/ops.h"

namespace varve::nn {
namespace {

// A module call, with the calls inside it.
struct Node {
  SummaryRow row;
  double flops = 0;  // with those inside
  std::vector<Node> inside;
};

// Calls are seen when they return, inner ones before the one around them: what is one deeper and came since the last
// call of this depth is inside it.
class Calls {
 public:
  void see(const Watch::Call& call) {
    if (call.output > 0) return;  // the same call
    const auto depth = static_cast<std::size_t>(call.depth);
    if (open_.size() < depth + 2) open_.resize(depth + 2);
    Node node;
    node.inside = std::move(open_[depth + 1]);
    open_[depth + 1].clear();
    node.flops = cost(call.outputs.list(), call.inputs.list()).flops;
    double inside = 0;
    for (const Node& inner : node.inside) inside += inner.flops;
    node.row.path = call.path;
    node.row.kind = call.module.kind();
    node.row.output = call.y.shape();
    if (call.outputs.size() > 1) node.row.outputs = call.outputs.fields();
    node.row.flops = node.flops > inside ? node.flops - inside : 0;
    for (const Module::State::Entry& entry : call.module.state()->variables)
      if (entry.parameter) {
        node.row.parameters += entry.variable.shape().numel();
        node.row.shared |= !counted_.insert(entry.variable.state().get()).second;
      }
    open_[depth].push_back(std::move(node));
  }

  // The model's own call, then what is inside it; a model that is one layer is its own row.
  const Node& root() const { return open_.at(0).at(0); }

 private:
  std::vector<std::vector<Node>> open_;  // by depth
  std::unordered_set<const void*> counted_;
};

void list(const std::vector<Node>& nodes, int depth, std::vector<SummaryRow>& rows) {
  for (const Node& node : nodes) {
    rows.push_back(node.row);
    rows.back().depth = depth;
    list(node.inside, depth + 1, rows);
  }
}

// Everything a training step keeps, from a trace that is never run.
std::int64_t training_bytes(Module& model, const Tensors& x) {
  std::vector<Variable> parameters = model.parameters(), first, second;
  for (Variable& parameter : parameters) {
    if (distributed::is_split(parameter)) parameter = distributed::part_of(parameter);
    first.emplace_back("m", zeros(parameter.shape()), false);
    second.emplace_back("v", zeros(parameter.shape()), false);
  }
  Variable step("step", zeros({}), false);
  const auto mean_of_all = [&](const Tensors& in) {
    Tensor total;
    for (const auto& [name, y] : model(in, Mode::train)) {
      const Tensor own = mean(y.to(f32));
      total = total.defined() ? total + own : own;
    }
    return total;
  };
  const auto record = [&](const std::vector<Tensor>& batch) -> std::vector<Tensor> {
    const DryRun dry;
    Tensors in;
    for (std::size_t i = 0; i < batch.size(); ++i) in.add(x.name(i), batch[i]);
    auto [loss, grads] = value_and_grad([&] { return mean_of_all(in); }, parameters);
    step.assign(step + 1);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const Updated updated = adam_update(parameters[i], grads[i], first[i], second[i], 1e-3, step);
      Variable parameter = parameters[i];
      parameter.assign(updated.parameter);
      first[i].assign(updated.state[0]);
      second[i].assign(updated.state[1]);
    }
    return {loss};
  };
  // A GPU would first find out which kernels are fastest: seconds, for one figure that is much the same.
  const auto program = detail::compile(record, {.device = has_own_memory() ? "cpu" : ""});
  return detail::peak_bytes(*program, x.list());
}

std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

// "3.1 M": three digits say enough of FLOPs.
std::string scaled(double number) {
  const char* const units[] = {"", " k", " M", " G", " T", " P"};
  std::size_t unit = 0;
  for (; number >= 999.5 && unit + 1 < std::size(units); ++unit) number /= 1000;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 || number >= 99.95 ? "%.0f%s" : "%.1f%s", number, units[unit]);
  return text;
}

using Line = std::vector<std::string>;

// The first two columns to the left, the others to the right.
std::string table(const std::vector<Line>& lines) {
  std::vector<std::size_t> widths(lines[0].size(), 0);
  for (const Line& line : lines)
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  std::size_t total = 2 * (widths.size() - 1);
  for (const std::size_t width : widths) total += width;
  std::string rule;
  for (std::size_t i = 0; i < total; ++i) rule += "─";
  std::string text;
  for (std::size_t row = 0; row < lines.size(); ++row) {
    for (std::size_t i = 0; i < lines[row].size(); ++i) {
      const std::string fill(widths[i] - lines[row][i].size(), ' ');
      text += (i ? "  " : "") + (i < 2 ? lines[row][i] + fill : fill + lines[row][i]);
    }
    text += "\n" + (row == 0 ? rule + "\n" : "");
  }
  return text + rule + "\n";
}

}  // namespace

Summary Module::summarize(const SummaryOptions& options) const {
  if (options.batch < 1)
    throw Error(kind() + ": summary: the batch is " + std::to_string(options.batch) + "; expected 1 or more.");
  if (!built() || !state_->called)
    throw Error(kind() +
                ": a summary needs shapes: call build({…}) with the shape of a sample, or run a batch, first.");
  Tensors x;
  for (const auto& [name, type] : state_->inputs) {
    Shape shape{options.batch};
    for (const std::int64_t size : type.shape) shape.push_back(size);
    x.add(name, zeros(shape, type.dtype));
  }
  Module& self = const_cast<Module&>(*this);  // a dry run changes nothing
  Calls calls;
  {
    const DryRun dry;
    const Watch watch([&](const Watch::Call& call) {
      calls.see(call);
      return call.y;
    });
    self(x, Mode::infer);
  }
  Summary summary;
  const Node& root = calls.root();
  if (root.inside.empty() || root.row.parameters)
    list({root}, 0, summary.rows);
  else
    list(root.inside, 0, summary.rows);
  std::unordered_set<const void*> seen;
  for (const NamedVariable& named : named_variables()) {
    if (!named.parameter || !seen.insert(named.variable.state().get()).second) continue;
    const std::int64_t count = named.variable.shape().numel();
    summary.parameters += count;
    summary.trainable += named.variable.trainable() ? count : 0;
    summary.parameter_bytes += static_cast<std::int64_t>(named.variable.type().bytes());
  }
  summary.batch = options.batch;
  summary.flops = root.flops;
  summary.peak_bytes = training_bytes(self, x);
  return summary;
}

std::string Summary::str() const {
  std::vector<Line> lines = {{"layer (kind)", "output shape", "parameters", "FLOPs"}};
  for (const SummaryRow& row : rows) {
    const std::string name = row.path.empty() ? row.kind : row.path + " (" + row.kind + ")";
    lines.push_back({std::string(static_cast<std::size_t>(2 * row.depth), ' ') + name,
                     row.outputs.empty() ? row.output.str() : varve::str(row.outputs),
                     grouped(row.parameters) + (row.shared ? " shared" : ""), scaled(row.flops)});
  }
  return table(lines) + "parameters " + grouped(parameters) + " (" + bytes(parameter_bytes) + "), trainable " +
         grouped(trainable) + "\nforward pass of a batch of " + std::to_string(batch) + ": " + scaled(flops) +
         (flops < 999.5 ? " " : "") + "FLOPs\npeak training memory at batch " + std::to_string(batch) +
         " with Adam: " + bytes(peak_bytes) + "\n";
}

void Module::summary() const { std::cout << summarize().str() << std::flush; }

}  // namespace varve::nn
