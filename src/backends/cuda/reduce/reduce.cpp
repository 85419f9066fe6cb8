// Reductions that are no sums: truth over axes, places of extremes, running sums. sum, prod, max and min are left to
// generated groups, which take them with what is computed before.
#include <algorithm>
#include <bit>

#include "backends/cuda/device/arguments.h"
#include "backends/cuda/device/counters.h"
#include "backends/cuda/device/launch.h"
#include "backends/cuda/device/stored_type.h"
#include "backends/cuda/groups/groups.h"
#include "backends/cuda/reduce/sort.h"

namespace varve::cuda {
namespace {

using backend::Prepared;
using backend::RunArgs;

constexpr std::int64_t kReduceThreads = 256;
std::int64_t wanted_blocks() { return 2 * gpu().multiprocessors; }

DType wide_type(DType dtype) { return dtype == f64 ? f64 : is_floating(dtype) ? f32 : i64; }

// ---- any and all: sum and product of flags, so that nothing is false for one and true for the other

Prepared truth(const Task& task, backend::Reduce reduce) {
  GroupPart part;
  part.group.code = expr::flatten(1, {expr::Expr::input(0) != 0});
  part.group.shape = task.shape_in(0);
  part.group.reduce = {reduce};
  part.group.reduced_axes.assign(static_cast<std::size_t>(task.shape_in(0).rank()), false);
  for (const std::int64_t axis : task.attrs.ints("axes"))
    part.group.reduced_axes[static_cast<std::size_t>(axis)] = true;
  part.group.compute = wide_type(task.dtype_in(0));
  part.in = task.in;
  part.out = task.out;
  return prepare_merged({part});
}

Prepared any(const Task& task) { return truth(task, backend::Reduce::sum); }
Prepared all(const Task& task) { return truth(task, backend::Reduce::prod); }

// ---- argmax and argmin

// Threads of a block, and blocks, along the reduced axis and beside it.
struct Spread {
  std::int64_t lanes, tiles, slices = 1, share;
  bool columns;

  explicit Spread(const Rows& rows) : columns(rows.inner > 1) {
    const std::int64_t outputs = rows.outer * rows.inner;
    if (columns) {
      lanes = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::min<std::int64_t>(outputs, 32))));
      while (lanes < kReduceThreads && kReduceThreads / lanes > rows.size) lanes *= 2;
    } else {
      lanes = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(rows.size / 4 + 1)));
      while (lanes < rows.size && outputs * lanes < wanted_blocks() * kReduceThreads) lanes *= 2;
      lanes = std::min(lanes, kReduceThreads);
    }
    const std::int64_t folded = columns ? kReduceThreads / lanes : lanes, together = kReduceThreads / folded;
    tiles = (outputs + together - 1) / together;
    if (folded >= 8)
      slices =
          std::clamp<std::int64_t>(wanted_blocks() / tiles, 1, std::max<std::int64_t>(rows.size / (folded * 32), 1));
    share = (rows.size + slices - 1) / slices;
    slices = (rows.size + share - 1) / share;
  }
};

Prepared arg_extreme(const Task& task, bool largest) {
  if (task.shape_in(0).numel() == 0) return nothing();
  const Rows rows(task.shape_in(0), task.attrs.integer("axis"));
  const Spread spread(rows);
  const DType dtype = task.dtype_in(0);
  const Function function("extreme", {"reduce/extreme.cu", defines({{"T", stored_type(dtype)},
                                                                    {"W", type_name(wide_type(dtype))},
                                                                    {"LARGEST", largest ? "1" : "0"},
                                                                    {"LANES", cat(spread.lanes)},
                                                                    {"COLUMNS", spread.columns ? "1" : "0"}})});
  const std::size_t partial =
      spread.slices == 1 ? 0 : static_cast<std::size_t>(spread.slices * rows.outer * rows.inner);
  const auto counters = zero_counters(spread.slices == 1 ? 0 : static_cast<std::size_t>(spread.tiles));
  const auto run = [=](const RunArgs& args) {
    Words words;
    words.add(args.in[0]);
    words.add(static_cast<const void*>(args.out[0]));
    words.add(static_cast<const void*>(args.scratch));
    words.add(static_cast<const void*>(counters ? counters->address : nullptr));
    for (const std::int64_t number : {rows.outer, rows.size, rows.inner, spread.slices, spread.share})
      words.add(number);
    words.start(function, {.grid = spread.tiles * spread.slices, .block = kReduceThreads});
  };
  return backend::prepared(run, partial * 16);
}

Prepared argmax(const Task& task) { return arg_extreme(task, true); }
Prepared argmin(const Task& task) { return arg_extreme(task, false); }

// ---- cumsum

Prepared cumsum(const Task& task) {
  if (task.shape_in(0).numel() == 0) return nothing();
  const Rows rows(task.shape_in(0), task.attrs.integer("axis"));
  const KernelText text{"reduce/cumsum.cu", defines({{"T", stored_type(task.dtype_in(0))},
                                                     {"U", stored_type(task.dtype_out())},
                                                     {"W", is_floating(task.dtype_in(0)) ? "double" : "i64"}})};
  if (rows.inner == 1)
    return backend::prepared([rows, function = Function("cumsum_rows", text)](const RunArgs& args) {
      function({.grid = rows.outer, .block = kReduceThreads}, args.in[0], args.out[0], rows.size);
    });
  const std::int64_t blocks = (rows.outer * rows.inner + kReduceThreads - 1) / kReduceThreads;
  return backend::prepared([rows, blocks, function = Function("cumsum_columns", text)](const RunArgs& args) {
    function({.grid = blocks, .block = kReduceThreads}, args.in[0], args.out[0], rows.outer, rows.size, rows.inner);
  });
}

}  // namespace

void add_reduce_claims(ClaimMap& map) {
  offer(map, "any", any);
  offer(map, "all", all);
  offer(map, "argmax", argmax);
  offer(map, "argmin", argmin);
  offer(map, "cumsum", cumsum);
  offer(map, "sort", sort);
}

}  // namespace varve::cuda
