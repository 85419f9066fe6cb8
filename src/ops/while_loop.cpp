// while_loop: a body run for as long as a condition holds, and its gradient, which is a loop over the same steps in
// reverse.
#include "base/text.h"
#include "ops/batching.h"
#include "ops/families.h"
#include "ops/region.h"
#include "ops/shared.h"
#include "tensor/record.h"
#include "varve/control.h"
#include "varve/error.h"

namespace varve {
namespace {

std::vector<Tensor> while_gradient(const Vjp& v);
std::optional<std::vector<Tensor>> batch_while(const Batching& call);

// Inputs: carries, captured values; regions: condition and body, of all inputs. Outputs: last carries; how many steps
// it took; where it keeps them, the carries at the start of each step, [max_steps, …], of which only those that were
// taken are written. A program that uses no gradient drops the latter.
const OpDef while_op = define({.name = "while_loop",
                               .doc = "A body run for as long as a condition on the values that it carries holds.",
                               .family = "control",
                               .arity = -1,
                               .shape = [](const Call&) { return std::vector<TensorType>(); },  // typed by the carries
                               .gradient = while_gradient,
                               .batching = batch_while,
                               .pure = false});

TensorType history_type(const TensorType& type, std::int64_t length) {
  std::vector<std::int64_t> sizes{length};
  sizes.insert(sizes.end(), type.shape.begin(), type.shape.end());
  return {type.dtype, Shape(std::move(sizes))};
}

std::vector<Tensor> record_while(const LoopCondition& condition, const LoopBody& body, const std::vector<Tensor>& carry,
                                 const WhileOptions& options) {
  Region check("while_loop", Invariants::outside), step("while_loop", Invariants::outside);
  const std::vector<Tensor> check_in = check.add_inputs(types_of(carry), "carry"),
                            step_in = step.add_inputs(types_of(carry), "carry");
  check.record([&] { return std::vector<Tensor>{checked_predicate("while_loop", condition(check_in))}; });
  const std::vector<Tensor>& after = step.record([&] { return body(step_in); });
  if (types_of(after) != types_of(carry))
    throw Error(cat("while_loop: the body must give carries of the types and shapes that it takes: ", types_text(carry),
                    "; it gives ", types_text(after), "."));
  const std::vector<Tensor> captured = captured_by({&check, &step});
  RecordExtras extras;
  extras.regions = {check.graph(values_of(captured)), step.graph(values_of(captured))};
  extras.types = types_of(carry);
  extras.types.push_back({i64, {}});
  const bool keeps = options.max_steps >= 0 && !options.recompute;
  if (keeps)
    for (const Tensor& c : carry) extras.types.push_back(history_type(c.type(), options.max_steps));
  Attrs attrs{{"carries", static_cast<std::int64_t>(carry.size())},
              {"max_steps", options.max_steps},
              {"recompute", options.recompute}};
  if (keeps) {
    Ints kept;
    for (std::size_t c = 0; c < carry.size(); ++c) kept.push_back(static_cast<std::int64_t>(c));
    attrs.set("kept", kept);
  }
  return record(while_op.record(), joined(carry, captured), attrs, std::move(extras));
}

// The loop in reverse. It carries the step that it is at, the gradients of carries, then of captured values.
class WhilePull {
 public:
  explicit WhilePull(const Vjp& v)
      : v_(v),
        body_(v.out[0].node()->regions[1]),
        carries_(static_cast<std::size_t>(v.attrs.integer("carries"))),
        captured_(part(v.in, carries_, v.in.size() - carries_)) {
    for (std::size_t i = 0; i < v.in.size(); ++i)
      if (is_floating(v.in[i].dtype()) && (i < carries_ || v.needs[i])) wanted_.push_back(i);
  }

  std::vector<Tensor> run() const {
    std::vector<Tensor> start{v_.out[carries_] - 1};
    for (const std::size_t i : wanted_)
      start.push_back(i < carries_ ? flowing(v_, i) : zeros(v_.in[i].shape(), v_.in[i].dtype()));
    const WhileOptions options{v_.attrs.integer("max_steps"), v_.attrs.flag("recompute")};
    const std::vector<Tensor> pulled =
        record_while([](const std::vector<Tensor>& c) { return c[0] >= 0; },
                     [this](const std::vector<Tensor>& c) { return step(c); }, start, options);
    std::vector<Tensor> grads(v_.in.size());
    for (std::size_t w = 0; w < wanted_.size(); ++w) grads[wanted_[w]] = pulled[w + 1];
    return grads;
  }

