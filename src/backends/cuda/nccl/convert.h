// Values on their way to other ranks, and back, in a type that NCCL combines as the processor's engines do.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cuda/device/function.h"
#include "varve/dtype.h"

namespace varve::cuda {

// The largest and smallest of floating values are found among whole numbers that compare as they do, except that NaN
// wins, as in the operators max and min.
enum class Keys : std::uint8_t { none, for_max, for_min };

// Several parts from one type to another, in as few launches as their addresses fit.
class Conversion {
 public:
  Conversion() = default;
  // `keys`: where one of the types is i32 and the other stands for f32 numbers, or i64 and f64.
  Conversion(DType from, DType to, std::vector<std::int64_t> counts, Keys keys = Keys::none, bool back = false);

  struct Place {
    const void* from;
    void* to;
  };
  void run(const std::vector<Place>& places) const;  // one for each part; empty parts count too
  void run(const void* from, void* to) const { run({{from, to}}); }

 private:
  struct Batch {
    std::vector<std::size_t> parts;
    Function function;
    std::int64_t blocks = 0;
  };
  std::vector<std::int64_t> counts_;
  std::vector<Batch> batches_;
};

}  // namespace varve::cuda
