#include "backends/cuda/matmul/matmul_tma.h"

#include <algorithm>
#include <limits>

#include "backends/cuda/device/context.h"
#include "backends/cuda/device/sizes.h"
#include "backends/cuda/device/status.h"
#include "backends/cuda/device/tensor_map.h"
#include "backends/cuda/matmul/split_k.h"
#include "base/levers.h"
#include "base/text.h"

namespace varve::cuda {
namespace {

constexpr std::int64_t kSlab = 32;                             // columns: 128 bytes
constexpr std::int64_t kMostRows = 64;                         // of x: what one product of tensor cores takes
constexpr std::int64_t kMostUnits = 8, kFewestUnits = 4;       // slabs of a block's stripe: a warp has one
constexpr std::int64_t kUnitsAlong = 2;                        // slabs of a tile along the rows of w
constexpr std::int64_t kLargeWeights = std::int64_t{1} << 20;  // elements: smaller ones stay in the cache
// Shared memory of a block that has a multiprocessor for itself: all but what is left to the L1 cache.
std::size_t whole_shared() { return gpu().shared_bytes - (std::size_t{27} << 10); }
std::size_t half_shared() { return whole_shared() / 2; }

std::string refusal_of_gpu() {
  if (!lever("streams")) return kLeftOut;
  return gpu().major == 9 && gpu().minor == 0 ? "" : "for compute capability 9.0";
}

// ---- products

std::size_t weight_tile(bool along, std::int64_t units) {
  return static_cast<std::size_t>(units) * (along ? 64 : 32) * 128;
}
std::size_t input_tile(DType in) { return 64 * static_cast<std::size_t>(kSlab) * size_of(in); }
std::size_t stage_bytes(bool along, std::int64_t units, DType in) {
  return weight_tile(along, units) + (along ? static_cast<std::size_t>(units) : 1) * input_tile(in);
}
constexpr std::size_t kBarriers = 16;  // bytes of a stage's two

}  // namespace

std::string TmaGemm::refusal(const GemmSpec& spec) {
  if (std::string why = refusal_of_gpu(); !why.empty()) return why;
  const Product& p = spec.product;
  const bool words = spec.in == f32 && spec.tf32, halves = size_of(spec.in) == 2 && spec.wide_b;
  if ((!words && !halves) || spec.out != spec.in || spec.adds) return "another kind of product";
  if (!p.batch.empty() || p.m > kMostRows || p.empty() || p.k == 0) return "not few rows";
  if (p.a.col != 1 || p.c.col != 1 || p.c.row != p.n || p.k % kSlab != 0) return "another layout";
  if (p.a.row * static_cast<std::int64_t>(size_of(spec.in)) % 16 != 0) return "rows that begin anywhere";
  const bool down = p.b.col == 1 && p.b.row % 4 == 0 && p.n % kSlab == 0;
  const bool along = p.b.row == 1 && p.b.col % 4 == 0 && p.n % 4 == 0;
  return down || (along && words) ? "" : "another layout of the weights";
}

bool TmaGemm::is_worth_trying(const GemmSpec& spec) { return spec.product.n * spec.product.k >= kLargeWeights; }

std::int64_t TmaGemm::tiles() const {
  const std::int64_t slabs = spec_.product.k / kSlab;
  return along() ? (slabs + units_ - 1) / units_ : slabs;
}

// As many stripes as give every multiprocessor about the same to read; where they are few, several blocks share one.
void TmaGemm::divide() {
  const std::int64_t most = along() ? kUnitsAlong : kMostUnits, fewest = along() ? kUnitsAlong : kFewestUnits;
  const auto take = [&](std::int64_t units) {
    units_ = units;
    splits_ = std::clamp<std::int64_t>(gpu().multiprocessors / stripes(), 1, std::max<std::int64_t>(tiles(), 1));
  };
  std::int64_t best = most, least = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t units = most; units >= fewest; --units) {
    take(units);
    if (bytes_of_a_block() >= least) continue;
    best = units;
    least = bytes_of_a_block();
  }
  take(best);
}

// What it reads, and its share of parts that are written and read again: those stay in the cache.
std::int64_t TmaGemm::bytes_of_a_block() const {
  const Product& p = spec_.product;
  const std::int64_t at_once = gpu().multiprocessors, waves = (stripes() * splits_ + at_once - 1) / at_once;
  const auto stage = static_cast<std::int64_t>(stage_bytes(along(), units_, spec_.in));
  const std::int64_t parts = splits_ > 1 ? splits_ * p.m * p.n * 4 / at_once : 0;
  return waves * ((tiles() + splits_ - 1) / splits_) * stage + parts;
}

