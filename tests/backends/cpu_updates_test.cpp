// Gradients that are taken up by the optimiser's update as they are computed: when, when not, and that the results are
// the reference's either way.
#include <array>

#include "cpu_programs.h"
#include "update_rules.h"
#include "varve/autodiff.h"
#include "varve/ops.h"

namespace varve {
namespace {

struct Step {
  const Rule* rule = &rules()[0];
  std::int64_t batch = 9, in = 40, out = 33;
  bool returned = false, clipped = false, tied = false;
};

using Results = std::vector<std::vector<float>>;

// Two steps of y = x·w; gives the losses, the new weight and its states.
std::pair<Results, std::string> train(const std::string& device, const Step& how) {
  const bool one_state = std::string(how.rule->kernel).find("sgd_") != std::string::npos;
  Variable w("w", values({how.in, how.out}, 2)), m("m", values({how.in, how.out}, 4), false);
  Variable v("v", square(values({how.in, how.out}, 5)), false);
  const Variable rate("rate", tensor(0.05f), false);
  const Function f = [&](const TensorList& in) {
    auto [loss, grads] = value_and_grad(
        [&] {
          Tensor total = sum(square(matmul(in[0], w)));
          if (how.tied) total = total + sum(square(matmul(in[1], w, {.transpose_b = true})));
          return total;
        },
        {w});
    Tensor g = grads[0];
    if (how.clipped) g = g * minimum(1 / sqrt(sum(square(g))), 1);
    const Updated next = how.rule->update(w, g, m, v, rate);
    w.assign(next.parameter);
    if (next.state.size() == 2) m.assign(next.state[0]);
    if (!next.state.empty()) (one_state ? m : v).assign(next.state.back());
    return how.returned ? TensorList{loss, g} : TensorList{loss};
  };
  const auto program = detail::compile(f, {.device = device});
  const TensorList in = {values({how.batch, how.in}, 1), values({how.batch, how.out}, 3)};
  Results results;
  for (int step = 0; step < 2; ++step) {
    for (const Tensor& t : call(*program, in)) results.push_back(t.to_vector<float>());
  }
  for (const Variable* state : {&w, &m, &v}) results.push_back(state->value().to_vector<float>());
  return {results, detail::text(*program, in)};
}

std::string trained(const Step& how) {
  const auto [got, text] = train("cpu", how);
  const auto want = train("reference", how).first;
  EXPECT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    expect_close(got[i], want[i], "result " + std::to_string(i) + "\n" + text);
  return text;
}

TEST(CpuUpdates, AGradientThatOnlyTheUpdateReadsIsNeverWritten) {
  for (const Rule& rule : rules()) {
    SCOPED_TRACE(rule.kernel);
    const std::string text = trained({.rule = &rule});
    expect_kernel(text, std::string(rule.kernel) + "  <-");
    expect_no_kernel(text, "copied back");
  }
}

TEST(CpuUpdates, AnySizes) {
  for (const Rule& rule : rules())
    for (const auto& [batch, in, out] :
         {std::array<std::int64_t, 3>{17, 1, 1}, {1, 5, 130}, {17, 101, 1}, {3, 37, 97}, {300, 19, 23}, {2, 3, 3100}}) {
      SCOPED_TRACE(testing::Message() << rule.kernel << " " << batch << " " << in << " " << out);
      expect_kernel(trained({.rule = &rule, .batch = batch, .in = in, .out = out}), std::string(rule.kernel) + "  <-");
    }
}

TEST(CpuUpdates, OtherReadersForbidIt) {
  for (const Rule& rule : rules()) {
    SCOPED_TRACE(rule.kernel);
    expect_no_kernel(trained({.rule = &rule, .returned = true}), "matmul+");
    expect_no_kernel(trained({.rule = &rule, .clipped = true}), "matmul+");
    expect_no_kernel(trained({.rule = &rule, .tied = true}), "matmul+");
  }
}

TEST(CpuUpdates, TheSameBitsForAnyNumberOfThreads) {
  const ThreadsRestored restored;
  for (const Rule& rule : rules())
    for (const bool wide : {false, true}) {
      const Step how{.rule = &rule, .batch = 30, .in = wide ? 7 : 210, .out = wide ? 531 : 70};
      set_threads(1);
      const Results alone = train("cpu", how).first;
      set_threads(3);
      EXPECT_EQ(alone[2], train("cpu", how).first[2]) << rule.kernel;
    }
}

TEST(CpuUpdates, AWeightThatIsItsOwnGradientsOperand) {
  // d/dw of sum(w·w) reads w twice.
  const auto step = [](const std::string& device) {
    Variable w("w", values({8, 8}, 2));
    const auto program = detail::compile(
        [&](const TensorList&) {
          const Tensor g = matmul(w, w, {.transpose_a = true});
          w.assign(sgd_update(w, g, {}, 0.1).parameter);
          return TensorList{};
        },
        {.device = device});
    call(*program, {});
    return w.value().to_vector<float>();
  };
  expect_close(step("cpu"), step("reference"), "w");
}

}  // namespace
}  // namespace varve
