// Attention, query by query.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "ops/row.h"

namespace varve::test {
namespace {

using Index = std::vector<std::int64_t>;

struct AttentionCase {
  bool causal = false;
  std::optional<double> scale = {};
  bool logical_mask = false, added_mask = false;
};

Index with(Index batch, std::int64_t row, std::int64_t column) {
  batch.push_back(row);
  batch.push_back(column);
  return batch;
}

// The score of one query and key, or -infinity where it must not look.
double score(const DoublesList& in, const AttentionCase& c, const Index& batch, std::int64_t query, std::int64_t key) {
  const Shape &q = in[0].shape, &k = in[1].shape;
  const std::int64_t queries = q[q.rank() - 2], keys = k[k.rank() - 2], depth = q.back();
  if (c.causal && key - (keys - 1) > query - (queries - 1)) return -kInfinity;
  if (c.logical_mask && at_broadcast(in[3], with(batch, query, key)) == 0) return -kInfinity;
  double dot = 0;
  for (std::int64_t d = 0; d < depth; ++d)
    dot += at_broadcast(in[0], with(batch, query, d)) * at_broadcast(in[1], with(batch, key, d));
  dot *= c.scale.value_or(1 / std::sqrt(std::max(static_cast<double>(depth), 1.0)));
  return c.added_mask ? dot + at_broadcast(in[3], with(batch, query, key)) : dot;
}

Doubles attended(const DoublesList& in, const AttentionCase& c) {
  const auto batch_of = [](const Shape& s) { return Shape(Index(s.begin(), s.end() - 2)); };
  Shape shape =
      broadcast(broadcast(batch_of(in[0].shape), batch_of(in[1].shape), "oracle"), batch_of(in[2].shape), "oracle");
  const std::int64_t keys = in[1].shape[in[1].shape.rank() - 2];
  shape.push_back(in[0].shape[in[0].shape.rank() - 2]);
  shape.push_back(in[2].shape.back());
  Doubles y = doubles(shape);
  std::size_t next = 0;
  each_index(shape, [&](const Index& index) {
    const Index batch(index.begin(), index.end() - 2);
    std::vector<double> scores;
    double highest = -kInfinity;
    for (std::int64_t key = 0; key < keys; ++key) {
      scores.push_back(score(in, c, batch, index[index.size() - 2], key));
      highest = std::max(highest, scores.back());
    }
    double total = 0, sum = 0;
    for (std::int64_t key = 0; key < keys && highest > -kInfinity; ++key) {
      const double weight = std::exp(scores[static_cast<std::size_t>(key)] - highest);
      total += weight;
      sum += weight * at_broadcast(in[2], with(batch, key, index.back()));
    }
    y.data[next++] = total > 0 ? sum / total : 0;  // a query that sees nothing gives 0
  });
  return y;
}

Row attention_row(const std::string& label, const AttentionCase& c, std::vector<std::vector<Shape>> shapes) {
  Row row{.op = "attention",
          .label = label,
          .covers = {"attention_grad"},
          .call =
              [c](const Tensors& in) {
                return attention(in[0], in[1], in[2],
                                 {.mask = in.size() > 3 ? in[3] : Tensor{}, .causal = c.causal, .scale = c.scale});
              },
          .oracle = [c](const DoublesList& in) { return attended(in, c); },
          .shapes = std::move(shapes),
          .types = {f32, f64}};
  if (c.logical_mask) row.boolean_inputs = {3};
  return row;
}

// [N, T, heads, D] as [N, heads, T, D], and back.
Doubles swapped(const Doubles& x) {
  Doubles y = doubles({x.shape[0], x.shape[2], x.shape[1], x.shape[3]});
  std::size_t next = 0;
  each_index(y.shape, [&](const Index& i) { y.data[next++] = at_broadcast(x, {i[0], i[2], i[1], i[3]}); });
  return y;
}

Row inside_row() {
  const AttentionCase c{.causal = true};
  Row row = attention_row("inside", c, {{{2, 5, 3, 4}, {2, 5, 3, 4}, {2, 5, 3, 2}}});
  row.call = [](const Tensors& in) {
    const auto turned = [](const Tensor& x) { return transpose(x, {0, 2, 1, 3}); };
    return turned(attention(turned(in[0]), turned(in[1]), turned(in[2]), {.causal = true}));
  };
  row.oracle = [c](const DoublesList& in) {
    return swapped(attended({swapped(in[0]), swapped(in[1]), swapped(in[2])}, c));
  };
  return row;
}

// Lengths and head sizes past one block and one vector.
Row long_row(const std::string& label, const AttentionCase& c) {
  Row row = attention_row(label, c, {{{1, 50, 5}, {1, 67, 5}, {1, 67, 3}}, {{1, 1, 64}, {1, 257, 64}, {1, 257, 2}}});
  row.terms = 257;
  row.gradient_shapes = {{{1, 3, 2}, {1, 4, 2}, {1, 4, 2}}};
  return row;
}

// Scores and weights are rounded to the type between the two products.
Row half_row() {
  Row row = attention_row("half", {.causal = true}, {{{2, 4, 8}, {2, 4, 8}, {2, 4, 8}}});
  row.types = {bf16, f16};
  row.terms = 4;
  row.slack = 1 << 14;
  row.gradient = false;
  return row;
}

Row added_mask_row() {
  Row row = attention_row("addedmask", {.added_mask = true},
                          {{{2, 3, 4}, {2, 5, 4}, {2, 5, 3}, {3, 5}}, {{2, 2, 4}, {2, 2, 4}, {2, 2, 4}, {2, 1, 2}}});
  row.adjust = [](DoublesList& in) {
    in[3].data[1] = -kInfinity;  // one key hidden
    for (std::size_t i = in[3].data.size() - static_cast<std::size_t>(in[3].shape.back()); i < in[3].data.size(); ++i)
      in[3].data[i] = -kInfinity;  // a query that sees nothing
  };
  row.differentiable = {0, 1, 2};
  return row;
}

// Heads of k and v that several heads of q share: the same as if each were there as often.
Row grouped_row(const std::string& label, const AttentionCase& c, std::vector<std::vector<Shape>> shapes) {
  Row row = attention_row(label, c, std::move(shapes));
  row.covers = {};
  row.oracle = [c](const DoublesList& in) {
    DoublesList whole = in;
    for (const std::size_t i : {1, 2}) {
      const Shape &q = in[0].shape, &given = in[i].shape;
      const std::int64_t group = q[1] / given[1];
      whole[i] = doubles({given[0], q[1], given[2], given[3]});
      std::size_t next = 0;
      each_index(whole[i].shape, [&](const Index& at_head) {
        whole[i].data[next++] = at(in[i], {at_head[0], at_head[1] / group, at_head[2], at_head[3]});
      });
    }
    return attended(whole, c);
  };
  return row;
}

}  // namespace

std::vector<Row> attention_rows() {
  return {
      attention_row("", {},
                    {{{3, 4}, {5, 4}, {5, 2}},
                     {{2, 3, 4}, {2, 5, 4}, {2, 5, 4}},
                     {{2, 2, 3, 4}, {2, 1, 5, 4}, {2, 1, 5, 3}},
                     {{2, 0, 4}, {2, 5, 4}, {2, 5, 4}},
                     {{1, 3, 0}, {1, 2, 0}, {1, 2, 2}}}),
      attention_row("nokeys", {}, {{{2, 3, 4}, {2, 0, 4}, {2, 0, 5}}}),
      attention_row("scaled", {.scale = 2.5}, {{{2, 3, 4}, {2, 5, 4}, {2, 5, 4}}}),
      attention_row(
          "causal", {.causal = true},
          {{{2, 4, 3}, {2, 4, 3}, {2, 4, 3}}, {{2, 2, 3}, {2, 5, 3}, {2, 5, 3}}, {{2, 5, 3}, {2, 2, 3}, {2, 2, 3}}}),
      attention_row(
          "mask", {.logical_mask = true},
          {{{2, 3, 4}, {2, 5, 4}, {2, 5, 4}, {3, 5}}, {{2, 2, 3, 4}, {2, 2, 2, 4}, {2, 2, 2, 4}, {2, 1, 1, 2}}}),
      attention_row("causalmask", {.causal = true, .logical_mask = true},
                    {{{2, 4, 3}, {2, 4, 3}, {2, 4, 3}, {2, 1, 4}}}),
      added_mask_row(),
      inside_row(),
      long_row("long", {}),
      long_row("longcausal", {.causal = true}),
      half_row(),
      grouped_row("grouped", {},
                  {{{2, 6, 3, 4}, {2, 2, 5, 4}, {2, 2, 5, 2}}, {{1, 4, 3, 2}, {1, 1, 2, 2}, {1, 1, 2, 2}}}),
      grouped_row("groupedcausal", {.causal = true}, {{{2, 4, 3, 4}, {2, 2, 3, 4}, {2, 2, 3, 4}}}),
      grouped_row("groupedmask", {.logical_mask = true},
                  {{{2, 4, 3, 4}, {2, 2, 5, 4}, {2, 2, 5, 4}, {2, 4, 3, 5}},
                   {{2, 4, 3, 4}, {2, 2, 5, 4}, {2, 2, 5, 4}, {2, 1, 1, 5}},
                   {{2, 4, 3, 4}, {2, 2, 5, 4}, {2, 2, 5, 4}, {3, 5}}}),
  };
}

}  // namespace varve::test
