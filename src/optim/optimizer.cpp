// An optimiser bound to parameters: clipping, groups, the rule, the assignments.
#include <algorithm>
#include <cmath>
#include <optional>

#include "optim/compressed.h"
#include "optim/named.h"
#include "optim/rows.h"
#include "optim/sharded.h"
#include "varve/compile.h"
#include "varve/distributed.h"
#include "varve/optim.h"

namespace varve::optim {
namespace {

// What the groups make of one parameter, and what is remembered for it.
struct Member {
  Variable parameter;
  std::vector<Variable> state;
  double rate_factor = 1, weight_decay = 0;
  // In a loop without compile: the update of the rows that were read, in place.
  std::shared_ptr<Compiled<void, 3>> rows_step = nullptr;
};

std::string quoted(const std::string& name) { return "\"" + name + "\""; }

void check_parameter(const std::string& optimizer, const Variable& parameter, const std::vector<Member>& before) {
  const DType dtype = parameter.type().dtype;
  if (dtype != f32 && dtype != f64)
    throw Error(optimizer + ": parameter " + quoted(parameter.name()) + " is " + parameter.type().str() +
                "; only f32 and f64 can be learnt: keep a wide copy and cast it in the network.");
  for (const Member& member : before) {
    if (member.parameter.same(parameter))
      throw Error(optimizer + ": parameter " + quoted(parameter.name()) + " is given twice.");
  }
}

// A parameter that lives on one rank is updated there.
Scope where_it_lives(const Member& member) { return Scope("", distributed::placed_on(member.parameter)); }

// What all ranks have counts once; `part(i)`: each rank has its own part of gradient i.
template <class Part>
Tensor global_norm(const std::vector<Tensor>& gradients, Part part) {
  Tensor same, parts;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    Tensor& total = part(i) ? parts : same;
    const Tensor squares = sum(square(gradients[i])).to(f32);
    total = total.defined() ? total + squares : squares;
  }
  if (parts.defined()) parts = distributed::all_sum(parts);
  if (!same.defined() && !parts.defined()) return zeros({});
  return sqrt(!parts.defined() ? same : !same.defined() ? parts : same + parts);
}

template <class State>
State& bound(const std::shared_ptr<State>& state) {
  if (!state) throw Error("this optimiser is bound to no parameters yet: make it with adam().over(parameters).");
  return *state;
}

}  // namespace

struct Bound::State {
  Optimizer optimizer;
  distributed::Parallel parallel;
  // Parameters live on one rank or another: all ranks see the whole batch, and there is nothing to average.
  bool placed = false;
  std::vector<Variable> parameters;
  std::vector<Member> members;
  Variable rate, step;
  std::shared_ptr<Compressor> compressor = nullptr;  // among ranks, where gradients are compressed

  // Each rank updates its part of every parameter, and keeps that part of the moments.
  bool sharded() const { return distributed::size() > 1 && (parallel.shard_optimizer || parallel.shard_parameters); }
  using Rows = std::vector<std::optional<SummedRows>>;  // of each parameter that is a table of which rows were read
  std::vector<Tensor> checked(const std::vector<Tensor>& gradients, const Rows& rows) const;
  std::vector<Tensor> averaged(const std::vector<Tensor>& gradients, const Rows& rows) const;
  void apply(std::vector<Tensor> gradients, const Rows& rows, Tensor norm);
  Optimizer::Slot slot(const Member& member, const Tensor& gradient, const Tensor& step_now) const;
  std::vector<Tensor> update(const std::vector<Tensor>& gradients, const Rows& rows, const Tensor& step_now);
  Tensor keep(Member& member, const Updated& updated) const;
  Rows take_rows(std::vector<Tensor>& gradients) const;
  bool leaves_rows(const Member& member, const GradientRows& rows) const;
  void update_in_place(Member& member, const SummedRows& rows);
  Tensor rate_of(const Member& member) const {
    // A factor of 1 is left out, so that the update stays one operator.
    return member.rate_factor == 1 ? rate.value() : rate.value() * member.rate_factor;
  }
  void assign(const std::vector<Tensor>& updated);
  Tensor norm_of(const std::vector<Tensor>& gradients) const {
    return global_norm(gradients,
                       [&](std::size_t i) { return sharded() || distributed::is_split(members[i].parameter); });
  }
};