 private:
  std::vector<Tensor> step(const std::vector<Tensor>& carry) const {
    std::vector<Tensor> seeds, next{carry[0] - 1};
    for (std::size_t w = 0; w < wanted_.size() && wanted_[w] < carries_; ++w) seeds.push_back(carry[w + 1]);
    const std::vector<Tensor> grads = pull(*body_, joined(carries_at(carry[0]), captured_), seeds, wanted_);
    for (std::size_t w = 0; w < wanted_.size(); ++w) {
      if (wanted_[w] >= carries_)
        next.push_back(carry[w + 1] + grads[w]);  // summed over the steps
      else if (const Tensor kept = kept_gradient(wanted_[w]); kept.defined())
        next.push_back(grads[w] + gather(kept, carry[0]));
      else
        next.push_back(grads[w]);
    }
    return next;
  }

  // What flows into the carries that were kept of each step: of a second gradient.
  Tensor kept_gradient(std::size_t carry) const {
    const std::size_t output = carries_ + 1 + carry;
    return output < v_.out.size() ? v_.dys[output] : Tensor();
  }

  // The carries at the start of a step: those kept, or computed from the first ones.
  std::vector<Tensor> carries_at(const Tensor& at) const {
    std::vector<Tensor> carries;
    if (!v_.attrs.flag("recompute")) {
      for (std::size_t c = 0; c < carries_; ++c) carries.push_back(gather(v_.out[carries_ + 1 + c], at));
      return carries;
    }
    const auto again = [this](const std::vector<Tensor>& c) {
      std::vector<Tensor> next{c[0] + 1};
      const std::vector<Tensor> own = joined(part(c, 1, carries_), captured_);
      return joined(next, tensors_of(ir::inline_graph(*body_, values_of(own))));
    };
    const std::vector<Tensor> reached =
        record_while([at](const std::vector<Tensor>& c) { return c[0] < at; }, again,
                     joined({full_int({}, 0, i64)}, part(v_.in, 0, carries_)), {v_.attrs.integer("max_steps"), true});
    return part(reached, 1, carries_);
  }

  const Vjp& v_;
  std::shared_ptr<const ir::Graph> body_;
  std::size_t carries_;
  std::vector<Tensor> captured_;
  std::vector<std::size_t> wanted_;  // inputs whose gradient is computed: carries always, the rest when asked for
};

std::vector<Tensor> while_gradient(const Vjp& v) {
  if (v.attrs.integer("max_steps") < 0 && !v.attrs.flag("recompute"))
    throw Error(
        "while_loop: its gradient needs a bound on its length, since it keeps the carries of every step. Set "
        "max_steps: while_loop(condition, body, carry, {.max_steps = 100}); or recompute = true, which keeps "
        "none and computes them again.");
  return WhilePull(v).run();
}

// A loop over all examples at once. Where they end at different steps it goes on until all have, and those that have
// ended keep their carries.
class WhileOfAll {
 public:
  explicit WhileOfAll(const Batching& call)
      : call_(call),
        condition_(*call.node->regions[0]),
        body_(*call.node->regions[1]),
        carries_(static_cast<std::size_t>(call.attrs.integer("carries"))),
        batched_(call.batched) {
    find_batched();
  }

  std::vector<Tensor> run() {
    std::vector<Tensor> start = part(call_.in, 0, carries_);
    for (std::size_t c = 0; c < carries_; ++c)
      if (batched_[c] && !call_.batched[c]) start[c] = spread(start[c], call_.size);
    if (apart_) start.push_back(zeros({call_.size}, i64));  // how many steps each has taken
    const WhileOptions options{call_.attrs.integer("max_steps"), call_.attrs.flag("recompute")};
    std::vector<Tensor> all = record_while([this](const auto& c) { return goes_on(c); },
                                           [this](const auto& c) { return step(c); }, start, options);
    return results(all, start.size());
  }

