// Arguments of kernels as a structure that is put together at run time, of 8-byte words.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cuda/device/function.h"

namespace varve::cuda {

constexpr std::size_t kMostWords = 4000;  // what a kernel may be given, less a little

class Words {
 public:
  // Returns where the word is, so that it can be set later.
  std::size_t add(std::uint64_t word) {
    words_.push_back(word);
    return words_.size() - 1;
  }
  std::size_t add(std::int64_t word) { return add(static_cast<std::uint64_t>(word)); }
  std::size_t add(const void* pointer) {
    return add(static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(pointer)));
  }
  std::size_t add_halves(std::uint64_t low, std::uint64_t high) { return add(low | high << 32); }
  // Extent32 or Extent64 of kernels/extents.cuh.
  void add_extent(std::int64_t size, bool wide);

  void set(std::size_t at, std::uint64_t word) { words_[at] = word; }
  void set(std::size_t at, const void* pointer) { words_[at] = reinterpret_cast<std::uintptr_t>(pointer); }
  std::size_t size() const { return words_.size(); }

  // Launches a kernel whose one argument is a structure of these words.
  void start(const Function& function, const Launch& launch) const;

 private:
  std::vector<std::uint64_t> words_;
};

}  // namespace varve::cuda
