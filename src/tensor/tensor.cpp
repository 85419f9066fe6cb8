#include "varve/tensor.h"

#include <cstring>
#include <mutex>

#include "base/text.h"
#include "tensor/evaluator.h"
#include "tensor/trace.h"

namespace varve {
namespace {

void count(const ir::NodePtr& node, int index, int by) {
  if (node) node->slots[static_cast<std::size_t>(index)].handles.fetch_add(by, std::memory_order_relaxed);
}

// The value, computed if need be.
std::shared_ptr<const ir::Array> read(const ir::NodePtr& node, int index) {
  if (!node) throw Error("an undefined Tensor was read. Assign it a value first.");
  ir::Slot& slot = node->slots[static_cast<std::size_t>(index)];
  std::shared_ptr<const ir::Array> value = slot.value();
  if (!value) {
    if (RegionScope::current())
      throw Error(cat("a tensor was read inside a function of ", RegionScope::current(), " (", node->op->name, ", ",
                      node->types[static_cast<std::size_t>(index)].str(),
                      "), which is recorded, not run: nothing in it has a value. Return it, or read it outside."));
    if (Trace::current())
      throw Error(cat("a tensor was read inside a traced function (", node->op->name, ", ",
                      node->types[static_cast<std::size_t>(index)].str(),
                      "): it has no value yet. Return it from the function, or read it outside."));
    evaluate({{node, index}});
    value = slot.value();
  }
  if (value->storage->error) throw Error(*value->storage->error);
  return value;
}

}  // namespace

Tensor::Tensor(ir::Value value) : node_(std::move(value.node)), index_(value.index) { count(node_, index_, 1); }
Tensor::~Tensor() { count(node_, index_, -1); }
Tensor::Tensor(const Tensor& other) : node_(other.node_), index_(other.index_) { count(node_, index_, 1); }
Tensor::Tensor(Tensor&& other) noexcept : node_(std::move(other.node_)), index_(other.index_) {}
Tensor& Tensor::operator=(const Tensor& other) {
  count(other.node_, other.index_, 1);
  count(node_, index_, -1);
  node_ = other.node_;
  index_ = other.index_;
  return *this;
}
Tensor& Tensor::operator=(Tensor&& other) noexcept {
  if (this == &other) return *this;
  count(node_, index_, -1);
  node_ = std::move(other.node_);
  index_ = other.index_;
  return *this;
}

const TensorType& Tensor::type() const {
  if (!node_) throw Error("an undefined Tensor was used. Assign it a value first.");
  return node_->types[static_cast<std::size_t>(index_)];
}

std::int64_t Tensor::dim(int axis) const { return shape()[normalize_axis(axis, rank(), "dim")]; }
ir::Value Tensor::value() const { return {node_, index_}; }

const Tensor& Tensor::eval() const {
  read(node_, index_);
  return *this;
}

void eval(const std::vector<Tensor>& tensors) {
  std::vector<ir::Value> pending;
  for (const Tensor& tensor : tensors)
    if (tensor.defined() && !tensor.node()->slots[static_cast<std::size_t>(tensor.index())].value())
      pending.push_back(tensor.value());
  if (!pending.empty() && !Trace::current()) evaluate(pending);
  for (const Tensor& tensor : tensors) tensor.eval();  // says what is wrong with one of them
}

bool Tensor::ready() const {
  const std::shared_ptr<const ir::Array> value =
      node_ ? node_->slots[static_cast<std::size_t>(index_)].value() : nullptr;
  if (!value) return false;
  return !value->storage->is_far() || value->storage->remote()->ready();
}

const void* Tensor::data() const {
  std::shared_ptr<const ir::Array> array = read(node_, index_);
  if (array->contiguous()) return array->data();
  const std::lock_guard lock(ir::graph_mutex());  // one copy, however many threads ask for it
  array = node_->slots[static_cast<std::size_t>(index_)].value();
  if (array->contiguous()) return array->data();
  auto copy = ir::new_array(array->type);
  ir::read_elements(*array, copy->storage->data(), array->type.dtype);
  node_->slots[static_cast<std::size_t>(index_)].publish(copy);
  return copy->data();
}

void Tensor::read_raw(void* out, DType dtype) const { ir::read_elements(*read(node_, index_), out, dtype); }

namespace detail {
Tensor from_bytes(const void* data, TensorType type) {
  auto array = ir::new_array(type);
  if (type.bytes()) std::memcpy(array->storage->data(), data, type.bytes());
  return Tensor(ir::Value{ir::constant_node(array), 0});
}
}  // namespace detail

Tensor from_memory(const void* data, TensorType type, std::function<void()> release) {
  if (!data && type.bytes()) throw Error("from_memory: the pointer is null.");
  auto array = std::make_shared<ir::Array>();
  array->type = type;
  array->layout = contiguous(type.shape);
  // Never written: a program that updates a variable copies it first.
  array->storage = std::make_shared<ir::Storage>(
      type.bytes(), const_cast<void*>(data), release ? std::move(release) : [] {});
  return Tensor(ir::Value{ir::constant_node(array), 0});
}

}  // namespace varve
