#include "nn/mask_flow.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "varve/recorded.h"

namespace varve::nn {
namespace {

using detail::Recorded;

// The steps of a value are its two leading axes, [N, T, ..], or folded into one, [N·T, ..], as products fold them.
struct Steps {
  Mask mask;  // undefined: it has none
  bool folded = false;

  int axes() const { return folded ? 1 : 2; }
  bool lead(const Shape& shape) const {
    const std::int64_t n = mask.samples(), t = mask.steps();
    return folded ? shape.rank() >= 1 && shape[0] == n * t : shape.rank() >= 2 && shape[0] == n && shape[1] == t;
  }
  bool same(const Steps& other) const { return mask.same(other.mask) && folded == other.folded; }
};

// One operator and the steps of its inputs; some of them are masked.
struct Move {
  const Recorded& record;
  const Shape& output;
  const std::vector<Steps>& inputs;
  const Steps& steps;  // of those that are masked

  bool is(std::initializer_list<const char*> names) const {
    return std::any_of(names.begin(), names.end(), [&](const char* each) { return record.op->name == each; });
  }
  bool masked(std::size_t input) const { return inputs[input].mask.defined(); }
  bool masked_only(std::size_t input) const {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (masked(i) != (i == input)) return false;
    return true;
  }
  int rank(std::size_t input) const { return record.inputs[input].rank(); }
  bool has_features() const { return rank(0) > steps.axes(); }
  bool is_beyond(std::int64_t axis) const { return (axis < 0 ? axis + rank(0) : axis) >= steps.axes(); }
  bool are_beyond(const Ints& axes) const {
    return std::all_of(axes.begin(), axes.end(), [&](std::int64_t axis) { return is_beyond(axis); });
  }
  bool begins_with_steps(const Ints& order) const {
    for (int axis = 0; axis < steps.axes(); ++axis)
      if (order[static_cast<std::size_t>(axis)] != axis) return false;
    return true;
  }
  bool takes_all_steps() const {
    const Ints& step = record.attrs.ints("step");
    return std::all_of(step.begin(), step.begin() + steps.axes(), [](std::int64_t each) { return each == 1; });
  }
};

bool of_elements(const Move& m) {
  for (std::size_t i = 0; i < m.inputs.size(); ++i)
    if (m.masked(i) && m.rank(i) != m.output.rank()) return false;
  return true;
}

// Whether each step of the output is made of that step of the masked inputs, and of nothing else that is masked.
bool step_by_step(const Move& m) {
  const Attrs& attrs = m.record.attrs;
  if (!m.steps.lead(m.output)) return false;
  if (m.record.op->elementwise() || m.is({"where"})) return of_elements(m);
  if (m.is({"embedding"})) return m.masked_only(1);
  if (m.is({"gather"})) return m.masked_only(1) && attrs.integer("axis") == 0;
  if (m.is({"concat"})) return m.is_beyond(attrs.integer("axis"));
  if (!m.masked_only(0)) return false;
  if (m.is({"cast", "identity", "stop_gradient", "check_finite", "dropout", "one_hot", "reshape"})) return true;
  if (m.is({"broadcast_to"})) return m.rank(0) == m.output.rank();
  if (m.is({"transpose"})) return m.begins_with_steps(attrs.ints("order"));
  if (m.is({"slice"})) return m.takes_all_steps();
  if (m.is({"matmul"})) return m.has_features() && !attrs.flag("transpose_a");
  if (m.is({"layer_norm", "rms_norm"})) return m.has_features();
  if (m.is({"softmax", "log_softmax", "cumsum", "sort", "argmax", "argmin", "take_along_axis"}))
    return m.is_beyond(attrs.integer("axis"));
  if (m.is({"sum", "prod", "max", "min", "any", "all"})) return m.are_beyond(attrs.ints("axes"));
  return false;
}

// A reshape may fold the two axes of steps into one, and part them again.
std::optional<Steps> refolded(const Move& m) {
  if (!m.is({"reshape"})) return std::nullopt;
  const Steps other{m.steps.mask, !m.steps.folded};
  return other.lead(m.output) ? std::optional(other) : std::nullopt;
}

class Walk {
 public:
  explicit Walk(const std::vector<const KnownMasks*>& tables) : tables_(tables), since_(UINT64_MAX) {
    for (const KnownMasks* table : tables) since_ = std::min(since_, table->since);
  }