TmaGemm::TmaGemm(const GemmSpec& spec, const Tail& tail) : spec_(spec), tail_(tail) {
  divide();
  const std::size_t stage = stage_bytes(along(), units_, spec.in);
  // A short one leaves shared memory to those beside it; measured, in f32 that does not pay.
  constexpr std::int64_t kShort = 512 << 10;
  const bool shares = spec.in != f32 && bytes_of_a_block() < kShort;
  stages_ = static_cast<std::int64_t>((shares ? half_shared() : whole_shared()) / (stage + kBarriers));
  const After after{spec.bias, spec.relu, tail.function};
  product_ =
      Function("matmul_tma", {"matmul/matmul_tma.cu", epilogue_text(spec.in, in_parts() ? After() : after) +
                                                          defines({{"ALONG", cat(along() ? 1 : 0)},
                                                                   {"UNITS", cat(units_)},
                                                                   {"STAGES", cat(stages_)},
                                                                   {"EARLY", cat(spec.early ? 1 : 0)},
                                                                   {"Y", type_name(in_parts() ? f32 : spec.out)}})});
  const bool simple = tail.is_simple();
  if (in_parts()) sum_ = simple ? sum_function(f32, spec.out, after) : tail_function(f32, spec.out, tail);
  if (!tail.function.empty())
    apply_ = simple ? sum_function(spec.out, spec.out, {.function = tail.function})
                    : tail_function(spec.out, spec.out, tail);
}

void TmaGemm::apply(const GemmOperands& o) const {
  if (apply_) finish(apply_, {o.c, 1}, nullptr, o);
}

void TmaGemm::finish(const Function& function, const Parts& parts, const void* bias, const GemmOperands& o) const {
  const Product& p = spec_.product;
  if (tail_.is_simple())
    add_parts(function, parts, bias, o.c, p.m, p.n);
  else
    add_parts(function, parts, tail_, {o.more, o.c, o.sums}, p.m, p.n);
}

std::size_t TmaGemm::scratch_bytes() const {
  return in_parts() ? static_cast<std::size_t>(splits_ * spec_.product.m * spec_.product.n) * sizeof(float) : 0;
}

bool TmaGemm::takes(const GemmOperands& o) {
  return on_16_bytes(o.a) && on_16_bytes(o.b) && on_16_bytes(o.c) && on_16_bytes(o.scratch);
}

void TmaGemm::run(const GemmOperands& o) const {
  const Product& p = spec_.product;
  const CUtensorMap x = slab_map({.address = o.a, .rows = p.m, .columns = p.k, .row = p.a.row},
                                 {.rows = kMostRows, .slabs = along() ? units_ : 1}, spec_.in);
  const CUtensorMap w =
      along()
          ? slab_map({.address = o.b, .rows = p.n, .columns = p.k, .row = p.b.col}, {.rows = 64, .slabs = units_})
          : slab_map({.address = o.b, .rows = p.k, .columns = p.n, .row = p.b.row}, {.rows = kSlab, .slabs = units_});
  const std::size_t shared = static_cast<std::size_t>(stages_) * (stage_bytes(along(), units_, spec_.in) + kBarriers);
  void* y = in_parts() ? o.scratch : o.c;
  product_({.grid = stripes() * splits_, .block = along() ? 160 : 288, .shared = shared, .early = spec_.early}, w, x,
           o.bias, y, static_cast<int>(p.m), p.n, static_cast<int>(tiles()), static_cast<int>(stripes()));
  if (in_parts()) finish(sum_, {y, splits_}, o.bias, o);
}

// ---- updates

