// Operator records: attributes, completion of a record, elementwise operators from their formula.
#include <algorithm>
#include <charconv>
#include <deque>
#include <mutex>

#include "base/text.h"
#include "varve/error.h"
#include "varve/op.h"

namespace varve {

std::string TensorType::str() const { return cat(varve::name(dtype), " ", shape.str()); }

std::size_t TensorType::bytes() const {
  const auto n = static_cast<std::uint64_t>(shape.numel());
  if (n > (std::uint64_t{1} << 62) / size_of(dtype))
    throw Error(cat("a tensor of ", str(), " is too large to address."));
  return static_cast<std::size_t>(n) * size_of(dtype);
}

namespace {
bool is_empty(const Shape& shape) { return std::find(shape.begin(), shape.end(), 0) != shape.end(); }
}  // namespace

Layout contiguous(const Shape& shape, std::int64_t offset) {
  Layout layout{offset, Ints(static_cast<std::size_t>(shape.rank()), 1)};
  if (is_empty(shape)) return layout;  // no element, no stride; the other sizes may be too large to multiply
  for (int a = shape.rank() - 2; a >= 0; --a) {
    const auto i = static_cast<std::size_t>(a);
    layout.strides[i] = layout.strides[i + 1] * shape[a + 1];
  }
  return layout;
}

bool is_contiguous(const Shape& shape, const Layout& layout) {
  if (is_empty(shape)) return true;
  std::int64_t expected = 1;
  for (int a = shape.rank() - 1; a >= 0; --a) {
    if (shape[a] == 1) continue;  // a stride nobody takes
    if (layout.strides[static_cast<std::size_t>(a)] != expected) return false;
    expected *= shape[a];
  }
  return true;
}

namespace {
// The shortest text that reads back as the same number: attributes are part of a program's key.
std::string exact(double value) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof text, value).ptr);
}
}  // namespace

std::string Attr::str() const {
  if (const auto* v = get<bool>()) return *v ? "true" : "false";
  if (const auto* v = get<std::int64_t>()) return cat(*v);
  if (const auto* v = get<double>()) return exact(*v);
  if (const auto* v = get<std::string>()) return cat('"', *v, '"');
  if (const auto* v = get<Ints>()) return Shape(*v).str();
  return varve::name(*get<DType>());
}

Attrs::Attrs(std::initializer_list<std::pair<std::string, Attr>> entries) {
  for (const auto& [key, value] : entries) set(key, value);
}

void Attrs::set(const std::string& key, Attr value) {
  auto at =
      std::lower_bound(entries_.begin(), entries_.end(), key, [](const auto& e, const auto& k) { return e.first < k; });
  if (at != entries_.end() && at->first == key)
    at->second = std::move(value);
  else
    entries_.insert(at, {key, std::move(value)});
}

void Attrs::erase(const std::string& key) {
  std::erase_if(entries_, [&](const auto& entry) { return entry.first == key; });
}

const Attr* Attrs::find(const std::string& key) const {
  for (const auto& entry : entries_)
    if (entry.first == key) return &entry.second;
  return nullptr;
}

namespace {
template <class T>
const T& need(const Attr* attr, const std::string& key, const char* kind) {
  const T* value = attr ? attr->get<T>() : nullptr;
  if (!value)
    throw Error(
        cat("attribute '", key, "' (", kind, ") is ", attr ? cat(attr->str(), ", of another kind.") : "missing."));
  return *value;
}
}  // namespace

bool Attrs::flag(const std::string& key) const { return need<bool>(find(key), key, "flag"); }
std::int64_t Attrs::integer(const std::string& key) const { return need<std::int64_t>(find(key), key, "integer"); }
const std::string& Attrs::text(const std::string& key) const { return need<std::string>(find(key), key, "text"); }
const Ints& Attrs::ints(const std::string& key) const { return need<Ints>(find(key), key, "list of integers"); }
DType Attrs::dtype(const std::string& key) const { return need<DType>(find(key), key, "type"); }
double Attrs::number(const std::string& key) const {
  const Attr* attr = find(key);
  if (attr && attr->get<std::int64_t>()) return static_cast<double>(*attr->get<std::int64_t>());
  return need<double>(attr, key, "number");
}

std::string Attrs::str() const {
  std::string text;
  for (const auto& [key, value] : entries_) text += cat(text.empty() ? "" : ", ", key, "=", value.str());
  return text;
}

namespace {

DType elementwise_dtype(const Call& call) {
  DType dtype = call.in[0].dtype;
  for (const TensorType& type : call.in) {
    if (type.dtype != dtype)
      throw Error(cat(call.op.name, ": inputs of different types ", call.in[0].str(), " and ", type.str(), "."));
  }
  if (call.op.result == ResultType::predicate) return boolean;
  if (call.op.result == ResultType::floating && !is_floating(dtype)) return f32;
  return dtype;
}

// All inputs of one type, broadcast against each other; the condition of a select may be bool.
std::vector<TensorType> elementwise_shape(const Call& call) {
  Shape shape = call.in[0].shape;
  for (const TensorType& type : call.in) shape = broadcast(shape, type.shape, call.op.name.c_str());
  return std::vector<TensorType>(call.op.exprs.size(), TensorType{elementwise_dtype(call), shape});
}

std::deque<OpRecord>& records() {
  static std::deque<OpRecord> all;  // a deque never moves what it holds
  return all;
}

}  // namespace

OpDef define(OpRecord record) {
  static std::mutex mutex;
  if (record.name.empty()) throw Error("define: an operator needs a name.");
  if (record.formula) {
    record.exprs = record.formula.on_inputs();
    record.arity = record.formula.arity();
    if (!record.shape) record.shape = elementwise_shape;
    if (!record.cost)
      record.cost = [code = expr::flatten(record.arity, record.exprs)](const Call& call,
                                                                       const std::vector<TensorType>& out) {
        Cost cost{static_cast<double>(code.instrs.size() - static_cast<std::size_t>(code.inputs)) *
                      static_cast<double>(out[0].shape.numel()),
                  0};
        for (const TensorType& type : call.in) cost.bytes += static_cast<double>(type.bytes());
        for (const TensorType& type : out) cost.bytes += static_cast<double>(type.bytes());
        return cost;
      };
  }
  if (!record.cost)
    record.cost = [](const Call& call, const std::vector<TensorType>& out) {
      Cost cost;
      for (const TensorType& type : call.in) cost.bytes += static_cast<double>(type.bytes());
      for (const TensorType& type : out) {
        cost.bytes += static_cast<double>(type.bytes());
        cost.flops += static_cast<double>(type.shape.numel());
      }
      return cost;
    };
  if (!record.shape) throw Error(cat("define: operator '", record.name, "' has neither a shape rule nor a formula."));
  const std::lock_guard lock(mutex);
  return OpDef(&records().emplace_back(std::move(record)));
}

OpDef elementwise(Elementwise e) {
  if (!e.formula) throw Error(cat("elementwise: operator '", e.name, "' has no formula."));
  OpRecord record;
  record.name = std::move(e.name);
  record.doc = std::move(e.doc);
  record.family = std::move(e.family);
  record.formula = std::move(e.formula);
  record.derivative = std::move(e.derivative);
  record.result = e.result;
  record.differentiable = e.differentiable;
  record.smooth = e.smooth;
  return define(std::move(record));
}

}  // namespace varve
