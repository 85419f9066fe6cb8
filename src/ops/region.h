// Functions recorded as graphs of their own: branches, and bodies of loops.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "ir/graph.h"
#include "varve/tensor.h"

namespace varve {

// Where what does not depend on the region's own inputs is computed.
enum class Invariants : std::uint8_t {
  outside,  // once, before: the body of a loop runs many times
  inside,   // where it stands: of two branches one does not run
};

class Region {
 public:
  Region(const char* op, Invariants invariants);

  // What stands for values of these types; the region's first inputs.
  std::vector<Tensor> add_inputs(const std::vector<TensorType>& types, const char* name);
  // What the function gives for them. It is called once.
  const std::vector<Tensor>& record(const std::function<std::vector<Tensor>()>& function);
  // What the region has besides what was recorded.
  void add_outputs(const std::vector<Tensor>& outputs) {
    outputs_.insert(outputs_.end(), outputs.begin(), outputs.end());
  }

  // Values of outside that it reads. Literals are none: they stay inside.
  std::vector<ir::Value> captured();
  // With inputs for all of these after its own.
  std::shared_ptr<const ir::Graph> graph(const std::vector<ir::Value>& captured) const;

 private:
  bool is_new(const ir::Value& value) const;
  bool is_captured(const ir::Value& value) const;
  std::vector<ir::NodePtr> recorded_since() const;
  void refuse_collective(const ir::Node& node) const;

  const char* op_;
  Invariants invariants_;
  std::uint64_t start_;
  std::vector<ir::NodePtr> inputs_;
  std::vector<Tensor> outputs_;
  std::unordered_set<const ir::Node*> varies_;  // depend on the region's own inputs
};

// What the regions of one operator capture, each value once.
std::vector<Tensor> captured_by(const std::vector<Region*>& regions);

std::vector<TensorType> types_of(const std::vector<Tensor>& tensors);
std::string types_text(const std::vector<Tensor>& tensors);  // "f32 [3], i64 []"
std::vector<Tensor> joined(std::vector<Tensor> a, const std::vector<Tensor>& b);
std::vector<Tensor> part(const std::vector<Tensor>& all, std::size_t from, std::size_t count);

// One truth value, as a scalar; throws Error where it is something else.
Tensor checked_predicate(const char* op, const Tensor& predicate);

// Gradients of a region's floating-point outputs, which are given, for those of its inputs that are wanted: the region
// is computed once more.
std::vector<Tensor> pull(const ir::Graph& graph, const std::vector<Tensor>& inputs, const std::vector<Tensor>& seeds,
                         const std::vector<std::size_t>& wanted);

// Of a batch, [size, …], of which some examples take part: `active` as a mask over x, and x with the others' rows
// replaced by one that is active. At least one must be.
Tensor of_each(const Tensor& active, const Tensor& x);
Tensor of_active(const Tensor& x, const Tensor& active);

}  // namespace varve
