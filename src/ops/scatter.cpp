// Writing at positions that are themselves tensors: the updates of one place are taken in their order, on every
// backend.
#include "base/text.h"
#include "ops/batching.h"
#include "ops/families.h"
#include "ops/index.h"
#include "tensor/record.h"
#include "varve/indexing.h"

namespace varve {
namespace {

using namespace indexing;

const char* name_of(ScatterMode mode) {
  switch (mode) {
    case ScatterMode::assign:
      return "assign";
    case ScatterMode::max:
      return "max";
    case ScatterMode::min:
      return "min";
    case ScatterMode::product:
      return "product";
    case ScatterMode::sum:
      break;
  }
  return "sum";
}

void check_mode(const Call& call) {
  const std::string& mode = call.attrs.text("mode");
  if (mode != "assign" && mode != "max" && mode != "min" && mode != "product")
    throw Error(cat(call.op.name, ": mode is '", mode, "'; expected assign, max, min or product."));
  if (mode == "product" && call.in[0].dtype == boolean)
    throw Error(cat(call.op.name, ": bool tensors have no products; use min, or cast to an integer type."));
}

std::vector<TensorType> scatter_shape(const Call& call) {
  check_indices(call, call.in[1]);
  check_updates(call, gathered_shape(call.in[0].shape, call.in[1].shape, axis_of(call)));
  check_mode(call);
  return {call.in[0]};
}

std::vector<TensorType> put_shape(const Call& call) {
  check_along_axis(call);
  check_updates(call, call.in[1].shape);
  check_mode(call);
  return {call.in[0]};
}

// ---- gradients. What reads at the positions and what writes there, for whole slices and for single elements.

struct Access {
  std::function<Tensor(const Tensor& x)> read;
  std::function<Tensor(const Tensor& x, const Tensor& updates)> add;
  std::function<Tensor(const Tensor& x, const Tensor& updates, ScatterMode)> write;
  Tensor order;  // i64: for every update its place in the order of updates, alike where they never meet
  Shape places;  // of x, as far as updates that differ in `order` can meet
  std::function<Tensor(const Tensor& of_updates)> spread;  // a tensor like `order` to the shape of updates
};

Tensor zeros_like(const Tensor& x) { return zeros(x.shape(), x.dtype()); }

// Whether an update is the one that stays. x: [.., N, ..]  last: [N] or [.., N, ..], the number of the last update
Tensor stays(const Access& at, const Tensor& indices, bool slices, std::int64_t axis) {
  const Tensor none = zeros(at.places, i64);
  const Tensor last = slices ? scatter(none, indices, at.order) : put_along_axis(none, indices, at.order, axis);
  const Tensor of_update = slices ? gather(last, indices) : take_along_axis(last, indices, axis);
  return at.spread(equal(of_update, at.order));
}

// y = x with updates assigned: dy goes to what stayed of x, and to the updates that stayed.
std::vector<Tensor> assign_vjp(const Vjp& v, const Access& at, bool slices) {
  std::vector<Tensor> grads(3);
  if (v.needs[0]) grads[0] = at.write(v.dy, zeros_like(v.in[2]), ScatterMode::assign);
  if (v.needs[2])
    grads[2] = where(stays(at, v.in[1], slices, v.attrs.integer("axis")), at.read(v.dy), zeros({}, v.dy.dtype()));
  return grads;
}

// Equal extremes share dy evenly, as those of `max` do.
std::vector<Tensor> extreme_vjp(const Vjp& v, const Access& at) {
  const Tensor &x = v.in[0], &updates = v.in[2], &y = v.out[0];
  const Tensor x_hit = equal(x, y).to(x.dtype()), u_hit = equal(updates, at.read(y)).to(x.dtype());
  const Tensor share = v.dy / maximum(at.add(x_hit, u_hit), 1);  // no tie counts where y is NaN
  return {share * x_hit, {}, v.needs[2] ? at.read(share) * u_hit : Tensor{}};
}

// Each factor gets the product of the others. With one zero among them only the zero does; with two, none.
std::vector<Tensor> multiply_vjp(const Vjp& v, const Access& at) {
  const Tensor &x = v.in[0], &updates = v.in[2];
  std::vector<Tensor> grads(3);
  if (v.needs[0]) grads[0] = v.dy * at.write(ones(x.shape(), x.dtype()), updates, ScatterMode::product);
  if (!v.needs[2]) return grads;
  const Tensor x_zero = equal(x, 0), u_zero = equal(updates, 0);
  const Tensor zero_count = at.read(at.add(x_zero.to(x.dtype()), u_zero.to(x.dtype())));
  const Tensor rest = at.read(at.write(where(x_zero, 1, x), where(u_zero, 1, updates), ScatterMode::product));
  const Tensor others = where(equal(zero_count, u_zero.to(x.dtype())), rest / where(u_zero, 1, updates), 0);
  grads[2] = at.read(v.dy) * others;
  return grads;
}

std::vector<Tensor> vjp(const Vjp& v, const Access& at, bool slices) {
  const std::string& mode = v.attrs.text("mode");
  if (mode == "assign") return assign_vjp(v, at, slices);
  if (mode == "product") return multiply_vjp(v, at);
  return extreme_vjp(v, at);
}

// x: [.., N, ..]  indices: [I]  updates: [.., I, ..]
std::vector<Tensor> scatter_vjp(const Vjp& v) {
  const Tensor &x = v.in[0], &indices = v.in[1];
  const std::int64_t axis = v.attrs.integer("axis"), behind = x.rank() - 1 - axis;
  const auto write = [=](const Tensor& to, const Tensor& updates, ScatterMode mode) {
    return scatter(to, indices, updates, {.mode = mode, .axis = axis});
  };
  const Shape updates = v.in[2].shape();
  const auto spread = [=](const Tensor& of_indices) {
    Shape shape = of_indices.shape();
    for (std::int64_t a = 0; a < behind; ++a) shape.push_back(1);
    return broadcast_to(reshape(of_indices, shape), updates);
  };
  return vjp(v,
             {.read = [=](const Tensor& from) { return gather(from, indices, axis); },
              .add = [=](const Tensor& to, const Tensor& more) { return scatter_add(to, indices, more, axis); },
              .write = write,
              .order = reshape(arange(indices.numel()), indices.shape()),
              .places = {x.dim(static_cast<int>(axis))},
              .spread = spread},
             true);
}

// x: [.., N, ..]  indices, updates: [.., I, ..]
std::vector<Tensor> put_vjp(const Vjp& v) {
  const Tensor &x = v.in[0], &indices = v.in[1];
  const std::int64_t axis = v.attrs.integer("axis");
  Shape along;
  for (int a = 0; a < x.rank(); ++a) along.push_back(a == axis ? indices.dim(a) : 1);
  const auto write = [=](const Tensor& to, const Tensor& updates, ScatterMode mode) {
    return put_along_axis(to, indices, updates, axis, mode);
  };
  return vjp(v,
             {.read = [=](const Tensor& from) { return take_along_axis(from, indices, axis); },
              .add = [=](const Tensor& to, const Tensor& more) { return put_along_axis_add(to, indices, more, axis); },
              .write = write,
              .order = broadcast_to(reshape(arange(indices.dim(static_cast<int>(axis))), along), indices.shape()),
              .places = x.shape(),
              .spread = [](const Tensor& same) { return same; }},
             false);
}

// ---- records

const OpDef scatter_op =
    define({.name = "scatter",
            .doc = "x with slices along an axis set to those of updates, or joined with them by max, min or product.",
            .family = "scatter",
            .arity = 3,
            .shape = scatter_shape,
            .gradient = scatter_vjp,
            .cost = adding_cost,
            .positions = along_axis,
            .batching = batch_scatter,
            .smooth = false,
            .in_place = {{0, 0}}});
const OpDef put_op =
    define({.name = "put_along_axis",
            .doc = "x with one element along an axis set for each index, or joined with it by max, min or product.",
            .family = "scatter",
            .arity = 3,
            .shape = put_shape,
            .gradient = put_vjp,
            .cost = adding_cost,
            .positions = along_axis,
            .batching = batch_along_axis,
            .smooth = false,
            .in_place = {{0, 0}}});

}  // namespace

std::vector<const OpRecord*> scatter_ops() { return {&scatter_op.record(), &put_op.record()}; }

Tensor scatter(const Tensor& x, const Tensor& indices, const Tensor& updates, const ScatterOptions& options) {
  const std::int64_t axis = normalize_axis(options.axis, x.rank(), "scatter");
  if (options.mode == ScatterMode::sum) return scatter_add(x, indices, updates, axis);
  return record(scatter_op.record(), {x, indices, updates}, {{"axis", axis}, {"mode", name_of(options.mode)}})[0];
}

Tensor put_along_axis(const Tensor& x, const Tensor& indices, const Tensor& updates, std::int64_t axis,
                      ScatterMode mode) {
  const std::int64_t along = normalize_axis(axis, x.rank(), "put_along_axis");
  if (mode == ScatterMode::sum) return put_along_axis_add(x, indices, updates, along);
  return record(put_op.record(), {x, indices, updates}, {{"axis", along}, {"mode", name_of(mode)}})[0];
}

}  // namespace varve
