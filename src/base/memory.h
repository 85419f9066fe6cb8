// The one allocator of host memory for tensors and arenas: aligned, counted, and able to fail on purpose.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "varve/memory.h"

namespace varve {

// 64-byte aligned; from 2 MiB on, aligned to 2 MiB and offered to the kernel for huge pages. Never null, also for
// 0 bytes; contents are undefined. Throws OutOfMemory. `bytes` given to release must be that given to allocate.
void* allocate(std::size_t bytes);
void release(void* memory, std::size_t bytes) noexcept;

struct MemoryStats {
  std::int64_t held = 0;         // bytes now
  std::int64_t peak = 0;         // most bytes held at once since start or reset_peak
  std::int64_t allocations = 0;  // calls of allocate that succeeded, since start
};
MemoryStats memory_stats();
void reset_peak();  // the peak becomes what is held now

// For tests: the n-th later allocation (1 is the very next) throws OutOfMemory, once; 0 or less switches this off.
void fail_allocation_after(std::int64_t n);

// Owns one allocation; an empty Block owns nothing.
class Block {
 public:
  Block() = default;
  explicit Block(std::size_t bytes) : data_(allocate(bytes)), size_(bytes) {}
  Block(Block&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Block& operator=(Block&& other) noexcept {
    Block taken(std::move(other));  // what this owned is released here, not whenever `other` dies
    std::swap(data_, taken.data_);
    std::swap(size_, taken.size_);
    return *this;
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() { release(data_, size_); }

  std::byte* data() { return static_cast<std::byte*>(data_); }
  const std::byte* data() const { return static_cast<const std::byte*>(data_); }
  std::size_t size() const { return size_; }
  template <class T>
  T* as() {
    return static_cast<T*>(data_);
  }
  template <class T>
  const T* as() const {
    return static_cast<const T*>(data_);
  }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace varve
