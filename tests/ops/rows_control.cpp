// Branches and loops whose course is a value.
#include "ops/row.h"
#include "varve/control.h"

namespace varve::test {
namespace {

// ---- cond: x·y and x + 1, or x - y and y²; y is captured

Row cond_row(const std::string& label, bool holds) {
  return {.op = "cond",
          .label = label,
          .call =
              [](const Tensors& in) {
                const Tensor& y = in[1];
                return cond(
                    in[2],
                    [&](const Tensors& x) {
                      return Tensors{x[0] * y, x[0] + 1};
                    },
                    [&](const Tensors& x) {
                      return Tensors{x[0] - y, y * y};
                    },
                    {in[0]});
              },
          .oracle =
              [](const DoublesList& in) {
                Doubles a = in[0], b = in[0];
                for (std::size_t i = 0; i < a.data.size(); ++i) {
                  const double x = in[0].data[i], y = in[1].data[i];
                  a.data[i] = in[2].data[0] != 0 ? x * y : x - y;
                  b.data[i] = in[2].data[0] != 0 ? x + 1 : y * y;
                }
                return DoublesList{a, b};
              },
          .shapes = {{{3}, {3}, Shape{}}, {{2, 5}, {2, 5}, {1}}, {Shape{}, Shape{}, Shape{}}, {{0}, {0}, Shape{}}},
          .boolean_inputs = {2},
          .adjust = [holds](DoublesList& in) { in[2].data[0] = holds ? 1 : 0; }};
}

// ---- while_loop: n times a' = w·a·(1.5 - a), s' = s + a; w and n are captured

Row while_row(const std::string& label, const WhileOptions& options) {
  return {.op = "while_loop",
          .label = label,
          .call =
              [options](const Tensors& in) {
                const auto condition = [&](const Tensors& c) { return c[2] < in[3]; };
                const auto body = [&](const Tensors& c) {
                  return Tensors{in[2] * c[0] * (1.5 - c[0]), c[1] + c[0], c[2] + 1};
                };
                Tensors carries = while_loop(condition, body, {in[0], in[1], full_int({}, 0)}, options);
                carries.pop_back();
                return carries;
              },
          .oracle =
              [](const DoublesList& in) {
                Doubles a = in[0], s = in[1];
                for (std::size_t i = 0; i < a.data.size(); ++i)
                  for (int n = 0; n < static_cast<int>(in[3].data[0]); ++n) {
                    s.data[i] += a.data[i];
                    a.data[i] = in[2].data[i] * a.data[i] * (1.5 - a.data[i]);
                  }
                return DoublesList{a, s};
              },
          .shapes = {{{3}, {3}, {3}, Shape{}}, {{2, 2}, {2, 2}, {2, 2}, Shape{}}, {{0}, {0}, {0}, Shape{}}},
          .range = {0, 1},
          .types = {f32, f64},
          .integer_inputs = {{3, 5}},
          .adjust = [](DoublesList& in) { in[3].data[0] = in[0].data.size() == 4 ? 0 : 4; },
          .slack = 4};  // rounded at every step, and the next one builds on it
}

}  // namespace

std::vector<Row> control_rows() {
  return {cond_row("then", true), cond_row("otherwise", false), while_row("bounded", {.max_steps = 4}),
          while_row("recomputed", {.max_steps = 5, .recompute = true})};
}

}  // namespace varve::test
