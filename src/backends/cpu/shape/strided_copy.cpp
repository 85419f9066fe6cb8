// Copies from any strides to any strides. Where the fast axis of one side is a slow one of the other, both are walked
// in squares: whatever line or page is touched, all of the square that lies on it is moved before it leaves the cache.
#include "backend/axes.h"
#include "backends/cpu/common/loops.h"
#include "backends/cpu/groups/groups.h"

namespace varve::cpu {
namespace {

using backend::CopyAxis;
using backend::Port;
using backend::Prepared;
using backend::RunArgs;

constexpr std::int64_t kSquare = 32;  // elements a side: the lines of both tensors stay in L1

class StridedCopy {
 public:
  StridedCopy(const Port& from, const Port& to) : chunk_(element_bytes(to.type.dtype)) {
    std::vector<CopyAxis> axes = backend::joined_axes(from, to);
    if (!axes.empty() && axes.back().from == chunk_ && axes.back().to == chunk_) {
      chunk_ *= axes.back().size;
      axes.pop_back();
    }
    if (!axes.empty()) take_last(axes, inner_);
    if (axes.empty()) return;
    // Beside the target's fast axis, the source's.
    const auto fast = std::min_element(axes.begin(), axes.end(), [](const CopyAxis& a, const CopyAxis& b) {
      return std::abs(a.from) < std::abs(b.from);
    });
    if (std::abs(fast->from) < std::abs(inner_.from)) {
      outer_ = *fast;
      axes.erase(fast);
    } else {
      take_last(axes, outer_);
    }
    rest_ = std::move(axes);
  }

  void run(const RunArgs& args) const {
    std::int64_t rest = 1;
    for (const CopyAxis& axis : rest_) rest *= axis.size;
    const std::int64_t squares = (outer_.size + kSquare - 1) / kSquare;
    if (rest * outer_.size * inner_.size == 1) return copy_bytes(args.out[0], args.in[0], chunk_);
    parallel_for(rest * squares, grain_for(kSquare * inner_.size * chunk_), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::byte* from = at(args.in[0], 0);
        std::byte* to = at(args.out[0], 0);
        std::int64_t index = i / squares;
        for (std::size_t a = rest_.size(); a-- > 0; index /= rest_[a].size) {
          from += index % rest_[a].size * rest_[a].from;
          to += index % rest_[a].size * rest_[a].to;
        }
        const std::int64_t first = i % squares * kSquare;
        strip(from + first * outer_.from, to + first * outer_.to, std::min(kSquare, outer_.size - first));
      }
    });
  }

 private:
  static void take_last(std::vector<CopyAxis>& axes, CopyAxis& axis) {
    axis = axes.back();
    axes.pop_back();
  }

  // `count` of the outer axis by all of the inner one.
  void strip(const std::byte* from, std::byte* to, std::int64_t count) const {
    const auto move = [&]<class Chunk>(Chunk chunk) {
      for (std::int64_t first = 0; first < inner_.size; first += kSquare) {
        const std::int64_t end = std::min(first + kSquare, inner_.size);
        for (std::int64_t o = 0; o < count; ++o)
          for (std::int64_t i = first; i < end; ++i)
            chunk(to + o * outer_.to + i * inner_.to, from + o * outer_.from + i * inner_.from);
      }
    };
    const auto fixed = [&]<std::size_t n>(std::integral_constant<std::size_t, n>) {
      move([](std::byte* target, const std::byte* source) { std::memcpy(target, source, n); });
    };
    switch (chunk_) {
      case 1:
        return fixed(std::integral_constant<std::size_t, 1>{});
      case 2:
        return fixed(std::integral_constant<std::size_t, 2>{});
      case 4:
        return fixed(std::integral_constant<std::size_t, 4>{});
      case 8:
        return fixed(std::integral_constant<std::size_t, 8>{});
      default:
        const auto bytes = static_cast<std::size_t>(chunk_);
        move([bytes](std::byte* target, const std::byte* source) { std::memcpy(target, source, bytes); });
    }
  }

  std::int64_t chunk_;  // bytes that lie together on both sides
  CopyAxis inner_, outer_;
  std::vector<CopyAxis> rest_;
};

}  // namespace

Prepared prepare_strided_copy(const Port& from, const Port& to) {
  if (to.type.shape.numel() == 0) return nothing();
  return backend::prepared([copy = StridedCopy(from, to)](const RunArgs& args) { copy.run(args); });
}

}  // namespace varve::cpu
