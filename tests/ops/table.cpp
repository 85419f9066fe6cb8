#include <iterator>
#include <utility>

#include "ops/row.h"

namespace varve::test {

// ---- arrays of the oracles

Doubles doubles(const Shape& shape, double fill) {
  return {shape, std::vector<double>(static_cast<std::size_t>(shape.numel()), fill)};
}

std::int64_t offset(const Shape& shape, const std::vector<std::int64_t>& index) {
  std::int64_t position = 0;
  for (int axis = 0; axis < shape.rank(); ++axis)
    position = position * shape[axis] + index[static_cast<std::size_t>(axis)];
  return position;
}

void each_index(const Shape& shape, const std::function<void(const std::vector<std::int64_t>&)>& visit) {
  const std::int64_t count = shape.numel();
  std::vector<std::int64_t> index(static_cast<std::size_t>(shape.rank()));
  for (std::int64_t n = 0; n < count; ++n) {
    visit(index);
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      std::int64_t& i = index[static_cast<std::size_t>(axis)];
      if (++i < shape[axis]) break;
      i = 0;
    }
  }
}

std::int64_t broadcast_offset(const Shape& shape, const std::vector<std::int64_t>& index) {
  const std::size_t rank = static_cast<std::size_t>(shape.rank());
  std::int64_t position = 0;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::int64_t size = shape[static_cast<int>(axis)];
    position = position * size + (size == 1 ? 0 : index[index.size() - rank + axis]);
  }
  return position;
}

double at_broadcast(const Doubles& x, const std::vector<std::int64_t>& index) {
  return x.data[static_cast<std::size_t>(broadcast_offset(x.shape, index))];
}

// ---- short rows

Row unary_row(const std::string& op, Unary call, std::function<double(double)> oracle, std::vector<double> values,
              const std::function<void(Row&)>& more) {
  Row row{.op = op,
          .call = [call = std::move(call)](const Tensors& in) { return call(in[0]); },
          .oracle =
              [oracle = std::move(oracle)](const DoublesList& in) {
                Doubles out = in[0];
                for (double& v : out.data) v = oracle(v);
                return out;
              },
          .shapes = {{Shape{}}, {{0}}, {{7}}, {{3, 5}}, {{2, 1031}}},
          .values = std::move(values),
          .gradient_shapes = {{Shape{}}, {{0}}, {{3, 5}}}};
  if (more) more(row);
  return row;
}

Row binary_row(const std::string& op, Binary call, std::function<double(double, double)> oracle,
               std::vector<double> values, const std::function<void(Row&)>& more) {
  Row row{.op = op,
          .call = [call = std::move(call)](const Tensors& in) { return call(in[0], in[1]); },
          .oracle =
              [oracle = std::move(oracle)](const DoublesList& in) {
                Doubles out = doubles(broadcast(in[0].shape, in[1].shape, "oracle"));
                std::size_t next = 0;
                each_index(out.shape, [&](const std::vector<std::int64_t>& index) {
                  out.data[next++] = oracle(at_broadcast(in[0], index), at_broadcast(in[1], index));
                });
                return out;
              },
          .shapes = {{Shape{}, Shape{}},
                     {{0}, {0}},
                     {{0, 3}, {3}},
                     {{7}, Shape{}},
                     {{3, 5}, {5}},
                     {{3, 1}, {4, 1, 5}},
                     {{1031}, {1031}},
                     {{3, 67}, {1, 67}}},
          .values = std::move(values),
          .gradient_shapes = {{Shape{}, Shape{}}, {{0, 3}, {3}}, {{3, 5}, {3, 5}}, {{2, 1}, {3, 1, 4}}}};
  if (more) more(row);
  return row;
}

void no_gradient(Row& row) {
  row.gradient = false;
  row.second = false;
}

// ---- the table

const std::vector<Row>& table() {
  static const std::vector<Row> rows = [] {
    std::vector<Row> all;
    for (auto family : {arithmetic_rows, activation_rows,  reduce_rows,  shape_rows, index_rows,        scatter_rows,
                        search_rows,     vision_rows,      matmul_rows,  conv_rows,  pool_rows,         norm_rows,
                        attention_rows,  recurrent_rows,   control_rows, loss_rows,  random_rows,       optimizer_rows,
                        collective_rows, compression_rows, linalg_rows,  fft_rows,   sequence_loss_rows}) {
      std::vector<Row> part = family();
      all.insert(all.end(), std::make_move_iterator(part.begin()), std::make_move_iterator(part.end()));
    }
    return all;
  }();
  return rows;
}

}  // namespace varve::test
