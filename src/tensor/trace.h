// What a thread is doing besides computing: recording a program, or recording for a gradient.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/packed.h"
#include "varve/tensor.h"

namespace varve {

// A variable that is kept in another form than it is read in: as one rank's part, say. Reading makes the whole of what
// `kept` holds, assigning keeps what is made of the whole.
struct Form {
  Variable kept;
  std::function<Tensor(const Tensor& kept)> whole;
  std::function<Tensor(const Tensor& whole)> part;
  int owner = -1;             // the one rank that keeps it, all of it; -1: each keeps a part
  bool of_each_rank = false;  // each rank's value is its own, not a part of one
  // Each rank keeps, and computes with, its slice along an axis: gradients are of that slice. -1: not so.
  int axis = -1;
  std::int64_t blocks = 1;  // of which each is cut up by itself: three, where queries, keys and values lie side by side
};

struct Variable::State {
  std::string name;
  bool trainable = true;
  bool local = false;  // made inside a traced function: that call's own, and what it holds is part of the graph
  TensorType type;
  std::shared_ptr<const Form> form;  // null: as it is

  std::shared_ptr<const std::string>
      spoilt;  // why the value cannot be trusted, until somebody assigns a new one; atomic

  // What follows is read and written under the mutex. A program that updates the variable holds it while it runs, so
  // that nobody sees a value half-way; one that only reads it takes a handle and lets go.
  std::mutex mutex;
  Tensor held;           // undefined while a program keeps the value packed
  ir::PackedPtr layout;  // private layout of `packed`
  std::shared_ptr<ir::Storage> packed;
  std::uint64_t version = 0;  // grows with every assignment
};

void spoil(Variable::State& state, const std::string& why);
// The value as a plain tensor, whatever layout it was kept in; throws Error when it is spoilt. The mutex is held.
const Tensor& plain_value(Variable::State& state);

// Records what a function reads and assigns while it is traced.
class Trace {
 public:
  struct Use {
    std::shared_ptr<Variable::State> variable;
    ir::NodePtr input;
    Tensor current;
    bool assigned = false;
  };

  Trace();
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;
  static Trace* current();  // the innermost one of this thread, or null

  Use& use(const std::shared_ptr<Variable::State>& variable);
  // The whole of a variable that is kept in another form, made once for each value that is kept.
  Tensor whole(const std::shared_ptr<Variable::State>& variable);
  const std::vector<Use>& uses() const { return uses_; }

 private:
  struct Whole {
    std::shared_ptr<Variable::State> variable;
    Tensor kept, made;
  };
  std::vector<Use> uses_;
  std::vector<Whole> wholes_;
  Trace* outer_;
};

// While a branch or the body of a loop is being recorded: it may run any number of times, so that nothing in it has a
// value, and nothing outside may change by it.
class RegionScope {
 public:
  explicit RegionScope(const char* op);
  ~RegionScope();
  RegionScope(const RegionScope&) = delete;
  RegionScope& operator=(const RegionScope&) = delete;
  static const char* current();  // the operator whose region it is, or null

 private:
  const char* outer_;
};

// While a gradient is being recorded, each variable differentiated is read through a node of its own.
class GradientScope {
 public:
  explicit GradientScope(std::vector<Variable> wrt);
  ~GradientScope();
  GradientScope(const GradientScope&) = delete;
  GradientScope& operator=(const GradientScope&) = delete;
  static GradientScope* current();

  const std::vector<Tensor>& aliases() const { return aliases_; }

 private:
  friend struct VariableScopes;
  Tensor* find(const std::shared_ptr<Variable::State>& variable);
  std::vector<Variable> wrt_;
  std::vector<Tensor> aliases_;  // what the gradient is taken of
  std::vector<Tensor> now_;      // what a read gives: the alias, or what was assigned since
  GradientScope* outer_;
};

// While a function is recorded for one example that stands for all, variables take no value that depends on it.
class MapScope {
 public:
  explicit MapScope(std::vector<ir::NodePtr> examples);
  ~MapScope();
  MapScope(const MapScope&) = delete;
  MapScope& operator=(const MapScope&) = delete;
  static bool active();
  static void check_assignment(const std::string& variable, const Tensor& value);  // throws Error

 private:
  bool is_example(const ir::Node& node) const;
  std::vector<ir::NodePtr> examples_;
  MapScope* outer_;
};

// Nodes evaluated while a gradient is recorded keep their inputs until it is done.
void keep_for_gradient(const ir::NodePtr& node);

}  // namespace varve
