// Lazy tensors and variables: when values are computed, how long they live, what reading and assigning mean.
#include <gtest/gtest.h>

#include <thread>

#include "base/memory.h"
#include "runtime/engine.h"
#include "varve/autodiff.h"
#include "varve/compile.h"
#include "varve/kernel.h"
#include "varve/ops.h"

namespace varve {
namespace {

using Floats = std::vector<float>;

// How often its kernel ran.
struct Counted {
  std::shared_ptr<std::atomic<int>> runs = std::make_shared<std::atomic<int>>(0);
  OpDef op = define(
      {.name = "counted", .doc = "x, counting", .family = "user", .shape = [](const Call& call) { return call.in; }});
  Counted() {
    add_kernel(op, [runs = runs](const KernelCall& call) {
      ++*runs;
      const auto n = call.in[0].type.shape.numel();
      std::copy_n(call.in[0].as<float>(), n, call.out[0].as<float>());
    });
  }
  Tensor operator()(const Tensor& x) const { return op.call({x})[0]; }
};

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Lazy, NothingIsComputedUntilSomebodyReads) {
  const Counted counted;
  const Tensor x = counted(ones({2}));
  EXPECT_EQ(*counted.runs, 0);
  EXPECT_EQ(x.to_vector<float>(), (Floats{1, 1}));
  EXPECT_EQ(x.to_vector<float>(), (Floats{1, 1}));
  EXPECT_EQ(*counted.runs, 1);
}

TEST(Lazy, ReadingEvaluatesEveryLiveHandleOnce) {
  const Counted counted;
  const Tensor kept = counted(ones({2}));
  Tensor dropped = counted(kept + 1);
  const Tensor last = counted(dropped * 2);
  dropped = Tensor();
  EXPECT_EQ(last.to_vector<float>(), (Floats{4, 4}));
  EXPECT_EQ(*counted.runs, 3);
  EXPECT_EQ(kept.to_vector<float>(), (Floats{1, 1}));
  EXPECT_EQ((last + kept).to_vector<float>(), (Floats{5, 5}));
  EXPECT_EQ(*counted.runs, 3);
}

TEST(Lazy, UndefinedTensorsSaySo) {
  const Tensor none;
  EXPECT_FALSE(none.defined());
  EXPECT_THROW(none.shape(), Error);
  EXPECT_THROW(none.to_vector<float>(), Error);
  EXPECT_THROW(varve::exp(none), Error);
  EXPECT_THROW(Variable("v", none), Error);
  EXPECT_THROW(Variable().value(), Error);
  EXPECT_THROW(Variable().assign(ones({})), Error);
}

TEST(Lazy, ShapesAreCheckedAtTheCall) {
  EXPECT_NE(error_of([] { matmul(ones({32, 784}), ones({512, 10})); }).find("[32, 784]"), std::string::npos);
  EXPECT_THROW(ones({2}) + ones({3}), Error);
  EXPECT_THROW(ones({2}).item<float>(), Error);
}

TEST(Lazy, ALongChainIsEvaluatedOnTheWayAndDestroyed) {
  Tensor total = tensor(0.f);
  for (int i = 0; i < 25000; ++i) total = total + 1;
  EXPECT_EQ(total.item<float>(), 25000.f);
}

TEST(Lazy, ALossNobodyReadsDoesNotGrowWithoutEnd) {
  const Counted counted;
  Tensor total = counted(tensor(0.f));
  for (int i = 0; i < 10100; ++i) total = total + 1;
  EXPECT_EQ(*counted.runs, 1);  // forced, though nobody read
}

TEST(Lazy, AChangingNumberIsTheSameProgram) {
  for (const char* name : {"reference", "cpu"}) {
    set_device(name);
    Tensor w = ones({4}).eval();
    const auto step = [&](double rate) { w = (w - varve::exp(w) * rate).eval(); };
    step(0.5);
    const std::size_t before = runtime::cached_programs();
    for (int i = 0; i < 50; ++i) step(0.3 / (i + 2));
    EXPECT_EQ(runtime::cached_programs(), before) << name;
  }
  set_device("cpu");
}

TEST(Lazy, ALiteralNeedsNoProgram) {
  runtime::clear_cache();
  EXPECT_EQ(full({}, 0.25).item<float>(), 0.25f);
  EXPECT_EQ(runtime::cached_programs(), 0u);
}

TEST(Lazy, TheCacheIsBounded) {
  for (std::int64_t n = 1; n <= 300; ++n) (varve::exp(ones({n})) * 2).eval();
  EXPECT_LE(runtime::cached_programs(), 128u);
  runtime::clear_cache();
  EXPECT_EQ(runtime::cached_programs(), 0u);
  EXPECT_EQ((ones({2}) + 2).to_vector<float>(), (Floats{3, 3}));
}

TEST(Lazy, AnIndexOutOfRangeIsAnErrorAtTheNextRead) {
  for (const char* name : {"reference", "cpu"}) {
    set_device(name);
    const Tensor table = tensor({{1.f, 2.f}, {3.f, 4.f}});
    const Tensor bad = embedding(table, tensor(std::vector<std::int64_t>{0, 7}));  // no error yet
    const std::string text = error_of([&] { bad.eval(); });
    EXPECT_NE(text.find('7'), std::string::npos) << name << ": " << text;
    EXPECT_THROW(sum(bad).item<float>(), Error);
    EXPECT_THROW(embedding(table, tensor(std::vector<std::int64_t>{-3})).eval(), Error) << name;
    EXPECT_THROW(cross_entropy(table, tensor(std::vector<std::int64_t>{0, 2})).eval(), Error) << name;
    EXPECT_EQ(embedding(table, tensor(std::vector<std::int64_t>{1})).to_vector<float>(), (Floats{3, 4}));
  }
  set_device("cpu");
}

TEST(Lazy, ViewsShareMemory) {
  const Tensor a = arange(0.0, 1e6).eval();
  const std::int64_t before = memory_stats().held;
  const Tensor part = reshape(a, {1000, 1000}).slice({{10, 500}});
  part.eval();
  EXPECT_LT(memory_stats().held - before, 1000);
  EXPECT_EQ(part.slice({{0, 1}, {0, 2}}).to_vector<float>(), (Floats{10000, 10001}));
  EXPECT_EQ(static_cast<const float*>(transpose(reshape(a, {1000, 1000})).eval().data())[1], 1000.f);  // contiguous
}

TEST(Lazy, MemoryOfYoursIsReleasedOnce) {
  int released = 0;
  std::vector<float> mine = {1, 2, 3};
  {
    const Tensor t = from_memory(mine.data(), {f32, {3}}, [&] { ++released; });
    const Tensor view = t.slice({{1, 3}});
    EXPECT_EQ(view.to_vector<float>(), (Floats{2, 3}));
    EXPECT_EQ(t.data(), mine.data());
  }
  EXPECT_EQ(released, 1);
  EXPECT_THROW(from_memory(nullptr, {f32, {3}}), Error);
}

TEST(Lazy, MemoryIsNamedByItsDevice) {
  const std::vector<float> mine{1, 2, 3};
  int released = 0;
  std::shared_ptr<const void> held;
  {
    const Tensor t = from_memory(mine.data(), {f32, {3}}, "cpu", [&] { ++released; });
    EXPECT_EQ(device_of(t), "cpu");
    EXPECT_EQ(device_of(t + 1), "cpu");
    held = data_on("cpu", t);
    EXPECT_EQ(held.get(), mine.data());
  }
  EXPECT_EQ(released, 0);  // the pointer holds it
  held = nullptr;
  EXPECT_EQ(released, 1);
  EXPECT_THROW(device_stream("cpu"), Error);
  EXPECT_THROW(data_on("abacus", zeros({1})), Error);
  EXPECT_THROW(from_memory(mine.data(), {f32, {3}}, "abacus"), Error);
}

TEST(Lazy, ThreadsEvaluateSharedTensors) {
  for (int round = 0; round < 20; ++round) {
    const Counted counted;
    const Tensor shared = counted(transpose(arange(0.0, 64.0).reshape({8, 8})) * 2);
    const Tensor strided = transpose(shared);
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        const Tensor mine = shared + t;
        if (mine.to_vector<float>()[1] != 16.f + static_cast<float>(t)) ++wrong;
        if (static_cast<const float*>(strided.data())[1] != 2.f) ++wrong;
        if (sum(shared).item<float>() != 4032.f) ++wrong;
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(*counted.runs, 1);
  }
}

// ---- variables

TEST(Variables, HoldOneSlotByAnyName) {
  Variable v("v", tensor({1.f, 2.f}));
  Variable same = v;
  same.assign(v + 1);
  EXPECT_TRUE(v.same(same));
  EXPECT_EQ(v.value().to_vector<float>(), (Floats{2, 3}));
  v.rename("w");
  EXPECT_EQ(same.name(), "w");
  EXPECT_THROW(v.assign(ones({3})), Error);
  EXPECT_THROW(v.assign(ones({2}, f64)), Error);
  EXPECT_NE(error_of([&] { v.assign(ones({3})); }).find("expected f32 [2], got f32 [3]"), std::string::npos);
}

TEST(Variables, AnOldValueStays) {
  Variable v("v", tensor({1.f, 2.f}));
  auto step = compile([&] { v.assign(v * 2); });
  step();
  const Tensor old = v.value(), view = old.slice({{1, 2}});
  const Tensor pending = old + 1;
  view.eval();
  step();
  step();
  EXPECT_EQ(old.to_vector<float>(), (Floats{2, 4}));
  EXPECT_EQ(view.to_vector<float>(), (Floats{4}));
  EXPECT_EQ(pending.to_vector<float>(), (Floats{3, 5}));
  EXPECT_EQ(v.value().to_vector<float>(), (Floats{8, 16}));
  std::vector<float> mine = {1, 1};
  v.assign(from_memory(mine.data(), {f32, {2}}));
  step();
  EXPECT_EQ(mine, (Floats{1, 1}));  // a user's memory is never written
  EXPECT_EQ(v.value().to_vector<float>(), (Floats{2, 2}));
}

TEST(Variables, AVariableAsItsOwnArgument) {
  Variable v("v", tensor({1.f, 2.f}));
  auto step = compile([&](const Tensor& x) {
    v.assign(v + 1);
    return x * 10;
  });
  EXPECT_EQ(step(v.value()).to_vector<float>(), (Floats{10, 20}));
  EXPECT_EQ(step(v).to_vector<float>(), (Floats{20, 30}));
  EXPECT_EQ(v.value().to_vector<float>(), (Floats{3, 4}));
}

}  // namespace
}  // namespace varve
