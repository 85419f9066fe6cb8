#include <algorithm>
#include <cmath>
#include <numeric>

#include "backends/reference/kernels.h"

namespace varve::reference {
namespace {

using Views = std::vector<View>;

// Calls visit(input position, output position) for every element of x.
template <class F>
void each_element(const ir::Node& node, const Shape& x, F visit) {
  if (x.numel() == 0) return;
  Ints strides(static_cast<std::size_t>(x.rank()), 0);
  const Ints& axes = node.attrs.ints("axes");
  std::int64_t size = 1;
  for (int axis = x.rank() - 1; axis >= 0; --axis) {
    if (std::find(axes.begin(), axes.end(), axis) != axes.end()) continue;
    strides[static_cast<std::size_t>(axis)] = size;
    size *= x[axis];
  }
  Ints index(strides.size(), 0);
  std::int64_t from = 0;
  do {
    visit(from++, std::inner_product(index.begin(), index.end(), strides.begin(), std::int64_t{0}));
  } while (next_index(index, x));
}

// Folds with one function in double, and with another in integers, which wrap.
template <class Real, class Whole>
RefFn fold(double start, Real real, Whole whole) {
  return [=](const ir::Node& node, const Views& in, const Views& out, backend::ErrorWord&) {
    const View &x = in[0], &y = out[0];
    const auto count = static_cast<std::size_t>(y.numel());
    if (x.integral()) {
      std::vector<std::uint64_t> totals(count, static_cast<std::uint64_t>(start));
      each_element(node, x.shape(), [&](std::int64_t from, std::int64_t to) {
        std::uint64_t& total = totals[static_cast<std::size_t>(to)];
        total = whole(total, static_cast<std::uint64_t>(x.get_int(from)));
      });
      for (std::size_t i = 0; i < count; ++i)
        y.set_int(static_cast<std::int64_t>(i), static_cast<std::int64_t>(totals[i]));
    } else {
      std::vector<double> totals(count, start);
      each_element(node, x.shape(), [&](std::int64_t from, std::int64_t to) {
        double& total = totals[static_cast<std::size_t>(to)];
        total = real(total, x.get(from));
      });
      for (std::size_t i = 0; i < count; ++i) y.set(static_cast<std::int64_t>(i), totals[i]);
    }
  };
}

bool is_true(const View& x, std::int64_t i) { return x.integral() ? x.get_int(i) != 0 : x.get(i) != 0; }

// `any` looks for a true element, `all` for a false one.
RefFn search(bool wanted) {
  return [=](const ir::Node& node, const Views& in, const Views& out, backend::ErrorWord&) {
    for (std::int64_t i = 0; i < out[0].numel(); ++i) out[0].set_int(i, !wanted);
    each_element(node, in[0].shape(), [&](std::int64_t from, std::int64_t to) {
      if (is_true(in[0], from) == wanted) out[0].set_int(to, wanted);
    });
  };
}

// Whether element a beats element b, NaN beating every number.
template <bool kLargest>
bool beats(const View& x, std::int64_t a, std::int64_t b) {
  if (x.integral()) return kLargest ? x.get_int(a) > x.get_int(b) : x.get_int(a) < x.get_int(b);
  const double va = x.get(a), vb = x.get(b);
  if (std::isnan(va) || std::isnan(vb)) return std::isnan(va) && !std::isnan(vb);
  return kLargest ? va > vb : va < vb;
}

template <bool kLargest>
void extreme(const ir::Node& node, const Views& in, const Views& out, backend::ErrorWord&) {
  std::vector<std::int64_t> best(static_cast<std::size_t>(out[0].numel()), -1);
  each_element(node, in[0].shape(), [&](std::int64_t from, std::int64_t to) {
    std::int64_t& now = best[static_cast<std::size_t>(to)];
    if (now < 0 || beats<kLargest>(in[0], from, now)) now = from;
  });
  for (std::size_t i = 0; i < best.size(); ++i) out[0].copy(static_cast<std::int64_t>(i), in[0], best[i]);
}

// x as rows along an axis: element k of row (o, i) lies at (o · n + k) · inner + i.
struct Rows {
  std::int64_t outer = 1, n = 1, inner = 1;

