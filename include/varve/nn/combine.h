// Modules made of modules.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "varve/nn/module.h"

namespace varve::nn {

class Sequential : public Module {  // one after the other; children are named "0", "1", … or as given
 public:
  Sequential() = default;
  explicit Sequential(std::vector<Layer> layers);
  Sequential& push(Layer layer, const std::string& name = "");  // "": its position
  template <class M>
  requires std::is_base_of_v<Module, std::decay_t<M>> Sequential& push(M&& module, const std::string& name = "") {
    return push(nn::layer(std::forward<M>(module)), name);
  }
  std::size_t size() const { return layers_->size(); }
  Module& operator[](std::size_t i) { return *layers_->at(i).layer; }
  // What a layer gives is what the next one takes. A class that overrides forward() is asked for one input's.
  Tensors forward_all(const Tensors& x, Mode mode) override;
  Tensor forward(Tensor x, Mode mode) override;
  std::string kind() const override { return "sequential"; }
  std::vector<std::pair<std::string, Layer>> children() const override;

 protected:
  void split_over_ranks(Split how) override;  // each of its layers

 private:
  struct Named {
    std::string name;
    HeldLayer layer;
  };
  Tensors chained(const Tensors& x, Mode mode) const;
  SharedByCopies<std::vector<Named>> layers_;
};
template <class... M>
Sequential sequential(M&&... modules) {
  return Sequential(std::vector<Layer>{layer(std::forward<M>(modules))...});
}

// activation(body(x) + shortcut(x)); shortcut absent: x itself. Children "body", "shortcut".
class Residual : public Module {
 public:
  Residual(Layer body, Layer shortcut, std::function<Tensor(const Tensor&)> activation);
  Tensor forward(Tensor x, Mode mode) override;
  std::string kind() const override { return "residual"; }
  std::vector<std::pair<std::string, Layer>> children() const override;

 private:
  HeldLayer body_, shortcut_;
  std::function<Tensor(const Tensor&)> activation_;
};
template <class B>
Residual residual(B&& body, Layer shortcut = nullptr, std::function<Tensor(const Tensor&)> activation = {}) {
  return Residual(layer(std::forward<B>(body)), std::move(shortcut), std::move(activation));
}

enum class Join : std::uint8_t { concat, add, multiply };  // concat: along the last axis
class Branches : public Module {                           // all of the same input; children "0", "1", …
 public:
  Branches(Join join, std::vector<Layer> branches);
  Tensor forward(Tensor x, Mode mode) override;
  std::string kind() const override { return "branches"; }
  std::vector<std::pair<std::string, Layer>> children() const override;

 private:
  Join join_;
  std::vector<HeldLayer> branches_;
};
template <class... M>
Branches branches(Join join, M&&... modules) {
  return Branches(join, std::vector<Layer>{layer(std::forward<M>(modules))...});
}

// Layers that name their inputs: any directed graph without cycles, as network files write it. Of several inputs each
// has a name; several outputs have the names of the steps that give them.
class Graph : public Module {
 public:
  struct Step {
    std::string name;
    HeldLayer layer;                // null: `join` of the inputs
    std::vector<std::string> from;  // inputs, or steps before it; empty: the step just before, or the only input
    Join join = Join::concat;
  };
  Graph() : Graph({"input"}) {}
  explicit Graph(const std::vector<std::string>& inputs);
  Graph& add_step(Step step);  // Error when the name is taken or an input unknown, with the nearest name
  Graph& set_outputs(const std::vector<std::string>& steps);  // that are given, in this order; before: the last one
  const std::vector<Step>& steps() const { return plan_->steps; }
  const std::vector<std::string>& input_names() const { return plan_->inputs; }
  const std::vector<std::string>& output_names() const { return plan_->outputs; }  // empty: the last step
  Tensors forward_all(const Tensors& x, Mode mode) override;
  Tensor forward(Tensor x, Mode mode) override;
  std::string kind() const override { return "graph"; }
  std::vector<std::pair<std::string, Layer>> children() const override;

 private:
  struct Plan {
    std::vector<std::string> inputs, outputs;
    std::vector<Step> steps;
  };
  Tensors computed(const Tensors& x, Mode mode) const;
  std::vector<std::string> known() const;
  SharedByCopies<Plan> plan_;
};

// Places the layers of a built model over the ranks of this job, in their order, so that each has about as much to
// compute. Those of sequentials and graphs are taken one by one. Error where there are fewer layers than ranks.
void place_evenly(Module& model);
// Splits what can be split over the ranks of this job: transformer blocks and attentions by their heads, and pairs of
// dense layers with nothing but activations and dropout between them, the first by columns and the second by rows.
// What does not divide evenly stays whole; Error where nothing does.
void split_layers(Module& model);

}  // namespace varve::nn
