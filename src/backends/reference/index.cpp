#include "backends/reference/kernels.h"
#include "base/text.h"

namespace varve::reference {
namespace {

using Views = std::vector<View>;

// Checks indices against one axis; what is out of range is noted and answered with false.
class Bounds {
 public:
  Bounds(const ir::Node& node, std::int64_t size, int axis, backend::ErrorWord& errors)
      : text_(lasting(cat(node.op->name, ": index out of range [0, ", size, ") along axis ", axis, "."))),
        size_(size),
        errors_(errors) {}

  bool holds(std::int64_t index) const {
    if (index >= 0 && index < size_) return true;
    errors_.note(text_, index);
    return false;
  }

 private:
  const std::string& text_;
  std::int64_t size_;
  backend::ErrorWord& errors_;
};

// A tensor whose axis was replaced by indices: [outer, number of indices or size of the axis, inner].
struct Blocks {
  std::int64_t outer = 1, size = 1, inner = 1;

  Blocks(const Shape& x, int axis) : size(x[axis]) {
    for (int a = 0; a < x.rank(); ++a) {
      if (a < axis) outer *= x[a];
      if (a > axis) inner *= x[a];
    }
  }
};

int axis_of(const ir::Node& node) { return node.attrs.has("axis") ? static_cast<int>(node.attrs.integer("axis")) : 0; }

void set_zero(const View& y, std::int64_t i) { y.set_int(i, 0); }

// y[o, j, i] = x[o, indices[j], i]
void gather(const ir::Node& node, const Views& in, const Views& out, backend::ErrorWord& errors) {
  if (out[0].numel() == 0) return;
  const int axis = axis_of(node);
  const Blocks x(in[0].shape(), axis);
  const Bounds bounds(node, x.size, axis, errors);
  const std::int64_t count = in[1].numel();
  for (std::int64_t o = 0; o < x.outer; ++o)
    for (std::int64_t j = 0; j < count; ++j) {
      const std::int64_t index = in[1].get_int(j);
      const bool inside = bounds.holds(index);
      for (std::int64_t i = 0; i < x.inner; ++i) {
        const std::int64_t to = (o * count + j) * x.inner + i;
        if (inside)
          out[0].copy(to, in[0], (o * x.size + index) * x.inner + i);
        else
          set_zero(out[0], to);
      }
    }
}

// Sums in double or wrapping integers, stored once at the end.
class Sums {
 public:
  explicit Sums(const View& y) : y_(y), real_(y.integral() ? 0 : count()), whole_(y.integral() ? count() : 0) {}

  void start_from(const View& x) {
    for (std::int64_t i = 0; i < y_.numel(); ++i) add(i, x, i);
  }
  void add(std::int64_t to, const View& from, std::int64_t at) {
    if (y_.integral())
      whole_[static_cast<std::size_t>(to)] += static_cast<std::uint64_t>(from.get_int(at));
    else
      real_[static_cast<std::size_t>(to)] += from.get(at);
  }
  void store() const {
    for (std::int64_t i = 0; i < y_.numel(); ++i) {
      const auto slot = static_cast<std::size_t>(i);
      if (y_.integral())
        y_.set_int(i, static_cast<std::int64_t>(whole_[slot]));
      else
        y_.set(i, real_[slot]);
    }
  }

 private:
  std::size_t count() const { return static_cast<std::size_t>(y_.numel()); }
  View y_;
  std::vector<double> real_;
  std::vector<std::uint64_t> whole_;
};

// sums[o, indices[j], i] += updates[o, j, i]
void add_updates(const View& indices, const View& updates, const Blocks& x, const Bounds& bounds, Sums& sums) {
  if (updates.numel() == 0) return;
  const std::int64_t count = indices.numel();
  for (std::int64_t o = 0; o < x.outer; ++o)
    for (std::int64_t j = 0; j < count; ++j) {
      const std::int64_t index = indices.get_int(j);
      if (!bounds.holds(index)) continue;
      for (std::int64_t i = 0; i < x.inner; ++i)
        sums.add((o * x.size + index) * x.inner + i, updates, (o * count + j) * x.inner + i);
    }
}

void scatter_add(const ir::Node& node, const Views& in, const Views& out, backend::ErrorWord& errors) {
  if (out[0].numel() == 0 && in[2].numel() == 0) return;
  const int axis = axis_of(node);
  const Blocks x(in[0].shape(), axis);
  Sums sums(out[0]);
  sums.start_from(in[0]);
  add_updates(in[1], in[2], x, Bounds(node, x.size, axis, errors), sums);
  sums.store();
}

void embedding_grad(const ir::Node& node, const Views& in, const Views& out, backend::ErrorWord& errors) {
  const Blocks table(out[0].shape(), 0);
  Sums sums(out[0]);
  add_updates(in[1], in[0], table, Bounds(node, table.size, 0, errors), sums);
  sums.store();
}

// Calls visit(position in the indices, position in x or -1) for every index: x and indices differ along the axis alone.
template <class F>
void each_along_axis(const ir::Node& node, const View& x_view, const View& indices, backend::ErrorWord& errors,
                     F visit) {
  if (indices.numel() == 0) return;
  const int axis = axis_of(node);
  const Blocks x(x_view.shape(), axis);
  const Bounds bounds(node, x.size, axis, errors);
  const std::int64_t count = indices.shape()[axis];
  for (std::int64_t o = 0; o < x.outer; ++o)
    for (std::int64_t j = 0; j < count; ++j)
      for (std::int64_t i = 0; i < x.inner; ++i) {
        const std::int64_t at = (o * count + j) * x.inner + i, index = indices.get_int(at);
        visit(at, bounds.holds(index) ? (o * x.size + index) * x.inner + i : -1);
      }
}

void take_along_axis(const ir::Node& node, const Views& in, const Views& out, backend::ErrorWord& errors) {
  each_along_axis(node, in[0], in[1], errors, [&](std::int64_t to, std::int64_t from) {
    if (from >= 0)
      out[0].copy(to, in[0], from);
    else
      set_zero(out[0], to);
  });
}

void put_along_axis_add(const ir::Node& node, const Views& in, const Views& out, backend::ErrorWord& errors) {
  Sums sums(out[0]);
  sums.start_from(in[0]);
  each_along_axis(node, in[0], in[1], errors, [&](std::int64_t from, std::int64_t to) {
    if (to >= 0) sums.add(to, in[2], from);
  });
  sums.store();
}

void one_hot(const ir::Node& node, const Views& in, const Views& out, backend::ErrorWord& errors) {
  const std::int64_t classes = out[0].shape().back();
  const Bounds bounds(node, classes, out[0].shape().rank() - 1, errors);
  for (std::int64_t i = 0; i < out[0].numel(); ++i) set_zero(out[0], i);
  for (std::int64_t j = 0; j < in[0].numel(); ++j) {
    const std::int64_t index = in[0].get_int(j);
    if (!bounds.holds(index)) continue;
    out[0].set_int(j * classes + index, 1);
  }
}

}  // namespace

void add_index_kernels(KernelMap& map) {
  map["gather"] = gather;
  map["embedding"] = gather;
  map["scatter_add"] = scatter_add;
  map["embedding_grad"] = embedding_grad;
  map["take_along_axis"] = take_along_axis;
  map["put_along_axis_add"] = put_along_axis_add;
  map["one_hot"] = one_hot;
}

}  // namespace varve::reference
