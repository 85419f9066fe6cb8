#include <algorithm>

#include "ops/row.h"

namespace varve::test {

namespace {

using Index = std::vector<std::int64_t>;

std::int64_t index_at(const Doubles& indices, const Index& index) {
  return static_cast<std::int64_t>(indices.data[static_cast<std::size_t>(offset(indices.shape, index))]);
}
double& element(Doubles& x, const Index& index) { return x.data[static_cast<std::size_t>(offset(x.shape, index))]; }

// Where in x the element of a gathered tensor comes from: x's axis was replaced by the shape of the indices.
Index source(const Index& index, const Doubles& indices, int axis) {
  const auto first = index.begin() + axis, last = first + indices.shape.rank();
  Index from(index.begin(), first);
  from.push_back(index_at(indices, Index(first, last)));
  from.insert(from.end(), last, index.end());
  return from;
}

Shape gathered_shape(const Shape& x, const Shape& indices, int axis) {
  Index sizes(x.begin(), x.begin() + axis);
  sizes.insert(sizes.end(), indices.begin(), indices.end());
  sizes.insert(sizes.end(), x.begin() + axis + 1, x.end());
  return Shape(sizes);
}

Doubles gathered(Doubles x, const Doubles& indices, int axis) {
  Doubles out = doubles(gathered_shape(x.shape, indices.shape, axis));
  each_index(out.shape, [&](const Index& index) { element(out, index) = element(x, source(index, indices, axis)); });
  return out;
}

Doubles scattered(Doubles x, const Doubles& indices, Doubles updates, int axis) {
  each_index(updates.shape,
             [&](const Index& index) { element(x, source(index, indices, axis)) += element(updates, index); });
  return x;
}

Index replaced(Index index, int axis, std::int64_t by) {
  index[static_cast<std::size_t>(axis)] = by;
  return index;
}

Doubles taken(Doubles x, const Doubles& indices, int axis) {
  Doubles out = doubles(indices.shape);
  each_index(out.shape, [&](const Index& i) { element(out, i) = element(x, replaced(i, axis, index_at(indices, i))); });
  return out;
}

Doubles put(Doubles x, const Doubles& indices, Doubles updates, int axis) {
  each_index(updates.shape,
             [&](const Index& i) { element(x, replaced(i, axis, index_at(indices, i))) += element(updates, i); });
  return x;
}

// Every update could fall into one place.
double collisions(const std::vector<Shape>& shapes) {
  return static_cast<double>(std::max<std::int64_t>(shapes[1].numel(), 1) + 1);
}

const std::vector<DType> kEvery = {f32, f64, bf16, f16, i64, i32, i8, u8};

std::vector<Row> gather_rows() {
  const auto gather_row = [](const std::string& label, int axis, std::int64_t below,
                             std::vector<std::vector<Shape>> shapes) {
    return Row{.op = "gather",
               .label = label,
               .call = [=](const Tensors& in) { return gather(in[0], in[1], axis); },
               .oracle = [=](const DoublesList& in) { return gathered(in[0], in[1], axis); },
               .shapes = std::move(shapes),
               .types = kEvery,
               .integer_inputs = {{1, below}},
               .bitwise = true};
  };
  const auto scatter_row = [](const std::string& label, int axis, std::int64_t below,
                              std::vector<std::vector<Shape>> shapes) {
    return Row{.op = "scatter_add",
               .label = label,
               .call = [=](const Tensors& in) { return scatter_add(in[0], in[1], in[2], axis); },
               .oracle = [=](const DoublesList& in) { return scattered(in[0], in[1], in[2], axis); },
               .shapes = std::move(shapes),
               .types = {f32, f64, bf16, f16, i64, i32},
               .integer_inputs = {{1, below}},
               .terms = collisions};
  };
  Row narrow = gather_row("narrowIndices", 0, 4, {{{4, 3}, {5}}});
  narrow.integer_inputs = {};
  narrow.fixed_types = {{1, i32}};
  narrow.ranges = {{1, {0, 3}}};
  narrow.differentiable = {0};
  return {
      gather_row("first", 0, 4,
                 {{{4, 3}, {5}}, {{4}, {2, 3}}, {{4, 2, 2}, Shape{}}, {{4, 3}, {0}}, {{4, 0}, {2}}, {{64, 33}, {131}}}),
      gather_row("middle", 1, 3, {{{2, 3, 4}, {2, 2}}, {{2, 3, 1}, {4}}, {{0, 3, 2}, {2}}}),
      gather_row("last", 2, 5, {{{2, 3, 5}, {4}}}),
      narrow,
      scatter_row("first", 0, 4,
                  {{{4, 3}, {5}, {5, 3}},
                   {{4}, {2, 3}, {2, 3}},
                   {{4, 2}, Shape{}, {2}},
                   {{4, 3}, {0}, {0, 3}},
                   {{64, 3}, {131}, {131, 3}}}),
      scatter_row("middle", 1, 3, {{{2, 3, 4}, {2, 2}, {2, 2, 2, 4}}, {{2, 3, 1}, {7}, {2, 7, 1}}})};
}

std::vector<Row> along_axis_rows() {
  const auto take_row = [](const std::string& label, int axis, std::int64_t below,
                           std::vector<std::vector<Shape>> shapes) {
    return Row{.op = "take_along_axis",
               .label = label,
               .call = [=](const Tensors& in) { return take_along_axis(in[0], in[1], axis - in[0].rank()); },
               .oracle = [=](const DoublesList& in) { return taken(in[0], in[1], axis); },
               .shapes = std::move(shapes),
               .types = kEvery,
               .integer_inputs = {{1, below}},
               .bitwise = true};
  };
  const auto put_row = [](const std::string& label, int axis, std::int64_t below,
                          std::vector<std::vector<Shape>> shapes) {
    return Row{.op = "put_along_axis_add",
               .label = label,
               .call = [=](const Tensors& in) { return put_along_axis_add(in[0], in[1], in[2], axis); },
               .oracle = [=](const DoublesList& in) { return put(in[0], in[1], in[2], axis); },
               .shapes = std::move(shapes),
               .types = {f32, f64, bf16, f16, i64, i32},
               .integer_inputs = {{1, below}},
               .terms = collisions};
  };
  return {
      take_row("last", 1, 5,
               {{{3, 5}, {3, 2}}, {{3, 5}, {3, 9}}, {{3, 5}, {3, 0}}, {{0, 5}, {0, 2}}, {{67, 5}, {67, 1}}}),
      take_row("first", 0, 3, {{{3, 4, 2}, {5, 4, 2}}, {{3}, {4}}}),
      put_row("last", 1, 5,
              {{{3, 5}, {3, 2}, {3, 2}}, {{3, 5}, {3, 9}, {3, 9}}, {{3, 5}, {3, 0}, {3, 0}}, {{0, 5}, {0, 2}, {0, 2}}}),
      put_row("first", 0, 3, {{{3, 4}, {5, 4}, {5, 4}}, {{3}, {67}, {67}}})};
}

std::vector<Row> embedding_rows() {
  return {
      {.op = "embedding",
       .call = [](const Tensors& in) { return embedding(in[0], in[1]); },
       .oracle = [](const DoublesList& in) { return gathered(in[0], in[1], 0); },
       .shapes = {{{6, 3}, {4}}, {{6, 3}, {2, 5}}, {{6, 4}, Shape{}}, {{6, 3}, {0}}, {{6, 0}, {2}}, {{6, 65}, {3, 67}}},
       .integer_inputs = {{1, 6}},
       .bitwise = true,
       .gradient_shapes = {{{6, 3}, {2, 5}}, {{6, 4}, Shape{}}, {{6, 3}, {0}}}},
      {.op = "embedding_grad",
       .call =
           [](const Tensors& in) {
             return OpDef(&find_operator("embedding_grad")).call({in[0], in[1]}, {{"rows", 6}});
           },
       .oracle =
           [](const DoublesList& in) {
             return scattered(doubles({6, in[0].shape.back()}), in[1], in[0], 0);
           },
       .shapes = {{{4, 3}, {4}}, {{2, 5, 3}, {2, 5}}, {{4}, Shape{}}, {{0, 3}, {0}}, {{3, 67, 65}, {3, 67}}},
       .integer_inputs = {{1, 6}},
       .terms = collisions,
       .gradient_shapes = {{{2, 5, 3}, {2, 5}}, {{4}, Shape{}}}},
      {.op = "one_hot",
       .call = [](const Tensors& in) { return std::pair(one_hot(in[0], 5), one_hot(in[0], 5, i32)); },
       .oracle =
           [](const DoublesList& in) {
             Shape shape = in[0].shape;
             shape.push_back(5);
             Doubles out = doubles(shape);
             for (std::size_t i = 0; i < in[0].data.size(); ++i)
               out.data[i * 5 + static_cast<std::size_t>(in[0].data[i])] = 1;
             return std::pair(out, out);
           },
       .shapes = {{{4}}, {{2, 3}}, {Shape{}}, {{0}}, {{131}}},
       .types = {f32},
       .integer_inputs = {{0, 5}},
       .bitwise = true,
       .gradient = false,
       .second = false}};
}

}  // namespace

std::vector<Row> index_rows() {
  std::vector<Row> rows;
  for (auto family : {gather_rows, along_axis_rows, embedding_rows}) {
    const std::vector<Row> part = family();
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

}  // namespace varve::test
