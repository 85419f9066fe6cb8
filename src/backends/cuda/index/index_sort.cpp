#include "backends/cuda/index/index_sort.h"

#include <bit>
#include "backends/cuda/device/sizes.h"

namespace varve::cuda {
namespace {

constexpr std::int64_t kFewPositions = 8192;   // positions: 67 million comparisons are a few microseconds
constexpr std::int64_t kMostBins = 16384;      // counters in shared memory
constexpr std::int64_t kMostCounts = 1 << 24;  // of all tiles together
constexpr std::int64_t kSortTile = 1024;
constexpr int kDigit = 13;  // bits, where one digit does not do

std::size_t on_64_bytes(std::int64_t bytes) { return align_up(static_cast<std::size_t>(bytes), 64); }

int width_of(std::int64_t value) { return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(value))); }

// Blocks that clear so many bytes soon enough, beside those that sort.
std::int64_t blocks_for(std::int64_t sorting, std::int64_t cleared_bytes) {
  constexpr std::int64_t kBytes = 256 * 16 * 4;  // for one block
  return std::max(sorting, std::min<std::int64_t>(ceil_div(cleared_bytes, kBytes), 8 * gpu().multiprocessors));
}

}  // namespace

namespace {

struct Moved {
  std::uint32_t period, far, near;
};
Moved moved_of(const IndexSort::Keys& keys) { return {keys.period, keys.far, keys.near}; }

}  // namespace

struct IndexSort::Source {
  const void* indices;
  std::int64_t size, count, inner;
  volatile std::uint64_t* errors;
  int text;
  std::uint32_t outside;
};

std::string IndexSort::refusal(std::int64_t positions, std::int64_t rows) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  if (positions >= kMost || rows >= kMost) return cat("sorts fewer than 2^31 positions and rows");
  return "";
}

IndexSort::IndexSort(const Keys& keys) : keys_(keys), few_(keys.positions <= kFewPositions) {
  const std::int64_t n = keys.positions;
  const int width = width_of(keys.rows), composite = width + width_of(n);
  Constants constants = {{"INDEX", index_type(keys.dtype)}, {"COMPOSITE", composite <= 32 ? "u32" : "u64"}};
  if (keys.flat) constants.emplace_back("FLAT", "1");
  const KernelText text{"index/index_sort.cu", defines(constants)};
  pair_ = on_64_bytes(4 * n);
  counts_at_ = 2 * pair_;
  total_ = counts_at_;
  if (few_) {
    rank_ = Function("rank_keys", text);
    return;
  }
  passes_ = keys.rows + 1 <= kMostBins ? 1 : static_cast<int>(ceil_div(width, kDigit));
  bits_ = static_cast<int>(ceil_div(width, passes_));
  bins_ = passes_ == 1 ? keys.rows + 1 : std::int64_t{1} << bits_;
  const std::int64_t most_tiles = std::max<std::int64_t>(kMostCounts / bins_, 1);
  tile_ = ceil_div(std::max(kSortTile, ceil_div(n, most_tiles)), 32) * 32;
  tiles_ = ceil_div(n, tile_);
  counts_at_ = 4 * pair_;
  totals_at_ = counts_at_ + on_64_bytes(4 * tiles_ * bins_);
  total_ = totals_at_ + on_64_bytes(4 * bins_);
  count_first_ = Function("count_first", text);
  if (passes_ > 1) count_next_ = Function("count_next", text);
  add_tiles_ = Function("add_tiles", text);
  place_ = Function("place_digits", text);
}

IndexSort::Sorted IndexSort::operator()(const void* indices, void* scratch, volatile std::uint64_t* errors,
                                        void* cleared, std::int64_t cleared_bytes) const {
  const Source source{
      indices, keys_.size, keys_.count, keys_.inner, errors, keys_.text, static_cast<std::uint32_t>(keys_.rows)};
  return few_ ? by_rank(source, scratch, cleared, cleared_bytes) : by_counting(source, scratch, cleared, cleared_bytes);
}

IndexSort::Sorted IndexSort::by_rank(const Source& source, void* scratch, void* cleared,
                                     std::int64_t cleared_bytes) const {
  auto* keys = static_cast<std::uint32_t*>(scratch);
  auto* places = reinterpret_cast<std::uint32_t*>(static_cast<std::byte*>(scratch) + pair_);
  const int shift = width_of(keys_.positions);
  const std::size_t composite = width_of(keys_.rows) + shift <= 32 ? 4 : 8;
  rank_({.grid = blocks_for(ceil_div(keys_.positions, 32), cleared_bytes),
         .shared = composite * static_cast<std::size_t>(ceil_div(keys_.positions, 64) * 64)},
        source, moved_of(keys_), static_cast<int>(keys_.positions), shift, keys, places, cleared, cleared_bytes);
  return {keys, places};
}

IndexSort::Sorted IndexSort::by_counting(const Source& source, void* scratch, void* cleared,
                                         std::int64_t cleared_bytes) const {
  const auto part = [&](std::size_t at) {
    return reinterpret_cast<std::uint32_t*>(static_cast<std::byte*>(scratch) + at);
  };
  std::uint32_t *keys = part(0), *places = nullptr;
  std::uint32_t *other_keys = part(2 * pair_), *other_places = part(3 * pair_);
  std::uint32_t *const counts = part(counts_at_), *const totals = part(totals_at_);
  const std::size_t shared = 4 * static_cast<std::size_t>(bins_);
  const int tile = static_cast<int>(tile_), tiles = static_cast<int>(tiles_), bins = static_cast<int>(bins_);
  const std::uint32_t mask = passes_ == 1 ? ~0u : static_cast<std::uint32_t>(bins_ - 1);
  for (int pass = 0; pass < passes_; ++pass) {
    const int shift = pass * bits_;
    if (pass == 0)
      count_first_({.grid = blocks_for(tiles_, cleared_bytes), .shared = shared}, source, keys, keys_.positions, tile,
                   bins, shift, mask, counts, cleared, cleared_bytes);
    else
      count_next_({.grid = tiles_, .shared = shared}, keys, keys_.positions, tile, bins, shift, mask, counts);
    add_tiles_({.grid = ceil_div(bins_, 32)}, counts, totals, tiles, bins);
    place_({.grid = tiles_, .shared = shared}, keys, places, keys_.positions, tile, bins, shift, mask, counts, totals,
           moved_of(keys_), other_keys, other_places);
    if (pass == 0) places = part(pair_);
    std::swap(keys, other_keys);
    std::swap(places, other_places);
  }
  return {keys, places};
}

}  // namespace varve::cuda
