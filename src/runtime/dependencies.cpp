#include "runtime/dependencies.h"

#include <algorithm>

namespace varve::runtime {
namespace {

using compiler::Place;

// Bytes of the arena, of an input or of an output.
struct Range {
  Place::Kind kind;
  int index;
  std::int64_t begin, end;
};

bool overlap(const std::vector<Range>& a, const std::vector<Range>& b) {
  return std::any_of(a.begin(), a.end(), [&](const Range& x) {
    return std::any_of(b.begin(), b.end(), [&](const Range& y) {
      const bool same = x.kind == y.kind && (x.kind == Place::Kind::arena || x.index == y.index);
      return same && x.begin < y.end && y.begin < x.end;
    });
  });
}

struct Access {
  std::vector<Range> reads, writes;
  bool conflicts(const Access& earlier) const {
    return overlap(reads, earlier.writes) || overlap(writes, earlier.writes) || overlap(writes, earlier.reads);
  }
};

std::int64_t extent(const backend::Port& port) {
  if (port.packed) return static_cast<std::int64_t>(port.packed->bytes());
  if (port.type.shape.numel() == 0) return 0;
  std::int64_t last = 0;
  for (int a = 0; a < port.type.shape.rank(); ++a)
    last += (port.type.shape[a] - 1) * std::max<std::int64_t>(port.layout.strides[static_cast<std::size_t>(a)], 0);
  return (last + 1) * static_cast<std::int64_t>(size_of(port.type.dtype));
}

Range range(const Place& place, std::int64_t bytes) {
  return {place.kind, place.index, place.offset, place.offset + bytes};
}

Access access(const compiler::PlanStep& step) {
  Access result;
  for (std::size_t i = 0; i < step.in.size(); ++i) result.reads.push_back(range(step.in[i], extent(step.in_ports[i])));
  for (std::size_t o = 0; o < step.out.size(); ++o)
    result.writes.push_back(range(step.out[o], extent(step.out_ports[o])));
  if (step.scratch_bytes) result.writes.push_back(range(step.scratch, static_cast<std::int64_t>(step.scratch_bytes)));
  return result;
}

}  // namespace

std::vector<std::vector<int>> dependencies(const compiler::Plan& plan) {
  std::vector<Access> all;
  for (const compiler::PlanStep& step : plan.steps) all.push_back(access(step));
  Access copies;
  for (const compiler::FinalCopy& copy : plan.copies) {
    copies.reads.push_back(range(copy.from, static_cast<std::int64_t>(copy.bytes)));
    copies.writes.push_back(range(copy.to, static_cast<std::int64_t>(copy.bytes)));
  }
  all.push_back(std::move(copies));
  std::vector<std::vector<int>> result(all.size());
  std::vector<std::vector<bool>> before(all.size(), std::vector<bool>(all.size(), false));
  for (std::size_t s = 0; s < all.size(); ++s)
    for (std::size_t e = s; e-- > 0;) {
      if (before[s][e] || !all[s].conflicts(all[e])) continue;
      result[s].push_back(static_cast<int>(e));
      before[s][e] = true;
      for (std::size_t a = 0; a < e; ++a)
        if (before[e][a]) before[s][a] = true;
    }
  return result;
}

}  // namespace varve::runtime
