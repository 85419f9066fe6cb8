// A lane: chunks of values in memory that all ranks see.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__AVX__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <climits>
#include <cstring>

#include "shared_memory.h"
#include "varve/error.h"

namespace varve::gloo_ranks {
namespace {

constexpr std::size_t kLine = 64;
// Bytes of a rank's slot: all of a lane stay in the processor's cache.
constexpr std::size_t kSlot = std::size_t{1} << 18;
constexpr std::size_t kFew = 4096;                    // bytes that every rank adds up by itself, one wait less
constexpr std::size_t kReduced = 8 << 10;             // bytes added up at once: they stay in the first cache
constexpr std::size_t kStays = std::size_t{8} << 20;  // bytes of a lane's sum from which on it leaves the caches anyway
constexpr int kGlances = 200;                         // at a counter before sleeping: some microseconds
constexpr int kNapMilliseconds = 50;                  // after which a sleeper looks whether it was told to end

void nap(std::atomic<std::uint32_t>& word, std::uint32_t while_it_is) {
  const timespec most{0, kNapMilliseconds * 1000000L};
  syscall(SYS_futex, &word, FUTEX_WAIT, while_it_is, &most, nullptr, 0);
}

void wake_all(std::atomic<std::uint32_t>& word) { syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// To where nobody reads before the cache holds something else: past the cache, of which writing would first read what
// is there.
void copy_past_cache(std::byte* to, const std::byte* from, std::size_t bytes) {
#if defined(__AVX__)
  constexpr std::size_t kWide = sizeof(__m256i);
  const std::size_t before = std::min(bytes, (kWide - reinterpret_cast<std::uintptr_t>(to) % kWide) % kWide);
  std::memcpy(to, from, before);
  std::size_t at = before;
  for (; at + kWide <= bytes; at += kWide)
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + at),
                        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at)));
  _mm_sfence();
  std::memcpy(to + at, from + at, bytes - at);
#else
  std::memcpy(to, from, bytes);
#endif
}

}  // namespace

