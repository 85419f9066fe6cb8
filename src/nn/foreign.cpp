#include "nn/foreign.h"

#include "varve/ops.h"

namespace varve::nn {
namespace {

// The first axis of x is a flattened image: its sizes are taken apart, moved and put together again.
Tensor reorder(const Tensor& x, const Shape& image, const Axes& order) {
  Shape apart = image;
  Axes axes = order;
  for (int axis = 1; axis < x.rank(); ++axis) {
    apart.push_back(x.dim(axis));
    axes.push_back(axis + 2);
  }
  return reshape(transpose(reshape(x, apart), axes), x.shape());
}

Axes last_to_second(int rank) {
  Axes order = {0, rank - 1};
  for (int axis = 1; axis + 1 < rank; ++axis) order.push_back(axis);
  return order;
}
Axes second_to_last(int rank) {
  Axes order = {0};
  for (int axis = 2; axis < rank; ++axis) order.push_back(axis);
  order.push_back(1);
  return order;
}

bool is_conv(const ForeignLayout& layout) {
  return layout.kind == ForeignLayout::conv || layout.kind == ForeignLayout::conv_back;
}

}  // namespace

Tensor to_foreign(const Tensor& ours, const ForeignLayout& layout) {
  if (is_conv(layout)) return transpose(ours, last_to_second(ours.rank()));
  const Tensor ordered = layout.flattened.rank() ? reorder(ours, layout.flattened, {2, 0, 1}) : ours;
  return layout.kind == ForeignLayout::transposed ? transpose(ordered) : ordered;
}

Tensor from_foreign(const Tensor& theirs, const ForeignLayout& layout) {
  if (is_conv(layout)) return transpose(theirs, second_to_last(theirs.rank()));
  const Tensor matrix = layout.kind == ForeignLayout::transposed ? transpose(theirs) : theirs;
  if (!layout.flattened.rank()) return matrix;
  const Shape& image = layout.flattened;
  return reorder(matrix, {image[2], image[0], image[1]}, {1, 2, 0});
}

Shape foreign_shape(const Shape& ours, const ForeignLayout& layout) { return to_foreign(zeros(ours), layout).shape(); }

std::string second_bias(const std::string& path) {
  static const std::string first = "bias_ih_l";
  const std::size_t dot = path.rfind('.'), begin = dot == std::string::npos ? 0 : dot + 1;
  return path.compare(begin, first.size(), first) == 0
             ? path.substr(0, begin) + "bias_hh_l" + path.substr(begin + first.size())
             : "";
}

}  // namespace varve::nn
