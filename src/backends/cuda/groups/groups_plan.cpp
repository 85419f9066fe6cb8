#include "backends/cuda/groups/groups_plan.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>

#include "backend/axes.h"
#include "backends/cuda/device/context.h"
#include "backends/cuda/device/sizes.h"

namespace varve::cuda {
namespace {

using backend::Reduce;

std::int64_t fewest_blocks() { return gpu().multiprocessors; }  // fewer leave parts of the GPU idle

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }
std::int64_t power_below(std::int64_t n) {
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(n)));
}

// Strides of an operand over the group's space: sizes of 1, and axes it does not have, repeat.
Ints strides_over(const backend::Port& port, const Shape& space) {
  Ints strides(at(space.rank()), 0);
  const int shift = space.rank() - port.type.shape.rank();
  for (int a = 0; a < port.type.shape.rank(); ++a)
    if (port.type.shape[a] != 1) strides[at(a + shift)] = port.layout.strides[at(a)];
  return strides;
}

// A reduced output has lost its axes, or keeps them with size 1: contiguous either way.
Ints reduced_strides(const Shape& space, const std::vector<bool>& reduced) {
  Ints strides(at(space.rank()), 0);
  std::int64_t stride = 1;
  for (int a = space.rank() - 1; a >= 0; --a) {
    if (reduced[at(a)]) continue;
    strides[at(a)] = stride;
    stride *= space[a];
  }
  return strides;
}

// The axes while they are sorted and joined: outputs decide first, since they are written.
class Axes {
 public:
  explicit Axes(GroupPlan& plan) : plan_(plan) {}

  void run() {
    drop_ones();
    sort();
    join();
  }

 private:
  void permute(const std::vector<std::size_t>& order) {
    backend::permute(plan_.axes, order);
    for (GroupOperand& operand : plan_.operands) backend::permute(operand.strides, order);
  }

  void drop_ones() {
    std::vector<std::size_t> order;
    for (std::size_t a = 0; a < plan_.axes.size(); ++a)
      if (plan_.axes[a].size != 1) order.push_back(a);
    permute(order);
  }

  void sort() {
    std::vector<const Ints*> strides;
    for (const GroupOperand& operand : plan_.operands) strides.push_back(&operand.strides);
    permute(backend::outer_first(plan_.axes.size(), strides));
  }

  bool joinable(std::size_t a) const {  // axis a with a + 1
    if (plan_.axes[a].reduced != plan_.axes[a + 1].reduced) return false;
    return std::all_of(plan_.operands.begin(), plan_.operands.end(), [&](const GroupOperand& operand) {
      return operand.strides[a] == operand.strides[a + 1] * plan_.axes[a + 1].size;
    });
  }

  void join() {
    for (std::size_t a = plan_.axes.size(); a-- > 1;) {
      if (!joinable(a - 1)) continue;
      plan_.axes[a - 1].size *= plan_.axes[a].size;
      const auto erase = [a](auto& values) { values.erase(values.begin() + static_cast<std::ptrdiff_t>(a)); };
      for (GroupOperand& operand : plan_.operands) {
        operand.strides[a - 1] = operand.strides[a];
        erase(operand.strides);
      }
      erase(plan_.axes);
    }
  }

  GroupPlan& plan_;
};

std::int64_t points(const GroupPlan& plan, bool reduced) {
  std::int64_t count = 1;
  for (const GroupAxis& axis : plan.axes)
    if (axis.reduced == reduced) count *= axis.size;
  return count;
}

bool plan_needs_64_bits(const GroupPlan& plan) {
  const std::int64_t most = std::int64_t{1} << 31;
  if (points(plan, false) * points(plan, true) >= most) return true;
  return std::any_of(plan.operands.begin(), plan.operands.end(), [&](const GroupOperand& operand) {
    std::int64_t reach = 1;
    for (std::size_t a = 0; a < plan.axes.size(); ++a) reach += (plan.axes[a].size - 1) * std::abs(operand.strides[a]);
    return reach >= most;
  });
}

// Bytes of an element, of the smallest and largest among operands that lie side by side along the last axis.
struct Sizes {
  std::int64_t least = 16, most = 1;

  explicit Sizes(const GroupPlan& plan) {
    for (const GroupOperand& operand : plan.operands) {
      if (operand.strides.empty() || operand.strides.back() == 0) continue;
      least = std::min(least, static_cast<std::int64_t>(size_of(operand.dtype)));
      most = std::max(most, static_cast<std::int64_t>(size_of(operand.dtype)));
    }
  }
  // 16 bytes of the smallest at once, where that is no more than 32 of the largest.
  std::int64_t width() const { return std::max<std::int64_t>(1, std::min(16 / least, 32 / most)); }
};

