// a[{…}] with NumPy's rules: positions, ranges and new axes are a slice and a reshape; tensors of positions a gather.
#include "base/text.h"
#include "varve/ops.h"

namespace varve {
namespace {

using Kind = Index::Kind;

std::int64_t axes_of(const Index& index) { return index.kind() == Kind::added || index.kind() == Kind::rest ? 0 : 1; }

// With the ellipsis that an index has, or that stands at its end.
std::vector<Index> completed(const Tensor& x, std::initializer_list<Index> given) {
  std::int64_t used = 0, ellipses = 0;
  for (const Index& index : given) {
    used += axes_of(index);
    ellipses += index.kind() == Kind::rest;
  }
  if (used > x.rank())
    throw Error(
        cat("too many indices: a tensor of shape ", x.shape(), " has ", x.rank(), " axes, got ", used, " indices."));
  if (ellipses > 1) throw Error("an index can have one ellipsis only.");
  std::vector<Index> all;
  const auto push_rest = [&] {
    for (std::int64_t i = used; i < x.rank(); ++i) all.emplace_back(Range{});
  };
  for (const Index& index : given) {
    if (index.kind() == Kind::rest)
      push_rest();
    else
      all.push_back(index);
  }
  if (ellipses == 0) push_rest();
  return all;
}

std::int64_t checked_position(std::int64_t position, std::int64_t size, int axis) {
  if (position < -size || position >= size)
    throw Error(cat("index ", position, " is out of range for axis ", axis, " of size ", size, "."));
  return position < 0 ? position + size : position;
}

// Positions of an axis, the negative ones counted from its end.
Tensor wrapped(const Tensor& positions, std::int64_t size) {
  if (!positions.defined()) throw Error("an index is an undefined Tensor.");
  if (positions.dtype() == boolean)
    throw Error(
        "an index of bools chooses a number of elements that depends on values: use where(mask, a, b), or "
        "gather positions.");
  if (is_floating(positions.dtype())) throw Error(cat("an index must be integers, got ", positions.type().str(), "."));
  const Tensor wide = positions.to(i64);
  return where(wide < 0, wide + size, wide);
}

// A tensor of positions, at an axis of what slices and new axes have left.
struct Gathered {
  int axis;
  Tensor positions;
};

// Several tensors: their axes go to the front as one, whose position is computed from theirs; the axes of the result
// then stand where the first of them stood, or in front where others were between them.
Tensor gathered(const Tensor& x, const std::vector<Gathered>& by, bool in_front) {
  if (by.size() == 1 && !in_front) return gather(x, by[0].positions, by[0].axis);
  Axes order;
  std::int64_t size = 1;
  Shape common;
  for (const Gathered& each : by) common = broadcast(common, each.positions.shape(), "index");
  Tensor flat = zeros(common, i64);
  for (const Gathered& each : by) {
    order.push_back(each.axis);
    const std::int64_t own = x.dim(each.axis);
    // Out of range along one axis must not become another element.
    const Tensor valid = each.positions >= 0 && each.positions < own;
    flat = where(valid && flat >= 0, flat * own + each.positions, -1);
    size *= own;
  }
  Shape rest;
  for (int a = 0; a < x.rank(); ++a) {
    bool taken = false;
    for (const Gathered& each : by) taken = taken || each.axis == a;
    if (!taken) {
      order.push_back(a);
      rest.push_back(x.dim(a));
    }
  }
  std::vector<std::int64_t> sizes = rest.vec();
  sizes.insert(sizes.begin(), size);
  const Tensor y = gather(reshape(transpose(x, order), Shape(sizes)), flat, 0);  // [common, rest]
  const int before = in_front ? 0 : by[0].axis, moved = common.rank();
  if (before == 0) return y;
  Axes back;
  for (int a = 0; a < before; ++a) back.push_back(moved + a);
  for (int a = 0; a < moved; ++a) back.push_back(a);
  for (int a = moved + before; a < y.rank(); ++a) back.push_back(a);
  return transpose(y, back);
}

Tensor indexed(const Tensor& x, const std::vector<Index>& entries) {
  std::vector<Range> ranges;
  Shape kept;  // after ranges, without the axes of positions, with the new ones
  std::vector<Gathered> tensors;
  bool has_tensors = false;
  for (const Index& index : entries) has_tensors = has_tensors || index.kind() == Kind::positions;
  int axis = 0, groups = 0;  // of tensors and positions side by side
  bool inside = false;
  std::vector<int> of_axis;  // the entry of `kept` that an axis became; -1: none
  for (const Index& index : entries) {
    const bool joins = has_tensors && (index.kind() == Kind::positions || index.kind() == Kind::position);
    if (joins && !inside) ++groups;
    inside = joins;
    if (index.kind() == Kind::added) {
      kept.push_back(1);
      continue;
    }
    const std::int64_t size = x.dim(axis);
    if (index.kind() == Kind::position) {
      const std::int64_t at = checked_position(index.position(), size, axis);
      ranges.push_back({at, at + 1});
    } else {
      ranges.push_back(index.kind() == Kind::range ? index.range() : Range{});
      if (index.kind() == Kind::positions) tensors.push_back({kept.rank(), wrapped(index.positions(), size)});
      of_axis.push_back(axis);
      kept.push_back(-1);
    }
    ++axis;
  }
  const Tensor y = slice(x, ranges);
  for (int k = 0, next = 0; k < kept.rank(); ++k)
    if (kept[k] == -1) kept[k] = y.dim(of_axis[static_cast<std::size_t>(next++)]);
  const Tensor shaped = kept == y.shape() ? y : reshape(y, kept);
  return tensors.empty() ? shaped : gathered(shaped, tensors, groups > 1);
}

}  // namespace

Tensor Tensor::operator[](std::initializer_list<Index> indices) const {
  return indexed(*this, completed(*this, indices));
}
Tensor Tensor::operator[](const Index& index) const { return (*this)[std::initializer_list<Index>{index}]; }

}  // namespace varve
