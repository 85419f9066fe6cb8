#include "runtime/piecewise.h"

#include "base/text.h"
#include "base/threads.h"
#include "compiler/pipeline.h"
#include "runtime/engine.h"
#include "runtime/moves.h"
#include "runtime/residence.h"

namespace varve::runtime {
namespace {

// One call with inputs of its own.
ir::Graph graph_of_call(const ir::Node& node) {
  ir::Graph graph;
  std::vector<ir::Value> inputs;
  for (const ir::Value& input : node.inputs) {
    graph.inputs.push_back(ir::input_node(input.type(), "operand"));
    inputs.push_back({graph.inputs.back(), 0});
  }
  const ir::NodePtr copy = ir::with_inputs(node, std::move(inputs));
  for (int i = 0; i < static_cast<int>(node.types.size()); ++i) graph.outputs.push_back({copy, i});
  return graph;
}

}  // namespace

// The values of one run, each kept until its last reader has run.
class Piecewise::Run {
 public:
  Run(Piecewise& pieces, const Pending& pending, const backend::Backend& backend, const std::string& device)
      : pieces_(pieces), pending_(pending), backend_(backend) {
    prefix_.add(device);
    prefix_.add(static_cast<std::uint64_t>(threads()) * 2 + deterministic());
    for (const ir::Value& leaf : pending.leaves) {
      leaves_.push_back(leaf.node->slots[static_cast<std::size_t>(leaf.index)].value());
      if (!error_) error_ = leaves_.back()->storage->error;
    }
    for (const ir::NodePtr& scalar : pending.scalars) scalars_.push_back(scalar_array(*scalar));
    values_.resize(pending.nodes.size());
    readers_.assign(pending.nodes.size(), 0);
    const auto count = [&](const PendingInput& input) {
      if (input.kind == PendingInput::Kind::node) ++readers_[static_cast<std::size_t>(input.at)];
    };
    for (const PendingInput& input : pending.inputs) count(input);
    for (const PendingInput& output : pending.output_places) count(output);
  }

  std::vector<ArrayPtr> all() {
    for (std::size_t n = 0; n < pending_.nodes.size(); ++n) {
      compute(n);
      in_.clear();  // so that who is read no more is held no more
      for (std::size_t i = 0; i < pending_.input_count(n); ++i) let_go(pending_.inputs_of(n)[i]);
    }
    if (device_) wait();
    std::vector<ArrayPtr> outputs;
    for (const PendingInput& output : pending_.output_places) outputs.push_back(noted(value(output)));
    return outputs;
  }

 private:
  ArrayPtr value(const PendingInput& at) const {
    const auto index = static_cast<std::size_t>(at.at);
    if (at.kind == PendingInput::Kind::leaf) return leaves_[index];
    if (at.kind == PendingInput::Kind::scalar) return scalars_[index];
    return values_[index][static_cast<std::size_t>(at.output)];
  }

  void let_go(const PendingInput& input) {
    if (input.kind != PendingInput::Kind::node) return;
    const auto index = static_cast<std::size_t>(input.at);
    if (--readers_[index] != 0) return;
    for (ArrayPtr& value : values_[index])
      if (value) pieces_.take_back(std::move(value));
    values_[index].clear();
  }

  void compute(std::size_t n) {
    const ir::Node& node = *pending_.nodes[n];
    in_.clear();
    for (std::size_t i = 0; i < pending_.input_count(n); ++i) in_.push_back(value(pending_.inputs_of(n)[i]));
    if (is_view(n, node) || moves(n, node)) return;
    Piece& piece = pieces_.piece(key_of(node), node, in_, backend_);
    Execution& execution = *piece.execution;
    device_ = execution.plan().device;
    pieces_.bind_arena(execution);
    for (std::size_t i = 0; i < in_.size(); ++i) execution.bind_input(static_cast<int>(i), address(*in_[i], device_));
    for (std::size_t o = 0; o < node.types.size(); ++o) {
      values_[n].push_back(pieces_.new_value(node.types[o], device_));
      execution.bind_output(static_cast<int>(o), address(*values_[n].back(), device_));
    }
    const Alone alone(piece.tiny);
    execution.run();
    ++pieces_.report_.calls;
    if (!device_ && execution.errors().set()) fail(execution.errors());
  }

  // The same elements with other strides: nothing runs.
  bool is_view(std::size_t n, const ir::Node& node) {
    if (!node.op->view) return false;
    const std::vector<TensorType> types = ir::input_types(node);
    const std::optional<Layout> layout = node.op->view({*node.op, types, node.attrs}, in_[0]->layout, node.types[0]);
    if (!layout) return false;
    values_[n].push_back(std::make_shared<ir::Array>(ir::Array{node.types[0], *layout, in_[0]->storage}));
    ++pieces_.report_.moves;
    return true;
  }

