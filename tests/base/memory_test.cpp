#include "base/memory.h"

#include <gtest/gtest.h>

#include "base/container.h"
#include "base/text.h"

#include <cstring>
#include <string>

namespace varve {
namespace {

TEST(Memory, AlignedAndCounted) {
  const MemoryStats before = memory_stats();
  for (const std::size_t bytes : {0, 1, 63, 64, 65, 4096, (2 << 20) - 1, 2 << 20, (5 << 20) + 7}) {
    Block block(bytes);
    ASSERT_NE(block.data(), nullptr);
    const std::size_t alignment = bytes >= 2 << 20 ? 2 << 20 : 64;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.data()) % alignment, 0u) << bytes;
    std::memset(block.data(), 0xAB, bytes);
    EXPECT_EQ(memory_stats().held, before.held + static_cast<std::int64_t>(bytes));
  }
  EXPECT_EQ(memory_stats().held, before.held);
  EXPECT_EQ(memory_stats().allocations, before.allocations + 9);
}

TEST(Memory, PeakIsTheMostHeldAtOnce) {
  reset_peak();
  const std::int64_t start = memory_stats().held;
  {
    Block a(1000), b(2000);
    a = Block(500);  // the 1000 are released after the 500 are there
  }
  EXPECT_EQ(memory_stats().peak, start + 3500);
  reset_peak();
  EXPECT_EQ(memory_stats().peak, start);
}

TEST(Memory, BlocksMove) {
  const std::int64_t start = memory_stats().held;
  Block a(100);
  const std::byte* data = a.data();
  Block b = std::move(a);
  EXPECT_EQ(b.data(), data);
  EXPECT_EQ(b.size(), 100u);
  b = Block();
  EXPECT_EQ(memory_stats().held, start);
}

TEST(Memory, FailureNamesTheSizeAndWhatIsHeld) {
  Block kept(3'000'000);
  try {
    allocate(std::size_t{1} << 60);
    FAIL();
  } catch (const OutOfMemory& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("1.2 EB"), std::string::npos) << text;
    EXPECT_NE(text.find("held"), std::string::npos) << text;
  }
  EXPECT_THROW(allocate(SIZE_MAX), OutOfMemory);
}

TEST(Memory, WhatTheMachineCannotHoldIsRefused) {
  try {
    release(allocate(most_memory() + (std::size_t{1} << 30)), most_memory() + (std::size_t{1} << 30));
    FAIL();
  } catch (const OutOfMemory& e) {
    const std::string limit = human_bytes(most_memory());
    EXPECT_NE(std::string(e.what()).find(limit), std::string::npos) << e.what();
  }
}

TEST(Memory, FailsOnPurpose) {
  const MemoryStats before = memory_stats();
  fail_allocation_after(2);
  {
    Block first(10);
    EXPECT_THROW(Block(20), OutOfMemory);
    Block third(30);  // once only
  }
  fail_allocation_after(1);
  fail_allocation_after(-1);
  Block fine(10);
  EXPECT_EQ(memory_stats().held, before.held + 10);
}

}  // namespace
}  // namespace varve
