// Copies from any strides to any strides, in the largest pieces that lie together on both sides.
#include <algorithm>
#include <cstdlib>

#include "backend/axes.h"
#include "backends/cuda/claims.h"
#include "backends/cuda/device/arguments.h"
#include "backends/cuda/shape/pieces.h"

namespace varve::cuda {
namespace {

using backend::CopyAxis;
using backend::Port;
using backend::Prepared;
using backend::RunArgs;

class StridedCopy {
 public:
  StridedCopy(const Port& from, const Port& to, std::int64_t most) : axes_(backend::joined_axes(from, to)) {
    piece_ = static_cast<std::int64_t>(size_of(to.type.dtype));
    widen(most);
    std::int64_t reach = 1;
    for (CopyAxis& axis : axes_) {
      axis.from /= piece_;
      axis.to /= piece_;
      count_ *= axis.size;
      reach += (axis.size - 1) * std::max(std::abs(axis.from), std::abs(axis.to));
    }
    wide_ = needs_64_bits(std::max(reach, count_));
    if (axes_.empty()) axes_.push_back({});
    find_fast_axes();
    function_ = Function(tile_ > 0 ? "transpose" : "copy", text());
  }

  std::size_t piece() const { return static_cast<std::size_t>(piece_); }

  void run(const RunArgs& args) const {
    Words words;
    words.add(args.in[0]);
    words.add(static_cast<const void*>(args.out[0]));
    std::int64_t blocks = 0;
    if (tile_ > 0) {
      const CopyAxis &source = axes_[axes_.size() - 2], &target = axes_.back();
      const std::int64_t down = (source.size + tile_ - 1) / tile_, across = (target.size + tile_ - 1) / tile_;
      words.add_extent(down, wide_);
      words.add_extent(across, wide_);
      blocks = count_ / source.size / target.size * down * across;
    } else {
      words.add(count_);
      blocks = piece_blocks(count_, unroll());
    }
    for (const CopyAxis& axis : axes_) words.add_extent(axis.size, wide_);
    for (const CopyAxis& axis : axes_) words.add(axis.from);
    for (const CopyAxis& axis : axes_) words.add(axis.to);
    words.start(function_, {.grid = blocks, .block = kPieceThreads});
  }

 private:
  std::int64_t unroll() const { return piece_unroll(count_); }

  // Neighbours on both sides make one piece of up to `most` bytes.
  void widen(std::int64_t most) {
    if (axes_.empty() || axes_.back().from != piece_ || axes_.back().to != piece_) return;
    const auto fits = [&](std::int64_t bytes) {
      return axes_.back().size * piece_ % bytes == 0 &&
             std::all_of(axes_.begin(), axes_.end() - 1,
                         [&](const CopyAxis& axis) { return axis.from % bytes == 0 && axis.to % bytes == 0; });
    };
    std::int64_t bytes = piece_;
    while (bytes * 2 <= most && fits(bytes * 2)) bytes *= 2;
    axes_.back() = {axes_.back().size * piece_ / bytes, bytes, bytes};
    piece_ = bytes;
  }

  void find_fast_axes() {
    constexpr std::int64_t kShort = 8;  // shorter axes would leave squares empty
    const CopyAxis& target = axes_.back();
    if (target.to != 1 || std::abs(target.from) <= 1 || target.size < kShort) return;
    const auto source = std::find_if(axes_.begin(), axes_.end(), [](const CopyAxis& axis) { return axis.from == 1; });
    if (source == axes_.end() || source->size < kShort) return;
    std::rotate(source, source + 1, axes_.end() - 1);
    tile_ = piece_ <= 2 ? 64 : 32;
  }

  KernelText text() const {
    std::string constants = piece_constants(piece_, wide_, unroll()) + defines({{"RANK", cat(axes_.size())}});
    if (tile_ > 0) constants += defines({{"TILE", cat(tile_)}});
    return {tile_ > 0 ? "shape/transpose.cu" : "shape/strided_copy.cu", constants};
  }

  std::vector<CopyAxis> axes_;
  std::int64_t piece_ = 1, count_ = 1, tile_ = 0;
  bool wide_ = false;
  Function function_;
};

}  // namespace

Prepared prepare_strided_copy(const Port& from, const Port& to) {
  if (to.type.shape.numel() == 0) return backend::prepared([](const RunArgs&) {});
  // Operands are nearly always aligned; the kernel for those that are not is made when it is first needed.
  const auto run = [from, to, fast = StridedCopy(from, to, 16),
                    slow = std::shared_ptr<StridedCopy>()](const RunArgs& args) mutable {
    const auto address = reinterpret_cast<std::uintptr_t>(args.in[0]) | reinterpret_cast<std::uintptr_t>(args.out[0]);
    if (address % fast.piece() == 0) return fast.run(args);
    if (!slow) slow = std::make_shared<StridedCopy>(from, to, static_cast<std::int64_t>(size_of(to.type.dtype)));
    slow->run(args);
  };
  return backend::prepared(run);
}

}  // namespace varve::cuda
