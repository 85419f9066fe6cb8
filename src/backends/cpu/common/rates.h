// How fast the kernels for bf16 are on each instruction set, and which of them is faster by that: a table, not a
// measurement at run time, so that runs repeat. The page docs/decisions/0023 says where the figures come from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/cpu/onednn/onednn.h"

namespace varve::cpu {

// Of two threads. More are taken to scale alike, as only the ratios decide.
struct Rates {
  double plain;        // GFLOP/s of plain kernels, which multiply in f32; the fused ones are among them
  double f32, bf16;    // of oneDNN's products
  double direct_bf16;  // multiply-adds of oneDNN's convolutions in the time of one at a Zen 4's f32 peak
  double memory;       // GB/s
};
const Rates& rates(dnn::Bf16 products);

dnn::Bf16 bf16_products();  // of this build on this processor
bool has_tiles();           // bf16 products on AMX
bool gains_from_bf16();     // over products in f32

// `count` products [M,K]·[K,N] of bf16.
struct ProductSize {
  std::int64_t count = 1, m = 0, n = 0, k = 0;
};
double tile_seconds(const ProductSize& size, bool packed = false);  // packed: the right side lies as oneDNN asks
double plain_seconds(const ProductSize& size);

// Why products should be left to tiles that a plain kernel would compute together with what reads their results.
// `between`: bytes that then go through memory and would not, beside the operands and results of the products. Empty:
// the plain kernel is faster, or there are no tiles.
std::string tiles_refusal(const std::vector<ProductSize>& products, double between);

}  // namespace varve::cpu