Optimizer::Optimizer(Rule rule, double rate, double weight_decay)
    : rule_(std::move(rule)), rate_(rate), weight_decay_(weight_decay) {
  if (!rule_.update && !rule_.update_all)
    throw Error("optimizer " + quoted(rule_.name) + ": its rule has no update function.");
  check_at_least(rule_.name + ": rate", rate, 0);
  check_at_least(rule_.name + ": weight_decay", weight_decay, 0);
}

Optimizer& Optimizer::clip_norm(double norm) {
  clip_norm_ = check_at_least(rule_.name + ": clip_norm", norm, 0);
  return *this;
}

Optimizer& Optimizer::clip_value(double value) {
  clip_value_ = check_at_least(rule_.name + ": clip_value", value, 0);
  return *this;
}

Optimizer& Optimizer::group(Group group) {
  if (!group.match) throw Error(rule_.name + ": a group needs a match function.");
  check_at_least(rule_.name + ": a group's rate", group.rate, 0);
  if (group.weight_decay) check_at_least(rule_.name + ": a group's weight_decay", *group.weight_decay, 0);
  groups_.push_back(std::move(group));
  return *this;
}

Optimizer& Optimizer::decay_weights_only() {
  decay_weights_only_ = true;
  return *this;
}

Bound Optimizer::over(const std::vector<Variable>& parameters, const distributed::Parallel& parallel) const {
  auto state = std::make_shared<Bound::State>(Bound::State{.optimizer = *this,
                                                           .parallel = parallel,
                                                           .placed = false,
                                                           .parameters = parameters,
                                                           .members = {},
                                                           .rate = Variable("rate", full({}, rate_), false),
                                                           .step = Variable("step", zeros({}), false)});
  if (state->sharded() && !rule_.elementwise)
    throw Error(rule_.name +
                ": its rule looks at parameters as a whole, and cannot update a rank's part of them: leave "
                "shard_optimizer and shard_parameters out. (A rule of your own that treats each entry by itself says "
                ".elementwise = true.)");
  if (parallel.shards > 0)
    throw Error(
        rule_.name +
        ": shards are fit's, which computes each of them apart. In a loop of your own, leave shards out, or add "
        "up the shards' gradients on every rank and give them to apply_whole().");
  state->placed = std::any_of(parameters.begin(), parameters.end(),
                              [](const Variable& p) { return distributed::placed_on(p) >= 0; });
  const bool split = std::any_of(parameters.begin(), parameters.end(), distributed::is_split);
  if ((state->placed || split) && state->sharded())
    throw Error(rule_.name +
                ": shard_optimizer and shard_parameters cut up what all ranks have; these parameters are placed on "
                "ranks already. Leave them out.");
  if (state->placed && split)
    throw Error(rule_.name +
                ": some parameters live on one rank, others are split among all of them. Place layers in one way or "
                "the other.");
  if (split && !rule_.elementwise)
    throw Error(rule_.name + ": its rule looks at parameters as a whole, and these are split over ranks. Choose " +
                "another optimiser, or place layers as a pipeline.");
  if (state->placed && rule_.update_all)
    throw Error(rule_.name + ": its rule looks at all parameters together, and these live on several ranks. Choose " +
                "another optimiser.");
  if (parallel.shard_parameters) distributed::shard(parameters);
  for (const Variable& parameter : parameters) {
    check_parameter(rule_.name, parameter, state->members);
    const bool decays = !decay_weights_only_ || parameter.shape().rank() >= 2;
    Member member{.parameter = parameter, .state = {}, .rate_factor = 1, .weight_decay = decays ? weight_decay_ : 0};
    for (const Group& group : groups_) {
      if (!group.match(parameter)) continue;
      member.rate_factor = group.rate;
      member.weight_decay = group.weight_decay.value_or(member.weight_decay);
      break;
    }
    for (const std::string& name : rule_.state) {
      const Tensor start =
          zeros(rule_.shape ? rule_.shape(name, parameter) : parameter.shape(), parameter.type().dtype);
      member.state.emplace_back(name + "." + parameter.name(), start, false);
    }
    if (state->sharded()) distributed::shard(member.state);
    distributed::keep_like(parameter, member.state);
    state->members.push_back(std::move(member));
  }
  if (distributed::size() > 1 && parallel.compress.name != "none")
    state->compressor = std::make_shared<Compressor>(parallel.compress, parameters);
  Bound bound;
  bound.state_ = std::move(state);
  return bound;
}

