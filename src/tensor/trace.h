// What a thread is doing besides computing: recording a program, or recording for a gradient.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/packed.h"
#include "varve/tensor.h"

namespace varve {

struct Variable::State {
  std::string name;
  bool trainable = true;
  TensorType type;
  Tensor held;           // undefined while a program keeps the value packed
  ir::PackedPtr layout;  // private layout of `packed`
  std::shared_ptr<ir::Storage> packed;
  std::string spoilt;         // why the value cannot be trusted, until somebody assigns a new one
  std::uint64_t version = 0;  // grows with every assignment
};

// The value as a plain tensor again, whatever layout it was kept in.
void unpack(Variable::State& state);

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
  const std::vector<Use>& uses() const { return uses_; }

 private:
  std::vector<Use> uses_;
  Trace* outer_;
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

// What variables held when a function first looked at them.
struct Seen {
  std::shared_ptr<Variable::State> variable;
  Tensor value;
};

// Notes that while a function runs.
class VariableLog {
 public:
  VariableLog();
  ~VariableLog();
  VariableLog(const VariableLog&) = delete;
  VariableLog& operator=(const VariableLog&) = delete;
  std::vector<Seen> take() { return std::move(seen_); }

 private:
  friend struct VariableScopes;
  std::vector<Seen> seen_;
  VariableLog* outer_;
};

// A function that is called again for its gradient sees what it saw the first time, counters and statistics included,
// and what it assigns now stays here.
class VariableReplay {
 public:
  explicit VariableReplay(std::vector<Seen> seen);
  ~VariableReplay();
  VariableReplay(const VariableReplay&) = delete;
  VariableReplay& operator=(const VariableReplay&) = delete;

 private:
  friend struct VariableScopes;
  Tensor* find(const std::shared_ptr<Variable::State>& variable);
  std::vector<Seen> now_;
  GradientScope* gradient_;  // the innermost one when this began
  VariableReplay* outer_;
};

// Nodes evaluated while a gradient is recorded keep their inputs until it is done.
void keep_for_gradient(const ir::NodePtr& node);

}  // namespace varve
