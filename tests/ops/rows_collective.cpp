// Collectives in a world of one rank, where each is the identity. tests/distributed runs them on up to four ranks.
#include "ops/row.h"
#include "varve/distributed.h"

namespace varve::test {

std::vector<Row> collective_rows() {
  namespace dist = distributed;
  const auto same = [](double x) { return x; };
  const std::vector<double> values = {0, -0.0, 1, kInfinity, kNaN};
  std::vector<Row> rows;
  const auto row = [&](const char* op, Unary call) { rows.push_back(unary_row(op, std::move(call), same, values)); };
  row("all_sum", [](const Tensor& x) { return dist::all_sum(x); });
  row("all_max", [](const Tensor& x) { return dist::all_max(x); });
  row("all_min", [](const Tensor& x) { return dist::all_min(x); });
  row("rank_broadcast", [](const Tensor& x) { return dist::broadcast(x); });
  rows.push_back(unary_row(
      "transfer", [](const Tensor& x) { return dist::transfer(x, 0, 0); }, same, values));
  const auto unchanged = [](const DoublesList& in) { return in; };
  rows.push_back({.op = "all_gather",
                  .call = [](const Tensors& in) { return dist::all_gather(in[0], in[0].rank() - 1); },
                  .oracle = unchanged,
                  .shapes = {{{1}}, {{7}}, {{3, 5}}, {{0, 2}}},
                  .values = values});
  rows.push_back({.op = "sum_scatter",
                  .call = [](const Tensors& in) { return dist::sum_scatter(in[0]); },
                  .oracle = unchanged,
                  .shapes = {{{1}}, {{7}}, {{3, 5}}, {{0, 2}}},
                  .values = values});
  rows.push_back({.op = "all_to_all",
                  .call = [](const Tensors& in) { return dist::all_to_all(in[0], in[0].rank() - 1); },
                  .oracle = unchanged,
                  .shapes = {{{1}}, {{7}}, {{3, 5}}, {{0, 2}}},
                  .values = values});
  return rows;
}

}  // namespace varve::test
