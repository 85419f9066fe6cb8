// Gradients as signs and two means for each column.
#include "backends/cpu/compress/compress.h"
#include "backends/cpu/compress/one_bit_kernels.h"

namespace varve::cpu {
namespace {

using backend::Prepared;
using backend::RunArgs;

constexpr std::int64_t kOneBitBlocks = 32;

// Entry i is in column i mod columns. A tile's columns follow each other from where it begins, round and round: arrays
// of the columns are read and added to at that place, and are longer than the columns by a tile.
struct Columns {
  std::int64_t count, columns, block;

  Columns(std::int64_t entries, std::int64_t of_columns) : count(entries), columns(of_columns) {
    const std::int64_t tiles = (count + kOneBitTile - 1) / kOneBitTile;
    block = std::max<std::int64_t>(64, (tiles + kOneBitBlocks - 1) / kOneBitBlocks) * kOneBitTile;
  }
  std::int64_t blocks() const { return (count + block - 1) / block; }
  std::int64_t length() const { return columns + kOneBitTile; }

  // f(first entry, entries, place in arrays of the columns) for the tiles of a block
  template <class F>
  void each_tile(std::int64_t begin, std::int64_t end, F f) const {
    for (std::int64_t at = begin; at < end; at += kOneBitTile) f(at, std::min(kOneBitTile, end - at), at % columns);
  }
  // means[i] = of column i mod columns
  void repeat(float* means) const {
    for (std::int64_t i = columns; i < length(); ++i) means[i] = means[i - columns];
  }
};

// Each block of entries has sums of its own, added in the order of blocks: the bits do not depend on the threads.
void sum_blocks(const Columns& shape, const float* x, const float* kept, float* sums) {
  const std::int64_t length = shape.length();
  parallel_for(shape.count, shape.block, [&](std::int64_t begin, std::int64_t end) {
    float* const own = sums + begin / shape.block * 3 * length;
    std::fill(own, own + 3 * length, 0.0f);
    shape.each_tile(begin, end, [&](std::int64_t at, std::int64_t n, std::int64_t c) {
      one_bit_gather(x + at, kept + at, n, {own + c, own + length + c, own + 2 * length + c});
    });
  });
}

void means_of_columns(const Columns& shape, const float* sums, float* above, float* below) {
  const std::int64_t length = shape.length(), blocks = shape.blocks();
  parallel_for(shape.columns, 512, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      double total[3] = {};
      for (std::int64_t b = 0; b < blocks; ++b)
        for (int k = 0; k < 3; ++k)
          for (std::int64_t i = c; i < length; i += shape.columns) total[k] += sums[(3 * b + k) * length + i];
      const double rest = static_cast<double>(shape.count / shape.columns) - total[2];
      above[c] = total[2] > 0 ? static_cast<float>(total[0] / total[2]) : 0;
      below[c] = rest > 0 ? static_cast<float>(total[1] / rest) : 0;
    }
  });
}

}  // namespace

// in: the gradient, what was kept; out: bits, means [2, columns], what is kept now.
Prepared one_bit(const Task& task) {
  const Columns shape(task.shape_in().numel(), task.attrs.integer("columns"));
  const std::int64_t length = shape.length();
  return backend::prepared(
      [=](const RunArgs& args) {
        const auto *x = static_cast<const float*>(args.in[0]), *kept = static_cast<const float*>(args.in[1]);
        auto* bits = static_cast<std::uint8_t*>(args.out[0]);
        auto *means = static_cast<float*>(args.out[1]), *rest = static_cast<float*>(args.out[2]);
        auto* above = static_cast<float*>(args.scratch);
        float *below = above + length, *sums = below + length;
        sum_blocks(shape, x, kept, sums);
        means_of_columns(shape, sums, above, below);
        std::copy_n(above, shape.columns, means);
        std::copy_n(below, shape.columns, means + shape.columns);
        shape.repeat(above);
        shape.repeat(below);
        parallel_for(shape.count, 64 * kOneBitTile, [&](std::int64_t begin, std::int64_t end) {
          shape.each_tile(begin, end, [&](std::int64_t at, std::int64_t n, std::int64_t c) {
            one_bit_split(x + at, kept + at, n, {above + c, below + c}, rest + at, bits + at / 8);
          });
        });
      },
      static_cast<std::size_t>((2 + 3 * shape.blocks()) * length) * sizeof(float));
}

// in: bits [ranks, bytes], means [ranks, 2, columns].
Prepared one_bit_sum(const Task& task) {
  const std::int64_t ranks = task.shape_in()[0], bytes = task.shape_in()[1];
  const Columns shape(task.shape_out().numel(), task.shape_in(1)[2]);
  const auto scale = static_cast<float>(task.attrs.number("scale"));
  const std::int64_t length = shape.length();
  return backend::prepared(
      [=](const RunArgs& args) {
        const auto* bits = static_cast<const std::uint8_t*>(args.in[0]);
        const auto* means = static_cast<const float*>(args.in[1]);
        auto *out = static_cast<float*>(args.out[0]), *repeated = static_cast<float*>(args.scratch);
        for (std::int64_t i = 0; i < 2 * ranks; ++i) {
          std::copy_n(means + i * shape.columns, shape.columns, repeated + i * length);
          shape.repeat(repeated + i * length);
        }
        parallel_for(shape.count, 64 * kOneBitTile, [&](std::int64_t begin, std::int64_t end) {
          shape.each_tile(begin, end, [&](std::int64_t at, std::int64_t n, std::int64_t c) {
            for (std::int64_t r = 0; r < ranks; ++r) {
              const float* own = repeated + 2 * r * length + c;
              one_bit_add(bits + r * bytes + at / 8, n, {own, own + length}, r == 0, r + 1 == ranks ? scale : 1.0f,
                          out + at);
            }
          });
        });
      },
      static_cast<std::size_t>(2 * ranks * length) * sizeof(float));
}

void add_compress_claims(ClaimMap& map) {
  offer(map, "one_bit", one_bit);
  offer(map, "one_bit_sum", one_bit_sum);
  offer(map, "top_entries", top_entries);
}

}  // namespace varve::cpu
