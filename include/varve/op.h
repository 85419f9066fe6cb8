// What an operator is: one record with its rules standing together, and a handle to call it by.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "varve/dtype.h"
#include "varve/expr.h"
#include "varve/shape.h"

namespace varve {

class Tensor;
class Operand;
struct Vjp;
struct Batching;
struct OpRecord;

struct TensorType {
  DType dtype = f32;
  Shape shape;
  std::string str() const;  // "f32 [2, 3]"
  std::size_t bytes() const;
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

// The fixed choices of one call (axis, stride, …): part of a program's identity, unlike tensor inputs.
using Ints = std::vector<std::int64_t>;
class Attr {
 public:
  Attr(bool v) : value_(v) {}
  Attr(int v) : value_(static_cast<std::int64_t>(v)) {}
  Attr(std::int64_t v) : value_(v) {}
  Attr(double v) : value_(v) {}
  Attr(const char* v) : value_(std::string(v)) {}
  Attr(std::string v) : value_(std::move(v)) {}
  Attr(Ints v) : value_(std::move(v)) {}
  Attr(const Shape& v) : value_(v.vec()) {}
  Attr(DType v) : value_(v) {}

  template <class T>
  const T* get() const {
    return std::get_if<T>(&value_);
  }
  std::string str() const;
  friend bool operator==(const Attr&, const Attr&) = default;

 private:
  std::variant<bool, std::int64_t, double, std::string, Ints, DType> value_;
};

class Attrs {
 public:
  Attrs() = default;
  Attrs(std::initializer_list<std::pair<std::string, Attr>> entries);

  bool has(const std::string& key) const { return find(key) != nullptr; }
  // Each throws Error, naming the key, when it is absent or of another kind.
  bool flag(const std::string& key) const;
  std::int64_t integer(const std::string& key) const;
  double number(const std::string& key) const;  // an integer is a number too
  const std::string& text(const std::string& key) const;
  const Ints& ints(const std::string& key) const;
  DType dtype(const std::string& key) const;
  void set(const std::string& key, Attr value);
  void erase(const std::string& key);

  const std::vector<std::pair<std::string, Attr>>& entries() const { return entries_; }  // sorted by key
  std::string str() const;                                                               // "axis=1, keep=true"
  friend bool operator==(const Attrs&, const Attrs&) = default;

 private:
  const Attr* find(const std::string& key) const;
  std::vector<std::pair<std::string, Attr>> entries_;
};

// What a rule sees of a call.
struct Call {
  const OpRecord& op;
  const std::vector<TensorType>& in;
  const Attrs& attrs;
};

struct Cost {
  double flops = 0;
  double bytes = 0;
};

// Where the elements of a tensor lie: element strides over a shared buffer, and the first element's offset.
struct Layout {
  std::int64_t offset = 0;
  Ints strides;
  friend bool operator==(const Layout&, const Layout&) = default;
};
Layout contiguous(const Shape&, std::int64_t offset = 0);
bool is_contiguous(const Shape&, const Layout&);

// The input whose elements are positions in [0, size). Kernels check each; a program that would change state checks
// them before it begins, where it can.
struct Positions {
  int input = 0;
  std::int64_t size = 0;
  std::string complaint;  // "gather: index out of range [0, 10) along axis 0."
};

enum class ResultType : std::uint8_t { promoted, floating, predicate };  // of an elementwise operator

// When an operator runs, where the order is free: what others can go on behind begins early, what waits for it ends
// late.
enum class Timing : std::uint8_t { any, early, late };

using ShapeRule = std::function<std::vector<TensorType>(const Call&)>;
using GradientRule = std::function<std::vector<Tensor>(const Vjp&)>;  // undefined Tensor: no gradient flows
using Decomposition = std::function<std::vector<Tensor>(const std::vector<Tensor>& in, const Attrs& attrs)>;
using CostRule = std::function<Cost(const Call&, const std::vector<TensorType>& out)>;
using PositionsRule = std::function<Positions(const Call&)>;
using ViewRule = std::function<std::optional<Layout>(const Call&, const Layout& in, const TensorType& out)>;
// Many calls as one: the outputs of all, stacked along a leading axis; nothing when that cannot be.
using BatchingRule = std::function<std::optional<std::vector<Tensor>>(const Batching&)>;

struct OpRecord {
  std::string name;
  std::string doc;
  std::string family;              // the file it stands in: "arithmetic", "conv", …
  int arity = 1;                   // -1: any number of inputs
  std::string never_batched = {};  // why many calls cannot be made one: vmap refuses it with this reason

  ShapeRule shape = nullptr;
  GradientRule gradient = nullptr;    // none: through the formula or the decomposition
  Decomposition decompose = nullptr;  // in terms of other operators
  CostRule cost = nullptr;            // none: one FLOP an output element, each tensor moved once
  ViewRule view = nullptr;            // the output can alias input 0
  PositionsRule positions = nullptr;  // of an operator that reads or writes at positions given by a tensor
  BatchingRule batching = nullptr;    // none: through the formula or the decomposition

  expr::Formula formula = {};     // elementwise operators only
  expr::Formula derivative = {};  // (x…, y…) -> ∂y0/∂x…, in place of the symbolic one
  ResultType result = ResultType::promoted;

  bool differentiable = true;
  bool smooth = true;   // has a second derivative worth checking
  bool pure = true;     // equal calls may be merged
  bool random = false;  // draws numbers: under vmap each call draws its own, unless told otherwise
  Timing timing = Timing::any;
  std::vector<std::pair<int, int>> in_place = {};  // (output, input): may share a buffer when legal

  // Filled by define(): the formula once evaluated.
  std::vector<expr::Expr> exprs = {};
  bool elementwise() const { return !exprs.empty(); }
};

// A cheap handle to an immortal record.
class OpDef {
 public:
  explicit OpDef(const OpRecord* record) : record_(record) {}
  const OpRecord& record() const { return *record_; }
  const std::string& name() const { return record_->name; }

  // Calls of an elementwise operator; numbers take the type of the tensors beside them.
  Tensor operator()(const Operand& a) const;
  Tensor operator()(const Operand& a, const Operand& b) const;
  Tensor operator()(const Operand& a, const Operand& b, const Operand& c) const;
  // Any operator, any number of inputs and outputs.
  std::vector<Tensor> call(std::vector<Tensor> inputs, Attrs attrs = {}) const;

 private:
  const OpRecord* record_;
};

// Completes and keeps a record for the life of the process. Throws Error when it lacks a shape rule, say.
OpDef define(OpRecord record);

// An operator from its formula alone: shape rule, gradient, cost, fusion and every device follow.
struct Elementwise {
  std::string name;
  std::string doc;
  expr::Formula formula;
  expr::Formula derivative = {};
  ResultType result = ResultType::promoted;
  bool differentiable = true;
  bool smooth = true;
  std::string family = "user";
};
OpDef elementwise(Elementwise);

}  // namespace varve
