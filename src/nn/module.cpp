#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "nn/state.h"
#include "varve/autodiff.h"
#include "varve/distributed.h"

namespace varve::nn {
namespace {

thread_local Watch* innermost_watch = nullptr;

// An operator's error with the module it happened in before it. Modules further out leave it alone.
struct LocatedError : Error {
  using Error::Error;
};

// Operators and layers of the same name begin their messages alike: `conv2d: …` becomes `conv2d "stem": …`.
LocatedError located(const std::string& where, const std::string& kind, const std::string& what) {
  if (what.starts_with(where)) return LocatedError(what);
  if (what.starts_with(kind + ": ")) return LocatedError(where + what.substr(kind.size()));
  return LocatedError(where + ": " + what);
}

// Of a layer that is called for the first time inside a trace.
Error too_late(const std::string& where, const std::string& variable) {
  return Error(where + ": has no '" + variable +
               "' yet, and inside a compiled function it is too late to make it.\n"
               "  Call model.build({…}) with the shape of a sample, or run one batch, before compile.");
}

std::recursive_mutex& making_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

void set_wide(Module::State& tree) {
  tree.wide = true;
  for (const auto& [name, child] : tree.children) set_wide(*child);
}

// y, whose gradient the hooks see, the last one first: as in a backward pass.
Tensor with_gradient_hooks(const std::string& path, const Tensor& y,
                           const std::vector<Module::State::GradientHooked>& hooks) {
  if (!is_floating(y.dtype())) return y;
  Tensor seen = y;
  for (const Module::State::GradientHooked& each : hooks) {
    const auto through =
        custom_gradient([](const std::vector<Tensor>& in) { return in; },
                        [path, hook = each.hook](const std::vector<Tensor>&, const std::vector<Tensor>&,
                                                 const std::vector<Tensor>& dys) {
                          const Tensor answer = hook(path, dys[0]);
                          if (!answer.defined()) return dys;
                          if (answer.type() != dys[0].type())
                            throw Error("hook_gradient: the answer is " + answer.type().str() + ", the gradient " +
                                        dys[0].type().str() + ".");
                          return std::vector<Tensor>{answer};
                        });
    seen = through({seen})[0];
  }
  carry_flattened(y, seen);
  return seen;
}

bool holds(const Module::State& tree, const Module::State* wanted) {
  if (&tree == wanted) return true;
  for (const auto& [name, child] : tree.children)
    if (holds(*child, wanted)) return true;
  return false;
}

// Lists of hooks are replaced as a whole, since calls may be on their way.
template <class Hooked>
void push_hook(std::shared_ptr<const std::vector<Hooked>>& hooks, Hooked hooked) {
  const auto old = std::atomic_load(&hooks);
  auto all = old ? std::make_shared<std::vector<Hooked>>(*old) : std::make_shared<std::vector<Hooked>>();
  all->push_back(std::move(hooked));
  std::atomic_store(&hooks, std::shared_ptr<const std::vector<Hooked>>(std::move(all)));
}

template <class Hooked>
void erase_hook(std::shared_ptr<const std::vector<Hooked>>& hooks, std::int64_t number) {
  const auto old = std::atomic_load(&hooks);
  if (!old) return;
  auto all = std::make_shared<std::vector<Hooked>>(*old);
  std::erase_if(*all, [&](const Hooked& each) { return each.number == number; });
  std::atomic_store(&hooks, all->empty() ? nullptr : std::shared_ptr<const std::vector<Hooked>>(std::move(all)));
}

}  // namespace

Module::State::Entry* Module::State::find(const std::string& variable) {
  for (Entry& entry : variables)
    if (entry.name == variable) return &entry;
  return nullptr;
}

namespace {

// Of a sample: without the axis of the batch.
std::vector<Field> samples_of(const Tensors& batch) {
  std::vector<Field> fields = batch.fields();
  for (Field& field : fields) {
    const std::vector<std::int64_t>& sizes = field.type.shape.vec();
    if (!sizes.empty()) field.type.shape = Shape(std::vector<std::int64_t>(sizes.begin() + 1, sizes.end()));
  }
  return fields;
}

}  // namespace

void Module::State::first_call(const Module& module, const Tensors& x, const Tensors& y) {
  kind = module.kind();
  inputs = samples_of(x);
  outputs = samples_of(y);
  apply_patterns();
  called = true;
}

Module::Module() : state_(std::make_shared<State>()) {}

std::string Module::where() const {
  const std::string path = Frame::current() ? Frame::current()->path() : state_->name;
  return path.empty() ? kind() : kind() + " \"" + path + "\"";
}

Tensor Module::forward(Tensor, Mode) {
  throw Error(where() + ": has no forward() of one input and one output. Call it as a function, with vv::Tensors.");
}

Tensors Module::forward_all(const Tensors& x, Mode mode) {
  if (x.size() != 1)
    throw Error("expected one input, got " + std::to_string(x.size()) + " (" + x.str() +
                "). A module of several inputs overrides forward_all().");
  return forward(x[0], mode);
}

Masked Module::masked_forward(Tensor, Mode, const Mask&) {
  throw Error(where() + ": says that it uses masks; override masked_forward(x, mode, mask).");
}

namespace {

std::vector<Mask> masks_of(const Tensors& values) {
  std::vector<Mask> masks;
  for (const auto& [name, tensor] : values) masks.push_back(Frame::mask_of(tensor));
  return masks;
}

}  // namespace

Tensor Module::operator()(const Tensor& x, Mode mode) { return masked(x, mode, Frame::mask_of(x)).y; }
Tensor Module::operator()(const Tensor& x, Mode mode, const Mask& mask) { return masked(x, mode, mask).y; }
Tensors Module::operator()(const Tensors& x, Mode mode) { return call(x, mode, masks_of(x)).y; }
Tensors Module::operator()(const Tensors& x, Mode mode, const std::vector<Mask>& masks) {
  return masked_all(x, mode, masks).y;
}

Masked Module::masked(const Tensor& x, Mode mode, const Mask& mask) {
  const MaskedTensors all = call(x, mode, {mask});
  if (all.y.size() == 1) return {all.y[0], all.masks[0]};
  throw Error(where() + ": gives " + std::to_string(all.y.size()) + " outputs (" + all.y.str() +
              "). Call it with vv::Tensors(x), and take them by name or place.");
}

MaskedTensors Module::masked_all(const Tensors& x, Mode mode, const std::vector<Mask>& masks) {
  if (masks.size() > x.size())
    throw Error(where() + ": got " + std::to_string(masks.size()) + " masks for " + std::to_string(x.size()) +
                " inputs (" + x.str() + ").");
  std::vector<Mask> each = masks;
  each.resize(x.size());
  return call(x, mode, each);
}

// Names and places of the first call hold for all later ones; shapes are the layers' own affair.
Tensors Module::expected(const Tensors& x) const {
  const std::vector<Field>& known = state_->inputs;
  if (!state_->called || (known.size() == 1 && x.size() == 1)) return x;
  return x.as(known, where() + ": inputs of a sample");
}

// What it does with masks decides how its forward pass is called.
MaskedTensors Module::run(const Tensors& x, Mode mode, const std::vector<Mask>& masks) {
  bool any = false;
  for (std::size_t i = 0; i < masks.size(); ++i) {
    if (masks[i].defined()) check_mask(where(), masks[i], x[i]);
    any = any || masks[i].defined();
  }
  const Masking what = x.size() == 1 ? masking() : Masking::along;
  if (what == Masking::along) {
    if (any || Frame::knows_masks())
      for (std::size_t i = 0; i < masks.size(); ++i) Frame::know(x[i], masks[i]);
    const Tensors y = forward_all(x, mode);
    return {y, masks_of(y)};
  }
  Frame::give_masks();
  if (what == Masking::uses) {
    Masked result = masked_forward(x[0], mode, masks[0]);
    return {result.y, {result.mask}};
  }
  if (any && what == Masking::refuses)
    throw Error(where() +
                ": some of its input's steps are padding, and it would take them for data. Pool over time before it "
                "(mean_steps, max_steps, last_step), or drop the mask with an unmask layer.");
  if (any && x[0].rank() < 3)
    throw Error(where() + ": expected a masked input [N, T, features], got " + x[0].shape().str() +
                ": it would mix steps with each other.");
  return {forward_all(x, mode), masks};
}

MaskedTensors Module::located_run(const Tensors& given, Mode mode, const std::vector<Mask>& masks) {
  try {
    for (const auto& [name, tensor] : given)
      if (!tensor.defined())
        throw Error("the input" + (name.empty() ? "" : " \"" + name + '"') + " is an undefined Tensor.");
    const Tensors x = expected(given);
    std::vector<Mask> ordered;
    for (const auto& [name, tensor] : x)
      for (std::size_t i = 0; i < given.size(); ++i)
        if (given[i].node() == tensor.node() && given[i].index() == tensor.index()) {
          ordered.push_back(masks[i]);
          break;
        }
    MaskedTensors result = run(x, mode, ordered);
    if (result.y.empty()) throw Error("forward_all() returned no Tensor.");
    for (const auto& [name, tensor] : result.y)
      if (!tensor.defined())
        throw Error("forward() returned an undefined Tensor" + (name.empty() ? "." : " as \"" + name + "\"."));
    return result;
  } catch (const LocatedError&) {
    throw;
  } catch (const Error& error) {
    throw located(where(), kind(), error.what());
  }
}

Tensor Module::seen(const Tensors& x, const Tensors& all, std::size_t output) const {
  Tensor y = all[output];
  if (const auto hooks = std::atomic_load(&state_->gradient_hooks))
    y = with_gradient_hooks(Frame::current()->path(), y, *hooks);
  if (const auto hooks = std::atomic_load(&state_->hooks))
    for (const State::Hooked& each : *hooks)
      if (const Tensor changed = each.hook(*this, x[0], y); changed.defined()) {
        carry_flattened(y, changed);
        y = changed;
      }
  if (!innermost_watch) return y;
  // What the watch calls is not watched by it again.
  Watch* const watch = std::exchange(innermost_watch, innermost_watch->outer_);
  struct Restore {
    Watch* watch;
    ~Restore() { innermost_watch = watch; }
  } const restore{watch};
  const Frame* frame = Frame::current();
  const Tensor changed = watch->see_({*this, frame->path(), frame->depth(), x[0], y, x, all, output});
  carry_flattened(y, changed);
  return changed;
}

// `masks` are those of x, one of each.
MaskedTensors Module::call(const Tensors& x, Mode mode, const std::vector<Mask>& masks) {
  // The first call makes variables: one thread at a time, whatever part of a model it calls.
  std::unique_lock<std::recursive_mutex> making;
  if (!state_->called) making = std::unique_lock(making_mutex());
  std::optional<Frame> frame(std::in_place, *this);
  const Wide wide(state_->wide);
  if (x.empty()) throw Error(where() + ": expected at least one input.");
  MaskedTensors result = located_run(x, mode, masks);
  Tensors& y = result.y;
  if (!state_->called) state_->first_call(*this, x, y);
  if (innermost_watch || std::atomic_load(&state_->hooks) || std::atomic_load(&state_->gradient_hooks))
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = seen(x, y, i);
  frame.reset();
  for (std::size_t i = 0; i < y.size(); ++i)
    if (result.masks[i].defined() || Frame::knows_masks()) Frame::know(y[i], result.masks[i]);
  return result;
}

void Module::build(const Shape& sample, const BuildOptions& options) {
  build_all({{"", {options.dtype, sample}}}, options);
}

void Module::build_all(const std::vector<Field>& sample, const BuildOptions& options) {
  if (tracing()) throw Error(where() + ": build() inside a compiled function; call it before.");
  if (options.batch < 1)
    throw Error(where() + ": build: the batch is " + std::to_string(options.batch) + "; expected 1 or more.");
  Tensors batch;
  bool wide = false;
  for (const auto& [name, type] : sample) {
    Shape rows{options.batch};
    for (const std::int64_t size : type.shape) {
      if (size < 1) throw Error(where() + ": build: sample shape " + type.shape.str() + " has a size below 1.");
      rows.push_back(size);
    }
    batch.add(name, zeros(rows, type.dtype));
    wide = wide || type.dtype == f64;
  }
  Tensors outputs;
  {
    if (wide) set_wide(*state_);
    const DryRun dry(options.seed);
    outputs = (*this)(batch, Mode::infer);
  }
  std::vector<Variable> renamed;
  each_entry(*state_, [&](const std::string& path, State::Entry& entry) {
    for (const Variable& done : renamed)
      if (done.same(entry.variable)) return;  // a tied one keeps the first of its names
    entry.variable.rename(path);
    renamed.push_back(entry.variable);
  });
  state_->inputs = samples_of(batch);
  state_->outputs = samples_of(outputs);
}

void Module::add(const std::string& name, Module& child) {
  if (name.empty() || name.find('.') != std::string::npos)
    throw Error(kind() + ": a module inside it cannot be named '" + name + "': names are not empty and have no dot.");
  for (const auto& [taken, state] : state_->children)
    if (taken == name) throw Error(kind() + ": has two modules named '" + name + "'.");
  if (holds(*child.state_, state_.get())) throw Error(kind() + ": cannot hold itself as '" + name + "'.");
  child.state_->name = name;
  child.state_->kind = child.kind();
  state_->children.emplace_back(name, child.state_);
}

void Module::remove(const std::string& name) {
  std::erase_if(state_->children, [&](const auto& child) { return child.first == name; });
  std::erase_if(state_->variables, [&](const State::Entry& entry) { return entry.name == name; });
}

std::optional<TensorType> Module::input() const {
  if (!state_->called) return std::nullopt;
  return state_->inputs[0].type;
}

std::vector<Field> Module::inputs() const { return state_->called ? state_->inputs : std::vector<Field>{}; }
std::vector<Field> Module::outputs() const { return state_->called ? state_->outputs : std::vector<Field>{}; }

std::int64_t Module::hook(Hook hook) {
  if (!hook) throw Error(kind() + ": hook: the function is empty.");
  push_hook(state_->hooks, {++state_->hooked, std::move(hook)});
  return state_->hooked;
}

std::int64_t Module::hook_gradient(GradientHook hook) {
  if (!hook) throw Error(kind() + ": hook_gradient: the function is empty.");
  push_hook(state_->gradient_hooks, {++state_->hooked, std::move(hook)});
  return state_->hooked;
}

void Module::unhook(std::int64_t number) {
  erase_hook(state_->hooks, number);
  erase_hook(state_->gradient_hooks, number);
}

void Module::learns_size() { state_->learns_size = true; }

Variable Module::parameter(const std::string& name, const Shape& shape, const Initializer& initial) {
  return parameter(name, shape, initial, {});
}

Variable Module::parameter(const std::string& name, const Shape& shape, const Initializer& initial,
                           const ParameterOptions& options) {
  if (const State::Entry* made = state_->find(name)) {
    if (made->variable.shape() != shape)
      throw Error(where() + ": '" + name + "' has shape " + made->variable.shape().str() + ", this input needs " +
                  shape.str() + ".");
    return made->variable;
  }
  if (tracing()) throw too_late(where(), name);
  const std::string path = join_path(Frame::current() ? Frame::current()->path() : state_->name, name);
  const int rank = Scope::rank();
  const Scope everywhere("", Scope::kEveryRank);
  const Tensor values =
      initial(shape, options.fans, {.seed = DryRun::seed(), .stream = path, .dtype = Wide::current() ? f64 : f32});
  if (values.shape() != shape)
    throw Error(where() + ": the initialiser of '" + name + "' gave shape " + values.shape().str() + " for " +
                shape.str() + ".");
  const Variable variable(path, (Wide::current() ? values.to(f64) : values).eval());
  if (rank >= 0) distributed::place({variable}, rank);
  state_->variables.push_back({name, variable, true, options.foreign, false, options.cut});
  if (rank < 0) state_->variables.back().divide(state_->split);
  return variable;
}

Variable Module::buffer(const std::string& name, const Tensor& given) {
  const Tensor initial = Wide::current() && is_floating(given.dtype()) ? given.to(f64) : given;
  State::Entry* made = state_->find(name);
  // Another build may give what is carried another batch size.
  const bool again = made && made->carried && made->variable.type() != initial.type() && DryRun::building();
  if (made && !again) {
    if (made->variable.type() != initial.type())
      throw Error(where() + ": '" + name + "' is " + made->variable.type().str() + ", this input needs " +
                  initial.type().str() + ".");
    return made->variable;
  }
  if (tracing()) throw too_late(where(), name);
  const std::string path = join_path(Frame::current() ? Frame::current()->path() : state_->name, name);
  const int rank = Scope::rank();
  const Scope everywhere("", Scope::kEveryRank);
  const Variable variable(path, initial.eval(), false);
  if (rank >= 0) distributed::place({variable}, rank);
  if (again)
    made->variable = variable;
  else
    state_->variables.push_back({name, variable, false});
  return variable;
}

Variable Module::carried(const std::string& name, const Tensor& initial) {
  const Variable variable = buffer(name, initial);
  state_->find(name)->carried = true;
  return variable;
}

void Module::share(const std::string& name, const Variable& variable) {
  if (const State::Entry* made = state_->find(name)) {
    if (!made->variable.same(variable)) throw Error(where() + ": '" + name + "' is a variable already.");
    return;
  }
  state_->variables.push_back({name, variable});
}

Watch::Watch(std::function<Tensor(const Call&)> see) : see_(std::move(see)), outer_(innermost_watch) {
  innermost_watch = this;
}
Watch::~Watch() { innermost_watch = outer_; }

}  // namespace varve::nn
