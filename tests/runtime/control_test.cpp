// cond and while_loop as programs: what is computed, what is refused, what it costs.
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/training.h"
#include "varve/control.h"
#include "varve/interrupt.h"
#include "varve/kernel.h"
#include "varve/transforms.h"

namespace varve::runtime {
namespace {

class Control : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { set_device(GetParam()); }
  void TearDown() override { set_device("cpu"); }
};
INSTANTIATE_TEST_SUITE_P(Devices, Control, testing::Values("reference", "cpu"));

int calls = 0;

// x, by a kernel that counts how often it runs.
const OpDef& counted() {
  static const OpDef op = [] {
    const OpDef made = define({.name = "counted",
                               .doc = "x, counted",
                               .family = "user",
                               .shape = [](const Call& call) { return call.in; },
                               .gradient = [](const Vjp& v) { return Tensors{v.dy * 3}; },
                               .pure = false});
    add_kernel(made, [](const KernelCall& call) {
      ++calls;
      std::memcpy(call.out[0].data, call.in[0].data, call.in[0].type.bytes());
    });
    return made;
  }();
  return op;
}

Tensor truth(bool value) { return tensor(value ? 1.f : 0.f) > 0; }

// Newton's steps for the square root, until they no longer change it.
Tensor root(const Tensor& a, const WhileOptions& options = {}) {
  return while_loop([&](const Tensor& x) { return max(abs(x * x - a)) > 1e-3f; },
                    [&](const Tensor& x) { return 0.5 * (x + a / x); }, ones(a.shape()), options);
}

TEST_P(Control, OnlyTheBranchThatIsTakenRuns) {
  const auto f = [](const Tensor& p, const Tensor& x) {
    return cond(
        p, [&] { return counted().call({x})[0] * 2; }, [&] { return x + 1; });
  };
  auto program = compile(f);
  const Tensor x = tensor({1.f, 2.f});
  for (const bool compiled : {false, true}) {
    calls = 0;
    const auto run = [&](bool p) { return (compiled ? program(truth(p), x) : f(truth(p), x)).to_vector<float>(); };
    EXPECT_EQ(run(false), (Floats{2, 3}));
    EXPECT_EQ(calls, 0);
    EXPECT_EQ(run(true), (Floats{2, 4}));
    EXPECT_EQ(calls, 1);
  }
  EXPECT_EQ(program.programs(), 1u);
}

// The gradient too; what the branch computes on the way is computed once more there.
TEST_P(Control, TheGradientTakesTheSameBranch) {
  const auto slope = [](const Tensor& p, const Tensor& x) {
    return grad([&](const Tensor& t) {
      return sum(cond(
          p, [&] { return varve::exp(counted().call({t})[0]); }, [&] { return t * t; }));
    })(x);
  };
  auto program = compile(slope);
  const Tensor x = tensor({0.5f, 2.f});
  calls = 0;
  EXPECT_EQ(program(truth(false), x).to_vector<float>(), (Floats{1, 4}));
  EXPECT_EQ(slope(truth(false), x).to_vector<float>(), (Floats{1, 4}));
  EXPECT_EQ(calls, 0);
  const Floats taken = program(truth(true), x).to_vector<float>();
  EXPECT_NEAR(taken[1], 3 * std::exp(2), 1e-4);
  EXPECT_GT(calls, 0);
}

TEST_P(Control, AnIndexIsCheckedWhereItIsUsed) {
  const auto f = [](const Tensor& p, const Tensor& index) {
    const Tensor table = tensor({1.f, 2.f, 3.f});
    return cond(
        p, [&] { return gather(table, index); }, [&] { return zeros({1}); });
  };
  auto program = compile(f);
  const Tensor far = tensor({7});
  EXPECT_EQ(program(truth(false), far).to_vector<float>(), Floats{0});
  EXPECT_EQ(f(truth(false), far).to_vector<float>(), Floats{0});
  EXPECT_TRUE(contains(error_of([&] { program(truth(true), far).to_vector<float>(); }), "out of range"));
  EXPECT_TRUE(contains(error_of([&] { f(truth(true), far).to_vector<float>(); }), "out of range"));
  EXPECT_EQ(program(truth(true), tensor({2})).to_vector<float>(), Floats{3});
}

TEST_P(Control, ALoopTakesAsManyStepsAsItsValuesAsk) {
  auto program = compile([](const Tensor& a) { return root(a); });
  for (const float a : {1.f, 4.f, 9.f, 1e4f}) {
    EXPECT_NEAR(program(tensor({a})).to_vector<float>()[0], std::sqrt(a), 1e-3);
    EXPECT_NEAR(root(tensor({a})).to_vector<float>()[0], std::sqrt(a), 1e-3);
  }
  EXPECT_EQ(program.programs(), 1u);
  const Floats slope =
      grad([](const Tensor& a) { return sum(root(a, {.max_steps = 30})); })(tensor({4.f, 9.f})).to_vector<float>();
  EXPECT_NEAR(slope[0], 1 / 4., 1e-4);
  EXPECT_NEAR(slope[1], 1 / 6., 1e-4);
}

TEST_P(Control, ALoopBeyondItsBoundIsAnErrorAtTheNextRead) {
  Variable v("v", ones({1}));
  auto step = compile([&](const Tensor& a) {
    const Tensor r = root(a, {.max_steps = 3});
    v.assign(v + r);
    return r;
  });
  EXPECT_NEAR(step(tensor({1.f})).to_vector<float>()[0], 1, 1e-6);
  const Tensor far = step(tensor({1e6f}));
  EXPECT_TRUE(contains(error_of([&] { far.to_vector<float>(); }), "after 3 steps, the max_steps"));
  const Tensor lazy = root(tensor({1e6f}), {.max_steps = 3});
  EXPECT_TRUE(contains(error_of([&] { lazy.to_vector<float>(); }), "after 3 steps, the max_steps"));
  EXPECT_NEAR(step(tensor({1.f})).to_vector<float>()[0], 1, 1e-6);
  EXPECT_EQ(v.value().to_vector<float>(), Floats{3});  // what failed changed nothing
}

TEST_P(Control, GradientsNeedABoundOrRecompute) {
  const auto slope = [](const WhileOptions& options) {
    return grad([&](const Tensor& a) { return sum(root(a, options)); })(tensor({4.f})).to_vector<float>();
  };
  EXPECT_TRUE(contains(error_of([&] { slope({}); }), "Set max_steps"));
  const Floats kept = slope({.max_steps = 50});
  EXPECT_EQ(slope({.recompute = true}), kept);
  EXPECT_EQ(slope({.max_steps = 50, .recompute = true}), kept);
}

TEST_P(Control, VariablesInsideAreOperands) {
  Variable w("w", tensor({1.f, 2.f}));
  auto step = compile([&](const Tensor& p) {
    auto [loss, grads] = value_and_grad(
        [&] {
          return sum(cond(
              p, [&] { return w.value() * w.value(); }, [&] { return w.value() * 10; }));
        },
        {w});
    w.assign(cond(
        p, [&] { return w - 0.5 * grads[0]; }, [&] { return w.value(); }));
    return grads[0];
  });
  EXPECT_EQ(step(truth(false)).to_vector<float>(), (Floats{10, 10}));
  EXPECT_EQ(w.value().to_vector<float>(), (Floats{1, 2}));
  EXPECT_EQ(step(truth(true)).to_vector<float>(), (Floats{2, 4}));
  EXPECT_EQ(w.value().to_vector<float>(), (Floats{0, 0}));
}

TEST_P(Control, RandomNumbersAndStoppedGradients) {
  const Tensor x = ones({64});
  const auto f = [](const Tensor& p, const Tensor& t) {
    return cond(
        p, [&] { return dropout(t, 0.5, {.seed = 3}); }, [&] { return stop_gradient(t) * t; });
  };
  const auto slope = [&](bool p) {
    return grad([&](const Tensor& t) { return sum(f(truth(p), t)); })(x).to_vector<float>();
  };
  EXPECT_EQ(f(truth(true), x).to_vector<float>(), dropout(x, 0.5, {.seed = 3}).to_vector<float>());
  EXPECT_EQ(slope(true), f(truth(true), x).to_vector<float>());  // the same mask, of ones
  EXPECT_EQ(slope(false), Floats(64, 1));
}

// How many steps to 1, by halving what is even and 3n + 1 of what is odd; for each of several numbers in turn.
TEST_P(Control, OneInsideTheOther) {
  const auto next = [](const Tensor& n) {
    return cond(
        remainder(n, 2) == 0, [&] { return floor(n / 2); }, [&] { return 3 * n + 1; });
  };
  const auto length = [&](const Tensor& n) {
    const auto body = [&](const Tensors& c) { return Tensors{next(c[0]), c[1] + 1}; };
    return while_loop([](const Tensors& c) { return c[0] > 1; }, body, {n, zeros(Shape{})}, {.max_steps = 200})[1];
  };
  const auto lengths = [&](const Tensor& ns) {
    const auto body = [&](const Tensors&, const Tensors& x) { return ScanStep{{}, {length(x[0])}}; };
    return scan(body, {}, {ns}).out[0];
  };
  const Tensor ns = tensor({1.f, 6.f, 7.f, 27.f});
  auto program = compile(lengths);
  EXPECT_EQ(program(ns).to_vector<float>(), (Floats{0, 8, 16, 111}));
  EXPECT_EQ(lengths(ns).to_vector<float>(), (Floats{0, 8, 16, 111}));
  EXPECT_TRUE(contains(program.text(ns), "while  <-")) << program.text(ns);
}

// Each example takes its own way, and what would be wrong with the other one is not met.
TEST_P(Control, BatchesOfExamples) {
  const Tensor table = tensor({10.f, 20.f, 30.f}), index = tensor({0, 7, 2, -5}), x = tensor({1.f, -1.f, 2.f, -3.f});
  const auto chosen = [&](const Tensor& t, const Tensor& i) {
    return cond(
        t > 0, [&] { return gather(table, i) + varve::log(t); }, [&] { return t * t; });
  };
  const Floats want = {10, 1, 30 + std::log(2.f), 9};
  const Floats slopes = {1, -2, 0.5f, -6};
  const auto slope = [&](const Tensor& t, const Tensor& i) {
    return grad([&](const Tensor& u) { return chosen(u, i); })(t);
  };
  auto compiled = compile([&](const Tensor& t, const Tensor& i) { return vmap(chosen)(t, i); });
  EXPECT_EQ(vmap(chosen)(x, index).to_vector<float>(), want);
  EXPECT_EQ(compiled(x, index).to_vector<float>(), want);
  EXPECT_EQ(vmap(slope)(x, index).to_vector<float>(), slopes);
  EXPECT_EQ(compiled(-varve::abs(x), index).to_vector<float>(), (Floats{1, 1, 4, 9}));  // nobody looks anything up
  const Tensor p = truth(true);
  const auto shared = [&](const Tensor& t) {
    return cond(
        p, [&] { return t + 1; }, [&] { return varve::log(t); });
  };
  EXPECT_EQ(vmap(shared)(x).to_vector<float>(), (Floats{2, 0, 3, -2}));
}

TEST_P(Control, LoopsOfExamplesEndOneByOne) {
  const auto steps = [](const Tensor& n) {
    const auto body = [](const Tensors& c) {
      const Tensor halved = floor(c[0] / 2), tripled = 3 * c[0] + 1;
      return Tensors{where(remainder(c[0], 2) == 0, halved, tripled), c[1] + 1};
    };
    return while_loop([](const Tensors& c) { return c[0] > 1; }, body, {n, zeros(Shape{})}, {.max_steps = 120})[1];
  };
  const Tensor ns = tensor({1.f, 6.f, 7.f, 27.f});
  auto compiled = compile([&](const Tensor& t) { return vmap(steps)(t); });
  EXPECT_EQ(vmap(steps)(ns).to_vector<float>(), (Floats{0, 8, 16, 111}));
  EXPECT_EQ(compiled(ns).to_vector<float>(), (Floats{0, 8, 16, 111}));

  // The table is looked up at the example's own step, which has none once it has ended.
  const Tensor table = tensor({1.f, 2.f, 3.f});
  const auto sums = [&](const Tensor& n, const Tensor& w) {
    const auto body = [&](const Tensors& c) { return Tensors{c[0] + 1, c[1] + w * gather(table, c[0])}; };
    return while_loop([&](const Tensors& c) { return c[0] < n; }, body, {full_int({}, 0), zeros(Shape{})},
                      {.max_steps = 3})[1];
  };
  const Tensor counts = tensor(std::vector<std::int64_t>{3, 0, 1}, {3}), w = tensor({1.f, 2.f, 3.f});
  EXPECT_EQ(vmap(sums)(counts, w).to_vector<float>(), (Floats{6, 0, 3}));
  for (const bool recompute : {false, true}) {
    const auto slope = [&](const Tensor& a) {
      return grad([&](const Tensor& t) { return root(t, {.max_steps = 40, .recompute = recompute}); })(a);
    };
    const Floats got = vmap(slope)(tensor({1.f, 4.f, 1e4f})).to_vector<float>();
    EXPECT_EQ(got[0], 0);  // begins at the root: no step depends on it
    EXPECT_NEAR(got[1], 0.25, 1e-3);
    EXPECT_NEAR(got[2], 0.005, 1e-5);
  }
}

TEST_P(Control, MistakesAreRefusedAtTheCall) {
  const Tensor x = ones({3}), p = truth(true);
  Variable v("counter", ones({3}));
  const auto same = [&] { return x * 1; };
  const auto error = [&](const Tensor& predicate, const std::function<Tensor()>& then) {
    return error_of([&] { cond(predicate, then, same); });
  };
  EXPECT_TRUE(contains(error(x > 0, same), "one truth value, bool [], got bool [3]. Reduce it"));
  EXPECT_TRUE(contains(error(sum(x), same), "got f32 []. Compare it"));
  EXPECT_TRUE(contains(error(p, [] { return ones({4}); }), "then gives f32 [4]; otherwise gives f32 [3]"));
  EXPECT_TRUE(contains(error(p, [] { return Tensor(); }), "undefined"));
  EXPECT_TRUE(contains(error(p,
                             [&] {
                               v.assign(x);
                               return x;
                             }),
                       "variable 'counter' is assigned inside a function of cond"));
  EXPECT_TRUE(contains(error(p,
                             [&] {
                               static_cast<void>((x * 2).to_vector<float>());
                               return x;
                             }),
                       "read inside a function of cond"));
  const auto summed = [](const Tensor& t) { return OpDef(&find_operator("all_sum")).call({t}, {{"ranks", 2}})[0]; };
  EXPECT_TRUE(contains(error_of([&] { cond(p, summed, summed, x); }), "a function of it calls all_sum"));
  const auto below = [](const Tensor& t) { return max(t) < 10; };
  EXPECT_TRUE(contains(error_of([&] { while_loop(below, summed, x); }), "a function of it calls all_sum"));
  EXPECT_TRUE(contains(error_of([&] {
                         while_loop(
                             below, [](const Tensor& t) { return sum(t); }, x);
                       }),
                       "that it takes: f32 [3]; it gives f32 []"));
  EXPECT_TRUE(
      contains(error_of([&] { while_loop([](const Tensor& t) { return t; }, [](const Tensor& t) { return t; }, x); }),
               "while_loop: its pred"));
  EXPECT_TRUE(
      contains(error_of([&] { while_loop(below, [](const Tensor& t) { return t + 1; }, x, {.max_steps = -7}); }),
               "max_steps is -7"));
  EXPECT_EQ(v.value().to_vector<float>(), Floats(3, 1));
}

// What a branch needs lies where the other's would; what is kept for a gradient only with one.
TEST_P(Control, MemoryIsKnownBeforeItRuns) {
  const auto branch = [](std::int64_t rows) {
    return [rows](const Tensor& x) { return sum(cumsum(broadcast_to(x, {rows, x.dim(0)}), 0)); };
  };
  const auto choose = [&](std::int64_t a, std::int64_t b) {
    return compile([&, a, b](const Tensor& p, const Tensor& x) { return cond(p, branch(a), branch(b), x); });
  };
  const Tensor x = ones({1024}), p = truth(true);
  const std::int64_t one = choose(1000, 1).peak_bytes(p, x), both = choose(1000, 1000).peak_bytes(p, x);
  EXPECT_GE(one, 1000 * 4096);
  EXPECT_LT(both, one + one / 2);
  const auto grows = [](const Tensor& t) {
    return while_loop([](const Tensor& c) { return max(c) < 8; }, [](const Tensor& c) { return c * 2; }, t,
                      {.max_steps = 1 << 20});
  };
  auto plain = compile(grows);
  EXPECT_LT(plain.peak_bytes(x), 100000);
  EXPECT_EQ(plain(x).to_vector<float>()[0], 8);
  EXPECT_EQ(grows(x).to_vector<float>()[0], 8);  // 4 GiB otherwise
}

TEST_P(Control, ProfileAndTextSayWhatItIs) {
  auto program = compile([](const Tensor& x) {
    return cond(
        max(x) > 0, [&] { return root(x, {.max_steps = 9}); }, [&] { return varve::exp(x); });
  });
  const Tensor x = tensor({4.f, 9.f});
  const Profile profile = program.profile(1, x);
  const auto named = [&](const char* kernel) {
    return std::count_if(profile.rows.begin(), profile.rows.end(),
                         [&](const auto& row) { return row.kernel == kernel; });
  };
  EXPECT_EQ(named("cond"), 1) << profile.table();
  const std::string text = program.text(x);
  for (const char* part : {"cond(", "while_loop(", "  then:\n", "  otherwise:\n", "  condition:\n", "while  <-"})
    EXPECT_TRUE(contains(text, part)) << text;
  EXPECT_GT(cost(program(x), {x}).flops, -1);
  const auto all = [](const Tensor& t) { return root(t, {.max_steps = 9}); };
  EXPECT_GT(cost(all(x), {x}).flops, 9 * 2 * 3);  // its bound: at least three operations an element and step
}

TEST_P(Control, ALoopWithoutEndCanBeInterrupted) {
  int looks = 0;
  set_interrupt_check([&] { return ++looks > 3; });
  const auto forever = [] {
    while_loop([](const Tensor& n) { return n >= 0; }, [](const Tensor& n) { return n + 1; }, zeros(Shape{})).eval();
  };
  EXPECT_THROW(forever(), Interrupted);
  set_interrupt_check({});
}

}  // namespace
}  // namespace varve::runtime