 private:
  std::vector<Lane> lanes(const ir::Graph& graph, const std::vector<Tensor>& carry) const {
    BatchWalk walk(call_.size, call_.fresh, 0);
    for (std::size_t i = 0; i < graph.inputs.size(); ++i)
      walk.place({graph.inputs[i], 0}, {i < carries_ ? carry[i] : call_.in[i], batched_[i]});
    std::vector<Lane> found;
    for (const ir::Value& output : graph.outputs) found.push_back(walk.lane(Tensor(output)));
    return found;
  }

  // A carry is each example's own when it begins so, or becomes so in a step; all are when the condition is.
  void find_batched() {
    for (bool changed = true; changed;) {
      changed = false;
      std::vector<Tensor> carry;
      for (std::size_t c = 0; c < carries_; ++c) {
        const TensorType& type = body_.inputs[c]->types[0];
        const Shape all(prefixed(type.shape.vec(), call_.size));
        carry.emplace_back(ir::Value{ir::input_node({type.dtype, batched_[c] ? all : type.shape}, "carry"), 0});
      }
      const std::vector<Lane> after = lanes(body_, carry);
      apart_ = lanes(condition_, carry)[0].batched;
      for (std::size_t c = 0; c < carries_; ++c) {
        const bool becomes = apart_ || after[c].batched;
        changed = changed || (becomes && !batched_[c]);
        if (becomes) batched_[c] = true;
      }
    }
  }

  Tensor active(const std::vector<Tensor>& carry) const { return lanes(condition_, carry)[0].value; }
  Tensor goes_on(const std::vector<Tensor>& carry) const { return apart_ ? any(active(carry)) : active(carry); }

  std::vector<Tensor> step(const std::vector<Tensor>& carry) const {
    std::vector<Tensor> from = part(carry, 0, carries_), next;
    const Tensor going = apart_ ? active(carry) : Tensor();
    if (apart_)
      for (Tensor& c : from) c = of_active(c, going);  // what has ended may have no further step
    for (std::size_t c = 0; const Lane& lane : lanes(body_, from)) {
      next.push_back(batched_[c] && !lane.batched ? spread(lane.value, call_.size) : lane.value);
      if (apart_) next[c] = where(of_each(going, next[c]), next[c], carry[c]);
      ++c;
    }
    if (apart_) next.push_back(carry[carries_] + going.to(i64));
    return next;
  }

  // Last carries, steps, and the carries of each step, all of them batched. `given`: how many the loop carries.
  std::vector<Tensor> results(const std::vector<Tensor>& all, std::size_t given) const {
    std::vector<Tensor> found;
    for (std::size_t c = 0; c < carries_; ++c) found.push_back(batched_[c] ? all[c] : spread(all[c], call_.size));
    found.push_back(apart_ ? all[carries_] : spread(all[carries_], call_.size));
    for (std::size_t c = 0; c < carries_ && given + 1 + c < all.size(); ++c) {
      const Tensor& kept = all[given + 1 + c];
      found.push_back(batched_[c] ? with_axis_at(kept, 1, 0) : spread(kept, call_.size));
    }
    return found;
  }

  const Batching& call_;
  const ir::Graph &condition_, &body_;
  std::size_t carries_;
  std::vector<bool> batched_;  // of the regions' inputs
  bool apart_ = false;         // examples end at different steps
};

std::optional<std::vector<Tensor>> batch_while(const Batching& call) {
  if (!call.node) return std::nullopt;
  return WhileOfAll(call).run();
}

}  // namespace

const OpRecord& while_record() { return while_op.record(); }

std::vector<Tensor> while_loop(const LoopCondition& condition, const LoopBody& body, const std::vector<Tensor>& carry,
                               const WhileOptions& options) {
  if (carry.empty()) throw Error("while_loop: carries nothing, so that its condition could never change.");
  if (options.max_steps < -1)
    throw Error(cat("while_loop: max_steps is ", options.max_steps, "; expected 0 or more, or -1 for no bound."));
  return part(record_while(condition, body, carry, options), 0, carry.size());
}

Tensor while_loop(const std::function<Tensor(const Tensor&)>& condition,
                  const std::function<Tensor(const Tensor&)>& body, const Tensor& carry, const WhileOptions& options) {
  return while_loop([&](const std::vector<Tensor>& c) { return condition(c[0]); },
                    [&](const std::vector<Tensor>& c) { return std::vector<Tensor>{body(c[0])}; },
                    std::vector<Tensor>{carry}, options)[0];
}

}  // namespace varve