// The gradients, as wide as their parameters.
std::vector<Tensor> Bound::State::checked(const std::vector<Tensor>& gradients, const Rows& rows) const {
  const std::string& name = optimizer.name();
  if (gradients.size() != members.size())
    throw Error(name + ": expected " + std::to_string(members.size()) + " gradients, one for each parameter, got " +
                std::to_string(gradients.size()) + ".");
  std::vector<Tensor> wide;
  wide.reserve(gradients.size());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Variable& parameter = members[i].parameter;
    const std::string which = name + ": the gradient of " + quoted(parameter.name());
    if (!gradients[i].defined()) throw Error(which + " is undefined.");
    const Shape shape = (distributed::is_split(parameter) ? distributed::part_of(parameter) : parameter).shape();
    if (!rows[i] && gradients[i].shape() != shape)
      throw Error(which + " has shape " + gradients[i].shape().str() + ", but the parameter has " + shape.str() +
                  ". Are the gradients in the order of the parameters?");
    const DType dtype = parameter.type().dtype;
    wide.push_back(gradients[i].dtype() == dtype ? gradients[i] : gradients[i].to(dtype));
  }
  return wide;
}

// Over ranks.
std::vector<Tensor> Bound::State::averaged(const std::vector<Tensor>& gradients, const Rows& rows) const {
  const std::vector<Tensor> own = checked(gradients, rows);
  if (placed || parallel.average_every > 0 || parallel.staleness >= 0) return own;  // nothing to average here
  if (compressor) return compressor->means(own);
  return sharded() ? scatter_means(own) : distributed::mean_gradients(own, parameters);
}

// Whether the rows that a step did not read may be left out of it.
bool Bound::State::leaves_rows(const Member& member, const GradientRows& rows) const {
  if (optimizer.rule_.lazy) return true;
  const bool few = 2 * rows.rows.dim(0) <= member.parameter.shape()[0];
  return few && optimizer.rule_.still_at_zero && member.weight_decay == 0;
}

// Where a gradient is that of a few rows, they take its place, each row once: for norms, the rest is zeros.
Bound::State::Rows Bound::State::take_rows(std::vector<Tensor>& gradients) const {
  Rows rows(gradients.size());
  if (distributed::size() > 1 || !optimizer.rule_.elementwise || optimizer.rule_.update_all) return rows;
  for (std::size_t i = 0; i < std::min(members.size(), gradients.size()); ++i) {
    std::optional<GradientRows> own = gradients[i].defined() ? gradient_rows(gradients[i]) : std::nullopt;
    if (!own || gradients[i].type() != members[i].parameter.type() || !leaves_rows(members[i], *own)) continue;
    rows[i] = summed(tracing() ? *own : padded(*own));
    gradients[i] = rows[i]->distinct;
  }
  return rows;
}

// Not as a value that is computed when somebody reads it: that would be a new table at each step.
void Bound::State::update_in_place(Member& member, const SummedRows& rows) {
  if (!member.rows_step) {
    const auto step_of = [member, rule = optimizer.rule_.update, rate = rate, step = step](
                             const Tensor& at, const Tensor& distinct, const Tensor& which) {
      const Tensor now = member.rate_factor == 1 ? rate.value() : rate.value() * member.rate_factor;
      update_rows(member.parameter, member.state, {at, distinct, which}, rule, now, step.value(), member.weight_decay);
    };
    member.rows_step = std::make_shared<Compiled<void, 3>>(compile(step_of, {.name = "rows"}));
  }
  (*member.rows_step)(rows.rows, rows.distinct, rows.which);
}

