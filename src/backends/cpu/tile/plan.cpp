#include "backends/cpu/tile/plan.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "backend/axes.h"
#include "backends/cpu/common/align.h"
#include "backends/cpu/common/index.h"
#include "base/text.h"
#include "varve/error.h"

namespace varve::cpu {
namespace {

void check_access(const Group& group, const Access& access, const char* what, std::size_t index) {
  if (access.strides.size() == group.extents.size()) return;
  throw Error(cat("tile group: ", what, " ", index, " has ", access.strides.size(), " strides, expected ",
                  group.extents.size(), ", one per extent."));
}

void check_output(const Group& group, std::size_t index) {
  const bool reduces = group.reduce[index] != Reduce::none;
  if (std::count(group.extents.begin(), group.extents.end(), 0) > 0) return;  // strides of nothing may be anything
  for (std::size_t d = 0; d < group.extents.size(); ++d) {
    if (group.extents[d] <= 1) continue;
    const bool moves = group.outputs[index].strides[d] != 0;
    const bool should = !(reduces && group.reduced[d]);
    if (moves != should) {
      throw Error(cat("tile group: output ", index, " has stride ", group.outputs[index].strides[d], " along extent ",
                      d, " (", group.extents[d], "), which is ", should ? "not reduced." : "reduced: expected 0."));
    }
  }
}

void check(const Group& group) {
  if (group.compute != DType::f32 && group.compute != DType::f64 && group.compute != DType::i64) {
    throw Error(cat("tile group: computes in f32, f64 or i64, not in ", name(group.compute), "."));
  }
  if (group.reduce.size() != group.outputs.size() || group.code.outputs.size() != group.outputs.size()) {
    throw Error(cat("tile group: ", group.outputs.size(), " outputs, but ", group.reduce.size(), " reductions and ",
                    group.code.outputs.size(), " results of the code."));
  }
  if (group.code.inputs > static_cast<int>(group.inputs.size())) {
    throw Error(cat("tile group: the code reads ", group.code.inputs, " inputs, given ", group.inputs.size(), "."));
  }
  const bool reduces =
      std::any_of(group.reduce.begin(), group.reduce.end(), [](Reduce r) { return r != Reduce::none; });
  if (reduces && group.reduced.size() != group.extents.size()) {
    throw Error(cat("tile group: ", group.reduced.size(), " reduced flags for ", group.extents.size(), " extents."));
  }
  for (const std::int64_t extent : group.extents) {
    if (extent < 0) throw Error(cat("tile group: negative extent ", extent, "."));
  }
  for (std::size_t i = 0; i < group.inputs.size(); ++i) check_access(group, group.inputs[i], "input", i);
  for (std::size_t i = 0; i < group.outputs.size(); ++i) {
    check_access(group, group.outputs[i], "output", i);
    check_output(group, i);
  }
}

// The plan's extents while they are sorted and merged: outputs decide first, since they are written.
struct Axes {
  Plan& plan;

  void permute(const std::vector<std::size_t>& order) {
    backend::permute(plan.extents, order);
    backend::permute(plan.reduced, order);
    for (Access& access : plan.accesses) backend::permute(access.strides, order);
  }

  void sort() {
    std::vector<const Ints*> strides;
    for (const Access& access : plan.accesses) strides.push_back(&access.strides);
    permute(backend::outer_first(plan.extents.size(), strides));
  }

  bool mergeable(std::size_t d) const {  // extent d with d + 1
    if (plan.reduced[d] != plan.reduced[d + 1]) return false;
    return std::all_of(plan.accesses.begin(), plan.accesses.end(), [&](const Access& access) {
      return access.strides[d] == access.strides[d + 1] * plan.extents[d + 1];
    });
  }

  void merge() {
    for (std::size_t d = plan.extents.size() - 1; d-- > 0;) {
      if (!mergeable(d)) continue;
      plan.extents[d] *= plan.extents[d + 1];
      const auto erase = [d](auto& values) { values.erase(values.begin() + static_cast<std::ptrdiff_t>(d) + 1); };
      for (Access& access : plan.accesses) {
        access.strides[d] = access.strides[d + 1];
        erase(access.strides);
      }
      erase(plan.extents);
      erase(plan.reduced);
    }
  }

  void drop_ones() {
    std::vector<std::size_t> order;
    for (std::size_t d = 0; d < plan.extents.size(); ++d) {
      if (plan.extents[d] != 1) order.push_back(d);
    }
    permute(order);
    if (!plan.extents.empty()) return;
    // A single point still makes a tile, of one element.
    plan.extents = {1};
    plan.reduced = {false};
    for (Access& access : plan.accesses) access.strides = {1};
  }
};

std::int64_t divisor_up_to(std::int64_t n, std::int64_t most) {
  for (std::int64_t d = std::min(n, most); d > 1; --d) {
    if (n % d == 0) return d;
  }
  return 1;
}

// A transposed access would use one element of every cache line it touches: walk blocks in which both it and the
// output meet whole lines. Extents that do not divide are left as they are.
struct Blocking {
  Plan& plan;

  struct Crossing {
    int extent = -1;        // along which some access is contiguous; -1: none
    std::int64_t jump = 0;  // of that access along the innermost one
  };
  Crossing find() const {
    for (const Access& access : plan.accesses) {
      const std::int64_t jump = std::abs(access.strides.back());
      if (jump < 16) continue;
      for (int d = 0; d + 1 < static_cast<int>(plan.extents.size()); ++d) {
        if (access.strides[at(d)] == 1) return {d, jump};
      }
    }
    return {};
  }