namespace {

constexpr std::int64_t kUnits = 4;  // slabs of a block's stripe
constexpr std::int64_t kTileRows = 16;
constexpr std::size_t kTileBytes = kUnits * kTileRows * 128;
constexpr std::int64_t kMostTmaStages = 4;

// As matmul/matmul_tma_formula.cuh reads it.
struct TmaOperands {
  CUtensorMap tensors[4], results[4], factor;
  const void* scalars[10];
};

std::int64_t tensors_of(const UpdateSpec& spec) { return std::count(spec.scalar.begin(), spec.scalar.end(), false); }

// All but the factor.
TmaOperands operands_of(const UpdateSpec& spec, const void* const* in, void* const* out, const SlabTile& tile) {
  const Product& p = spec.product;
  const auto map = [&](const void* address) {
    return slab_map({.address = address, .rows = p.m, .columns = p.n, .row = p.n}, tile);
  };
  TmaOperands o{};
  std::size_t tensors = 0, scalars = 0;
  for (std::size_t i = 0; i < spec.scalar.size(); ++i) {
    if (spec.scalar[i])
      o.scalars[scalars++] = in[i + 2];
    else
      o.tensors[tensors++] = map(in[i + 2]);
  }
  for (std::size_t i = 0; i < spec.code.outputs.size(); ++i) o.results[i] = map(out[i]);
  return o;
}

bool are_on_16_bytes(const UpdateSpec& spec, const void* const* in, void* const* out, std::size_t outputs) {
  for (std::size_t i = 0; i < spec.scalar.size() + 2; ++i)
    if ((i < 2 || !spec.scalar[i - 2]) && !on_16_bytes(in[i])) return false;
  return std::all_of(out, out + outputs, on_16_bytes);
}

std::size_t update_stage(std::int64_t tensors, std::int64_t steps, DType in) {
  const std::size_t a = static_cast<std::size_t>(8 * steps * kTileRows) * size_of(in);
  return static_cast<std::size_t>(tensors) * kTileBytes + (a + 1023) / 1024 * 1024;
}

}  // namespace

std::string TmaUpdate::refusal(const UpdateSpec& spec) {
  if (std::string why = refusal_of_gpu(); !why.empty()) return why;
  if (std::string why = update_refusal(spec); !why.empty()) return why;
  const Product& p = spec.product;
  if (spec.in == f64 || (spec.in == f32 && !spec.tf32)) return "another kind of product";
  if (p.k > kMostRows || static_cast<std::int64_t>(spec.code.outputs.size()) > tensors_of(spec))
    return "many terms or results";
  if (!takes_layout(p) || p.n % kSlab != 0 || p.a.row != 1 || p.b.col != 1) return "another layout";
  return p.a.col * static_cast<std::int64_t>(size_of(spec.in)) % 16 == 0 ? "" : "rows that begin anywhere";
}

bool TmaUpdate::is_worth_trying(const UpdateSpec& spec) { return spec.product.m * spec.product.n >= kLargeWeights; }

TmaUpdate::TmaUpdate(const UpdateSpec& spec) : spec_(spec), steps_((spec.product.k + 7) / 8) {
  const std::size_t stage = update_stage(tensors_of(spec), steps_, spec.in) + kBarriers;
  stages_ = std::min(kMostTmaStages, static_cast<std::int64_t>(half_shared() / stage));
  function_ = Function("matmul_tma_update", {"matmul/matmul_tma_update.cu",
                                             update_text(spec) + defines({{"IN", type_name(spec.in)},
                                                                          {"STEPS", cat(steps_)},
                                                                          {"UNITS", cat(kUnits)},
                                                                          {"STAGES", cat(stages_)},
                                                                          {"EARLY", cat(spec.early ? 1 : 0)}})});
}

bool TmaUpdate::takes(const void* const* in, void* const* out) const {
  return are_on_16_bytes(spec_, in, out, spec_.code.outputs.size());
}

void TmaUpdate::run(const void* const* in, void* const* out) const {
  const Product& p = spec_.product;
  TmaOperands o = operands_of(spec_, in, out, {.rows = kTileRows, .slabs = kUnits});
  o.factor = column_map({.address = in[0], .rows = p.k, .columns = p.m, .row = p.a.col}, spec_.in,
                        {.rows = 8 * steps_, .columns = kTileRows});
  const std::int64_t stripes = (p.n + kUnits * kSlab - 1) / (kUnits * kSlab), tiles = (p.m + kTileRows - 1) / kTileRows;
  const std::int64_t splits = std::clamp<std::int64_t>(2 * gpu().multiprocessors / stripes, 1, tiles);
  const std::size_t shared =
      static_cast<std::size_t>(stages_) * (update_stage(tensors_of(spec_), steps_, spec_.in) + kBarriers);
  function_(
      {.grid = stripes * splits, .block = static_cast<int>(kUnits + 1) * 32, .shared = shared, .early = spec_.early}, o,
      in[1], p.b.row, static_cast<int>(p.k), static_cast<int>(tiles), p.n, static_cast<int>(stripes));
}

