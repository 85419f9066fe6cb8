#include <cmath>

#include "backends/reference/kernels.h"
#include "base/text.h"

namespace varve::reference {
namespace {

using Views = std::vector<View>;

// How an update is joined with what is there, in double or in integers, which wrap.
using Join = void (*)(const View& updates, std::int64_t from, std::int64_t& whole, double& real);

void join_max(const View& updates, std::int64_t from, std::int64_t& whole, double& real) {
  if (updates.integral()) {
    whole = std::max(whole, updates.get_int(from));
  } else {
    const double value = updates.get(from);
    if (value > real || std::isnan(value)) real = value;
  }
}

void join_min(const View& updates, std::int64_t from, std::int64_t& whole, double& real) {
  if (updates.integral()) {
    whole = std::min(whole, updates.get_int(from));
  } else {
    const double value = updates.get(from);
    if (value < real || std::isnan(value)) real = value;
  }
}

void join_product(const View& updates, std::int64_t from, std::int64_t& whole, double& real) {
  if (updates.integral())
    whole = static_cast<std::int64_t>(static_cast<std::uint64_t>(whole) *
                                      static_cast<std::uint64_t>(updates.get_int(from)));
  else
    real *= updates.get(from);
}

Join join_of(const std::string& mode) {
  if (mode == "max") return join_max;
  if (mode == "min") return join_min;
  return mode == "product" ? join_product : nullptr;
}

// Elements being joined, in double or integers, stored once at the end.
class Joined {
 public:
  Joined(const View& y, const View& x, Join join) : y_(y), join_(join) {
    for (std::int64_t i = 0; i < y.numel(); ++i) {
      if (!join) y.copy(i, x, i);
      whole_.push_back(x.integral() ? x.get_int(i) : 0);
      real_.push_back(x.integral() ? 0 : x.get(i));
    }
  }
  void take(std::int64_t to, const View& updates, std::int64_t from) {
    const auto slot = static_cast<std::size_t>(to);
    if (join_)
      join_(updates, from, whole_[slot], real_[slot]);
    else
      y_.copy(to, updates, from);
  }
  void store() const {
    for (std::int64_t i = 0; join_ && i < y_.numel(); ++i) {
      if (y_.integral())
        y_.set_int(i, whole_[static_cast<std::size_t>(i)]);
      else
        y_.set(i, real_[static_cast<std::size_t>(i)]);
    }
  }

 private:
  View y_;
  Join join_;
  std::vector<std::int64_t> whole_;
  std::vector<double> real_;
};

// y[o, index, i] is joined with updates[o, j, i]; index is indices[j] or, for single elements, indices[o, j, i].
void write(const ir::Node& node, const Views& in, const Views& out, bool singly, backend::ErrorWord& errors) {
  const View &x = in[0], &indices = in[1], &updates = in[2];
  Joined y(out[0], x, join_of(node.attrs.text("mode")));
  const int axis = static_cast<int>(node.attrs.integer("axis"));
  const std::int64_t count = singly ? indices.shape()[axis] : indices.numel();
  std::int64_t outer = 1, inner = 1;
  for (int a = 0; a < x.shape().rank(); ++a) (a < axis ? outer : inner) *= a == axis ? 1 : x.shape()[a];
  const std::int64_t size = x.shape()[axis];
  const std::string& text = lasting(cat(node.op->name, ": index out of range [0, ", size, ") along axis ", axis, "."));
  for (std::int64_t from = 0; from < updates.numel(); ++from) {
    const std::int64_t i = from % inner, j = from / inner % count, o = from / inner / count;
    const std::int64_t index = indices.get_int(singly ? from : j);
    if (index >= 0 && index < size)
      y.take((o * size + index) * inner + i, updates, from);
    else
      errors.note(text, index);
  }
  y.store();
}

RefFn writing(bool singly) {
  return [singly](const ir::Node& node, const Views& in, const Views& out, backend::ErrorWord& errors) {
    write(node, in, out, singly, errors);
  };
}

}  // namespace

void add_scatter_kernels(KernelMap& map) {
  map["scatter"] = writing(false);
  map["put_along_axis"] = writing(true);
}

}  // namespace varve::reference