// Each on a cache line of its own.
struct Lane::Place {
  alignas(kLine) std::atomic<std::uint32_t> copied;    // chunks that this rank has put in
  alignas(kLine) std::atomic<std::uint32_t> reduced;   // and of which it has added up its share
  alignas(kLine) std::atomic<std::uint32_t> sleepers;  // other ranks that wait for either
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

// The ranks' places, two slots for each rank, two of sums.
std::size_t Lane::bytes(int size) {
  return static_cast<std::size_t>(size) * sizeof(Place) + static_cast<std::size_t>(2 * size + 2) * kSlot;
}

Lane::Place& Lane::place(int rank) const {
  return *reinterpret_cast<Place*>(memory_ + static_cast<std::size_t>(rank) * sizeof(Place));
}

std::byte* Lane::slot(int rank) const {
  return memory_ + static_cast<std::size_t>(size_) * sizeof(Place) +
         static_cast<std::size_t>(2 * rank + static_cast<int>(chunk_ % 2)) * kSlot;
}

std::byte* Lane::sums() const { return slot(size_); }

void Lane::abort() {
  aborted_ = true;
  for (int r = 0; r < size_; ++r) {
    wake_all(place(r).copied);
    wake_all(place(r).reduced);
  }
}

void Lane::publish(std::atomic<std::uint32_t>& own) {
  own.store(chunk_ + 1, std::memory_order_seq_cst);
  if (place(rank_).sleepers.load(std::memory_order_seq_cst) > 0) wake_all(own);
}

// Counters go round: which of two is ahead is the sign of their difference.
void Lane::wait_for(Place& other, std::atomic<std::uint32_t>& counter) {
  const auto behind = [&](std::uint32_t now) { return static_cast<std::int32_t>(now - (chunk_ + 1)) < 0; };
  for (int i = 0; i < kGlances; ++i) {
    if (!behind(counter.load(std::memory_order_acquire))) return;
    pause();
  }
  const auto began = std::chrono::steady_clock::now();
  other.sleepers.fetch_add(1, std::memory_order_seq_cst);
  std::uint32_t now = 0;
  while (behind(now = counter.load(std::memory_order_seq_cst)) && !aborted_ &&
         std::chrono::steady_clock::now() - began < deadline_)
    nap(counter, now);
  other.sleepers.fetch_sub(1, std::memory_order_seq_cst);
  if (aborted_) throw Error("it was ended");
  if (behind(now)) throw Error("another rank did not come in time");
}

void Lane::publish_copied() { publish(place(rank_).copied); }
void Lane::publish_reduced() { publish(place(rank_).reduced); }
void Lane::wait_copied() {
  for (int r = 0; r < size_; ++r) wait_for(place(r), place(r).copied);
}
void Lane::wait_reduced() {
  for (int r = 0; r < size_; ++r) wait_for(place(r), place(r).reduced);
}

// `count` elements of all slots from byte `from` on, in the order of ranks.
void Lane::reduce_slots(std::byte* to, std::size_t from, std::size_t count, std::size_t element, Reduce reduce) const {
  const std::size_t most = kReduced / element;
  for (std::size_t at = 0; at < count; at += most) {
    const std::size_t n = std::min(most, count - at), byte = at * element;
    reduce(to + byte, slot(0) + from + byte, slot(1) + from + byte, n);
    for (int r = 2; r < size_; ++r) reduce(to + byte, to + byte, slot(r) + from + byte, n);
  }
}

// While others still add up a chunk, the next one is copied in. A slot is free again by then: whoever has put in chunk
// i has read chunk i - 2 and its sums, and everybody waits for that before adding up chunk i.
void Lane::all_reduce(void* data, std::size_t count, std::size_t element, Reduce reduce) {
  auto* bytes = static_cast<std::byte*>(data);
  const std::size_t total = count * element, each = total <= kFew ? kFew : kSlot;
  const auto copy_in = [&](std::size_t at) {
    std::memcpy(slot(rank_), bytes + at, std::min(each, total - at));
    publish_copied();
  };
  copy_in(0);
  if (total <= kFew) {
    wait_copied();
    reduce_slots(bytes, 0, count, element, reduce);
    ++chunk_;
    return;
  }
  for (std::size_t at = 0; at < total; at += each) {
    const std::size_t elements = std::min(each, total - at) / element;
    const auto part = [&](int r) {  // of whole cache lines
      const std::size_t lines = (elements * element + kLine - 1) / kLine;
      return std::min(elements,
                      lines * static_cast<std::size_t>(r) / static_cast<std::size_t>(size_) * (kLine / element));
    };
    const std::size_t begin = part(rank_), end = rank_ + 1 == size_ ? elements : part(rank_ + 1);
    wait_copied();
    reduce_slots(sums() + begin * element, begin * element, end - begin, element, reduce);
    publish_reduced();
    if (at + each < total) {
      ++chunk_;
      copy_in(at + each);
      --chunk_;
    }
    wait_reduced();
    if (total < kStays)
      std::memcpy(bytes + at, sums(), elements * element);
    else
      copy_past_cache(bytes + at, sums(), elements * element);
    ++chunk_;
  }
}

void Lane::all_gather(const void* in, void* out, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += kSlot, ++chunk_) {
    const std::size_t n = std::min(kSlot, bytes - at);
    std::memcpy(slot(rank_), static_cast<const std::byte*>(in) + at, n);
    publish_copied();
    wait_copied();
    for (int r = 0; r < size_; ++r)
      std::memcpy(static_cast<std::byte*>(out) + static_cast<std::size_t>(r) * bytes + at, slot(r), n);
  }
}

// A slot holds something for each rank.
void Lane::sum_scatter(const void* in, void* out, std::size_t count, std::size_t element, Reduce reduce) {
  const std::size_t most = kSlot / static_cast<std::size_t>(size_) / element;
  for (std::size_t at = 0; at < count; at += most, ++chunk_) {
    const std::size_t n = std::min(most, count - at);
    for (std::size_t r = 0; r < static_cast<std::size_t>(size_); ++r)
      std::memcpy(slot(rank_) + r * n * element, static_cast<const std::byte*>(in) + (r * count + at) * element,
                  n * element);
    publish_copied();
    wait_copied();
    reduce_slots(static_cast<std::byte*>(out) + at * element, static_cast<std::size_t>(rank_) * n * element, n, element,
                 reduce);
  }
}

void Lane::broadcast(void* data, std::size_t bytes, int root) {
  for (std::size_t at = 0; at < bytes; at += kSlot, ++chunk_) {
    const std::size_t n = std::min(kSlot, bytes - at);
    if (rank_ == root) std::memcpy(slot(rank_), static_cast<std::byte*>(data) + at, n);
    publish_copied();
    wait_copied();
    if (rank_ != root) std::memcpy(static_cast<std::byte*>(data) + at, slot(root), n);
  }
}

void Lane::barrier() {
  publish_copied();
  wait_copied();
  ++chunk_;
}

}  // namespace varve::gloo_ranks
