// The entries of largest magnitude, exactly: their smallest is found in three passes, a digit of its bits each.
#include <array>
#include <bit>
#include <span>

#include "backends/cpu/compress/compress.h"

namespace varve::cpu {
namespace {

using backend::Prepared;
using backend::RunArgs;

constexpr std::int64_t kMostBlocks = 32, kLeastBlock = 64 << 10;
constexpr int kDigit = 11;
constexpr std::array<int, 3> kShifts = {20, 9, 0};  // of 31 bits: 11, 11, 9
using Histogram = std::array<std::uint32_t, 1 << kDigit>;

// Grows with the magnitude; NaN is above all numbers.
std::uint32_t key_of(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFu; }

struct Blocks {
  std::int64_t count, size;

  explicit Blocks(std::int64_t entries)
      : count(entries), size(std::max(kLeastBlock, (entries + kMostBlocks - 1) / kMostBlocks)) {}
  std::size_t number() const { return static_cast<std::size_t>((count + size - 1) / size); }
  std::size_t of(std::int64_t begin) const { return static_cast<std::size_t>(begin / size); }
};

// The keys from `least` on, all of them above `prefix` or beginning with it: which digit follows in the k-th largest.
struct Search {
  std::uint32_t prefix = 0;
  std::int64_t left = 0;  // of the k, those that begin with the prefix

  void narrow(std::span<const Histogram> all, int shift) {
    for (int digit = (1 << kDigit) - 1; digit >= 0; --digit) {
      std::int64_t here = 0;
      for (const Histogram& each : all) here += each[static_cast<std::size_t>(digit)];
      if (here >= left) {
        prefix |= static_cast<std::uint32_t>(digit) << shift;
        return;
      }
      left -= here;
    }
  }
};

void add_up(const float* x, const float* kept, float* rest, const Blocks& blocks) {
  parallel_for(blocks.count, blocks.size, [&](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) rest[i] = x[i] + kept[i];
  });
}

void count_digits(const float* values, const Blocks& blocks, std::uint32_t prefix, std::size_t round,
                  std::span<Histogram> counts) {
  const int shift = kShifts[round], known = round == 0 ? 31 : kShifts[round - 1];
  const std::uint32_t digits = (1u << (known - shift)) - 1;
  parallel_for(blocks.count, blocks.size, [&](std::int64_t begin, std::int64_t end) {
    Histogram& own = counts[blocks.of(begin)];
    own.fill(0);
    for (std::int64_t i = begin; i < end; ++i) {
      const std::uint32_t key = key_of(values[i]);
      if (round == 0 || key >> known == prefix >> known) ++own[(key >> shift) & digits];
    }
  });
}

// Those above the least of them, and the first of those equal to it.
struct Share {
  std::int64_t at, equals;  // where a block's entries go, and how many of those equal to the least it gives
};
void take(float* values, const Blocks& blocks, std::uint32_t least, std::int64_t equals, std::span<Share> shares,
          float* taken, std::int32_t* places) {
  parallel_for(blocks.count, blocks.size, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t above = 0, equal = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      above += key_of(values[i]) > least;
      equal += key_of(values[i]) == least;
    }
    shares[blocks.of(begin)] = {above, equal};
  });
  std::int64_t next = 0;
  for (Share& share : shares) {
    const std::int64_t above = share.at;
    share = {next, std::min(equals, share.equals)};
    equals -= share.equals;
    next += above + share.equals;
  }
  parallel_for(blocks.count, blocks.size, [&](std::int64_t begin, std::int64_t end) {
    auto [to, give] = shares[blocks.of(begin)];
    for (std::int64_t i = begin; i < end; ++i) {
      const std::uint32_t key = key_of(values[i]);
      if (key < least || (key == least && give-- <= 0)) continue;
      taken[to] = values[i];
      places[to++] = static_cast<std::int32_t>(i);
      values[i] = 0;
    }
  });
}

}  // namespace

// in: the gradient, what was kept; out: the largest, in their order, their places, what is kept now.
Prepared top_entries(const Task& task) {
  const Blocks blocks(task.shape_in().numel());
  const std::int64_t k = task.attrs.integer("count");
  return backend::prepared(
      [blocks, k](const RunArgs& args) {
        auto* rest = static_cast<float*>(args.out[2]);
        const std::span counts(static_cast<Histogram*>(args.scratch), blocks.number());
        const std::span shares(reinterpret_cast<Share*>(counts.data() + counts.size()), blocks.number());
        add_up(static_cast<const float*>(args.in[0]), static_cast<const float*>(args.in[1]), rest, blocks);
        Search search{0, k};
        for (std::size_t round = 0; round < kShifts.size(); ++round) {
          count_digits(rest, blocks, search.prefix, round, counts);
          search.narrow(counts, kShifts[round]);
        }
        take(rest, blocks, search.prefix, search.left, shares, static_cast<float*>(args.out[0]),
             static_cast<std::int32_t*>(args.out[1]));
      },
      blocks.number() * (sizeof(Histogram) + sizeof(Share)));
}

}  // namespace varve::cpu