  bool moves(std::size_t n, const ir::Node& node) {
    if (device_ || !only_moves(node)) return false;
    const std::shared_ptr<ir::Array> out = pieces_.new_value(node.types[0], nullptr);
    if (!move_rows(node, in_, *out)) return false;
    values_[n].push_back(out);
    ++pieces_.report_.moves;
    return true;
  }

  ir::Fingerprint key_of(const ir::Node& node) const {
    ir::Fingerprint print = prefix_;
    print.add_call(node);
    print.add(in_.size());
    for (const ArrayPtr& operand : in_) {
      print.add(operand->type);
      if (!operand->contiguous()) print.add(operand->layout.strides);
    }
    return print;
  }

  [[noreturn]] void fail(backend::ErrorWord& errors) const {
    const std::string text = errors.text();
    errors.clear();
    throw Error(text);
  }

  void wait() {
    device_->wait();
    for (const ArrayPtr& leaf : leaves_)  // a user's own memory may change behind our back: no copy of it is kept
      if (leaf->storage->release) leaf->storage->written_here();
    if (backend::ErrorWord& errors = *pieces_.device_errors_.at(device_); errors.set()) fail(errors);
  }

  // What came of a value that was computed wrongly is told with every result.
  ArrayPtr noted(const ArrayPtr& array) const {
    if (error_ && !array->storage->error) array->storage->error = error_;
    return array;
  }

  Piecewise& pieces_;
  const Pending& pending_;
  const backend::Backend& backend_;
  ir::Fingerprint prefix_;
  std::vector<ArrayPtr> leaves_, scalars_, in_;
  std::vector<std::vector<ArrayPtr>> values_;  // of each node
  std::vector<int> readers_;
  std::shared_ptr<const std::string> error_;
  backend::Device* device_ = nullptr;
};

std::vector<std::shared_ptr<const ir::Array>> Piecewise::run(const Pending& pending, const backend::Backend& backend,
                                                             const std::string& device) {
  report_ = {};
  errors_.clear();
  return Run(*this, pending, backend, device).all();
}

std::shared_ptr<ir::Array> Piecewise::new_value(const TensorType& type, backend::Device* device) {
  const auto known = device ? free_.end() : free_.find(type.bytes());
  if (known == free_.end() || known->second.empty()) return new_array(type, device);
  auto array = std::make_shared<ir::Array>(ir::Array{type, contiguous(type.shape), std::move(known->second.back())});
  known->second.pop_back();
  free_bytes_ -= array->storage->bytes;
  return array;
}

void Piecewise::take_back(ArrayPtr value) {
  if (value.use_count() > 1 || value->storage.use_count() > 1) return;  // a view, or an output, is still to be read
  const std::shared_ptr<ir::Storage>& storage = value->storage;
  if (storage->release || storage->made_there || storage->remote() || storage->error) return;
  if (free_bytes_ + storage->bytes > kMostFreeBytes) return;
  free_bytes_ += storage->bytes;
  free_[storage->bytes].push_back(storage);
}

void Piecewise::clear() {
  free_.clear();
  free_bytes_ = 0;
  index_.clear();
  order_.clear();
  arena_ = nullptr;
}

Piecewise::Piece& Piecewise::piece(const ir::Fingerprint& key, const ir::Node& node, const std::vector<ArrayPtr>& in,
                                   const backend::Backend& backend) {
  if (const auto known = index_.find(key); known != index_.end()) {
    order_.splice(order_.begin(), order_, known->second);
    return order_.front();
  }
  std::vector<Layout> layouts;
  for (const ArrayPtr& operand : in) {
    layouts.push_back(operand->layout);
    layouts.back().offset = 0;
  }
  const ir::Graph graph = graph_of_call(node);
  const bool tiny = is_tiny(ir::topological(graph));
  const Alone alone(tiny);
  auto execution = std::make_unique<Execution>(compiler::compile(graph, backend, std::move(layouts)), false, false);
  if (backend::Device* const device = execution->plan().device) {
    std::unique_ptr<backend::ErrorWord>& errors = device_errors_[device];
    if (!errors) {
      errors = std::make_unique<backend::ErrorWord>();
      device->share(*errors);
    }
    execution->share_errors(errors.get());
  } else {
    execution->share_errors(&errors_);
  }
  order_.push_front({key, std::move(execution), tiny});
  index_[key] = order_.begin();
  ++report_.compiled;
  if (order_.size() > kMostPieces) {
    index_.erase(order_.back().key);
    order_.pop_back();
  }
  return order_.front();
}

void Piecewise::bind_arena(Execution& execution) {
  const std::size_t bytes = execution.plan().arena_bytes;
  if (!bytes) return;
  backend::Device* const device = execution.plan().device;
  if (!arena_ || arena_->bytes < bytes || arena_device_ != device) {
    arena_ = nullptr;  // first give back, then take
    arena_ = new_storage(bytes, device);
    arena_device_ = device;
  }
  execution.bind_arena(address(*arena_, device));
}

}  // namespace varve::runtime