std::int64_t dividing(std::int64_t n, std::int64_t width) {
  while (n % width != 0) width /= 2;
  return width;
}

// Loads that a thread has under way: as many as keep memory busy, few enough for its registers.
int unroll_for(const GroupPlan& plan, std::int64_t steps) {
  std::int64_t inputs = 0, bytes = 1;
  for (const GroupOperand& operand : plan.operands) {
    if (operand.output || plan.reach(operand) == Reach::scalar) continue;
    const std::int64_t elements = plan.reach(operand) == Reach::splat ? 1 : plan.width;
    inputs += elements;
    bytes += elements * static_cast<std::int64_t>(size_of(operand.dtype));
  }
  std::int64_t unroll = 4;
  while (unroll > 1 && (unroll > steps || unroll * bytes > 160 || unroll * inputs > 64)) unroll /= 2;
  return static_cast<int>(unroll);
}

void plan_flat(GroupPlan& plan, bool vectors) {
  const std::int64_t count = points(plan, false) * points(plan, true);
  const std::int64_t last = plan.axes.empty() ? 1 : plan.axes.back().size;
  const std::int64_t most = vectors ? Sizes(plan).width() : 1;
  const bool simple = std::all_of(plan.operands.begin(), plan.operands.end(), [&](const GroupOperand& operand) {
    return plan.dense(operand) || plan.reach(operand) == Reach::scalar;
  });
  std::int64_t width = dividing(count, most);
  if (!simple && dividing(last, most) * 2 >= most)
    width = dividing(last, most);
  else
    plan.crossing = !simple && last % width != 0;
  while (width > 1 && count / width < fewest_blocks() * kGroupThreads) width /= 2;
  plan.width = static_cast<int>(width);
  plan.crossing = plan.crossing && last % width != 0;
  plan.units = count / width;
  plan.unroll = unroll_for(plan, plan.units / gpu().threads());
  plan.tiles = ceil_div(plan.units, std::int64_t{kGroupThreads} * plan.unroll);
}

void plan_rows(GroupPlan& plan, bool vectors) {
  const std::int64_t width = dividing(plan.axes.back().size, vectors ? Sizes(plan).width() : 1);
  plan.width = static_cast<int>(width);
  plan.units = points(plan, true) / width;
  plan.columns = points(plan, false);
  // A few units for each thread; more threads when there are few rows.
  std::int64_t lanes =
      std::clamp<std::int64_t>(power_below(std::max<std::int64_t>(plan.units / 4, 1)), 1, kGroupThreads);
  while (lanes < kGroupThreads && lanes < plan.units && plan.columns * lanes < gpu().threads() / 2) lanes *= 2;
  plan.lanes = static_cast<int>(lanes);
  plan.tiles = ceil_div(plan.columns, kGroupThreads / lanes);
  if (lanes == kGroupThreads)
    plan.slices = std::clamp<std::int64_t>(4 * fewest_blocks() / plan.tiles, 1,
                                           std::max<std::int64_t>(plan.units / (lanes * 8), 1));
  plan.unroll = unroll_for(plan, plan.units / plan.slices / lanes);
}

void plan_columns(GroupPlan& plan, bool vectors) {
  const Sizes sizes(plan);
  const std::int64_t width = dividing(plan.axes.back().size, vectors ? sizes.width() : 1);
  plan.width = static_cast<int>(width);
  plan.units = points(plan, true);
  plan.columns = points(plan, false);
  const std::int64_t across = plan.columns / width, needed = std::min<std::int64_t>(power_above(across), kGroupThreads);
  // A tile has whole lines of 128 bytes and no more: the narrower it is, the fewer slices are left to fold at the end.
  constexpr std::int64_t kLine = 128;
  std::int64_t lanes =
      std::clamp<std::int64_t>(power_above(kLine / (width * sizes.least)), 1, std::min<std::int64_t>(needed, 32));
  // Few rows: threads lie along the columns rather than idle. Few columns and too few rows to slice: narrower tiles,
  // down to 64 bytes.
  constexpr std::int64_t kSteps = 4;  // of a thread, at least: all its loads at once
  const auto slices = [&] { return std::max<std::int64_t>(plan.units / (kGroupThreads / lanes * kSteps), 1); };
  while (lanes < needed && kGroupThreads / lanes > std::max<std::int64_t>(plan.units / 4, 1)) lanes *= 2;
  while (lanes > 1 && ceil_div(across, lanes) * slices() < fewest_blocks() && lanes * width * sizes.least > 64 &&
         kGroupThreads / lanes * 2 < plan.units)
    lanes /= 2;
  plan.lanes = static_cast<int>(lanes);
  plan.tiles = ceil_div(across, lanes);
  const std::int64_t rows = kGroupThreads / lanes;
  plan.slices = std::clamp<std::int64_t>(2 * fewest_blocks() / plan.tiles, 1, slices());
  plan.unroll = unroll_for(plan, plan.units / plan.slices / rows);
}

