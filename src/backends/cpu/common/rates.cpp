#include "backends/cpu/common/rates.h"

#include "backends/cpu/common/align.h"
#include "base/text.h"

namespace varve::cpu {
namespace {

using dnn::Bf16;

constexpr double kGiga = 1e9;
constexpr double kHalf = 2;  // bytes of a bf16

// Zen 4 (f32 peak 233 GFLOP/s): products 218 to 225 in f32, 280 to 450 in bf16; convolutions 340 to 550 in bf16, of
// which the lower end, as those over few channels or pixels are many.
constexpr Rates kAvx512{.plain = 220, .f32 = 220, .bf16 = 365, .direct_bf16 = 1.6, .memory = 47};
// The same where bf16 is emulated; how fast is not worth knowing.
constexpr Rates kNone{.plain = 220, .f32 = 220, .bf16 = 0, .direct_bf16 = 0.95, .memory = 47};
// Emerald Rapids, oneDNN kept from the tiles: f32 200 to 260 (products to 290), bf16 products 140.
constexpr Rates kAmxRefused{.plain = 230, .f32 = 265, .bf16 = 140, .direct_bf16 = 1.6, .memory = 37};
// The same with tiles: products 530 to 690. Convolutions 590 to 860, and here the upper end is taken: what it competes
// with is Winograd's algorithm, whose model is right within a fifth and which nobody has timed beside tiles.
constexpr Rates kAmx{.plain = 230, .f32 = 265, .bf16 = 610, .direct_bf16 = 3.7, .memory = 37};

double count_of(std::int64_t a, std::int64_t b) { return static_cast<double>(a) * static_cast<double>(b); }

double flops(const ProductSize& s) {
  return 2 * static_cast<double>(s.count) * count_of(s.m, s.n) * static_cast<double>(s.k);
}

double seconds(double flops, double gflops, double bytes) {
  return flops / (gflops * kGiga) + bytes / (rates(bf16_products()).memory * kGiga);
}

}  // namespace

const Rates& rates(Bf16 products) {
  switch (products) {
    case Bf16::none:
      break;
    case Bf16::avx512:
      return kAvx512;
    case Bf16::amx_refused:
      return kAmxRefused;
    case Bf16::amx:
      return kAmx;
  }
  return kNone;
}

Bf16 bf16_products() {
#ifdef VARVE_HAS_ONEDNN
  return dnn::bf16_products();
#else
  return Bf16::none;
#endif
}

bool has_tiles() { return bf16_products() == Bf16::amx; }

bool gains_from_bf16() {
  const Rates& r = rates(bf16_products());
  return r.bf16 > r.f32;
}

// Tiles are full or they are wasted. Weights that lie as they please are read, packed and read again: by that,
// 64×2048×26752 comes to 340 GFLOP/s, and packed to 480; measured were 280 to 320, and up to 40% more packed.
double tile_seconds(const ProductSize& s, bool packed) {
  constexpr std::int64_t kRows = 16, kColumns = 16, kTerms = 32;
  const ProductSize whole{s.count, align_up(s.m, kRows), align_up(s.n, kColumns), align_up(s.k, kTerms)};
  const double elements = count_of(s.m, s.k) + (packed ? 1 : 3) * count_of(s.k, s.n) + count_of(s.m, s.n);
  return seconds(flops(whole), rates(Bf16::amx).bf16, static_cast<double>(s.count) * elements * kHalf);
}

// Both operands are read, widened to f32 in panels, and read again.
double plain_seconds(const ProductSize& s) {
  constexpr double kWidened = 5;  // times the bytes of bf16
  const double elements = kWidened * (count_of(s.m, s.k) + count_of(s.k, s.n)) + count_of(s.m, s.n);
  return seconds(flops(s), rates(bf16_products()).plain, static_cast<double>(s.count) * elements * kHalf);
}

std::string tiles_refusal(const std::vector<ProductSize>& products, double between) {
  if (!has_tiles()) return "";
  double fused = 0, apart = seconds(0, 1, between);
  for (const ProductSize& product : products) {
    fused += seconds(flops(product), rates(Bf16::amx).plain, 0);
    apart += tile_seconds(product);
  }
  if (fused <= apart) return "";
  return cat("oneDNN's tiles take ", static_cast<int>(apart / fused * 100), "% of its time");
}

}  // namespace varve::cpu
