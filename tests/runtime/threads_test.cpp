// Several threads, and processes that fork: readers see whole values, nobody waits for ever.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/threads.h"
#include "runtime/training.h"
#include "varve/nn.h"

namespace varve::runtime {
namespace {

class Threads : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    before_ = threads();
    set_threads(GetParam());
  }
  void TearDown() override { set_threads(before_); }

 private:
  int before_ = 1;
};
INSTANTIATE_TEST_SUITE_P(Counts, Threads, testing::Values(1, 2));

// Every element is the number of steps so far: a value half-way through a step has two different ones.
TEST_P(Threads, AReaderSeesAWholeValueWhileAStepUpdatesIt) {
  constexpr std::int64_t kSize = 1 << 16;
  Variable v("v", zeros({kSize}));
  auto step = compile([&] { v.assign(v + 1); });
  std::atomic<bool> done = false;
  std::atomic<int> torn = 0, reads = 0;
  std::vector<std::thread> readers;
  for (int r = 0; r < 2; ++r)
    readers.emplace_back([&, r] {
      while (!done) {
        const Tensor held = v.value();
        const Floats values = r ? (held * 1).to_vector<float>() : held.to_vector<float>();
        for (const float value : values) torn += value != values[0];
        ++reads;
      }
    });
  int steps = 0;
  for (; steps < 300 || reads < 10; ++steps) step();
  done = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(torn, 0);
  EXPECT_EQ(v.value().to_vector<float>()[0], static_cast<float>(steps));
}

// A compiled inference beside a training step: both use all variables, one writes them.
TEST_P(Threads, AProgramReadsWhatAnotherUpdates) {
  Variable a("a", ones({4096})), b("b", ones({4096}));
  auto step = compile([&] {
    a.assign(a + 1);
    b.assign(b + 1);
  });
  auto difference = compile([&] {
    return max(abs(a - a.value().slice({{0, 1}}))) + max(abs(b - b.value().slice({{0, 1}})));
  });
  std::atomic<bool> done = false;
  std::atomic<int> torn = 0;
  std::thread reader([&] {
    while (!done) torn += difference().item<float>() != 0.f;
  });
  for (int i = 0; i < 500; ++i) step();
  done = true;
  reader.join();
  EXPECT_EQ(torn, 0);
}

// Each reads what the other writes, in the other order.
TEST_P(Threads, TwoStepsOverEachOthersVariablesDoNotBlock) {
  Variable a("a", zeros({64})), b("b", zeros({64}));
  auto first = compile([&] { a.assign(a * 0 + b + 1); });
  auto second = compile([&] { b.assign(b * 0 + a + 1); });
  std::thread other([&] {
    for (int i = 0; i < 500; ++i) second();
  });
  for (int i = 0; i < 500; ++i) first();
  other.join();
  const float last = std::max(a.value().to_vector<float>()[0], b.value().to_vector<float>()[0]);
  EXPECT_GE(last, 2.f);
  EXPECT_LE(last, 1000.f);
}

TEST_P(Threads, TheFirstCallsOfAModelMakeItsVariablesOnce) {
  for (int round = 0; round < 20; ++round) {
    auto model = nn::sequential(nn::dense(8), nn::dense(4));
    std::atomic<int> waiting = 4;
    std::vector<std::thread> callers;
    for (int t = 0; t < 4; ++t)
      callers.emplace_back([&] {
        --waiting;
        while (waiting > 0) std::this_thread::yield();
        model(ones({2, 3}), Mode::infer).eval();
      });
    for (std::thread& caller : callers) caller.join();
    EXPECT_EQ(model.parameters().size(), 4u);
  }
}

// What a forked child of a process with a team of threads answers; -1: it hung.
int answer_of_child(const std::function<int()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    int code = 99;
    try {
      code = work();
    } catch (...) {
    }
    _exit(code);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_P(Threads, AForkedChildComputes) {
  const Tensor x = normal({256, 256}, {.seed = 1}).eval();
  const auto work = [&] {
    const Floats sums = sum(relu(matmul(x, x)), {.axes = Axes{1}}).to_vector<float>();
    return sums;
  };
  const Floats expected = work();  // the team exists now
  Variable v("v", zeros({1 << 15}));
  auto step = compile([&] { v.assign(v + 1); });
  step();
  EXPECT_EQ(answer_of_child([&] {
              const Floats sums = work();
              for (std::size_t i = 0; i < sums.size(); ++i)
                if (std::abs(sums[i] - expected[i]) > 1e-3f * std::abs(expected[i])) return 1;
              step();
              return v.value().to_vector<float>()[7] == 2.f ? 0 : 2;
            }),
            0);
  EXPECT_EQ(answer_of_child([] {
              try {
                set_threads(2);
              } catch (const Error& error) {
                return contains(error.what(), "fork") ? 0 : 1;
              }
              return 2;
            }),
            0);
}

// ---- variables made while a function is traced

TEST(LocalVariable, BehavesAsOutside) {
  const auto f = [](const Tensor& x) {
    Variable total("total", x * 0);
    for (int i = 1; i <= 3; ++i) total.assign(total + x * i);
    const auto [value, slopes] = value_and_grad([&] { return sum(square(total)); }, {total});
    return std::pair(value, slopes[0]);
  };
  const Tensor x = tensor({1.f, 2.f});
  auto compiled = compile(f);
  for (int call = 0; call < 2; ++call) {
    const auto [value, slope] = compiled(x);
    const auto [expected, expected_slope] = f(x);
    EXPECT_EQ(value.item<float>(), expected.item<float>());
    EXPECT_EQ(slope.to_vector<float>(), expected_slope.to_vector<float>());
  }
}

TEST(LocalVariable, ThatIsKeptHoldsNoValue) {
  std::vector<Variable> kept;
  auto f = compile([&](const Tensor& x) {
    kept.emplace_back("kept", x * 2);
    return kept.back() + 1;
  });
  EXPECT_EQ(f(ones({1})).item<float>(), 3.f);
  EXPECT_TRUE(contains(error_of([&] { kept[0].value().eval(); }), "traced function"));
}

}  // namespace
}  // namespace varve::runtime
