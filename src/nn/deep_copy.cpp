// A model copied as a whole. Modules are copied by their own constructors; while that goes on, a copy of a variable, of
// a module's state or of a layer is another one, each made once, so that what was shared inside the model stays shared.
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "nn/state.h"
#include "varve/distributed.h"

namespace varve::nn {
namespace {

using State = Module::State;

class DeepCopy : public varve::detail::Copying {
 public:
  DeepCopy() : outer_(std::exchange(varve::detail::copying, this)) {}
  ~DeepCopy() override { varve::detail::copying = outer_; }
  DeepCopy(const DeepCopy&) = delete;
  DeepCopy& operator=(const DeepCopy&) = delete;

  // Only this file makes them.
  static DeepCopy* current() { return static_cast<DeepCopy*>(varve::detail::copying); }

  Variable variable(const Variable& original) override {
    if (!original.state()) return {};
    const Paused paused;
    const auto made = variables_.find(original.state().get());
    if (made != variables_.end()) return made->second;
    if (distributed::is_sharded(original) || distributed::is_split(original) || distributed::placed_on(original) >= 0)
      throw Error("deep_copy: '" + original.name() +
                  "' is kept in parts, or on one rank: copy the model before it is placed.");
    Variable copy(original.name(), original.value().eval(), original.trainable());
    variables_.emplace(original.state().get(), copy);
    variables_.emplace(copy.state().get(), copy);  // a copy of the copy is itself
    return copy;
  }

  // Of a module that is being copied.
  std::shared_ptr<State> module(const std::shared_ptr<State>& original) {
    const std::shared_ptr<State> copy = state(original);
    copied_.insert(original.get());
    copied_.insert(copy.get());
    return copy;
  }

  Layer layer(const Layer& original) {
    if (!original) return nullptr;
    const auto made = layers_.find(original.get());
    if (made != layers_.end()) return made->second;
    const copies::Copier copier = original->state()->copier;
    if (!copier)
      throw Error("deep_copy: " + original->kind() + " \"" + original->state()->name +
                  "\" cannot be copied: its class has no copy constructor, or it was not made by nn::layer().");
    Layer copy = copier(*original);
    layers_.emplace(original.get(), copy);
    layers_.emplace(copy.get(), copy);
    return copy;
  }

  // A child whose module was not copied is still in use by the copy.
  void check(const State& root, const std::string& path) const {
    for (const auto& [name, child] : root.children) {
      const std::string at = join_path(path, name);
      if (!copied_.count(child.get()))
        throw Error(
            "deep_copy: the module \"" + at + "\" (" + child->kind +
            ") is held by a pointer, which both models would share: hold it as a member or as an nn::HeldLayer.");
      check(*child, at);
    }
  }

 private:
  struct Paused {
    Copying* saved = std::exchange(varve::detail::copying, nullptr);
    ~Paused() { varve::detail::copying = saved; }
  };

  std::shared_ptr<State> state(const std::shared_ptr<State>& original) {
    const auto made = states_.find(original.get());
    if (made != states_.end()) return made->second;
    auto copy = std::make_shared<State>();
    states_.emplace(original.get(), copy);
    states_.emplace(copy.get(), copy);
    copy->name = original->name;
    copy->kind = original->kind;
    copy->variables = original->variables;  // other ones, by their copy constructor
    copy->learns_size = original->learns_size;
    copy->called = original->called.load();
    copy->rank = original->rank;
    copy->split = original->split;
    copy->patterns = original->patterns;
    copy->inputs = original->inputs;
    copy->outputs = original->outputs;
    copy->hooks = std::atomic_load(&original->hooks);
    copy->gradient_hooks = std::atomic_load(&original->gradient_hooks);
    copy->hooked = original->hooked;
    copy->copier = original->copier;
    copy->wide = original->wide;
    for (const auto& [name, child] : original->children) copy->children.emplace_back(name, state(child));
    return copy;
  }

  Copying* outer_;
  std::unordered_map<const Variable::State*, Variable> variables_;
  std::unordered_map<const State*, std::shared_ptr<State>> states_;
  std::unordered_map<const Module*, Layer> layers_;
  std::unordered_set<const State*> copied_;
};

}  // namespace

Module::Module(const Module& other)
    : state_(DeepCopy::current() ? DeepCopy::current()->module(other.state_) : other.state_) {}

HeldLayer::HeldLayer(const HeldLayer& other)
    : layer_(DeepCopy::current() ? DeepCopy::current()->layer(other.layer_) : other.layer_) {}

namespace copies {

Layer remember_copier(Layer layer, Copier copier) {
  layer->state()->copier = copier;
  return layer;
}

void deep_copy(const Module& module, const std::function<void()>& copy) {
  if (tracing()) throw Error("deep_copy: inside a compiled function; call it before.");
  const DeepCopy scope;
  copy();
  scope.check(*module.state(), "");
}

}  // namespace copies

Layer deep_copy(const Layer& layer) {
  if (!layer) throw Error("deep_copy: the layer is null.");
  Layer made;
  copies::deep_copy(*layer, [&] { made = DeepCopy::current()->layer(layer); });
  return made;
}

}  // namespace varve::nn
