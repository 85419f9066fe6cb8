#include "runtime/moves.h"

#include <algorithm>
#include <cstring>

#include "runtime/engine.h"

namespace varve::runtime {
namespace {

using ArrayPtr = std::shared_ptr<const ir::Array>;

std::size_t bytes_behind(const Shape& shape, int axis, DType dtype) {
  std::size_t bytes = size_of(dtype);
  for (int a = axis + 1; a < shape.rank(); ++a) bytes *= static_cast<std::size_t>(shape[a]);
  return bytes;
}

std::byte* bytes_of(const ir::Array& array) { return const_cast<std::byte*>(array.data()); }

bool join(const ir::Node& node, const std::vector<ArrayPtr>& in, const ir::Array& out) {
  const int axis = static_cast<int>(node.attrs.integer("axis"));
  std::byte* to = bytes_of(out);
  if (axis == 0) {
    for (const ArrayPtr& part : in) {
      ir::read_elements(*part, to, part->type.dtype);
      to += part->type.bytes();
    }
    return true;
  }
  std::size_t outer = 1;
  for (int a = 0; a < axis; ++a) outer *= static_cast<std::size_t>(out.type.shape[a]);
  std::size_t width = 0;
  std::vector<std::size_t> widths;
  for (const ArrayPtr& part : in) {
    if (!part->contiguous()) return false;
    widths.push_back(bytes_behind(part->type.shape, axis - 1, part->type.dtype));
    width += widths.back();
  }
  for (std::size_t p = 0; p < in.size(); ++p) {
    const std::byte* from = in[p]->data();
    for (std::size_t o = 0; widths[p] && o < outer; ++o) std::memcpy(to + o * width, from + o * widths[p], widths[p]);
    to += widths[p];
  }
  return true;
}

// Positions along axis 0 that are all there; null where one is not.
const std::int32_t* rows_in(const ir::Node& node, const ir::Array& x, const ir::Array& indices) {
  if (node.attrs.integer("axis") != 0 || indices.type.dtype != i32 || !indices.contiguous()) return nullptr;
  const auto* rows = reinterpret_cast<const std::int32_t*>(indices.data());
  const std::int64_t count = indices.type.shape.numel(), size = x.type.shape[0];
  const bool all = std::all_of(rows, rows + count, [&](std::int32_t row) { return row >= 0 && row < size; });
  return all ? rows : nullptr;
}

bool take(const ir::Node& node, const ir::Array& x, const ir::Array& indices, const ir::Array& out) {
  const std::int32_t* const rows = x.contiguous() ? rows_in(node, x, indices) : nullptr;
  if (!rows) return false;
  const std::size_t width = bytes_behind(x.type.shape, 0, x.type.dtype);
  std::byte* const to = bytes_of(out);
  const auto count = static_cast<std::size_t>(indices.type.shape.numel());
  for (std::size_t i = 0; width && i < count; ++i)
    std::memcpy(to + i * width, x.data() + static_cast<std::size_t>(rows[i]) * width, width);
  return true;
}

// Sums into one place run in the order of the updates, as the kernels' do.
bool add(const ir::Node& node, const std::vector<ArrayPtr>& in, const ir::Array& out) {
  const ir::Array &x = *in[0], &indices = *in[1], &updates = *in[2];
  if (x.type.dtype != f32 || !updates.contiguous()) return false;
  const std::int32_t* const rows = rows_in(node, x, indices);
  if (!rows) return false;
  ir::read_elements(x, bytes_of(out), f32);
  const std::size_t width = bytes_behind(x.type.shape, 0, f32) / sizeof(float);
  auto* const to = reinterpret_cast<float*>(bytes_of(out));
  const auto* from = reinterpret_cast<const float*>(updates.data());
  const auto count = static_cast<std::size_t>(indices.type.shape.numel());
  for (std::size_t i = 0; i < count; ++i, from += width) {
    float* const row = to + static_cast<std::size_t>(rows[i]) * width;
    for (std::size_t j = 0; j < width; ++j) row[j] += from[j];
  }
  return true;
}

bool put_window(const ir::Node& node, const ir::Array& x, const ir::Array& out) {
  const Ints &begin = node.attrs.ints("begin"), &step = node.attrs.ints("step");
  const int rank = x.type.shape.rank();
  if (rank == 0 || !x.contiguous() || std::any_of(step.begin(), step.end(), [](std::int64_t s) { return s != 1; }))
    return false;
  std::byte* const to = bytes_of(out);
  if (out.type.bytes()) std::memset(to, 0, out.type.bytes());
  if (!x.type.bytes()) return true;
  const Layout whole = contiguous(out.type.shape);
  const std::size_t size = size_of(x.type.dtype), width = static_cast<std::size_t>(x.type.shape[rank - 1]) * size;
  std::int64_t at = 0;
  for (int a = 0; a < rank; ++a) at += begin[static_cast<std::size_t>(a)] * whole.strides[static_cast<std::size_t>(a)];
  Ints index(static_cast<std::size_t>(rank), 0);
  for (const std::byte* from = x.data(); from < x.data() + x.type.bytes(); from += width) {
    std::memcpy(to + static_cast<std::size_t>(at) * size, from, width);
    for (int a = rank - 2; a >= 0; --a) {
      const auto axis = static_cast<std::size_t>(a);
      at += whole.strides[axis];
      if (++index[axis] < x.type.shape[a]) break;
      at -= whole.strides[axis] * index[axis];
      index[axis] = 0;
    }
  }
  return true;
}

bool fill(const ir::Node& node, const ir::Array& out) {
  const std::size_t bytes = out.type.bytes(), size = size_of(out.type.dtype);
  if (!bytes) return true;
  std::byte* const to = bytes_of(out);
  fill_scalar(node, to);
  for (std::size_t done = size; done < bytes; done *= 2) std::memcpy(to + done, to, std::min(done, bytes - done));
  return true;
}

}  // namespace

bool only_moves(const ir::Node& node) {
  return node.is("concat") || node.is("gather") || node.is("scatter_add") || node.is("unslice") || node.is("fill");
}

bool move_rows(const ir::Node& node, const std::vector<ArrayPtr>& in, const ir::Array& out) {
  if (node.is("concat")) return join(node, in, out);
  if (node.is("gather")) return take(node, *in[0], *in[1], out);
  if (node.is("scatter_add")) return add(node, in, out);
  if (node.is("unslice")) return put_window(node, *in[0], out);
  return node.is("fill") && fill(node, out);
}

}  // namespace varve::runtime
