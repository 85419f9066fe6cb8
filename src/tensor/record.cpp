#include "tensor/record.h"

#include <array>
#include <mutex>
#include <unordered_map>

#include "base/text.h"
#include "tensor/evaluator.h"
#include "tensor/trace.h"
#include "varve/ops.h"

namespace varve {
namespace {

// A loss that nobody reads must not grow without end: a chain this long is computed as it stands.
constexpr int kLongestPending = 10000;

int pending_depth(const ir::Node& node) {
  int depth = 0;
  for (const ir::Value& input : node.inputs)
    if (!input.node->slots[static_cast<std::size_t>(input.index)].value()) depth = std::max(depth, input.node->depth);
  return depth + 1;
}

std::array<const OpRecord*, 64>& primitives() {
  static std::array<const OpRecord*, 64> table{};
  return table;
}

// A number too large for the tensor beside it widens both: u8 < 300 is true everywhere.
bool holds(DType dtype, std::int64_t number) {
  if (dtype == u8) return number >= 0 && number <= 255;
  if (dtype == i8) return number >= -128 && number <= 127;
  return dtype == i64 || (number >= INT32_MIN && number <= INT32_MAX);
}

// The type that tensors and numbers of one elementwise call are computed in.
DType common_dtype(const OpRecord& op, const std::vector<const Operand*>& operands) {
  bool any = false, fraction = false;
  DType dtype = boolean;
  for (const Operand* operand : operands) {
    if (operand->is_number()) {
      fraction = fraction || !operand->is_integral();
    } else {
      dtype = any ? promote(dtype, operand->tensor().dtype()) : operand->tensor().dtype();
      any = true;
    }
  }
  const bool numbers_only = !any;
  if (numbers_only) return fraction || op.result == ResultType::floating ? f32 : i64;
  bool number = false;
  for (const Operand* operand : operands) number = number || operand->is_number();
  if (fraction && !is_floating(dtype)) dtype = f32;
  for (const Operand* operand : operands)
    if (operand->is_number() && operand->is_integral() && is_integer(dtype) && !holds(dtype, operand->whole()))
      dtype = i64;
  if (number && dtype == boolean && op.result != ResultType::predicate) dtype = i64;
  if (op.result == ResultType::floating && !is_floating(dtype)) dtype = f32;
  return dtype;
}

Tensor call_elementwise(const OpRecord& op, const std::vector<const Operand*>& operands) {
  if (!op.elementwise()) throw Error(cat(op.name, ": is not elementwise; use call()."));
  if (op.arity != static_cast<int>(operands.size()))
    throw Error(cat(op.name, ": takes ", op.arity, " inputs, got ", operands.size(), "."));
  const DType dtype = common_dtype(op, operands);
  std::vector<Tensor> inputs;
  for (const Operand* operand : operands) inputs.push_back(operand->as(dtype));
  return record(op, inputs)[0];
}

}  // namespace

std::vector<Tensor> record(const OpRecord& op, const std::vector<Tensor>& inputs, Attrs attrs, RecordExtras extras) {
  if (op.arity >= 0 && static_cast<int>(inputs.size()) != op.arity)
    throw Error(cat(op.name, ": takes ", op.arity, " inputs, got ", inputs.size(), "."));
  std::vector<TensorType> in;
  for (const Tensor& input : inputs) {
    if (!input.defined()) throw Error(cat(op.name, ": an input is an undefined Tensor."));
    in.push_back(input.type());
  }
  std::vector<TensorType> types = extras.regions.empty() ? op.shape({op, in, attrs}) : std::move(extras.types);
  for (const TensorType& type : types) type.bytes();  // refuses what cannot be addressed
  ir::NodePtr node = ir::make_node(op, values_of(inputs), std::move(attrs), std::move(types));
  node->regions = std::move(extras.regions);
  node->extension = std::move(extras.extension);
  node->depth = pending_depth(*node);
  std::vector<Tensor> outputs;
  for (int i = 0; i < static_cast<int>(node->types.size()); ++i) outputs.emplace_back(ir::Value{node, i});
  if (node->depth > kLongestPending && !Trace::current() && !GradientScope::current() && !RegionScope::current()) {
    // Not at any price: who records may hold a lock that the thread at work waits for (Python's). Then the next one
    // does.
    if (const std::unique_lock lock(ir::graph_mutex(), std::try_to_lock); lock) evaluate({{node, 0}});
  }
  return outputs;
}

std::vector<Tensor> OpDef::call(std::vector<Tensor> inputs, Attrs attrs) const {
  return varve::record(*record_, inputs, std::move(attrs));
}
Tensor OpDef::operator()(const Operand& a) const { return call_elementwise(*record_, {&a}); }
Tensor OpDef::operator()(const Operand& a, const Operand& b) const { return call_elementwise(*record_, {&a, &b}); }
Tensor OpDef::operator()(const Operand& a, const Operand& b, const Operand& c) const {
  return call_elementwise(*record_, {&a, &b, &c});
}

Operand::Operand(const Variable& v) : tensor_(v.value()) {}

Tensor Operand::as(DType dtype) const {
  if (!is_number()) return tensor_.to(dtype);
  return integral_ && !is_floating(dtype) ? full_int({}, whole_, dtype)
                                          : full({}, integral_ ? static_cast<double>(whole_) : number_, dtype);
}

const OpRecord& primitive_op(expr::Prim prim) {
  static std::once_flag registered;
  std::call_once(registered, register_primitives);
  const OpRecord* record = primitives()[static_cast<std::size_t>(prim)];
  if (!record) throw Error(cat("no operator computes the primitive '", expr::name(prim), "'."));
  return *record;
}

void set_primitive_op(expr::Prim prim, const OpRecord& record) {
  primitives()[static_cast<std::size_t>(prim)] = &record;
}

std::vector<Tensor> expand(const std::vector<expr::Expr>& exprs, const std::vector<Tensor>& inputs) {
  const expr::Code code = expr::flatten(static_cast<int>(inputs.size()), exprs);
  DType dtype = inputs.at(0).dtype();
  std::vector<Tensor> values;
  auto as_number = [&](const Tensor& t) { return t.dtype() == boolean && dtype != boolean ? t.to(dtype) : t; };
  for (const expr::Instr& instr : code.instrs) {
    if (instr.prim == expr::Prim::input)
      values.push_back(inputs[static_cast<std::size_t>(instr.input)]);
    else if (instr.prim == expr::Prim::constant)
      values.push_back(full({}, instr.value, dtype));
    else {
      std::vector<Tensor> operands;
      for (const int operand : {instr.a, instr.b, instr.c})
        if (operand >= 0) operands.push_back(as_number(values[static_cast<std::size_t>(operand)]));
      values.push_back(record(primitive_op(instr.prim), operands)[0]);
    }
  }
  std::vector<Tensor> outputs;
  for (const int output : code.outputs) outputs.push_back(as_number(values[static_cast<std::size_t>(output)]));
  return outputs;
}

std::vector<ir::Value> values_of(const std::vector<Tensor>& tensors) {
  std::vector<ir::Value> values;
  values.reserve(tensors.size());
  for (const Tensor& tensor : tensors) values.push_back(tensor.value());
  return values;
}

std::vector<Tensor> tensors_of(const std::vector<ir::Value>& values) {
  std::vector<Tensor> tensors;
  tensors.reserve(values.size());
  for (const ir::Value& value : values) tensors.emplace_back(value);
  return tensors;
}

}  // namespace varve