GroupPlan start(const GroupPart& part) {
  GroupPlan plan;
  plan.code = part.group.code;
  plan.compute = part.group.compute;
  const Shape& space = part.group.shape;
  std::int64_t folded = 1;  // points that meet in a reduced output
  for (int a = 0; a < space.rank(); ++a) {
    plan.axes.push_back({space[a], static_cast<bool>(part.group.reduced_axes[at(a)])});
    if (plan.axes.back().reduced) folded *= space[a];
  }
  for (std::size_t i = 0; i < part.in.size(); ++i)
    plan.operands.push_back(
        {part.in[i].type.dtype, false, static_cast<int>(i), 0, Reduce::none, strides_over(part.in[i], space)});
  for (std::size_t o = 0; o < part.out.size(); ++o) {
    const bool reduces = part.group.reduce[o] != Reduce::none;
    // A fold of one point is that point.
    plan.operands.push_back(
        {part.out[o].type.dtype, true, static_cast<int>(o), static_cast<int>(o),
         folded == 1 ? Reduce::none : part.group.reduce[o],
         reduces ? reduced_strides(space, part.group.reduced_axes) : strides_over(part.out[o], space)});
  }
  if (plan.reduced() == 0)
    for (GroupAxis& axis : plan.axes) axis.reduced = false;
  return plan;
}

void choose_walk(GroupPlan& plan, bool vectors) {
  Axes(plan).run();
  plan.wide = plan_needs_64_bits(plan);
  if (plan.reduced() == 0) return plan_flat(plan, vectors);
  plan.walk = plan.axes.back().reduced ? Walk::rows : Walk::columns;
  plan.walk == Walk::rows ? plan_rows(plan, vectors) : plan_columns(plan, vectors);
  plan.slice_units = ceil_div(plan.units, plan.slices);
  plan.slices = ceil_div(plan.units, plan.slice_units);
}

double neutral(Reduce op) {
  const double infinity = std::numeric_limits<double>::infinity();
  switch (op) {
    case Reduce::prod:
      return 1;
    case Reduce::max:
      return -infinity;
    case Reduce::min:
      return infinity;
    default:
      return 0;
  }
}

// Reductions of nothing, as groups without inputs that write a constant.
std::vector<GroupPlan> plan_empty(const GroupPart& part) {
  std::vector<GroupPlan> plans;
  for (std::size_t o = 0; o < part.out.size(); ++o) {
    const std::int64_t count = part.out[o].type.shape.numel();
    if (part.group.reduce[o] == Reduce::none || count == 0) continue;
    GroupPlan plan;
    plan.compute = part.group.compute;
    plan.code.instrs = {{.prim = expr::Prim::constant, .value = neutral(part.group.reduce[o])}};
    plan.code.outputs = {0};
    plan.axes = {{count, false}};
    plan.operands = {{part.out[o].type.dtype, true, static_cast<int>(o), 0, Reduce::none, {1}}};
    choose_walk(plan, false);
    plans.push_back(std::move(plan));
  }
  return plans;
}

}  // namespace

bool GroupPlan::dense(const GroupOperand& operand) const {
  std::int64_t stride = 1;
  for (std::size_t a = axes.size(); a-- > 0;) {
    if (operand.strides[a] != stride) return false;
    stride *= axes[a].size;
  }
  return !axes.empty();
}

Reach GroupPlan::reach(const GroupOperand& operand) const {
  const Ints& s = operand.strides;
  if (std::all_of(s.begin(), s.end(), [](std::int64_t stride) { return stride == 0; })) return Reach::scalar;
  if (walk == Walk::flat && dense(operand)) return Reach::vector;
  if (crossing) return Reach::gather;
  if (s.back() == 0) return Reach::splat;
  const bool fits = std::all_of(s.begin(), s.end() - 1, [&](std::int64_t stride) { return stride % width == 0; });
  return s.back() == 1 && fits ? Reach::vector : Reach::gather;
}

int GroupPlan::reduced() const {
  return static_cast<int>(
      std::count_if(operands.begin(), operands.end(), [](const GroupOperand& o) { return o.reduce != Reduce::none; }));
}

std::size_t GroupPlan::scratch_bytes() const {
  return slices == 1 ? 0 : static_cast<std::size_t>(reduced() * slices * columns) * 8;
}

std::vector<GroupPlan> plan_group(const GroupPart& part, bool vectors) {
  if (part.group.shape.numel() == 0) return plan_empty(part);
  GroupPlan plan = start(part);
  choose_walk(plan, vectors);
  std::vector<GroupPlan> plans;
  plans.push_back(std::move(plan));
  return plans;
}

}  // namespace varve::cuda
