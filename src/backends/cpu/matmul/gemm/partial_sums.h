// Sums over blocks of a batch, kept apart and then added in order: the same bits whoever computed which block.
#pragma once

#include <cstddef>
#include <utility>

#include "backends/cpu/common/loops.h"
#include "backends/cpu/common/scratch.h"
#include "backends/cpu/matmul/gemm/gemm.h"

namespace varve::cpu::plain {

class PartialSums {
 public:
  // `size` sums of elements of `dtype`; the result is of that type as well.
  PartialSums(std::int64_t size, std::int64_t blocks, DType dtype)
      : size_(size),
        blocks_(blocks),
        dtype_(dtype),
        block_bytes_(cache_aligned(static_cast<std::size_t>(size * element_bytes(sum_type(dtype))))) {}

  std::int64_t blocks() const { return blocks_; }
  std::size_t bytes() const { return block_bytes_ * static_cast<std::size_t>(blocks_); }
  // Of a batch of `count`: the part that goes to this block.
  std::pair<std::int64_t, std::int64_t> range(std::int64_t block, std::int64_t count) const {
    return {block * count / blocks_, (block + 1) * count / blocks_};
  }
  std::byte* place(std::byte* memory, std::int64_t block, std::int64_t element = 0) const {
    return memory + static_cast<std::size_t>(block) * block_bytes_ + element * element_bytes(sum_type(dtype_));
  }

  void add(const std::byte* memory, void* out) const {
    dispatch(dtype_, [&]<class T>(std::type_identity<T>) {
      if constexpr (!std::is_integral_v<T>) add_as<T>(memory, static_cast<T*>(out));
    });
  }

 private:
  template <class T>
  void add_as(const std::byte* memory, T* out) const {
    constexpr std::int64_t kGrain = 16 << 10;
    parallel_for(size_, kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        Sum<T> sum = 0;
        for (std::int64_t block = 0; block < blocks_; ++block)
          sum += reinterpret_cast<const Sum<T>*>(memory + static_cast<std::size_t>(block) * block_bytes_)[i];
        out[i] = cast_to<T>(sum);
      }
    });
  }

  std::int64_t size_, blocks_;
  DType dtype_;
  std::size_t block_bytes_;
};

}  // namespace varve::cpu::plain
