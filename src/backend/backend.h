// The contract between the compiler and a backend: the compiler shows a place in the graph, the backend offers kernels
// or refuses with a reason.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/kernel.h"
#include "ir/graph.h"

namespace varve::backend {

class Device;  // backend/device.h

// What was chosen for a whole program, beyond what its graph says.
struct Choices {
  bool tf32 = false;  // products of f32 may round their operands to 10 bits of mantissa
};

// A node and its neighbourhood.
class Site {
 public:
  Site(const ir::Graph& graph, const std::unordered_map<ir::Value, std::vector<ir::Use>, ir::ValueHash>& users,
       ir::NodePtr root, Choices choices = {})
      : graph_(graph), users_(users), root_(std::move(root)), choices_(choices) {}

  const Choices& choices() const { return choices_; }
  Site at(ir::NodePtr other) const { return {graph_, users_, std::move(other), choices_}; }  // in the same graph

  const ir::NodePtr& root() const { return root_; }
  const ir::Node& node() const { return *root_; }
  bool is_output(const ir::Value& value) const;
  const std::vector<ir::Use>& users(const ir::Value& value) const;
  // The one node that reads this value, when there is just one reader and the value is no output of the graph.
  ir::NodePtr sole_user(const ir::Value& value) const;
  // True when `value` is state that the program replaces, and where the replacement is.
  bool is_state(const ir::Value& value) const;

 private:
  const ir::Graph& graph_;
  const std::unordered_map<ir::Value, std::vector<ir::Use>, ir::ValueHash>& users_;
  ir::NodePtr root_;
  Choices choices_;
};

// What a kernel asks of an input's memory.
enum class Memory : std::uint8_t { contiguous, strided };

using Prepare = std::function<Prepared(const std::vector<Port>& in, const std::vector<Port>& out)>;

// A kernel may need of an input only which elements are above 0. A kernel that writes such a value can then write those
// bits as well, an eighth of a byte for each element (the operator sign_bits of passes/sign_bits.cpp). -1: none.
struct SignBits {
  int output = -1;  // of which the kernel can write the bits, as an output after its others
  int input = -1;   // that the kernel can read as bits in place of the values
};

struct Claim {
  std::string refusal;                     // set: no, and why
  std::string kernel;                      // who: "onednn matmul+bias+relu"
  std::vector<ir::NodePtr> nodes;          // what it covers; the root is one of them
  std::vector<ir::Value> inputs, outputs;  // every value it reads and writes
  std::vector<Memory> memory;              // per input; missing means contiguous
  std::vector<ir::PackedPtr> wants;        // per input: the private layout it would like, or null; missing means none
  std::vector<std::pair<int, int>> in_place;  // (output, input) that may share a buffer
  // A value of the forward pass that this kernel computes once more on its way. Asked to (passes/recompute.cpp), it
  // writes the value as an output after its others, and nobody keeps it until then. Null node: none.
  ir::Value recomputes;
  SignBits sign_bits;
  double cost = 0;  // seconds, roughly: the lowest wins among claims that cover as much; 0: not stated, keeps its place
  Prepare prepare;
  bool measures = false;  // prepare() times kernels: after those of all others, whose kernels compile meanwhile

  bool accepted() const { return refusal.empty(); }
  static Claim no(std::string kernel, std::string reason);
  // Covers just this node: inputs, outputs and in-place pairs as the node has them.
  static Claim of(std::string kernel, const ir::NodePtr& node, Prepare prepare);
};

// A generated group: an expression over a few inputs, and reductions of it.
enum class Reduce : std::uint8_t { none, sum, prod, max, min };
struct Group {
  std::vector<ir::NodePtr> nodes;
  std::vector<ir::Value> inputs;  // each broadcasts to `shape`
  std::vector<ir::Value> outputs;
  expr::Code code;                 // over inputs, one result for each output
  Shape shape;                     // the iteration space
  std::vector<Reduce> reduce;      // per output
  std::vector<bool> reduced_axes;  // per axis of `shape`, the same for all reduced outputs
  DType compute = f32;             // f32, f64 or i64
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  virtual bool fuses() const { return false; }                    // elementwise nodes are to be grouped first
  virtual std::vector<Claim> claims(const Site& site) const = 0;  // larger patterns first; refusals with reasons
  virtual Claim claim_group(const Group& group) const { return Claim::no(name(), cat_group(group)); }
  // Several in one launch, none of which reads what another writes: where a launch is dear.
  virtual bool joins_groups() const { return false; }
  virtual Claim claim_together(const std::vector<Group>&) const { return Claim::no(name(), "joins no groups"); }
  // Memory is scarcer than time: what a kernel of the backward pass can recompute is not kept (Claim::recomputes).
  virtual bool recomputes() const { return false; }
  virtual Prepared prepare_copy(const Port& from, const Port& to) const = 0;  // any strides to any strides, equal types
  virtual bool gains_from(DType) const { return true; }  // false, of bf16: programs do better to compute in f32
  virtual bool executes() const { return true; }         // false: compiles only
  // Where kernels run and operands must lie; null: the processor and its memory.
  virtual Device* device() const { return nullptr; }

 private:
  static std::string cat_group(const Group& group);
};

// A kernel from a function object, for those that keep no more than their captures.
template <class F>
class FunctionKernel final : public Kernel {
 public:
  explicit FunctionKernel(F f) : f_(std::move(f)) {}
  void run(const RunArgs& args) override { f_(args); }

 private:
  F f_;
};
template <class F>
Prepared prepared(F f, std::size_t scratch_bytes = 0) {
  return {std::make_unique<FunctionKernel<F>>(std::move(f)), scratch_bytes};
}

// Kernels that users add to a backend for operators of their own, by operator record.
using UserKernel = std::function<Prepare(const ir::Node& node)>;
void add_user_kernel(const OpRecord& op, const std::string& backend, UserKernel kernel);
const UserKernel* find_user_kernel(const OpRecord& op, const std::string& backend);

}  // namespace varve::backend
