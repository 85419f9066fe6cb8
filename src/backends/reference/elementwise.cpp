#include "backends/reference/elementwise.h"

#include <cmath>
#include <memory>

#include "ir/expr_eval.h"

namespace varve::reference {
namespace {

using expr::Prim;

std::int64_t wrapped(std::uint64_t value) { return static_cast<std::int64_t>(value); }
std::uint64_t bits(std::int64_t value) { return static_cast<std::uint64_t>(value); }

std::int64_t divide_int(std::int64_t a, std::int64_t b) {
  if (b == 0) return 0;
  return b == -1 ? wrapped(0 - bits(a)) : a / b;  // the smallest integer has no opposite
}

std::int64_t mod_int(std::int64_t a, std::int64_t b) {
  if (b == 0 || b == -1) return 0;
  const std::int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

std::int64_t power_int(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) {  // 1 / base^n truncated
    if (base == 1) return 1;
    return base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  }
  std::uint64_t result = 1, square = bits(base);
  for (std::uint64_t n = bits(exponent); n != 0; n >>= 1, square *= square)
    if (n & 1) result *= square;
  return wrapped(result);
}

// Whether every step has an exact meaning in integers.
bool is_exact(const expr::Instr& instr) {
  if (instr.prim == Prim::constant) return std::abs(instr.value) < 9e18 && instr.value == std::trunc(instr.value);
  return instr.prim <= Prim::trunc ? instr.prim != Prim::atan2 : instr.prim >= Prim::logical_not;
}

bool in_integers(const ir::Node& node, const expr::Code& code) {
  for (const TensorType& type : node.types)
    if (is_floating(type.dtype)) return false;
  for (const ir::Value& input : node.inputs)
    if (is_floating(input.type().dtype)) return false;
  for (const expr::Instr& instr : code.instrs)
    if (!is_exact(instr)) return false;
  return true;
}

// For each input the step in its elements for one step along each axis of the output: 0 where it broadcasts.
std::vector<Ints> broadcast_strides(const std::vector<View>& in, const Shape& shape) {
  std::vector<Ints> strides;
  for (const View& view : in) {
    const Layout layout = contiguous(view.shape());
    const int added = shape.rank() - view.shape().rank();
    Ints own(static_cast<std::size_t>(shape.rank()), 0);
    for (int a = 0; a < view.shape().rank(); ++a)
      if (view.shape()[a] != 1) own[static_cast<std::size_t>(a + added)] = layout.strides[static_cast<std::size_t>(a)];
    strides.push_back(std::move(own));
  }
  return strides;
}

// visit(i, at): output element i, and the element of each input it is made from.
template <class Visit>
void for_each_element(const std::vector<View>& in, const Shape& shape, Visit visit) {
  const std::vector<Ints> strides = broadcast_strides(in, shape);
  Ints index(static_cast<std::size_t>(shape.rank()), 0), at(in.size(), 0);
  const std::int64_t count = shape.numel();
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < in.size(); ++k) {
      at[k] = 0;
      for (std::size_t a = 0; a < index.size(); ++a) at[k] += index[a] * strides[k][a];
    }
    visit(i, at);
    next_index(index, shape);
  }
}

// All steps of the formula on values of one kind.
template <class Number, class Load, class Apply>
void run_code(const expr::Code& code, std::vector<Number>& values, Load load, Apply apply) {
  values.resize(code.instrs.size());
  const auto operand = [&](int i) { return i < 0 ? Number{0} : values[static_cast<std::size_t>(i)]; };
  for (std::size_t i = 0; i < code.instrs.size(); ++i) {
    const expr::Instr& instr = code.instrs[i];
    if (instr.prim == Prim::input)
      values[i] = load(static_cast<std::size_t>(instr.input));
    else if (instr.prim == Prim::constant)
      values[i] = static_cast<Number>(instr.value);
    else
      values[i] = apply(instr.prim, operand(instr.a), operand(instr.b), operand(instr.c));
  }
}

void run_integers(const expr::Code& code, const std::vector<View>& in, const std::vector<View>& out) {
  std::vector<std::int64_t> values;
  for_each_element(in, out[0].shape(), [&](std::int64_t i, const Ints& at) {
    run_code(
        code, values, [&](std::size_t k) { return in[k].get_int(at[k]); }, apply_int);
    for (std::size_t o = 0; o < out.size(); ++o) out[o].set_int(i, values[static_cast<std::size_t>(code.outputs[o])]);
  });
}

void run_doubles(const expr::Code& code, const std::vector<View>& in, const std::vector<View>& out) {
  std::vector<double> values;
  for_each_element(in, out[0].shape(), [&](std::int64_t i, const Ints& at) {
    run_code(
        code, values, [&](std::size_t k) { return in[k].get(at[k]); }, expr::apply);
    for (std::size_t o = 0; o < out.size(); ++o) out[o].set(i, values[static_cast<std::size_t>(code.outputs[o])]);
  });
}

}  // namespace

std::int64_t apply_int(Prim prim, std::int64_t a, std::int64_t b, std::int64_t c) {
  switch (prim) {
    case Prim::add:
      return wrapped(bits(a) + bits(b));
    case Prim::sub:
      return wrapped(bits(a) - bits(b));
    case Prim::mul:
      return wrapped(bits(a) * bits(b));
    case Prim::div:
      return divide_int(a, b);
    case Prim::pow:
      return power_int(a, b);
    case Prim::min:
      return a < b ? a : b;
    case Prim::max:
      return a > b ? a : b;
    case Prim::mod:
      return mod_int(a, b);
    case Prim::lt:
      return a < b;
    case Prim::le:
      return a <= b;
    case Prim::eq:
      return a == b;
    case Prim::ne:
      return a != b;
    case Prim::logical_and:
      return a != 0 && b != 0;
    case Prim::logical_or:
      return a != 0 || b != 0;
    case Prim::select:
      return a != 0 ? b : c;
    case Prim::neg:
      return wrapped(0 - bits(a));
    case Prim::abs:
      return a < 0 ? wrapped(0 - bits(a)) : a;
    case Prim::sign:
      return (a > 0) - (a < 0);
    case Prim::logical_not:
      return a == 0;
    case Prim::is_nan:
      return 0;
    default:
      return a;  // floor, ceil, round, trunc: whole already
  }
}

RefFn elementwise_kernel(const ir::Node& node) {
  auto code = std::make_shared<const expr::Code>(expr::flatten(static_cast<int>(node.inputs.size()), node.op->exprs));
  // A conversion must not pass through double: 2^53 + 1 is an int64.
  if (code->instrs.size() == 1 && code->instrs[0].prim == Prim::input && code->outputs.size() == 1)
    return [](const ir::Node&, const std::vector<View>& in, const std::vector<View>& out, backend::ErrorWord&) {
      for_each_element(in, out[0].shape(), [&](std::int64_t i, const Ints& at) { out[0].copy(i, in[0], at[0]); });
    };
  const bool integers = in_integers(node, *code);
  return
      [code, integers](const ir::Node&, const std::vector<View>& in, const std::vector<View>& out,
                       backend::ErrorWord&) { integers ? run_integers(*code, in, out) : run_doubles(*code, in, out); };
}

}  // namespace varve::reference
