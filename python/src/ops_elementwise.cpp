// Elementwise operators come from the library's own table, so that a new one is here without an edit. They take symbols
// too: inside a formula (vv.elementwise) an operator is its own formula.
#include <cmath>

#include "ops.h"

namespace varve::python {
namespace {

// The arguments' names, and numbers for an example.
struct Arguments {
  std::vector<const char*> names;
  std::vector<double> example;
};
Arguments arguments_of(const OpRecord& record) {
  if (record.name == "where") return {{"condition", "a", "b"}, {1, 2, 3}};
  if (record.name == "clip") return {{"x", "low", "high"}, {5, 0, 1}};
  if (record.name == "acosh") return {{"x"}, {1.5}};
  if (record.arity == 1) return {{"x"}, {record.name.starts_with("logical") ? 1 : 0.5}};
  if (record.arity == 2) return {{"a", "b"}, {2, record.name.starts_with("logical") ? 0 : 3.0}};
  return {{"a", "b", "c"}, {1, 2, 3}};
}

std::string rounded(double value) {
  if (std::isnan(value)) return "nan";
  std::string text = nb::cast<std::string>(nb::repr(nb::float_(value).attr("__round__")(4)));
  return text == "-0.0" ? "0.0" : text;
}

// What the operator does, and a call with its result, from the formula.
std::string doc_of(const OpRecord& record) {
  const Arguments arguments = arguments_of(record);
  std::string call = "vv." + record.name + "(";
  for (std::size_t i = 0; i < arguments.example.size(); ++i)
    call += (i ? ", " : "") + (record.name == "where" && i == 0 ? "True" : rounded(arguments.example[i]));
  const expr::Code code = expr::flatten(record.arity, {record.exprs[0]});
  const double value = expr::evaluate(code, arguments.example.data());
  std::string text = record.doc;
  if (!text.empty() && text.back() != '.') text += '.';
  if (record.result == ResultType::predicate)
    return text + "\n\n>>> " + call + ").item()\n" + (value != 0 ? "True" : "False");
  return text + "\n\n>>> round(" + call + ").item(), 4) + 0\n" + rounded(value);
}

bool is_symbol(nb::handle value) { return nb::isinstance<Expr>(value); }

Expr symbol(nb::handle value, const Where& where) {
  if (is_symbol(value)) return nb::cast<Expr>(value);
  return Expr(to_number(value, where));
}

// Inside a formula.
template <class... H>
nb::object on_symbols(const OpRecord& record, const std::vector<Where>& where, H... given) {
  std::size_t i = 0;
  const std::vector<Expr> inputs{symbol(given, where[i++])...};
  return nb::cast(record.formula(inputs).at(0));
}

template <class... H>
nb::object called(const OpDef& op, const std::vector<Where>& where, H... given) {
  if ((is_symbol(given) || ...)) return on_symbols(op.record(), where, given...);
  std::size_t i = 0;
  const std::array<Operand, sizeof...(H)> in{to_operand(given, where[i++])...};
  const auto record = [&] {
    const Unlocked meanwhile;
    return std::apply([&](const auto&... operand) { return op(operand...); }, in);
  };
  return nb::cast(record());
}

std::string signature_of(const OpRecord& record, const std::vector<const char*>& names) {
  std::string text = "def " + record.name + "(";
  for (std::size_t i = 0; i < names.size(); ++i) text += (i ? ", " : "") + std::string(names[i]) + ": TensorLike";
  return text + ") -> Tensor";
}

}  // namespace

nb::object call_elementwise(const OpDef& op, const std::vector<nb::handle>& given) {
  std::vector<Where> where(given.size(), Where{op.name(), "an argument", false});
  if (given.size() == 1) return called(op, where, given[0]);
  if (given.size() == 2) return called(op, where, given[0], given[1]);
  return called(op, where, given[0], given[1], given[2]);
}

void bind_elementwise(nb::module_& m) {
  for (const OpRecord* record : operators()) {
    if (!record->elementwise() || record->arity > 3 || nb::hasattr(m, record->name.c_str())) continue;
    const Arguments arguments = arguments_of(*record);
    const auto* where = new std::vector<Where>;  // functions live as long as the process does
    for (const char* name : arguments.names)
      const_cast<std::vector<Where>*>(where)->push_back({record->name, name, false});
    const OpDef op(record);
    const std::string signature = signature_of(*record, arguments.names), doc = doc_of(*record);
    const nb::sig sig(signature.c_str());
    const auto arg = [&](std::size_t i) { return nb::arg(arguments.names[i]).none(); };
    if (record->arity == 1)
      m.def(
          record->name.c_str(), [op, where](nb::handle a) { return called(op, *where, a); }, arg(0), sig, doc.c_str());
    if (record->arity == 2)
      m.def(
          record->name.c_str(), [op, where](nb::handle a, nb::handle b) { return called(op, *where, a, b); }, arg(0),
          arg(1), sig, doc.c_str());
    if (record->arity == 3)
      m.def(
          record->name.c_str(),
          [op, where](nb::handle a, nb::handle b, nb::handle c) { return called(op, *where, a, b, c); }, arg(0), arg(1),
          arg(2), sig, doc.c_str());
  }
}

}  // namespace varve::python
