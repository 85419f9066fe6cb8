// Adding at positions that are themselves tensors, without atomics: positions are sorted by where they go, and those of
// one place are added in a fixed order, so that runs repeat bit for bit.
#include "backends/cuda/index/index_add.h"

#include "backends/cuda/device/sizes.h"
#include "backends/cuda/device/status.h"

namespace varve::cuda {
namespace {

using backend::Claim;
using backend::Port;
using backend::Prepared;
using backend::RunArgs;
using backend::Site;

// Sums by row, over positions that are sorted.
class RowSums {
 public:
  explicit RowSums(const Scatter& s) : s_(s) {
    vec_ = std::min({16 / element_bytes(s.update_dtype), power_above(s.inner), std::int64_t{8}});
    lanes_ = std::min<std::int64_t>(power_above(ceil_div(s.inner, vec_)), 32);
    // Long pieces have few shares to join; enough pieces keep the GPU busy.
    constexpr std::int64_t kShortest = 8, kLongest = 128, kWarps = 64;  // to a multiprocessor
    const auto warps = [&](std::int64_t piece) { return ceil_div(s.positions, piece) * lanes_ * columns(vec_) / 32; };
    piece_ = kShortest;
    while (piece_ < kLongest && warps(2 * piece_) >= kWarps * gpu().multiprocessors) piece_ *= 2;
    Constants constants = {{"ELEMENT", type_name(s.dtype)},
                           {"UPDATE", type_name(s.update_dtype)},
                           {"VEC", cat(vec_)},
                           {"LANES", cat(lanes_)}};
    if (s.x >= 0) constants.emplace_back("BASE", "1");
    if (s.steps) constants.emplace_back("RATE", "1");
    if (s.drop) constants.emplace_back("DROPOUT", "1");
    const KernelText text{"index/index_add.cu", defines(constants)};
    sum_ = Function("sum_pieces", text);
    join_ = Function("join_pieces", text);
    sum_singly_ = Function("sum_pieces_singly", text);
    join_singly_ = Function("join_pieces_singly", text);
  }

  std::size_t scratch_bytes() const {
    const std::int64_t wide = is_floating(s_.dtype) && s_.dtype != f64 ? 4 : 8;
    return static_cast<std::size_t>(2 * pieces() * s_.inner * wide);
  }

  void operator()(const IndexSort::Sorted& sorted, const RunArgs& args, const void* updates, void* shares) const {
    const struct {
      const std::uint32_t *keys, *places;
      std::int64_t count, piece, pieces, size, inner;
      const void* rate;
      double known_rate;
      DropArgs drop;
    } rows{sorted.keys,   sorted.places,
           s_.positions,  piece_,
           pieces(),      s_.rows,
           s_.inner,      s_.rate_at < 0 ? nullptr : args.in[s_.rate_at],
           s_.known_rate, s_.drop ? DropArgs(*s_.drop, args.in[s_.drop_at], args.in[s_.drop_at + 1]) : DropArgs()};
    void* y = args.out[0];
    const bool wide = s_.inner % vec_ == 0 && aligned(vec_ * element_bytes(s_.update_dtype), updates) &&
                      aligned(std::min<std::int64_t>(vec_ * element_bytes(s_.dtype), 16), y);
    Launch launch{.grid = ceil_div(pieces(), 256 / lanes_), .grid_y = static_cast<int>(columns(wide ? vec_ : 1))};
    (wide ? sum_ : sum_singly_)(launch, rows, updates, y, shares);
    if (pieces() == 1) return;
    launch.grid = pieces();
    (wide ? join_ : join_singly_)(launch, rows, y, shares);
  }

  // Whether y's columns fit a launch.
  static bool takes(std::int64_t inner) { return ceil_div(inner, 32) <= 65535; }

 private:
  std::int64_t pieces() const { return ceil_div(s_.positions, piece_); }
  std::int64_t columns(std::int64_t vec) const { return ceil_div(s_.inner, lanes_ * vec); }

  Scatter s_;
  std::int64_t vec_, lanes_, piece_;
  Function sum_, join_, sum_singly_, join_singly_;
};

void start_from_x(const Scatter& s, const RunArgs& args) {
  if (s.x >= 0 && args.out[0] != args.in[s.x])
    context().copy(args.out[0], args.in[s.x], static_cast<std::size_t>(s.bytes()));
}

// Without positions, y is x or zeros.
Prepared prepare_unchanged(const Scatter& s) {
  return backend::prepared([=](const RunArgs& args) {
    start_from_x(s, args);
    if (s.x >= 0 || s.bytes() == 0) return;
    check(cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(args.out[0]), 0, static_cast<std::size_t>(s.bytes()),
                          context().stream()),
          "cuMemsetD8Async");
  });
}

}  // namespace