  // Extent d becomes extent d / size, and an innermost one of `size`.
  void split(int d, std::int64_t size) {
    plan.extents[at(d)] /= size;
    plan.extents.push_back(size);
    plan.reduced.push_back(false);
    for (Access& access : plan.accesses) {
      access.strides.push_back(access.strides[at(d)]);
      access.strides[at(d)] *= size;
    }
  }

  void apply() {
    const auto [across, jump] = find();
    const int last = static_cast<int>(plan.extents.size()) - 1;
    if (across < 0) return;
    const std::int64_t rows = divisor_up_to(plan.extents[at(across)], 16);
    // Jumps of whole pages put all lines into one set of the cache, which holds few.
    const std::int64_t columns = divisor_up_to(plan.extents[at(last)], jump % 1024 == 0 ? 16 : 64);
    if (rows < 8 || columns < 8 || plan.extents[at(across)] * plan.extents[at(last)] < 4096) return;
    split(across, rows);
    split(last, columns);
  }
};

void cut(Plan& plan, std::int64_t most_points) {
  const int last = static_cast<int>(plan.extents.size()) - 1;
  plan.inner_reduced = plan.reduced.back();
  plan.axis = last;
  // Swallow whole extents while two of the next still fit; kept and reduced ones do not mix within a tile's rows.
  while (plan.axis > 0 && plan.inner * plan.extents[at(plan.axis)] <= most_points / 2 &&
         plan.reduced[at(plan.axis)] == plan.inner_reduced) {
    plan.inner *= plan.extents[at(plan.axis)];
    --plan.axis;
  }
  const std::int64_t extent = plan.extents[at(plan.axis)];
  plan.pieces = ceil_div(extent, most_points / plan.inner);
  plan.rows = ceil_div(extent, plan.pieces);
  // Long runs keep to whole cache lines.
  if (plan.inner == 1 && plan.pieces > 1) plan.rows = ceil_div(plan.rows, 64) * 64;
  plan.pieces = ceil_div(extent, plan.rows);
}

void make_spaces(Plan& plan) {
  for (int d = 0; d <= plan.axis; ++d) {
    const bool is_axis = d == plan.axis;
    std::vector<std::int64_t> strides;
    for (const Access& access : plan.accesses) strides.push_back(access.strides[at(d)] * (is_axis ? plan.rows : 1));
    Space& space = plan.reduced[at(d)] ? plan.swept : plan.kept;
    space.add(is_axis ? plan.pieces : plan.extents[at(d)], std::move(strides));
  }
}

}  // namespace

void Space::add(std::int64_t extent, std::vector<std::int64_t> access_strides) {
  extents.push_back(extent);
  strides.push_back(std::move(access_strides));
  size *= extent;
}

void Space::offset(std::int64_t index, std::int64_t* offsets) const {
  for (std::size_t d = extents.size(); d-- > 0;) {
    const std::int64_t position = d == 0 ? index : index % extents[d];
    index = d == 0 ? 0 : index / extents[d];
    if (position == 0) continue;
    for (std::size_t access = 0; access < strides[d].size(); ++access) offsets[access] += position * strides[d][access];
  }
}

std::int64_t Plan::rows_of(std::int64_t piece) const { return std::min(rows, extents[at(axis)] - piece * rows); }

Layout Plan::layout(const Access& access) const {
  bool still = true, dense = true;  // the extents inside the axis
  std::int64_t expected = 1;
  for (int d = static_cast<int>(extents.size()) - 1; d > axis; --d) {
    const std::int64_t stride = access.strides[at(d)];
    still = still && stride == 0;
    dense = dense && stride == expected;
    expected *= extents[at(d)];
  }
  const std::int64_t along = access.strides[at(axis)];
  if (still && along == 0) return Layout::scalar;
  if (dense && along == expected) return Layout::dense;
  return still && inner > 1 ? Layout::rows : Layout::table;
}

bool Plan::constant(const Access& access) const {
  return std::all_of(access.strides.begin(), access.strides.end(), [](std::int64_t stride) { return stride == 0; });
}

bool Plan::repeats(const Access& access) const { return access.strides[at(axis)] == 0; }

std::vector<std::int64_t> Plan::table(const Access& access) const {
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(tile()), 0);
  for (std::int64_t point = 0; point < tile(); ++point) {
    std::int64_t rest = point;
    for (int d = static_cast<int>(extents.size()) - 1; d >= axis; --d) {
      const std::int64_t position = d == axis ? rest : rest % extents[at(d)];
      if (d != axis) rest /= extents[at(d)];
      offsets[static_cast<std::size_t>(point)] += position * access.strides[at(d)];
    }
  }
  return offsets;
}

Plan make_plan(const Group& group, std::int64_t most_points) {
  check(group);
  Plan plan;
  plan.extents = group.extents;
  plan.accesses = group.inputs;
  plan.accesses.insert(plan.accesses.end(), group.outputs.begin(), group.outputs.end());
  const bool reduces =
      std::any_of(group.reduce.begin(), group.reduce.end(), [](Reduce r) { return r != Reduce::none; });
  plan.reduced = reduces ? group.reduced : std::vector<bool>(group.extents.size(), false);
  plan.empty = std::count(group.extents.begin(), group.extents.end(), 0) > 0;
  if (plan.empty) return plan;
  Axes axes{plan};
  axes.drop_ones();
  axes.sort();
  axes.merge();
  if (!reduces) Blocking{plan}.apply();
  cut(plan, most_points);
  make_spaces(plan);
  return plan;
}

}  // namespace varve::cpu
