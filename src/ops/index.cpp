// Reading and adding at positions that are themselves tensors. Kernels check every index: one out of range is noted for
// the next read, gives 0 and touches no memory. Sums into one place run in the order of the updates, so runs repeat.
#include "ops/index.h"

#include "base/text.h"
#include "ops/batching.h"
#include "ops/families.h"
#include "tensor/record.h"
#include "varve/ops.h"

namespace varve {

// ---- shapes

namespace indexing {

void check_indices(const Call& call, const TensorType& indices) {
  if (indices.dtype != i32 && indices.dtype != i64)
    throw Error(cat(call.op.name, ": indices must be i32 or i64, got ", indices.str(), "."));
}

int axis_of(const Call& call) {
  return normalize_axis(call.attrs.integer("axis"), call.in[0].shape.rank(), call.op.name.c_str());
}

Shape gathered_shape(const Shape& x, const Shape& indices, int axis) {
  Shape shape;
  for (int a = 0; a < axis; ++a) shape.push_back(x[a]);
  for (const std::int64_t size : indices) shape.push_back(size);
  for (int a = axis + 1; a < x.rank(); ++a) shape.push_back(x[a]);
  return shape;
}

void check_updates(const Call& call, const Shape& expected) {
  const TensorType &x = call.in[0], &updates = call.in[2];
  if (updates.shape != expected)
    throw Error(cat(call.op.name, ": updates of shape ", updates.shape, " do not fit x ", x.shape, " and indices ",
                    call.in[1].shape, ", which need ", expected, "."));
  if (updates.dtype != x.dtype)
    throw Error(cat(call.op.name, ": updates are ", updates.dtype, " and x is ", x.dtype, "; cast one of them."));
}

void check_along_axis(const Call& call) {
  check_indices(call, call.in[1]);
  const Shape &x = call.in[0].shape, &indices = call.in[1].shape;
  const int axis = axis_of(call);
  bool fits = x.rank() == indices.rank();
  for (int a = 0; fits && a < x.rank(); ++a) fits = a == axis || x[a] == indices[a];
  if (!fits)
    throw Error(cat(call.op.name, ": indices of shape ", indices, " differ from x ", x, " outside axis ", axis, "."));
}

Positions positions(const Call& call, int input, std::int64_t size, int axis) {
  return {input, size, cat(call.op.name, ": index out of range [0, ", size, ") along axis ", axis, ".")};
}

Positions along_axis(const Call& call) {
  const int axis = axis_of(call);
  return positions(call, 1, call.in[0].shape[axis], axis);
}

Cost adding_cost(const Call& call, const std::vector<TensorType>& out) {
  const auto bytes_of = [](const TensorType& type) { return static_cast<double>(type.bytes()); };
  return {static_cast<double>(call.in[2].shape.numel()),
          bytes_of(call.in[1]) + 3 * bytes_of(call.in[2]) + 2 * bytes_of(out[0])};
}

}  // namespace indexing

namespace {

using namespace indexing;

// Sums, of updates that fit.
void check_added(const Call& call, const Shape& expected) {
  check_updates(call, expected);
  if (call.in[0].dtype == boolean)
    throw Error(cat(call.op.name, ": bool tensors have no sums; cast to an integer type."));
}

std::vector<TensorType> gather_shape(const Call& call) {
  check_indices(call, call.in[1]);
  return {{call.in[0].dtype, gathered_shape(call.in[0].shape, call.in[1].shape, axis_of(call))}};
}

std::vector<TensorType> scatter_shape(const Call& call) {
  check_indices(call, call.in[1]);
  check_added(call, gathered_shape(call.in[0].shape, call.in[1].shape, axis_of(call)));
  return {call.in[0]};
}

std::vector<TensorType> take_shape(const Call& call) {
  check_along_axis(call);
  return {{call.in[0].dtype, call.in[1].shape}};
}

std::vector<TensorType> put_shape(const Call& call) {
  check_along_axis(call);
  check_added(call, call.in[1].shape);
  return {call.in[0]};
}

std::vector<TensorType> embedding_shape(const Call& call) {
  check_indices(call, call.in[1]);
  const TensorType& table = call.in[0];
  if (table.shape.rank() != 2)
    throw Error(cat("embedding: the table must be [rows, features], got ", table.str(), "."));
  return {{table.dtype, gathered_shape(table.shape, call.in[1].shape, 0)}};
}

std::vector<TensorType> embedding_grad_shape(const Call& call) {
  check_indices(call, call.in[1]);
  const Shape &dy = call.in[0].shape, &indices = call.in[1].shape;
  const std::int64_t rows = call.attrs.integer("rows");
  if (rows < 0) throw Error(cat("embedding_grad: rows is ", rows, "; expected 0 or more."));
  bool fits = dy.rank() == indices.rank() + 1;
  for (int a = 0; fits && a < indices.rank(); ++a) fits = dy[a] == indices[a];
  if (!fits) throw Error(cat("embedding_grad: dy ", dy, " is not indices ", indices, " with features behind."));
  return {{call.in[0].dtype, {rows, dy.back()}}};
}

std::vector<TensorType> one_hot_shape(const Call& call) {
  check_indices(call, call.in[0]);
  const std::int64_t classes = call.attrs.integer("classes");
  if (classes < 0) throw Error(cat("one_hot: classes is ", classes, "; expected 0 or more."));
  Shape shape = call.in[0].shape;
  shape.push_back(classes);
  return {{call.attrs.dtype("dtype"), shape}};
}

// ---- positions

Positions table_rows(const Call& call) { return positions(call, 1, call.in[0].shape[0], 0); }
Positions table_grad_rows(const Call& call) { return positions(call, 1, call.attrs.integer("rows"), 0); }
Positions classes(const Call& call) {
  return positions(call, 0, call.attrs.integer("classes"), call.in[0].shape.rank());
}

// ---- costs: only the elements that are touched move

double bytes_of(const TensorType& type) { return static_cast<double>(type.bytes()); }

Cost reading_cost(const Call& call, const std::vector<TensorType>& out) {
  return {0, bytes_of(call.in[1]) + 2 * bytes_of(out[0])};
}

Cost embedding_grad_cost(const Call& call, const std::vector<TensorType>& out) {
  return {static_cast<double>(call.in[0].shape.numel()),
          bytes_of(call.in[1]) + 3 * bytes_of(call.in[0]) + bytes_of(out[0])};
}

// ---- gradients: reading and adding are each other's

Tensor zeros_like(const Tensor& x) { return zeros(x.shape(), x.dtype()); }

// y = x[indices]    x: [.., N, ..]  indices: [I]  dy: [.., I, ..]
std::vector<Tensor> gather_vjp(const Vjp& v) {
  return {scatter_add(zeros_like(v.in[0]), v.in[1], v.dy, v.attrs.integer("axis")), {}};
}

std::vector<Tensor> scatter_vjp(const Vjp& v) {
  return {v.dy, {}, v.needs[2] ? gather(v.dy, v.in[1], v.attrs.integer("axis")) : Tensor{}};
}

std::vector<Tensor> take_vjp(const Vjp& v) {
  return {put_along_axis_add(zeros_like(v.in[0]), v.in[1], v.dy, v.attrs.integer("axis")), {}};
}

std::vector<Tensor> put_vjp(const Vjp& v) {
  return {v.dy, {}, v.needs[2] ? take_along_axis(v.dy, v.in[1], v.attrs.integer("axis")) : Tensor{}};
}

std::vector<Tensor> embedding_vjp(const Vjp& v);
std::vector<Tensor> embedding_grad_vjp(const Vjp& v) { return {embedding(v.dy, v.in[1]), {}}; }

std::vector<Tensor> embedding_by_gather(const std::vector<Tensor>& in, const Attrs&) { return {gather(in[0], in[1])}; }

std::vector<Tensor> embedding_grad_by_scatter(const std::vector<Tensor>& in, const Attrs& attrs) {
  const Tensor& dy = in[0];
  return {scatter_add(zeros({attrs.integer("rows"), dy.dim(-1)}, dy.dtype()), in[1], dy)};
}

// ---- batches: gather and scatter_add with indices of each example go through one long axis [size · N] of all examples

// What is out of range stays so, rather than meeting the next example.
Tensor positions_of_all(const Tensor& indices, std::int64_t size, std::int64_t length) {
  const Tensor own = indices.to(i64);
  Shape each(Ints(static_cast<std::size_t>(indices.rank()), 1));
  each[0] = size;
  const Tensor first = reshape(arange(size) * length, each);
  return where(own >= 0 && own < length, own + first, size * length);
}

// [size, A.., N, R..] as [size · N, A.., R..]
Tensor joined_examples(const Tensor& x, int axis) {
  const Tensor front = with_axis_at(x, axis + 1, 1);
  Ints sizes(front.shape().begin() + 1, front.shape().end());
  sizes[0] *= front.dim(0);
  return reshape(front, Shape(std::move(sizes)));
}

// `count` axes of [size, ..] moved from one place to another, their order kept.
Tensor axes_moved(const Tensor& x, int from, int to, int count) {
  Axes order, moved;
  for (int axis = 0; axis < x.rank(); ++axis) (axis >= from && axis < from + count ? moved : order).push_back(axis);
  order.insert(order.begin() + to, moved.begin(), moved.end());
  return transpose(x, order);
}

std::optional<std::vector<Tensor>> batch_gather(const Batching& call) {
  const Tensor &x = call.in[0], &indices = call.in[1];
  const int axis = normalize_axis(call.attrs.integer("axis"), x.rank() - (call.batched[0] ? 1 : 0), "gather");
  if (!call.batched[1]) return std::vector<Tensor>{gather(x, indices, axis + 1)};
  if (!call.batched[0]) return std::vector<Tensor>{with_axis_at(gather(x, indices, axis), axis, 0)};
  const Tensor taken = gather(joined_examples(x, axis), positions_of_all(indices, call.size, x.dim(axis + 1)), 0);
  return std::vector<Tensor>{axes_moved(taken, 1, 1 + axis, indices.rank() - 1)};
}

// A table of each example decomposes.
std::optional<std::vector<Tensor>> batch_embedding(const Batching& call) {
  if (call.batched[0]) return std::nullopt;
  return record(call.op, call.in, call.attrs);
}

// ---- records

const OpDef gather_op = define({.name = "gather",
                                .doc = "Slices of x along an axis, at indices; the axis becomes the indices' shape.",
                                .family = "index",
                                .arity = 2,
                                .shape = gather_shape,
                                .gradient = gather_vjp,
                                .cost = reading_cost,
                                .positions = along_axis,
                                .batching = batch_gather});
const OpDef scatter_add_op = define({.name = "scatter_add",
                                     .doc = "x with slices of updates added along an axis, at indices.",
                                     .family = "index",
                                     .arity = 3,
                                     .shape = scatter_shape,
                                     .gradient = scatter_vjp,
                                     .cost = adding_cost,
                                     .positions = along_axis,
                                     .batching = indexing::batch_scatter,
                                     .in_place = {{0, 0}}});
const OpDef take_op = define({.name = "take_along_axis",
                              .doc = "One element of x along an axis for each index.",
                              .family = "index",
                              .arity = 2,
                              .shape = take_shape,
                              .gradient = take_vjp,
                              .cost = reading_cost,
                              .positions = along_axis,
                              .batching = batch_along_axis});
const OpDef put_op = define({.name = "put_along_axis_add",
                             .doc = "x with one update added along an axis for each index.",
                             .family = "index",
                             .arity = 3,
                             .shape = put_shape,
                             .gradient = put_vjp,
                             .cost = adding_cost,
                             .positions = along_axis,
                             .batching = batch_along_axis,
                             .in_place = {{0, 0}}});
const OpDef embedding_op = define({.name = "embedding",
                                   .doc = "Rows of a table [V, D] at indices.",
                                   .family = "index",
                                   .arity = 2,
                                   .shape = embedding_shape,
                                   .gradient = embedding_vjp,
                                   .decompose = embedding_by_gather,
                                   .cost = reading_cost,
                                   .positions = table_rows,
                                   .batching = batch_embedding});
const OpDef embedding_grad_op = define({.name = "embedding_grad",
                                        .doc = "Gradient of a table: rows of dy summed by index.",
                                        .family = "index",
                                        .arity = 2,
                                        .shape = embedding_grad_shape,
                                        .gradient = embedding_grad_vjp,
                                        .decompose = embedding_grad_by_scatter,
                                        .cost = embedding_grad_cost,
                                        .positions = table_grad_rows});
const OpDef one_hot_op = define({.name = "one_hot",
                                 .doc = "1 at the index and 0 elsewhere, along a new last axis.",
                                 .family = "index",
                                 .arity = 1,
                                 .shape = one_hot_shape,
                                 .positions = classes,
                                 .batching = batch_leading,
                                 .differentiable = false});

// y = table[indices]    table: [V, D]  indices: [..]  dy: [.., D]
std::vector<Tensor> embedding_vjp(const Vjp& v) { return {embedding_grad(v.dy, v.in[1], v.in[0].dim(0)), {}}; }

Attrs along(std::int64_t axis, const Tensor& x, const char* op) {
  return {{"axis", normalize_axis(axis, x.rank(), op)}};
}

}  // namespace

std::optional<std::vector<Tensor>> indexing::batch_scatter(const Batching& call) {
  const std::vector<Tensor> in = all_batched(call);
  const Tensor &x = in[0], &updates = in[2];
  const int axis = normalize_axis(call.attrs.integer("axis"), x.rank() - 1, call.op.name.c_str());
  if (!call.batched[1]) return record(call.op, {x, call.in[1], updates}, with_axis_behind(call.attrs));
  const std::int64_t length = x.dim(axis + 1);
  Attrs attrs = call.attrs;
  attrs.set("axis", 0);
  const Tensor changed = record(call.op,
                                {joined_examples(x, axis), positions_of_all(in[1], call.size, length),
                                 axes_moved(updates, 1 + axis, 1, in[1].rank() - 1)},
                                attrs)[0];
  Ints sizes = changed.shape().vec();
  sizes[0] = length;
  return std::vector<Tensor>{with_axis_at(reshape(changed, Shape(prefixed(sizes, call.size))), 1, axis + 1)};
}

std::vector<const OpRecord*> index_ops() {
  return {&gather_op.record(),    &scatter_add_op.record(),    &take_op.record(),   &put_op.record(),
          &embedding_op.record(), &embedding_grad_op.record(), &one_hot_op.record()};
}

Tensor gather(const Tensor& x, const Tensor& indices, std::int64_t axis) {
  return record(gather_op.record(), {x, indices}, along(axis, x, "gather"))[0];
}

Tensor scatter_add(const Tensor& x, const Tensor& indices, const Tensor& updates, std::int64_t axis) {
  return record(scatter_add_op.record(), {x, indices, updates}, along(axis, x, "scatter_add"))[0];
}

Tensor take_along_axis(const Tensor& x, const Tensor& indices, std::int64_t axis) {
  return record(take_op.record(), {x, indices}, along(axis, x, "take_along_axis"))[0];
}

Tensor put_along_axis_add(const Tensor& x, const Tensor& indices, const Tensor& updates, std::int64_t axis) {
  return record(put_op.record(), {x, indices, updates}, along(axis, x, "put_along_axis_add"))[0];
}

Tensor embedding_grad(const Tensor& dy, const Tensor& indices, std::int64_t rows) {
  return record(embedding_grad_op.record(), {dy, indices}, {{"rows", rows}})[0];
}
Tensor embedding(const Tensor& table, const Tensor& indices) {
  return record(embedding_op.record(), {table, indices})[0];
}

Tensor one_hot(const Tensor& indices, std::int64_t classes, DType dtype) {
  return record(one_hot_op.record(), {indices}, {{"classes", classes}, {"dtype", dtype}})[0];
}

}  // namespace varve
