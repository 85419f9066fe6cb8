// A replayed step: nothing allocated, the memory it said it would need, the same bits every time.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

#include "base/memory.h"
#include "runtime/engine.h"
#include "runtime/training.h"

namespace {
thread_local bool counting = false;
thread_local int counted = 0;

void* counted_allocation(std::size_t bytes, std::size_t alignment) {
  if (counting) ++counted;
  void* memory = nullptr;
  if (posix_memalign(&memory, std::max(alignment, sizeof(void*)), bytes ? bytes : 1) != 0) throw std::bad_alloc();
  return memory;
}
}  // namespace

void* operator new(std::size_t bytes) { return counted_allocation(bytes, alignof(std::max_align_t)); }
void* operator new[](std::size_t bytes) { return counted_allocation(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t a) {
  return counted_allocation(bytes, static_cast<std::size_t>(a));
}
void* operator new[](std::size_t bytes, std::align_val_t a) {
  return counted_allocation(bytes, static_cast<std::size_t>(a));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  if (counting) ++counted;
  return std::malloc(bytes ? bytes : 1);
}
void* operator new[](std::size_t bytes, const std::nothrow_t& tag) noexcept { return operator new(bytes, tag); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace varve::runtime {
namespace {

template <class F>
int allocations_of(F f) {
  counted = 0;
  counting = true;
  f();
  counting = false;
  return counted;
}

// Elementwise groups, reductions, an embedding, softmax rows and adam: kernels of our own. A library behind products
// and convolutions may allocate for itself.
TEST(Replay, AStepAllocatesNothing) {
  Variable table("table", normal({20, 10}, {.seed = 1}) * 0.1), shift("shift", zeros({10}));
  Adam adam({table, shift});
  auto step = compile([&](const Tensor& tokens, const Tensor& labels) {
    const auto [loss, grads] = value_and_grad(
        [&] { return cross_entropy(varve::tanh(embedding(table, tokens)) + shift, labels); }, adam.parameters);
    adam.apply(grads);
    return loss;
  });
  const Tensor tokens = (arange(32) % 20).eval(), labels = classes(32);
  Tensor loss;
  for (int i = 0; i < 4; ++i) loss = step(tokens, labels);
  const std::int64_t blocks = memory_stats().allocations;
  EXPECT_EQ(allocations_of([&] { loss = step(tokens, labels); }), 0);
  EXPECT_EQ(allocations_of([&] {
              for (int i = 0; i < 10; ++i) loss = step(tokens, labels);
            }),
            0);
  EXPECT_EQ(memory_stats().allocations, blocks);
}

TEST(Replay, ATrainingStepTakesNoTensorMemory) {
  SmallNet net;
  auto step = compile([&](const Tensor& x, const Tensor& y) { return net.step(x, y); });
  const Tensor x = images(), y = classes();
  Tensor loss;
  for (int i = 0; i < 4; ++i) loss = step(x, y);
  const std::int64_t blocks = memory_stats().allocations;
  for (int i = 0; i < 10; ++i) loss = step(x, y);
  EXPECT_EQ(memory_stats().allocations, blocks);
}

TEST(Replay, NeedsTheMemoryItSaidBeforeItRan) {
  for (const char* device : {"reference", "cpu"}) {
    set_device(device);
    clear_cache();
    SmallNet net;
    for (const Variable& v : net.state()) v.value().eval();
    net.adam.rate.value().eval();
    clear_cache();
    const std::int64_t before = memory_stats().held;
    std::int64_t own = 0;  // arguments and variables, held already
    const Tensor x = images(64), y = classes(64);
    clear_cache();
    for (const Variable& v : net.state()) own += static_cast<std::int64_t>(v.type().bytes());
    own += static_cast<std::int64_t>(net.adam.rate.type().bytes());
    auto step = compile([&](const Tensor& a, const Tensor& b) { return net.step(a, b); });
    const std::int64_t said = step.peak_bytes(x, y);
    reset_peak();
    step(x, y);
    const std::int64_t held = memory_stats().peak - before + own;
    EXPECT_NEAR(static_cast<double>(held) / static_cast<double>(said), 1, 0.02)
        << device << ": said " << said << ", held " << held;
  }
  set_device("cpu");
}

std::vector<Floats> trained(int thread_count, std::vector<float>* losses = nullptr) {
  set_threads(thread_count);
  SmallNet net;
  auto step = compile([&](const Tensor& x, const Tensor& y) { return net.step(x, y); });
  for (int i = 0; i < 5; ++i) {
    const float loss = step(images(32), classes(32)).item<float>();
    if (losses) losses->push_back(loss);
  }
  return net.numbers();
}

bool same_bits(const std::vector<Floats>& a, const std::vector<Floats>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].size() != b[i].size() || std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(float)) != 0)
      return false;
  return true;
}

TEST(Replay, ARunRepeatsBitForBit) {
  const int before = threads();
  for (const int count : {1, 2}) EXPECT_TRUE(same_bits(trained(count), trained(count))) << count << " threads";
  set_threads(before);
}

TEST(Replay, DeterministicIsTheSameForAnyNumberOfThreads) {
  const int before = threads();
  set_deterministic(true);
  const std::vector<Floats> one = trained(1);
  EXPECT_TRUE(same_bits(one, trained(2)));
  EXPECT_TRUE(same_bits(one, trained(3)));
  set_deterministic(false);
  set_threads(before);
}

TEST(Replay, SettingsChangedAfterCompilingAreFollowed) {
  const int before = threads();
  auto f = compile([](const Tensor& x) { return sum(varve::exp(x)); });
  const Tensor x = uniform({100000}, {.seed = 1}).eval();
  f(x);
  set_deterministic(true);
  std::vector<float> sums;
  for (const int count : {1, 2, 3}) {
    set_threads(count);
    sums.push_back(f(x).item<float>());
  }
  set_deterministic(false);
  set_threads(before);
  EXPECT_EQ(sums[0], sums[1]);
  EXPECT_EQ(sums[0], sums[2]);
}

}  // namespace
}  // namespace varve::runtime