  // Iterative: what is behind a value may be long.
  Steps behind(const Tensor& value) {
    std::vector<Tensor> stack = {value};
    while (!stack.empty()) {
      const Tensor top = stack.back();
      if (found(top)) {
        stack.pop_back();
        continue;
      }
      const Recorded record = detail::recorded(top);
      const std::size_t before = stack.size();
      if (record.number >= since_)
        for (const Tensor& input : record.inputs)
          if (!found(input)) stack.push_back(input);
      if (stack.size() > before) continue;
      keep(top, record.number < since_ ? Steps{} : moved(top, record));
      stack.pop_back();
    }
    return *found(value);
  }

 private:
  using Key = std::pair<const void*, int>;

  const Steps* found(const Tensor& value) {
    const Key key{value.node().get(), value.index()};
    if (const auto at = kept_.find(key); at != kept_.end()) return &at->second.second;
    for (const KnownMasks* table : tables_)
      if (const Mask* mask = table->find(value)) return keep(value, {*mask, false});
    return nullptr;
  }
  const Steps* keep(const Tensor& value, Steps steps) {  // with the value, whose address is the key
    return &kept_.insert_or_assign(Key{value.node().get(), value.index()}, std::pair(value, std::move(steps)))
                .first->second.second;
  }

  Steps moved(const Tensor& value, const Recorded& record) {
    if (record.forgotten) return check_forgotten(value);
    std::vector<Steps> inputs;
    const Steps* masked = nullptr;
    for (const Tensor& input : record.inputs) inputs.push_back(*found(input));
    for (const Steps& each : inputs) {
      if (!each.mask.defined()) continue;
      if (masked && !masked->same(each))
        throw NoWay("\"" + record.op->name + "\" brings together values under two masks");
      masked = &each;
    }
    if (!masked) return {};
    const Move move{record, value.shape(), inputs, *masked};
    if (step_by_step(move)) return *masked;
    if (const std::optional<Steps> folded = refolded(move)) return *folded;
    throw NoWay("\"" + record.op->name + "\" mixes steps, or moves them, and would take padding for data");
  }

  Steps check_forgotten(const Tensor& value) const {
    for (const KnownMasks* table : tables_)
      for (const KnownMask& known : table->known)
        if (known.mask.defined() && Steps{known.mask}.lead(value.shape()))
          throw NoWay("a value was read on the way, so that nobody knows what it was made of");
    return {};
  }

  const std::vector<const KnownMasks*>& tables_;
  std::uint64_t since_;
  std::map<Key, std::pair<Tensor, Steps>> kept_;
};

}  // namespace

void KnownMasks::add(const Tensor& value, const Mask& mask) {
  const std::uint64_t number = detail::recorded(value).number;
  since = known.empty() ? number : std::min(since, number);
  known.push_back({value, mask});
}

const Mask* KnownMasks::find(const Tensor& value) const {
  for (auto each = known.rbegin(); each != known.rend(); ++each)
    if (each->value.node() == value.node() && each->value.index() == value.index()) return &each->mask;
  return nullptr;
}

Mask mask_behind(const Tensor& value, const std::vector<const KnownMasks*>& tables) {
  for (const KnownMasks* table : tables)
    if (const Mask* mask = table->find(value)) return *mask;
  const Steps steps = Walk(tables).behind(value);
  if (steps.folded) throw NoWay("the steps were folded into the samples, and not parted again");
  return steps.mask;
}

void check_mask(const std::string& where, const Mask& mask, const Tensor& x) {
  if (x.rank() >= 2 && x.dim(0) == mask.samples() && x.dim(1) == mask.steps()) return;
  throw Error(where + ": the mask is of " + std::to_string(mask.samples()) + " sequences with " +
              std::to_string(mask.steps()) + " steps each; expected an input [" + std::to_string(mask.samples()) +
              ", " + std::to_string(mask.steps()) + ", ..], got " + x.shape().str() + ".");
}

}  // namespace varve::nn
