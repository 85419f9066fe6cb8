// Ranks on one machine exchange values through memory that they share: each byte is copied in once and out once, where
// a connection would copy it through the kernel for every step of a ring.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "backend/communicator.h"

namespace varve::gloo_ranks {

using Reduce = void (*)(void* out, const void* a, const void* b, std::size_t count);

// What one thread of each rank exchanges with the same one of the others. Calls come in the same order on every rank;
// they throw when another rank does not come before the deadline, or after abort().
class Lane {
 public:
  static std::size_t bytes(int size);  // of the memory that it needs, zeros at first
  Lane(std::byte* memory, int rank, int size, double deadline_seconds)
      : memory_(memory), rank_(rank), size_(size), deadline_(deadline_seconds) {}

  // In place; added in the order of ranks, whatever the count.
  void all_reduce(void* data, std::size_t count, std::size_t element, Reduce reduce);
  void all_gather(const void* in, void* out, std::size_t bytes);
  void sum_scatter(const void* in, void* out, std::size_t count, std::size_t element, Reduce reduce);
  void broadcast(void* data, std::size_t bytes, int root);
  void barrier();
  void abort();  // from any thread

 private:
  struct Place;  // of a rank, in the shared memory

  std::byte* slot(int rank) const;  // of the present chunk
  std::byte* sums() const;
  Place& place(int rank) const;
  void publish(std::atomic<std::uint32_t>& own);
  void wait_for(Place& other, std::atomic<std::uint32_t>& counter);  // until it has put in, or added up, this chunk
  void publish_copied();
  void publish_reduced();
  void wait_copied();  // by all ranks
  void wait_reduced();
  void reduce_slots(std::byte* to, std::size_t from, std::size_t count, std::size_t element, Reduce reduce) const;

  std::byte* memory_;
  int rank_, size_;
  std::chrono::duration<double> deadline_;
  // Since the start, modulo 2³². Two of them are in memory, so that ranks copy one while others read another.
  std::uint32_t chunk_ = 0;
  std::atomic<bool> aborted_{false};
};

// Large sums are shared among several lanes, each with a thread of its own. A thread that moves values takes a
// processor from one of those that compute, and all of them wait for that one: better for a short time from each.
class SharedMemory {
 public:
  // Null where the ranks are not all on this machine, or one of them cannot map the memory: all agree on that.
  static std::unique_ptr<SharedMemory> open(const backend::Joining& joining);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  void all_reduce(void* data, std::size_t count, std::size_t element, Reduce reduce);
  Lane& lane() { return *lanes_.front(); }  // for all else
  void abort();                             // from any thread

 private:
  SharedMemory(std::byte* memory, int lanes, const backend::Joining& joining);
  void work(std::size_t lane);

  std::byte* memory_;
  std::size_t bytes_;
  std::vector<std::unique_ptr<Lane>> lanes_;

  std::mutex mutex_;
  std::condition_variable posted_, done_;
  std::vector<std::function<void()>> tasks_;  // of each lane; empty: none
  std::exception_ptr failed_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;  // of all lanes but the first
};

}  // namespace varve::gloo_ranks
