#include "ir/node.h"

namespace varve::ir {
namespace {

std::atomic<std::uint64_t> newest_id{0};
thread_local Origin current_origin;

OpRecord leaf(const char* name, const char* doc) {
  OpRecord record;
  record.name = name;
  record.doc = doc;
  record.family = "leaf";
  record.arity = 0;
  record.pure = false;
  record.differentiable = false;
  record.shape = [](const Call&) { return std::vector<TensorType>(); };
  return record;
}

}  // namespace

const OpRecord& input_op() {
  static const OpRecord& record = define(leaf("input", "An argument or variable of a program.")).record();
  return record;
}

const OpRecord& constant_op() {
  static const OpRecord& record = define(leaf("constant", "A value known before the program runs.")).record();
  return record;
}

std::uint64_t next_id() { return newest_id.load(std::memory_order_relaxed) + 1; }

void Node::set_stand_ins(std::vector<Value> values) {
  for (const Value& value : values)
    value.node->slots[static_cast<std::size_t>(value.index)].handles.fetch_add(1, std::memory_order_relaxed);
  for (const Value& value : stand_ins_)
    value.node->slots[static_cast<std::size_t>(value.index)].handles.fetch_sub(1, std::memory_order_relaxed);
  stand_ins_ = std::move(values);
}

Node::~Node() {
  if (!stand_ins_.empty()) set_stand_ins({});
  // Inputs that only this node held are unlinked one by one, not by recursion.
  static thread_local std::vector<NodePtr>* pending = nullptr;
  if (pending) {
    for (Value& input : inputs) pending->push_back(std::move(input.node));
    return;
  }
  std::vector<NodePtr> work;
  pending = &work;
  for (Value& input : inputs) work.push_back(std::move(input.node));
  inputs.clear();
  while (!work.empty()) {
    const NodePtr last = std::move(work.back());
    work.pop_back();
  }
  pending = nullptr;
}

NodePtr make_node(const OpRecord& op, std::vector<Value> inputs, Attrs attrs, std::vector<TensorType> types) {
  auto node = std::make_shared<Node>();
  node->id = newest_id.fetch_add(1, std::memory_order_relaxed) + 1;
  node->op = &op;
  node->attrs = std::move(attrs);
  node->inputs = std::move(inputs);
  node->types = std::move(types);
  node->slots = std::make_unique<Slot[]>(node->types.size());
  node->origin = current_origin;
  return node;
}

NodePtr constant_node(std::shared_ptr<const Array> array) {
  NodePtr node = make_node(constant_op(), {}, {}, {array->type});
  node->slots[0].publish(std::move(array));
  return node;
}

NodePtr input_node(const TensorType& type, const std::string& name) {
  return make_node(input_op(), {}, {{"name", name}}, {type});
}

NodePtr with_inputs(const Node& node, std::vector<Value> inputs) {
  NodePtr copy = make_node(*node.op, std::move(inputs), node.attrs, node.types);
  copy->regions = node.regions;
  copy->extension = node.extension;
  copy->origin = node.origin;
  return copy;
}

std::vector<TensorType> input_types(const Node& node) {
  std::vector<TensorType> types;
  types.reserve(node.inputs.size());
  for (const Value& input : node.inputs) types.push_back(input.type());
  return types;
}

std::recursive_mutex& graph_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

Visit::Visit() {
  static std::uint64_t visits = 0;
  number_ = ++visits;
}

OriginScope::OriginScope(Origin origin) : saved_(std::exchange(current_origin, std::move(origin))) {}
OriginScope::~OriginScope() { current_origin = std::move(saved_); }
const Origin& OriginScope::current() { return current_origin; }

}  // namespace varve::ir
