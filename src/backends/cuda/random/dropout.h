// Dropout as a part of other kernels: the mask is drawn where it is used.
#pragma once

#include "backend/backend.h"
#include "base/philox.h"

namespace varve::cuda {

// What kernels/philox.cuh asks for beside the addresses of seed and counter.
struct Drop {
  std::uint64_t stream = 0;  // mixed
  float rate = 0;
  double kept = 1;

  Drop() = default;
  explicit Drop(const ir::Node& dropout)
      : stream(mix64(static_cast<std::uint64_t>(dropout.attrs.integer("stream")))),
        rate(static_cast<float>(dropout.attrs.number("rate"))),
        kept(1 - dropout.attrs.number("rate")) {}
};

// The same with its addresses, as struct Drop of kernels/philox.cuh has it.
struct DropArgs {
  const void *seed = nullptr, *counter = nullptr;
  std::uint64_t stream = 0;
  double kept = 1;
  float rate = 0;

  DropArgs() = default;
  DropArgs(const Drop& drop, const void* seed_at, const void* counter_at)
      : seed(seed_at), counter(counter_at), stream(drop.stream), kept(drop.kept), rate(drop.rate) {}
};

}  // namespace varve::cuda
