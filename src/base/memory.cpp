#include "base/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "base/container.h"
#include "base/text.h"

namespace varve {
namespace {

constexpr std::size_t kAlignment = 64;  // a cache line and an AVX-512 register
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kMostBytes = std::size_t{1} << 47;  // the address space of a process: more is a slip, or a lie

std::atomic<std::int64_t> held = 0;
std::atomic<std::int64_t> peak = 0;
std::atomic<std::int64_t> allocations = 0;
std::atomic<std::int64_t> until_failure = 0;

[[noreturn]] void fail(std::size_t bytes, const char* why) {
  throw OutOfMemory(cat("out of memory: could not allocate ", human_bytes(bytes), why, "; ",
                        human_bytes(static_cast<std::uint64_t>(held.load())), " held, ",
                        human_bytes(static_cast<std::uint64_t>(peak.load())),
                        " at the peak. Try a smaller batch, or release tensors that are no longer needed."));
}

bool failure_is_due() {
  if (until_failure.load(std::memory_order_relaxed) <= 0) return false;
  return until_failure.fetch_sub(1) == 1;
}

void count(std::size_t bytes) {
  const std::int64_t size = static_cast<std::int64_t>(bytes);
  const std::int64_t now = held.fetch_add(size, std::memory_order_relaxed) + size;
  std::int64_t seen = peak.load(std::memory_order_relaxed);
  while (now > seen && !peak.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
  }
  allocations.fetch_add(1, std::memory_order_relaxed);
}

// The system promises memory that it does not have, and ends the process that touches it: what cannot fit whatever
// else is running is refused instead. Asked for large blocks only, as it reads files.
void check_machine(std::size_t bytes) {
  constexpr std::size_t kLarge = std::size_t{64} << 20;
  if (bytes < kLarge) return;
  const std::uint64_t most = most_memory();
  const auto now = static_cast<std::uint64_t>(std::max<std::int64_t>(held.load(std::memory_order_relaxed), 0));
  if (now <= most && bytes <= most - now) return;
  const bool container = container_memory().has_value();
  const std::string why =
      cat(container ? ": its container allows this process " : ": this machine has ", human_bytes(most));
  fail(bytes, why.c_str());
}

}  // namespace

void* allocate(std::size_t bytes) {
  if (failure_is_due()) fail(bytes, " (asked for by fail_allocation_after)");
  if (bytes > kMostBytes) fail(bytes, "");
  check_machine(bytes);
  const bool huge = bytes >= kHugePage;
  void* memory = nullptr;
  if (posix_memalign(&memory, huge ? kHugePage : kAlignment, std::max(bytes, kAlignment)) != 0) fail(bytes, "");
  // Whole huge pages only: the tail may share its page with somebody else's block. Advice may be refused; that is fine.
  if (huge) static_cast<void>(madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE));
  count(bytes);
  return memory;
}

void release(void* memory, std::size_t bytes) noexcept {
  if (memory == nullptr) return;
  std::free(memory);
  held.fetch_sub(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
}

MemoryStats memory_stats() { return {.held = held.load(), .peak = peak.load(), .allocations = allocations.load()}; }

void reset_peak() { peak.store(held.load()); }

void fail_allocation_after(std::int64_t n) { until_failure.store(n); }

}  // namespace varve
