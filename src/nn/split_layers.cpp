// Layers of which each rank has a slice, and what travels between them.
#include <algorithm>

#include "nn/state.h"
#include "varve/distributed.h"
#include "varve/nn/combine.h"
#include "varve/nn/layers.h"

namespace varve::nn {
Tensor own_columns(const Tensor& x) {
  if (const Tensor own = gathered_columns(x); own.defined()) return own;
  const std::int64_t columns = x.dim(-1) / distributed::size(), first = columns * distributed::rank();
  std::vector<Range> ranges;
  for (int d = 0; d + 1 < x.rank(); ++d) ranges.push_back({0, x.dim(d)});
  ranges.push_back({first, first + columns});
  return varve::slice(x, ranges);
}

namespace {

// A function of our own that treats each entry by itself, whatever its name.
bool is_of_entries(const Activation& f) {
  if (!f.function) return true;
  return std::any_of(activations().begin(), activations().end(), [&](const Activation& known) {
    return known.name != "softmax" && known.name != "log_softmax" && known.function &&
           known.function.target_type() == f.function.target_type();
  });
}

}  // namespace

Tensor of_entries(const Tensor& x, const Activation& f) {
  const Tensor own = gathered_columns(x);
  return own.defined() && is_of_entries(f) ? gather_columns(f(own)) : f(x);
}

bool is_divided(const std::string& where, const Variable& variable) {
  if (!distributed::is_split(variable)) return false;
  if (distributed::shares_batch() && !DryRun::active())
    throw Error(where +
                ": is split over ranks, which must then see the same samples. `fit` and `evaluate` see to it; in a "
                "loop of your own, hold a distributed::WholeBatch while batches are read and the model is called.");
  return true;
}

namespace {

// Whether a layer stands between two dense layers without mixing their columns.
bool is_passage(const Module& layer) {
  if (layer.kind() == "dropout") return true;
  return std::any_of(activations().begin(), activations().end(), [&](const Activation& known) {
    return known.name == layer.kind() && known.name != "softmax" && known.name != "log_softmax";
  });
}

bool tries_to_split(Module& layer, Split how) {
  try {
    layer.place({.split = how});
    return true;
  } catch (const Error&) {
    layer.place({});
    return false;
  }
}

int split_inside(const std::vector<std::pair<std::string, Layer>>& children, bool in_order) {
  int split = 0;
  Layer columns;  // waits for its rows
  for (const auto& [name, child] : children) {
    const std::string kind = child->kind();
    if (kind == "dense" && in_order) {
      if (!columns) {
        columns = child;
        continue;
      }
      if (tries_to_split(*columns, Split::columns) && tries_to_split(*child, Split::rows))
        split += 2;
      else
        columns->place({});
    } else if (kind == "multi_head_attention" || kind == "transformer_block") {
      split += tries_to_split(*child, Split::heads) ? 1 : 0;
    } else if (columns && is_passage(*child)) {
      continue;
    } else {
      split += split_inside(child->children(), kind == "sequential");
    }
    columns = nullptr;
  }
  return split;
}

}  // namespace

void split_layers(Module& model) {
  if (distributed::size() == 1) return;
  if (split_inside(model.children(), model.kind() == "sequential") == 0)
    throw Error(model.kind() + ": none of its layers can be split over " + std::to_string(distributed::size()) +
                " ranks. Transformer blocks and attentions can, whose heads divide among them, and dense layers that "
                "follow one another, the size between them dividing. Or choose parallel.pipeline.");
}

}  // namespace varve::nn
