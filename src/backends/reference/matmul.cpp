#include "backends/reference/kernels.h"

namespace varve::reference {
namespace {

// Positions in one operand of a product: [.., rows, columns] of the output's index space.
struct Walk {
  std::vector<std::int64_t> batch;  // stride for each batch axis of the output, 0 where broadcast
  std::int64_t outer, inner;        // stride along the output's axis, and along K

  Walk(const Shape& shape, int out_rank, bool outer_is_last) : batch(static_cast<std::size_t>(out_rank - 2), 0) {
    const int rank = shape.rank();
    std::int64_t stride = shape[rank - 1] * shape[rank - 2];
    for (int axis = rank - 3; axis >= 0; --axis) {
      if (shape[axis] != 1) batch[static_cast<std::size_t>(axis + out_rank - rank)] = stride;
      stride *= shape[axis];
    }
    outer = outer_is_last ? 1 : shape[rank - 1];
    inner = outer_is_last ? shape[rank - 1] : 1;
  }

  std::int64_t start(const std::vector<std::int64_t>& index) const {
    std::int64_t at = 0;
    for (std::size_t axis = 0; axis < batch.size(); ++axis) at += index[axis] * batch[axis];
    return at;
  }
};

void matmul(const ir::Node& node, const std::vector<View>& in, const std::vector<View>& out, backend::ErrorWord&) {
  const View &a = in[0], &b = in[1], &y = out[0];
  const bool transpose_a = node.attrs.flag("transpose_a"), transpose_b = node.attrs.flag("transpose_b");
  if (y.numel() == 0) return;
  const int rank = y.shape().rank(), a_rank = a.shape().rank();
  const std::int64_t k = a.shape()[transpose_a ? a_rank - 2 : a_rank - 1];
  const Walk rows(a.shape(), rank, transpose_a), columns(b.shape(), rank, !transpose_b);
  std::vector<std::int64_t> index(static_cast<std::size_t>(rank), 0);
  std::int64_t at = 0;
  do {
    const std::int64_t i = rows.start(index) + index[index.size() - 2] * rows.outer;
    const std::int64_t j = columns.start(index) + index[index.size() - 1] * columns.outer;
    if (y.integral()) {
      std::uint64_t sum = 0;  // wraps as the integers of the output do
      for (std::int64_t t = 0; t < k; ++t)
        sum += static_cast<std::uint64_t>(a.get_int(i + t * rows.inner)) *
               static_cast<std::uint64_t>(b.get_int(j + t * columns.inner));
      y.set_int(at++, static_cast<std::int64_t>(sum));
    } else {
      double sum = 0;
      for (std::int64_t t = 0; t < k; ++t) sum += a.get(i + t * rows.inner) * b.get(j + t * columns.inner);
      y.set(at++, sum);
    }
  } while (next_index(index, y.shape()));
}

}  // namespace

void add_matmul_kernels(KernelMap& map) { map["matmul"] = matmul; }

}  // namespace varve::reference