// `norm` is that of the gradients, where somebody has already computed it.
void Bound::State::apply(std::vector<Tensor> gradients, const Rows& rows, Tensor norm) {
  const double value = optimizer.clips_value(), most = optimizer.clips_norm();
  if (value > 0) {
    for (std::size_t i = 0; i < members.size(); ++i) {
      const Scope there = where_it_lives(members[i]);
      gradients[i] = clip(gradients[i], -value, value);
    }
    norm = {};
  }
  if (most > 0) {
    if (!norm.defined()) norm = norm_of(gradients);
    const Tensor scale = minimum(1, most / norm);
    for (std::size_t i = 0; i < members.size(); ++i) {
      const Scope there = where_it_lives(members[i]);
      gradients[i] = gradients[i] * scale.to(gradients[i].dtype());
    }
  }
  std::vector<std::pair<Variable, Tensor>> before;
  const auto remember = [&](const Variable& variable) {
    const Variable kept = distributed::kept_of(variable);
    if (!tracing()) before.emplace_back(kept, kept.value());
  };
  remember(step);
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (rows[i]) continue;
    remember(members[i].parameter);
    for (const Variable& kept : members[i].state) remember(kept);
  }
  const Tensor step_now = step.value() + 1;
  step.assign(step_now);
  Rows apart = rows;
  for (std::size_t i = 0; i < members.size(); ++i)
    if (rows[i]) apart[i]->distinct = gradients[i];  // clipped
  assign(update(gradients, apart, step_now));
  if (tracing()) return;
  // In a loop without compile nobody else reads what was assigned: steps would pile up, each with its batch.
  std::vector<Tensor> assigned = {step.value()};
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (rows[i]) {
      assigned.insert(assigned.end(), {apart[i]->rows, apart[i]->distinct, apart[i]->which});
      continue;
    }
    assigned.push_back(distributed::kept_of(members[i].parameter).value());
    for (const Variable& kept : members[i].state) assigned.push_back(distributed::kept_of(kept).value());
  }
  try {
    eval(assigned);
  } catch (...) {  // nothing is updated by a step that failed
    for (const auto& [variable, old] : before) Variable(variable).assign(old);
    throw;
  }
  assigned.clear();
  for (std::size_t i = 0; i < members.size(); ++i)
    if (rows[i]) update_in_place(members[i], *apart[i]);
}

// The parameters' new values, or this rank's parts of them.
void Bound::State::assign(const std::vector<Tensor>& updated) {
  if (sharded() && !parallel.shard_parameters) {
    std::vector<Shape> shapes;
    for (const Member& member : members) shapes.push_back(member.parameter.shape());
    const std::vector<Tensor> wholes = gather_wholes(updated, shapes);
    for (std::size_t i = 0; i < members.size(); ++i) members[i].parameter.assign(wholes[i]);
  } else {
    for (std::size_t i = 0; i < members.size(); ++i)
      if (updated[i].defined()) distributed::part_of(members[i].parameter).assign(updated[i]);
  }
}

Optimizer::Slot Bound::State::slot(const Member& member, const Tensor& gradient, const Tensor& step_now) const {
  const bool cut = sharded() && !distributed::is_sharded(member.parameter);
  Optimizer::Slot slot{.parameter = cut ? distributed::own_part(member.parameter.value())
                                        : distributed::part_of(member.parameter).value(),
                       .gradient = gradient,
                       .state = {},
                       .rate = rate_of(member),
                       .step = step_now,
                       .weight_decay = member.weight_decay};
  for (const Variable& variable : member.state) slot.state.push_back(distributed::part_of(variable).value());
  return slot;
}

