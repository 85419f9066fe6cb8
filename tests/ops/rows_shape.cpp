// Shape operators: every element comes from one place, so results are exact and the same bits everywhere.
#include <algorithm>
#include <numeric>

#include "ops/row.h"

namespace varve::test {

namespace {

using Index = std::vector<std::int64_t>;

// out[index] = x[from(index)], or `fill` where from() gives nothing.
Doubles moved(const Doubles& x, const Shape& shape, const std::function<Index(Index)>& from, double fill = 0) {
  Doubles out = doubles(shape, fill);
  std::size_t next = 0;
  each_index(shape, [&](const Index& index) {
    const Index source = from(index);
    if (!source.empty() || x.shape.rank() == 0)
      out.data[next] = x.data[static_cast<std::size_t>(offset(x.shape, source))];
    ++next;
  });
  return out;
}

Row shape_row(const std::string& op, const std::string& label, Unary call,
              std::function<Doubles(const Doubles&)> oracle, std::vector<Shape> shapes) {
  Row row{.op = op,
          .label = label,
          .call = [call = std::move(call)](const Tensors& in) { return call(in[0]); },
          .oracle = [oracle = std::move(oracle)](const DoublesList& in) { return oracle(in[0]); },
          .shapes = {},
          .types = kEveryType,
          .bitwise = true};
  for (Shape& shape : shapes) row.shapes.push_back({std::move(shape)});
  return row;
}

void add_reshapes(std::vector<Row>& rows) {
  const auto row = [&](const std::string& op, const std::string& label, Unary call, const std::vector<Shape>& from,
                       const Shape& to) {
    rows.push_back(shape_row(
        op, label, std::move(call),
        [to](const Doubles& x) {
          return Doubles{to, x.data};
        },
        from));
  };
  row("reshape", "flat", [](const Tensor& x) { return reshape(x, {-1}); }, {{3, 4}, {2, 1, 6}}, {12});
  row("reshape", "split", [](const Tensor& x) { return reshape(x, {2, -1, 3}); }, {{12}, {4, 3}, {3, 4}}, {2, 2, 3});
  row("reshape", "scalar", [](const Tensor& x) { return reshape(x, {}); }, {{1, 1}}, {});
  row("reshape", "empty", [](const Tensor& x) { return reshape(x, {3, 0, 2}); }, {{0}, {0, 5}}, {3, 0, 2});
  row("expand_dims", "last", [](const Tensor& x) { return expand_dims(x, -1); }, {{3, 2}}, {3, 2, 1});
  row("expand_dims", "first", [](const Tensor& x) { return expand_dims(x, 0); }, {{3, 2}}, {1, 3, 2});
  row("squeeze", "", [](const Tensor& x) { return squeeze(x, {0, -1}); }, {{1, 3, 1}}, {3});
  row("flatten", "batch", [](const Tensor& x) { return flatten(x); }, {{2, 3, 4}, {2, 12}}, {2, 12});
  row("flatten", "all", [](const Tensor& x) { return flatten(x, 0); }, {{2, 3}, {6}}, {6});
  row("flatten", "empty", [](const Tensor& x) { return flatten(x); }, {{2, 0, 4}}, {2, 0});
}

void add_views(std::vector<Row>& rows) {
  rows.push_back(shape_row(
      "transpose", "last", [](const Tensor& x) { return transpose(x); },
      [](const Doubles& x) {
        Shape to = x.shape;
        std::swap(to[to.rank() - 1], to[to.rank() - 2]);
        return moved(x, to, [](Index i) {
          std::swap(i[i.size() - 1], i[i.size() - 2]);
          return i;
        });
      },
      {{3, 5}, {2, 3, 4}, {0, 3}, {1, 7}, {67, 33}}));
  rows.push_back(shape_row(
      "transpose", "order",
      [](const Tensor& x) {
        return transpose(x, {2, 0, -2});
      },
      [](const Doubles& x) {
        return moved(x, {x.shape[2], x.shape[0], x.shape[1]}, [](const Index& i) { return Index{i[1], i[2], i[0]}; });
      },
      {{2, 3, 4}, {5, 1, 2}}));
  rows.push_back(shape_row(
      "broadcast_to", "",
      [](const Tensor& x) {
        return broadcast_to(x, {2, 3, 4});
      },
      [](const Doubles& x) {
        Doubles out = doubles({2, 3, 4});
        std::size_t next = 0;
        each_index(out.shape, [&](const Index& i) { out.data[next++] = at_broadcast(x, i); });
        return out;
      },
      {{3, 1}, Shape{}, {1}, {2, 1, 4}, {1, 1, 1}, {2, 3, 4}}));
  rows.push_back(shape_row(
      "flip", "",
      [](const Tensor& x) {
        return flip(x, {0, -1});
      },
      [](const Doubles& x) {
        return moved(x, x.shape, [&](Index i) {
          i.front() = x.shape[0] - 1 - i.front();
          i.back() = x.shape.back() - 1 - i.back();
          return i;
        });
      },
      {{3, 5}, {2, 3, 4}, {0, 2}, {1, 1}}));
}

void add_slices(std::vector<Row>& rows) {
  // begin, step and size along the first two axes, written out by hand.
  struct Case {
    std::string label;
    std::vector<Range> ranges;
    Shape from, size;
    Index begin, step;
  };
  const std::vector<Case> cases = {
      {"front", {{0, 2}}, {5, 3}, {2, 3}, {0, 0}, {1, 1}},
      {"inner", {{1, 4}, {1, 2}}, {5, 3}, {3, 1}, {1, 1}, {1, 1}},
      {"steps", {{0, kEnd, 2}, {1, kEnd, 3}}, {5, 8}, {3, 3}, {0, 1}, {2, 3}},
      {"from_end", {{-2, kEnd}, {0, -1}}, {5, 3}, {2, 2}, {3, 0}, {1, 1}},
      {"backwards", {{kEnd, kEnd, -2}, {1, 0, -1}}, {6, 3}, {3, 1}, {5, 1}, {-2, 1}},
      {"clipped", {{-100, 100}, {2, 100}}, {4, 3}, {4, 1}, {0, 2}, {1, 1}},
      {"nothing", {{3, 1}, {0, 2}}, {5, 3}, {0, 2}, {0, 0}, {1, 1}},
      {"of_nothing", {{0, 2}, {0, 2}}, {0, 3}, {0, 2}, {0, 0}, {1, 1}},
  };
  for (const Case& c : cases) {
    rows.push_back(shape_row(
        "slice", c.label, [c](const Tensor& x) { return slice(x, c.ranges); },
        [c](const Doubles& x) {
          return moved(x, c.size, [&](const Index& i) {
            return Index{c.begin[0] + i[0] * c.step[0], c.begin[1] + i[1] * c.step[1]};
          });
        },
        {c.from}));
    rows.back().covers = {"unslice"};
  }
}

void add_pads(std::vector<Row>& rows) {
  const auto row = [&](const std::string& label, std::vector<std::pair<std::int64_t, std::int64_t>> widths,
                       double value, std::vector<Shape> shapes) {
    rows.push_back(shape_row(
        "pad", label, [=](const Tensor& x) { return pad(x, widths, {.value = value}); },
        [=](const Doubles& x) {
          Shape to = x.shape;
          for (std::size_t a = 0; a < widths.size(); ++a) to[static_cast<int>(a)] += widths[a].first + widths[a].second;
          return moved(
              x, to,
              [&](Index i) {
                for (std::size_t a = 0; a < i.size(); ++a) {
                  i[a] -= widths[a].first;
                  if (i[a] < 0 || i[a] >= x.shape[static_cast<int>(a)]) return Index{};
                }
                return i;
              },
              value);
        },
        std::move(shapes)));
  };
  row("zeros", {{1, 2}, {0, 3}}, 0, {{3, 5}, {1, 1}, {0, 2}});
  row("value", {{2, 0}}, 1, {{7}, {0}});
  row("image", {{0, 0}, {1, 1}, {2, 1}, {0, 0}}, 0, {{2, 3, 4, 2}});
}

Doubles joined(const DoublesList& parts, std::size_t axis) {
  Shape to = parts[0].shape;
  to[static_cast<int>(axis)] = 0;
  for (const Doubles& part : parts) to[static_cast<int>(axis)] += part.shape[static_cast<int>(axis)];
  Doubles out = doubles(to);
  std::size_t next = 0;
  each_index(to, [&](Index i) {
    std::size_t part = 0;
    for (; i[axis] >= parts[part].shape[static_cast<int>(axis)]; ++part)
      i[axis] -= parts[part].shape[static_cast<int>(axis)];
    out.data[next++] = parts[part].data[static_cast<std::size_t>(offset(parts[part].shape, i))];
  });
  return out;
}

void add_joins(std::vector<Row>& rows) {
  const auto row = [&](const std::string& label, std::int64_t axis, std::size_t normal,
                       std::vector<std::vector<Shape>> shapes) {
    rows.push_back({.op = "concat",
                    .label = label,
                    .call = [=](const Tensors& in) { return concat(in, axis); },
                    .oracle = [=](const DoublesList& in) { return joined(in, normal); },
                    .shapes = std::move(shapes),
                    .types = kEveryType,
                    .bitwise = true});
  };
  row("first", 0, 0, {{{3, 2}, {1, 2}, {4, 2}}, {{0}, {3}}, {{0, 2}, {0, 2}}, {{5}, {1}, {2}, {3}}});
  row("last", -1, 1, {{{3, 2}, {3, 5}}, {{2, 0}, {2, 3}}, {{67, 3}, {67, 130}}});
  rows.push_back({.op = "stack",
                  .call = [](const Tensors& in) { return stack(in, 1); },
                  .oracle =
                      [](const DoublesList& in) {
                        DoublesList layers = in;
                        for (Doubles& layer : layers) layer.shape = {layer.shape[0], 1, layer.shape[1]};
                        return joined(layers, 1);
                      },
                  .shapes = {{{3, 2}, {3, 2}}, {{2, 0}, {2, 0}}},
                  .types = kEveryType,
                  .bitwise = true});
  rows.push_back({.op = "split",
                  .call =
                      [](const Tensors& in) {
                        return split(in[0], std::vector<std::int64_t>{1, 0, 3}, 1);
                      },
                  .oracle =
                      [](const DoublesList& in) {
                        DoublesList parts;
                        for (const auto& [begin, size] : {std::pair(0, 1), std::pair(1, 0), std::pair(1, 3)})
                          parts.push_back(moved(in[0], {in[0].shape[0], size}, [b = begin](const Index& i) {
                            return Index{i[0], i[1] + b};
                          }));
                        return parts;
                      },
                  .shapes = {{{3, 4}}, {{0, 4}}},
                  .types = kEveryType,
                  .bitwise = true});
}

void add_repetitions(std::vector<Row>& rows) {
  rows.push_back(shape_row(
      "tile", "",
      [](const Tensor& x) {
        return tile(x, {2, 3});
      },
      [](const Doubles& x) {
        return moved(x, {2 * x.shape[0], 3 * x.shape[1]}, [&](const Index& i) {
          return Index{i[0] % x.shape[0], i[1] % x.shape[1]};
        });
      },
      {{3, 5}, {1, 1}, {0, 2}}));
  rows.push_back(shape_row(
      "repeat", "", [](const Tensor& x) { return repeat(x, 3, 0); },
      [](const Doubles& x) {
        return moved(x, {3 * x.shape[0], x.shape[1]}, [](const Index& i) { return Index{i[0] / 3, i[1]}; });
      },
      {{3, 5}, {1, 1}, {0, 2}}));
  const auto triangle = [&](const std::string& op, const std::string& label, Unary call, bool lower, int diagonal) {
    rows.push_back(shape_row(op, label, std::move(call),
                             [=](const Doubles& x) {
                               return moved(x, x.shape, [=](const Index& i) {
                                 const std::int64_t above = i[i.size() - 1] - i[i.size() - 2];
                                 return (lower ? above <= diagonal : above >= diagonal) ? i : Index{};
                               });
                             },
                             {{3, 5}, {5, 3}, {2, 3, 3}, {0, 2}}));
    rows.back().values = {1, 2, -0.0};
  };
  triangle(
      "tril", "", [](const Tensor& x) { return tril(x); }, true, 0);
  triangle(
      "tril", "below", [](const Tensor& x) { return tril(x, -1); }, true, -1);
  triangle(
      "triu", "", [](const Tensor& x) { return triu(x); }, false, 0);
  triangle(
      "triu", "above", [](const Tensor& x) { return triu(x, 2); }, false, 2);
}

}  // namespace

std::vector<Row> shape_rows() {
  std::vector<Row> rows;
  add_reshapes(rows);
  add_views(rows);
  add_slices(rows);
  add_pads(rows);
  add_joins(rows);
  add_repetitions(rows);
  return rows;
}

}  // namespace varve::test