Prepared prepare_scatter(const Scatter& s, const IndexSort::Keys& keys) {
  if (s.positions == 0) return prepare_unchanged(s);
  const IndexSort sort(keys);
  const RowSums sums(s);
  const auto run = [=](const RunArgs& args) {
    start_from_x(s, args);
    const IndexSort::Sorted sorted =
        sort(args.in[s.indices], args.scratch, args.errors->word(), args.out[0], s.x >= 0 ? 0 : s.bytes());
    sums(sorted, args, args.in[s.updates], static_cast<std::byte*>(args.scratch) + sort.scratch_bytes());
  };
  return backend::prepared(run, sort.scratch_bytes() + sums.scratch_bytes());
}

std::string scatter_refusal(const Shape& y, std::int64_t axis, const Shape& updates, std::int64_t indices) {
  if (updates.numel() == 0) return "";
  const Rows rows(y, axis);
  if (!RowSums::takes(rows.inner)) return cat("rows of ", rows.inner, " elements are too long");
  return IndexSort::refusal(rows.outer * indices, rows.outer * rows.size);
}

namespace {

// ---- scatter_add

Prepared scatter_add(const Task& task) {
  if (task.shape_out().numel() == 0 && task.shape_in(2).numel() == 0) return nothing();
  const std::int64_t axis = task.attrs.integer("axis"), count = task.shape_in(1).numel();
  const Rows y(task.shape_out(), axis);
  const Scatter s{.rows = y.outer * y.size,
                  .inner = y.inner,
                  .positions = y.outer * count,
                  .dtype = task.dtype_out(),
                  .x = 0,
                  .indices = 1,
                  .updates = 2};
  return prepare_scatter(s, {.dtype = task.dtype_in(1),
                             .positions = s.positions,
                             .rows = s.rows,
                             .size = y.size,
                             .count = count,
                             .text = number_of(out_of_range(task.op, y.size, axis))});
}

void claim_scatter_add(const Site& site, std::vector<Claim>& claims) {
  const ir::Node& node = site.node();
  const std::string no = scatter_refusal(node.types[0].shape, node.attrs.integer("axis"), node.inputs[2].type().shape,
                                         node.inputs[1].type().shape.numel());
  claims.push_back(no.empty() ? claim_of(site.root(), scatter_add) : Claim::no("cuda scatter_add", no));
}

// ---- put_along_axis_add: y[o, indices[o, j, i], i] = x[…] + Σ updates[o, j, i]

// Few updates to a column: each column is one thread's.
Prepared put_few(const Task& task, const Scatter& s, const Rows& y, std::int64_t count, int text) {
  const KernelText put{"index/index_put.cu",
                       defines({{"ELEMENT", type_name(s.dtype)}, {"INDEX", index_type(task.dtype_in(1))}})};
  return backend::prepared([=, kernel = Function("put_few", put)](const RunArgs& args) {
    start_from_x(s, args);
    kernel(striding(y.outer * y.inner), args.in[1], args.in[2], args.out[0], y.outer * y.inner, y.inner, y.size,
           static_cast<int>(count), args.errors->word(), text);
  });
}

constexpr std::int64_t kFewRows = 8;

Prepared put_along_axis_add(const Task& task) {
  if (task.shape_out().numel() == 0 && task.shape_in(1).numel() == 0) return nothing();
  const std::int64_t axis = task.attrs.integer("axis"), count = task.shape_in(1)[static_cast<int>(axis)];
  const Rows y(task.shape_out(), axis);
  const Scatter s{.rows = task.shape_out().numel(),
                  .inner = 1,
                  .positions = task.shape_in(1).numel(),
                  .dtype = task.dtype_out(),
                  .x = 0,
                  .indices = 1,
                  .updates = 2};
  const int text = number_of(out_of_range(task.op, y.size, axis));
  if (s.positions > 0 && count <= kFewRows) return put_few(task, s, y, count, text);
  return prepare_scatter(s, {.dtype = task.dtype_in(1),
                             .positions = s.positions,
                             .rows = s.rows,
                             .size = y.size,
                             .count = count,
                             .inner = y.inner,
                             .flat = true,
                             .text = text});
}

void claim_put(const Site& site, std::vector<Claim>& claims) {
  const ir::Node& node = site.node();
  const Shape& indices = node.inputs[1].type().shape;
  const std::string no = indices[static_cast<int>(node.attrs.integer("axis"))] <= kFewRows
                             ? ""
                             : IndexSort::refusal(indices.numel(), node.types[0].shape.numel());
  claims.push_back(no.empty() ? claim_of(site.root(), put_along_axis_add) : Claim::no("cuda put_along_axis_add", no));
}

}  // namespace

void add_scatter_claims(ClaimMap& map) {
  map["scatter_add"].push_back(claim_scatter_add);
  map["put_along_axis_add"].push_back(claim_put);
}

}  // namespace varve::cuda