// The new value; the new state is assigned.
Tensor Bound::State::keep(Member& member, const Updated& updated) const {
  if (updated.state.size() != member.state.size())
    throw Error(optimizer.name() + ": its rule gave " + std::to_string(updated.state.size()) + " states, but names " +
                std::to_string(member.state.size()) + ".");
  for (std::size_t i = 0; i < member.state.size(); ++i) distributed::part_of(member.state[i]).assign(updated.state[i]);
  return updated.parameter;
}

// Undefined for those of which rows are updated: recorded here, or later, in place, in a loop without compile.
std::vector<Tensor> Bound::State::update(const std::vector<Tensor>& gradients, const Rows& rows,
                                         const Tensor& step_now) {
  const Optimizer::Rule& rule = optimizer.rule_;
  std::vector<Tensor> values;
  if (!rule.update_all) {
    for (std::size_t i = 0; i < members.size(); ++i) {
      const Scope there = where_it_lives(members[i]);
      if (rows[i]) {
        values.emplace_back();
        if (tracing())
          update_rows(members[i].parameter, members[i].state, *rows[i], rule.update, rate_of(members[i]), step_now,
                      members[i].weight_decay);
        continue;
      }
      values.push_back(keep(members[i], rule.update(slot(members[i], gradients[i], step_now))));
    }
    return values;
  }
  std::vector<Optimizer::Slot> slots;
  for (std::size_t i = 0; i < members.size(); ++i) slots.push_back(slot(members[i], gradients[i], step_now));
  const std::vector<Updated> updated = rule.update_all(slots);
  if (updated.size() != members.size())
    throw Error(rule.name + ": its rule gave " + std::to_string(updated.size()) + " updates for " +
                std::to_string(members.size()) + " parameters.");
  for (std::size_t i = 0; i < members.size(); ++i) values.push_back(keep(members[i], updated[i]));
  return values;
}

void Bound::apply(const std::vector<Tensor>& gradients) {
  State& state = bound(state_);
  const Scope scope(state.optimizer.name());
  std::vector<Tensor> own = gradients;
  const auto rows = state.take_rows(own);
  state.apply(state.averaged(own, rows), rows, {});
}

void Bound::apply_whole(const std::vector<Tensor>& gradients) {
  State& state = bound(state_);
  if (state.sharded())
    throw Error(state.optimizer.name() +
                ": apply_whole() updates whole parameters, but this optimiser's state is sharded: use apply().");
  const Scope scope(state.optimizer.name());
  std::vector<Tensor> own = gradients;
  const auto rows = state.take_rows(own);
  state.apply(state.checked(own, rows), rows, {});
}

Tensor Bound::apply_with_norm(const std::vector<Tensor>& gradients) {
  State& state = bound(state_);
  const Scope scope(state.optimizer.name());
  std::vector<Tensor> own = gradients;
  const auto rows = state.take_rows(own);
  std::vector<Tensor> wide = state.averaged(own, rows);
  Tensor norm = state.norm_of(wide);
  state.apply(std::move(wide), rows, norm);
  return norm;
}

const std::vector<Variable>& Bound::parameters() const { return bound(state_).parameters; }

std::vector<Variable> Bound::state() const {
  std::vector<Variable> all;
  const State& state = bound(state_);
  for (const Member& member : state.members) all.insert(all.end(), member.state.begin(), member.state.end());
  if (state.compressor)
    for (const Variable& kept : state.compressor->state()) all.push_back(kept);
  all.push_back(state.step);
  all.push_back(state.rate);
  return all;
}

Variable Bound::rate() const { return bound(state_).rate; }

double Bound::current_rate() const { return bound(state_).rate.value().item<float>(); }

void Bound::set_rate(double rate) {
  check_at_least(bound(state_).optimizer.name() + ": rate", rate, 0);
  bound(state_).rate.assign(full({}, rate));
}

std::int64_t Bound::steps() const { return std::llround(bound(state_).step.value().item<float>()); }

}  // namespace varve::optim