// ---- both gradients

namespace {

constexpr std::int64_t kBackRows = 128;                            // of w, that a block has
constexpr std::int64_t kVeryLargeWeights = std::int64_t{1} << 23;  // elements: below, in f32 two kernels are as fast

std::size_t back_stage(const UpdateSpec& spec) {
  return static_cast<std::size_t>(tensors_of(spec)) * kBackRows * 128 + input_tile(spec.in);
}
std::size_t back_shared(const UpdateSpec& spec, std::int64_t stages) {
  return static_cast<std::size_t>(stages) * (back_stage(spec) + kBarriers) + kBarriers;
}

}  // namespace

std::string TmaBackward::refusal(const UpdateSpec& spec) {
  if (std::string why = TmaUpdate::refusal(spec); !why.empty()) return why;
  const std::int64_t row = spec.product.b.row * static_cast<std::int64_t>(size_of(spec.in));
  return spec.product.m % 8 == 0 && row % 16 == 0 ? "" : "another layout";
}

bool TmaBackward::is_worth_trying(const UpdateSpec& spec) {
  return spec.product.m * spec.product.n >= (spec.in == f32 ? kVeryLargeWeights : kLargeWeights);
}

std::int64_t TmaBackward::stripes() const { return (spec_.product.m + kBackRows - 1) / kBackRows; }
std::int64_t TmaBackward::splits() const {
  return std::clamp<std::int64_t>(gpu().multiprocessors / stripes(), 1, spec_.product.n / kSlab);
}

TmaBackward::TmaBackward(const UpdateSpec& spec, std::size_t weights, const Tail& tail) : spec_(spec), tail_(tail) {
  const std::int64_t most = spec.in == f32 ? 6 : 5;  // measured
  while (stages_ < most && back_shared(spec, stages_ + 1) <= whole_shared()) ++stages_;
  const auto before = spec.scalar.begin() + static_cast<std::ptrdiff_t>(weights);
  function_ = Function("matmul_tma_backward",
                       {"matmul/matmul_tma_backward.cu",
                        update_text(spec) + defines({{"T", type_name(spec.in)},
                                                     {"WEIGHTS", cat(std::count(spec.scalar.begin(), before, false))},
                                                     {"STAGES", cat(stages_)},
                                                     {"TF32", cat(spec.in == f32 ? 1 : 0)},
                                                     {"EARLY", cat(spec.early ? 1 : 0)}})});
  sum_ = tail.is_simple() ? sum_function(f32, spec.in, {.function = tail.function}) : tail_function(f32, spec.in, tail);
}

std::size_t TmaBackward::scratch_bytes() const {
  return static_cast<std::size_t>(2 * splits() * spec_.product.k * spec_.product.m) * sizeof(float);
}

bool TmaBackward::takes(const void* const* in, void* const* out) const {
  return are_on_16_bytes(spec_, in, out, spec_.code.outputs.size() + 1);
}

void TmaBackward::run(const void* const* in, void* const* out, void* scratch) const {
  const Product& p = spec_.product;
  TmaOperands o = operands_of(spec_, in, out, {.rows = kBackRows, .slabs = 1});
  o.factor = slab_map({.address = in[1], .rows = p.k, .columns = p.n, .row = p.b.row}, {.rows = kMostRows, .slabs = 1},
                      spec_.in);
  auto* parts = static_cast<float*>(scratch);
  function_({.grid = stripes() * splits(), .block = 384, .shared = back_shared(spec_, stages_), .early = spec_.early},
            o, in[0], p.a.col, parts, static_cast<int>(p.k), p.m, static_cast<int>(p.n / kSlab),
            static_cast<int>(stripes()));
  void* const* dx = out + spec_.code.outputs.size();
  if (tail_.is_simple())
    add_parts(sum_, {parts, 2 * splits()}, nullptr, dx[0], p.k, p.m);
  else
    add_parts(sum_, {parts, 2 * splits()}, tail_,
              {in + 2 + spec_.scalar.size(), dx[0], tail_.columns ? dx[1] : nullptr}, p.k, p.m);
}

}  // namespace varve::cuda
