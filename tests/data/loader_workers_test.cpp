#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/memory.h"
#include "loader_sources.h"

namespace varve::data {
namespace {

TEST(LoaderWorkers, AnErrorIsThrownByItsOwnBatch) {
  for (const int workers : {0, 1, 3}) {
    Loader loader(numbered(40, {.broken = 17}), {.batch = 8, .shuffle = false, .workers = workers});
    Batch batch;
    EXPECT_TRUE(loader.next(batch));
    EXPECT_TRUE(loader.next(batch));
    try {
      loader.next(batch);
      FAIL() << "the broken sample was read, " << workers << " workers";
    } catch (const Error& e) {
      EXPECT_STREQ(e.what(), "sample 17 is broken");
    }
    EXPECT_FALSE(batch.x.defined());
    EXPECT_TRUE(loader.next(batch));  // the others are well
    EXPECT_EQ(batch.x.to_vector<float>()[0], 24);
  }
}

TEST(LoaderWorkers, CanBeLeftInTheMiddle) {
  for (int i = 0; i < 300; ++i) {
    Loader loader(numbered(1000), {.batch = 4, .seed = i, .workers = 1 + i % 4, .prefetch = 1 + i % 3});
    Batch batch;
    for (int taken = 0; taken < i % 7; ++taken) ASSERT_TRUE(loader.next(batch));
  }
}

// Blocks in read() until it is let go: a slow disk.
class Gate : public Numbered {
 public:
  using Numbered::Numbered;
  void read(std::int64_t index, std::byte* x, std::byte* y) const override {
    {
      std::unique_lock lock(guard);
      opened.wait(lock, [&] { return open; });
    }
    Numbered::read(index, x, y);
  }
  mutable std::mutex guard;
  mutable std::condition_variable opened;
  bool open = true;
};

TEST(LoaderWorkers, StopWithinABatch) {
  const auto gate = std::make_shared<Gate>(1000000);
  gate->open = false;
  std::thread opener;
  {
    Loader loader(Dataset(gate, {}), {.batch = 1000000, .shuffle = false});
    opener = std::thread([&] {
      // The destructor below has most likely begun by now; if not, more samples are read, and fewer than all.
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      const std::lock_guard lock(gate->guard);
      gate->open = true;
      gate->opened.notify_all();
    });
  }
  opener.join();
  EXPECT_LT(gate->reads, 1000000);
}

TEST(LoaderWorkers, ReadNoFurtherAheadThanAsked) {
  const auto source = std::make_shared<Numbered>(1000);
  Loader loader(Dataset(source, {}), {.batch = 10, .workers = 3, .prefetch = 4});
  Batch batch;
  for (int taken = 1; taken <= 20; ++taken) {
    ASSERT_TRUE(loader.next(batch));
    EXPECT_LE(source->reads, 10 * (taken + 4));
  }
}

TEST(LoaderWorkers, MemoryIsUsedAgain) {
  const std::int64_t before = memory_stats().allocations;
  int taken = 0;
  for ([[maybe_unused]] const Batch& batch : Loader(numbered(4000, {.width = 1000}), {.batch = 10, .prefetch = 4}))
    ++taken;
  EXPECT_EQ(taken, 400);
  // x and y of the batches ahead, and of the one in hand.
  EXPECT_LE(memory_stats().allocations - before, 2 * (4 + 1));
}

TEST(LoaderWorkers, BatchesOutliveTheLoader) {
  const std::int64_t held = memory_stats().held;
  std::vector<Batch> kept;
  {
    Loader loader(numbered(40), {.batch = 4, .shuffle = false, .workers = 2});
    for (const Batch& batch : loader) kept.push_back(batch);
  }
  ASSERT_EQ(kept.size(), 10u);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    EXPECT_EQ(kept[i].x.to_vector<float>()[0], static_cast<float>(4 * i));
    EXPECT_EQ(kept[i].y.to_vector<int>()[1], static_cast<int>((4 * i + 1) % 10));
  }
  kept.resize(1);  // what nobody has any more is freed, though the pool still lives for this one
  EXPECT_EQ(memory_stats().held - held, static_cast<std::int64_t>(kept[0].x.type().bytes() + kept[0].y.type().bytes()));
  kept.clear();
  EXPECT_EQ(memory_stats().held, held);
}

TEST(LoaderWorkers, ShapesTypesAndAlignment) {
  Loader loader(numbered(7, {.height = 3, .width = 5, .channels = 2}), {.batch = 4});
  EXPECT_EQ(loader.batches(), 2);
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  EXPECT_EQ(batch.x.type(), (TensorType{f32, {4, 3, 5, 2}}));
  EXPECT_EQ(batch.y.type(), (TensorType{i32, {4}}));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(batch.x.data()) % 64, 0u);
  ASSERT_TRUE(loader.next(batch));
  EXPECT_EQ(batch.x.shape(), (Shape{3, 3, 5, 2}));
  EXPECT_FALSE(loader.next(batch));
  EXPECT_FALSE(loader.next(batch));
}

TEST(LoaderWorkers, WaitingIsAccountedFor) {
  Loader here(numbered(100), {.batch = 10, .workers = 0});
  EXPECT_EQ(here.waited_seconds(), 0);
  Batch batch;
  ASSERT_TRUE(here.next(batch));
  EXPECT_GT(here.waited_seconds(), 0);
}

TEST(LoaderWorkers, OutOfMemoryReachesTheCaller) {
  Loader loader(numbered(100), {.batch = 10, .workers = 0});
  Batch batch;
  fail_allocation_after(1);
  EXPECT_THROW(loader.next(batch), OutOfMemory);
  fail_allocation_after(0);
  EXPECT_TRUE(loader.next(batch));
}

TEST(LoaderWorkers, MovesWhileTheyRead) {
  Loader first(numbered(100), {.batch = 10, .shuffle = false});
  Batch batch;
  ASSERT_TRUE(first.next(batch));
  EXPECT_EQ(samples_of(std::move(first)).size(), 9u);
}

}  // namespace
}  // namespace varve::data