  Rows(const ir::Node& node, const Shape& x) {
    const std::int64_t axis = node.attrs.integer("axis");
    for (int a = 0; a < x.rank(); ++a) (a < axis ? outer : a == axis ? n : inner) *= x[a];
  }

  // visit(position of the first element, number of the row)
  template <class F>
  void each(F visit) const {
    for (std::int64_t o = 0; o < outer; ++o)
      for (std::int64_t i = 0; i < inner; ++i) visit(o * n * inner + i, o * inner + i);
  }
};

template <bool kLargest>
void arg_extreme(const ir::Node& node, const Views& in, const Views& out, backend::ErrorWord&) {
  if (in[0].numel() == 0) return;
  const Rows rows(node, in[0].shape());
  rows.each([&](std::int64_t first, std::int64_t row) {
    std::int64_t best = 0;
    for (std::int64_t k = 1; k < rows.n; ++k)
      if (beats<kLargest>(in[0], first + k * rows.inner, first + best * rows.inner)) best = k;
    out[0].set_int(row, best);
  });
}

void cumsum(const ir::Node& node, const Views& in, const Views& out, backend::ErrorWord&) {
  if (in[0].numel() == 0) return;
  const Rows rows(node, in[0].shape());
  rows.each([&](std::int64_t first, std::int64_t) {
    double total = 0;
    std::uint64_t count = 0;
    for (std::int64_t k = 0; k < rows.n; ++k) {
      const std::int64_t at = first + k * rows.inner;
      if (in[0].integral()) {
        count += static_cast<std::uint64_t>(in[0].get_int(at));
        out[0].set_int(at, static_cast<std::int64_t>(count));
      } else {
        total += in[0].get(at);
        out[0].set(at, total);
      }
    }
  });
}

// NaN comes last in either direction.
bool comes_before(const View& x, std::int64_t a, std::int64_t b, bool descending) {
  if (x.integral()) return descending ? x.get_int(a) > x.get_int(b) : x.get_int(a) < x.get_int(b);
  const double va = x.get(a), vb = x.get(b);
  if (std::isnan(va) || std::isnan(vb)) return !std::isnan(va);
  return descending ? va > vb : va < vb;
}

void sort(const ir::Node& node, const Views& in, const Views& out, backend::ErrorWord&) {
  if (in[0].numel() == 0) return;
  const bool descending = node.attrs.flag("descending");
  const Rows rows(node, in[0].shape());
  std::vector<std::int64_t> order(static_cast<std::size_t>(rows.n));
  rows.each([&](std::int64_t first, std::int64_t) {
    const auto position = [&](std::int64_t k) { return first + k * rows.inner; };
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      return comes_before(in[0], position(a), position(b), descending);
    });
    for (std::int64_t k = 0; k < rows.n; ++k) {
      const std::int64_t from = order[static_cast<std::size_t>(k)];
      out[0].copy(position(k), in[0], position(from));
      out[1].set_int(position(k), from);
    }
  });
}

}  // namespace

void add_reduce_kernels(KernelMap& map) {
  map["sum"] = fold(0, std::plus<double>(), std::plus<std::uint64_t>());
  map["prod"] = fold(1, std::multiplies<double>(), std::multiplies<std::uint64_t>());
  map["max"] = extreme<true>;
  map["min"] = extreme<false>;
  map["any"] = search(true);
  map["all"] = search(false);
  map["argmax"] = arg_extreme<true>;
  map["argmin"] = arg_extreme<false>;
  map["cumsum"] = cumsum;
  map["sort"] = sort;
}

}  // namespace varve::reference
