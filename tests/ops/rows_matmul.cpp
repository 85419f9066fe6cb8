// Products: matmul in all four readings, einsum, linear.
#include <algorithm>

#include "ops/row.h"

namespace varve::test {
namespace {

using Index = std::vector<std::int64_t>;

// One matrix of a batch, read transposed or not.
class Matrix {
 public:
  Matrix(const Doubles& x, const Index& batch, bool transposed) : transposed_(transposed), columns_(x.shape.back()) {
    const Shape outer(Index(x.shape.begin(), x.shape.end() - 2));
    data_ = x.data.data() + broadcast_offset(outer, batch) * x.shape[x.shape.rank() - 2] * columns_;
  }
  double operator()(std::int64_t row, std::int64_t column) const {
    return transposed_ ? data_[column * columns_ + row] : data_[row * columns_ + column];
  }

 private:
  bool transposed_;
  std::int64_t columns_;
  const double* data_;
};

Doubles product(const Doubles& a, const Doubles& b, const MatmulOptions& o) {
  const int ra = a.shape.rank(), rb = b.shape.rank();
  const std::int64_t m = a.shape[o.transpose_a ? ra - 1 : ra - 2], k = a.shape[o.transpose_a ? ra - 2 : ra - 1];
  const std::int64_t n = b.shape[o.transpose_b ? rb - 2 : rb - 1];
  Shape shape = broadcast(Shape(Index(a.shape.begin(), a.shape.end() - 2)),
                          Shape(Index(b.shape.begin(), b.shape.end() - 2)), "oracle");
  shape.push_back(m);
  shape.push_back(n);
  Doubles y = doubles(shape);
  std::size_t next = 0;
  each_index(shape, [&](const Index& index) {
    const Index batch(index.begin(), index.end() - 2);
    const Matrix left(a, batch, o.transpose_a), right(b, batch, o.transpose_b);
    double sum = 0;
    for (std::int64_t t = 0; t < k; ++t) sum += left(index[index.size() - 2], t) * right(t, index.back());
    y.data[next++] = sum;
  });
  return y;
}

Shape swapped(Shape shape) {
  const int rank = shape.rank();
  std::swap(shape[rank - 2], shape[rank - 1]);
  return shape;
}

std::vector<std::vector<Shape>> read_as(std::vector<std::vector<Shape>> cases, const MatmulOptions& o) {
  for (std::vector<Shape>& c : cases) {
    if (o.transpose_a) c[0] = swapped(c[0]);
    if (o.transpose_b) c[1] = swapped(c[1]);
  }
  return cases;
}

Row matmul_row(const std::string& label, const MatmulOptions& o) {
  return {
      .op = "matmul",
      .label = label,
      .call = [o](const Tensors& in) { return matmul(in[0], in[1], o); },
      .oracle = [o](const DoublesList& in) { return product(in[0], in[1], o); },
      .shapes = read_as({{{1, 1}, {1, 1}},
                         {{3, 4}, {4, 5}},
                         {{0, 4}, {4, 5}},
                         {{3, 0}, {0, 5}},
                         {{2, 3, 0}, {0, 5}},
                         {{0, 3, 4}, {0, 4, 5}},
                         {{1, 65}, {65, 1}},
                         {{17, 33}, {33, 9}},
                         {{64, 129}, {129, 70}},
                         {{2, 3, 4}, {4, 5}},
                         {{3, 4}, {2, 4, 5}},
                         {{2, 3, 4}, {2, 4, 5}},
                         {{5, 1, 3, 4}, {2, 4, 6}}},
                        o),
      .types = {f32, f64, bf16, f16, i32, i64},
      .terms =
          [o](const std::vector<Shape>& s) { return static_cast<double>(s[0][s[0].rank() - (o.transpose_a ? 2 : 1)]); },
      .gradient_shapes = read_as(
          {{{3, 4}, {4, 5}}, {{3, 0}, {0, 2}}, {{2, 3, 4}, {4, 5}}, {{3, 4}, {2, 4, 5}}, {{3, 1, 2, 4}, {2, 4, 3}}},
          o)};
}

// A vector is a row on the left and a column on the right, and its axis goes again.
Row vector_row() {
  return {.op = "matmul",
          .label = "vectors",
          .call = [](const Tensors& in) { return matmul(in[0], in[1]); },
          .oracle =
              [](const DoublesList& in) {
                Doubles a = in[0], b = in[1];
                const bool row = a.shape.rank() == 1, column = b.shape.rank() == 1;
                if (row) a.shape = {1, a.shape[0]};
                if (column) b.shape = {b.shape[0], 1};
                Doubles y = product(a, b, {});
                Index sizes = y.shape.vec();
                if (row) sizes.erase(sizes.end() - 2);
                if (column) sizes.pop_back();
                y.shape = Shape(sizes);
                return y;
              },
          .shapes = {{{4}, {4}}, {{0}, {0}}, {{4}, {4, 3}}, {{3, 4}, {4}}, {{2, 3, 4}, {4}}, {{4}, {2, 4, 3}}},
          .terms = 4};
}

Row linear_row() {
  return {.op = "linear",
          .call = [](const Tensors& in) { return linear(in[0], in[1], in[2]); },
          .oracle =
              [](const DoublesList& in) {
                Doubles x = in[0];
                const bool vector = x.shape.rank() == 1;
                if (vector) x.shape = {1, x.shape[0]};
                Doubles y = product(x, in[1], {});
                for (std::size_t i = 0; i < y.data.size(); ++i) y.data[i] += in[2].data[i % in[2].data.size()];
                if (vector) y.shape = {y.shape[1]};
                return y;
              },
          .shapes = {{{5, 7}, {7, 3}, {3}},
                     {{7}, {7, 3}, {3}},
                     {{2, 4, 7}, {7, 3}, {3}},
                     {{0, 7}, {7, 3}, {3}},
                     {{5, 0}, {0, 3}, {3}}},
          .terms = [](const std::vector<Shape>& s) { return static_cast<double>(s[1][0]) + 1; },
          .roundings = 1};  // between product and bias, where nothing fuses them
}

// ---- einsum, by brute force over all labels at once

std::vector<std::string> labels_of(const std::string& equation) {
  std::vector<std::string> parts{""};
  for (const char c : equation) {
    if (c == ',' || c == '>')
      parts.emplace_back();
    else if (c != '-')
      parts.back() += c;
  }
  return parts;
}

// `equation` without "...": operands, then the output. A size of 1 broadcasts.
Doubles brute_force(const std::string& equation, const DoublesList& in) {
  const std::vector<std::string> parts = labels_of(equation);
  std::string labels;
  Shape sizes;
  for (std::size_t i = 0; i < in.size(); ++i)
    for (std::size_t axis = 0; axis < parts[i].size(); ++axis) {
      const std::size_t known = labels.find(parts[i][axis]);
      const std::int64_t size = in[i].shape[static_cast<int>(axis)];
      if (known == std::string::npos) {
        labels += parts[i][axis];
        sizes.push_back(size);
      } else if (size != 1) {
        sizes[static_cast<int>(known)] = size;
      }
    }
  const auto places = [&](const std::string& part, const Index& index) {
    Index here;
    for (const char c : part) here.push_back(index[labels.find(c)]);
    return here;
  };
  Shape shape;
  for (const char c : parts.back()) shape.push_back(sizes[static_cast<int>(labels.find(c))]);
  Doubles y = doubles(shape);
  each_index(sizes, [&](const Index& index) {
    double term = 1;
    for (std::size_t i = 0; i < in.size(); ++i) term *= at_broadcast(in[i], places(parts[i], index));
    y.data[static_cast<std::size_t>(offset(shape, places(parts.back(), index)))] += term;
  });
  return y;
}

// `spelled` is the equation with every "..." and the implied output written out.
Row einsum_row(const std::string& label, const std::string& equation, const std::string& spelled,
               std::vector<std::vector<Shape>> shapes) {
  return {.op = "einsum",
          .label = label,
          .call = [equation](const Tensors& in) { return einsum(equation, in); },
          .oracle = [spelled](const DoublesList& in) { return brute_force(spelled, in); },
          .shapes = std::move(shapes),
          .types = {f32, f64, i64},
          .terms = 64};
}

}  // namespace

std::vector<Row> matmul_rows() {
  return {
      matmul_row("", {}),
      matmul_row("tn", {.transpose_a = true}),
      matmul_row("nt", {.transpose_b = true}),
      matmul_row("tt", {.transpose_a = true, .transpose_b = true}),
      vector_row(),
      linear_row(),
      einsum_row("product", "ij,jk->ik", "ij,jk->ik", {{{3, 4}, {4, 5}}, {{3, 0}, {0, 5}}, {{0, 4}, {4, 5}}}),
      einsum_row("implicit", "kj, ji", "kj,ji->ik", {{{3, 4}, {4, 5}}}),
      einsum_row("implicitsorted", "ba", "ba->ab", {{{3, 4}}}),
      einsum_row("batched", "bij,bjk->bik", "bij,bjk->bik", {{{2, 3, 4}, {2, 4, 5}}, {{0, 3, 4}, {0, 4, 5}}}),
      einsum_row("bothtransposed", "kji,lk->lij", "kji,lk->lij", {{{4, 2, 3}, {5, 4}}}),
      einsum_row("batchinside", "ibj,jkb->kbi", "ibj,jkb->kbi", {{{3, 2, 4}, {4, 5, 2}}}),
      einsum_row("twosummed", "abc,bcd->ad", "abc,bcd->ad", {{{2, 3, 4}, {3, 4, 5}}}),
      einsum_row("trace", "ii", "ii->", {{{4, 4}}, {{0, 0}}, {{1, 1}}}),
      einsum_row("diagonal", "ii->i", "ii->i", {{{4, 4}}, {{0, 0}}}),
      einsum_row("innerdiagonal", "aiibi->bi", "aiibi->bi", {{{2, 3, 3, 2, 3}}}),
      einsum_row("diagonalproduct", "ii,ij->j", "ii,ij->j", {{{4, 4}, {4, 3}}}),
      einsum_row("outer", "i,j->ji", "i,j->ji", {{{3}, {4}}, {{0}, {4}}}),
      einsum_row("elementwise", "ij,ij->ij", "ij,ij->ij", {{{3, 4}, {3, 4}}}),
      einsum_row("dot", "i,i->", "i,i->", {{{5}, {5}}, {{0}, {0}}}),
      einsum_row("sums", "ijk->j", "ijk->j", {{{2, 3, 4}}}),
      einsum_row("ownlabels", "ij,kl->", "ij,kl->", {{{2, 3}, {4, 2}}}),
      einsum_row("scalar", ",i->i", ",i->i", {{Shape{}, {3}}}),
      einsum_row("ellipsis", "...ij,...jk->...ik", "abij,abjk->abik",
                 {{{2, 3, 4, 2}, {2, 3, 2, 5}}, {{2, 1, 4, 2}, {1, 3, 2, 5}}}),
      einsum_row("ellipsisranks", "...ij,jk", "abij,jk->abik", {{{2, 3, 4, 2}, {2, 5}}}),
      einsum_row("ellipsismoved", "i...,...->...i", "iab,ab->abi", {{{4, 2, 3}, {2, 3}}}),
      einsum_row("ellipsissummed", "...i,i...->i", "abi,iab->i", {{{2, 3, 4}, {4, 2, 1}}}),
      einsum_row("three", "ij,jk,kl->il", "ij,jk,kl->il", {{{2, 3}, {3, 4}, {4, 2}}}),
      einsum_row("bilinear", "bi,oij,bj->bo", "bi,oij,bj->bo", {{{2, 3}, {4, 3, 5}, {2, 5}}}),
  };
}

}  // namespace varve::test
