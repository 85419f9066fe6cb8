// The reverse walk: from outputs with gradients flowing into them to whatever was asked for.
#pragma once

#include <queue>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"
#include "varve/tensor.h"

namespace varve {

class ReverseWalk {
 public:
  explicit ReverseWalk(const std::vector<Tensor>& wrt);

  void seed(const Tensor& output, const Tensor& dy);
  // Gradients of wrt, undefined where nothing flowed.
  std::vector<Tensor> run();

 private:
  struct Later {
    bool operator()(const ir::NodePtr& a, const ir::NodePtr& b) const { return a->id < b->id; }
  };

  bool reaches(const ir::NodePtr& root);     // some wanted value lies below
  bool reached(const ir::Node& node) const;  // it did, before the node was cut from its inputs
  void accumulate(const ir::Value& value, const Tensor& dy);
  void differentiate(const ir::NodePtr& node);
  std::vector<Tensor> input_gradients(const Vjp& v, const ir::Node& node);

  std::vector<ir::Value> wrt_;
  std::unordered_map<const ir::Node*, bool> reaches_;
  std::unordered_map<ir::Value, Tensor, ir::ValueHash> grads_;
  // Inputs have smaller ids than their users, also where a rule records new nodes on the way (a recomputation, a
  // decomposition): taking the largest id first meets every user before what it uses.
  std::priority_queue<ir::NodePtr, std::vector<ir::NodePtr>, Later> pending_;
  std::unordered_map<const ir::Node*, bool> queued_;
};

}  // namespace varve
