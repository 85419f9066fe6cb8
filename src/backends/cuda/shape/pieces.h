// Elements that only move, whatever they mean: unsigned integers of 1 to 16 bytes in kernel texts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "backends/cuda/device/context.h"
#include "backends/cuda/device/function.h"
#include "base/text.h"

namespace varve::cuda {

constexpr std::int64_t kPieceThreads = 256;

// What shape/pieces.cuh expects.
inline std::string piece_constants(std::int64_t bytes, bool wide, std::int64_t unroll) {
  const char* type = bytes == 1   ? "unsigned char"
                     : bytes == 2 ? "u16"
                     : bytes == 4 ? "u32"
                     : bytes == 8 ? "u64"
                                  : "Piece16";
  return defines({{"T", type},
                  {"Index", wide ? "u64" : "u32"},
                  {"Offset", wide ? "i64" : "int"},
                  {"Extent", wide ? "Extent64" : "Extent32"},
                  {"UNROLL", cat(unroll)}});
}

// Pieces of a thread: several once there is enough work for the whole GPU.
inline std::int64_t piece_unroll(std::int64_t pieces) { return pieces > 4 * gpu().threads() ? 4 : 1; }
inline std::int64_t piece_blocks(std::int64_t pieces, std::int64_t unroll) {
  return (pieces + kPieceThreads * unroll - 1) / (kPieceThreads * unroll);
}
// The largest power of two, up to `most`, that divides n.
inline std::int64_t power_dividing(std::int64_t n, std::int64_t most) {
  while (n % most != 0) most /= 2;
  return most;
}
inline bool needs_64_bits(std::int64_t pieces) { return pieces >= std::int64_t{1} << 31; }

}  // namespace varve::cuda
