// Tensors from nothing, shape operators that copy, and checks.
#include <cmath>
#include <cstring>

#include "backend/check_finite.h"
#include "backends/reference/kernels.h"
#include "base/text.h"
#include "varve/error.h"

namespace varve::reference {
namespace {

using Views = std::vector<View>;

const Attr& attribute(const ir::Node& node, const char* key) {
  for (const auto& [name, value] : node.attrs.entries())
    if (name == key) return value;
  throw Error(cat(node.op->name, ": attribute '", key, "' is missing."));
}

const std::int64_t* whole(const ir::Node& node, const char* key) { return attribute(node, key).get<std::int64_t>(); }

void fill(const ir::Node& node, const Views&, const Views& out, backend::ErrorWord&) {
  const std::int64_t count = out[0].numel();
  const std::int64_t* integer = whole(node, "value");
  for (std::int64_t i = 0; i < count; ++i)
    integer ? out[0].set_int(i, *integer) : out[0].set(i, node.attrs.number("value"));
}

// Start and step are both integers, or both computed with in double.
void iota(const ir::Node& node, const Views&, const Views& out, backend::ErrorWord&) {
  const std::int64_t count = out[0].numel();
  const std::int64_t *start = whole(node, "start"), *step = whole(node, "step");
  const double from = node.attrs.number("start"), by = node.attrs.number("step");
  for (std::int64_t i = 0; i < count; ++i) {
    if (start && step)
      out[0].set_int(i, static_cast<std::int64_t>(static_cast<std::uint64_t>(*start) +
                                                  static_cast<std::uint64_t>(i) * static_cast<std::uint64_t>(*step)));
    else
      out[0].set(i, from + static_cast<double>(i) * by);
  }
}

// Element `index` of `in` goes to position begin + index·step of `out`.
void place(const View& in, const View& out, const Ints& begin, const Ints& step) {
  const Layout layout = contiguous(out.shape());
  const std::int64_t count = in.numel();
  Ints index(static_cast<std::size_t>(in.shape().rank()), 0);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t to = 0;
    for (std::size_t a = 0; a < index.size(); ++a) to += (begin[a] + index[a] * step[a]) * layout.strides[a];
    out.copy(to, in, i);
    next_index(index, in.shape());
  }
}

void pad(const ir::Node& node, const Views& in, const Views& out, backend::ErrorWord&) {
  const std::int64_t count = out[0].numel();
  for (std::int64_t i = 0; i < count; ++i) out[0].set(i, node.attrs.number("value"));
  const Ints& before = node.attrs.ints("before");
  place(in[0], out[0], before, Ints(before.size(), 1));
}

void unslice(const ir::Node& node, const Views& in, const Views& out, backend::ErrorWord&) {
  const std::int64_t count = out[0].numel();
  for (std::int64_t i = 0; i < count; ++i) out[0].set(i, 0);
  place(in[0], out[0], node.attrs.ints("begin"), node.attrs.ints("step"));
}

void concat(const ir::Node& node, const Views& in, const Views& out, backend::ErrorWord&) {
  const auto axis = static_cast<std::size_t>(node.attrs.integer("axis"));
  Ints begin(static_cast<std::size_t>(out[0].shape().rank()), 0);
  for (const View& part : in) {
    place(part, out[0], begin, Ints(begin.size(), 1));
    begin[axis] += part.shape()[static_cast<int>(axis)];
  }
}

void check_finite(const ir::Node& node, const Views& in, const Views& out, backend::ErrorWord& errors) {
  const std::int64_t count = in[0].numel();
  std::int64_t first = -1;  // looked for before anything is written: output and input may be one buffer
  for (std::int64_t i = 0; i < count && first < 0; ++i)
    if (!std::isfinite(in[0].get(i))) first = i;
  if (first >= 0) errors.note(lasting(backend::not_finite(node.attrs)), first);
  for (std::int64_t i = 0; i < count; ++i) out[0].copy(i, in[0], i);
}

void barrier(const ir::Node&, const Views& in, const Views& out, backend::ErrorWord&) {
  for (std::size_t k = 0; k < in.size(); ++k)
    if (in[k].type->bytes()) std::memmove(out[k].data, in[k].data, in[k].type->bytes());
}

}  // namespace

void add_create_kernels(KernelMap& map) {
  map["fill"] = fill;
  map["iota"] = iota;
}

void add_shape_kernels(KernelMap& map) {
  map["pad"] = pad;
  map["unslice"] = unslice;
  map["concat"] = concat;
}

void add_checking_kernels(KernelMap& map) {
  map["check_finite"] = check_finite;
  map["barrier"] = barrier;
}

}  // namespace varve::reference
