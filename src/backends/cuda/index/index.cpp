// Reading at positions that are themselves tensors. An index out of range is noted, gives 0 and touches no memory.
#include "backends/cuda/index/index.h"

#include <array>
#include <cstring>

#include "base/convert.h"

namespace varve::cuda {
namespace {

using backend::Prepared;
using backend::RunArgs;

std::int64_t axis_of(const Task& task) { return task.attrs.has("axis") ? task.attrs.integer("axis") : 0; }

Function kernel(const char* name, DType indices) {
  return Function(name, {"index/index.cu", defines({{"INDEX", index_type(indices)}})});
}

// ---- gather and embedding: y[o, j, :] = x[o, indices[j], :]

// The widest access that rows of so many bytes at these addresses allow.
int unit_of(std::int64_t row, const void* x, const void* y) {
  for (int bytes = 16; bytes > 1; bytes /= 2)
    if (row % bytes == 0 && aligned(bytes, x, y)) return bytes;
  return 1;
}

}  // namespace

Prepared gather(const Task& task) {
  if (task.shape_out().numel() == 0) return nothing();
  const std::int64_t axis = axis_of(task), count = task.shape_in(1).numel();
  const Rows x(task.shape_in(0), axis);
  const std::int64_t row = x.inner * element_bytes(task.dtype_in(0));
  const int text = number_of(out_of_range(task.op, x.size, axis));
  return backend::prepared([=, run = kernel("gather_rows", task.dtype_in(1))](const RunArgs& args) {
    const int unit = unit_of(row, args.in[0], args.out[0]);
    const Launch launch = along_rows(row / unit, x.outer * count);
    run(launch, args.in[0], args.in[1], args.out[0], x.outer, count, x.size, row / unit, unit, args.errors->word(),
        text);
  });
}

namespace {

// ---- take_along_axis: y[o, j, i] = x[o, indices[o, j, i], i]

Prepared take_along_axis(const Task& task) {
  const std::int64_t total = task.shape_out().numel();
  if (total == 0) return nothing();
  const std::int64_t axis = axis_of(task), count = task.shape_in(1)[static_cast<int>(axis)];
  const Rows x(task.shape_in(0), axis);
  const int text = number_of(out_of_range(task.op, x.size, axis));
  const int bytes = static_cast<int>(element_bytes(task.dtype_in(0)));
  return backend::prepared([=, run = kernel("take", task.dtype_in(1))](const RunArgs& args) {
    run(striding(total), args.in[0], args.in[1], args.out[0], total, count, x.size, x.inner, bytes, args.errors->word(),
        text);
  });
}

// ---- one_hot

Prepared one_hot(const Task& task) {
  const std::int64_t count = task.shape_in(0).numel(), classes = task.shape_out().back();
  if (count == 0) return nothing();
  std::array<std::byte, 8> bits{};
  store_f(bits.data(), task.dtype_out(), 0, 1);
  std::uint64_t one = 0;
  std::memcpy(&one, bits.data(), sizeof one);
  const int text = number_of(out_of_range(task.op, classes, task.shape_out().rank() - 1));
  const int bytes = static_cast<int>(element_bytes(task.dtype_out()));
  return backend::prepared([=, run = kernel("one_hot", task.dtype_in(0))](const RunArgs& args) {
    run(striding(count * std::max<std::int64_t>(classes, 1)), args.in[0], args.out[0], count, classes, one, bytes,
        args.errors->word(), text);
  });
}

}  // namespace

std::string out_of_range(const std::string& op, std::int64_t size, std::int64_t axis) {
  return cat(op, ": index out of range [0, ", size, ") along axis ", axis, ".");
}

int number_of(const std::string& text) { return gpu().present() ? context().note(text) : 0; }

void add_index_claims(ClaimMap& map) {
  offer(map, "gather", gather);
  offer(map, "take_along_axis", take_along_axis);
  offer(map, "one_hot", one_hot);
  add_scatter_claims(map);
  add_writing_claims(map);
  add_table_claims(map);
}

}  // namespace varve::cuda
