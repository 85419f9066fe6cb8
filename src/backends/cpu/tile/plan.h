// How an iteration space is cut: extents sorted and merged, then split into a tile (the innermost extents, and a
// stretch of the next one: its "axis") and two spaces of tiles around it, the kept and the swept (reduced) one.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/tile/tile.h"

namespace varve::cpu {

// The extents outside the tile, walked by a flat index.
struct Space {
  std::vector<std::int64_t> extents;               // outermost first
  std::vector<std::vector<std::int64_t>> strides;  // [extent][access], in elements
  std::int64_t size = 1;

  void add(std::int64_t extent, std::vector<std::int64_t> access_strides);
  void offset(std::int64_t index, std::int64_t* offsets) const;  // adds this index's offset of every access
};

// How an access lies within a tile.
enum class Layout : std::uint8_t {
  scalar,  // one element
  dense,   // neighbours in memory
  rows,    // one element for each row of the axis
  table,   // anything else
};

struct Plan {
  std::vector<Access> accesses;  // inputs, then outputs
  std::vector<std::int64_t> extents;
  std::vector<bool> reduced;  // all false when nothing is reduced
  bool empty = false;         // no points at all

  int axis = 0;                // extents after it are whole in every tile
  std::int64_t inner = 1;      // their product
  std::int64_t rows = 1;       // of the axis in a full tile
  std::int64_t pieces = 1;     // stretches that the axis is cut into
  bool inner_reduced = false;  // of the innermost extent
  Space kept, swept;           // the pieces are the last extent of one of them

  std::int64_t tile() const { return rows * inner; }
  bool axis_reduced() const { return reduced[static_cast<std::size_t>(axis)]; }
  std::int64_t rows_of(std::int64_t piece) const;
  Layout layout(const Access& access) const;
  bool constant(const Access& access) const;                    // one value for the whole iteration
  bool repeats(const Access& access) const;                     // does not move along the axis
  std::vector<std::int64_t> table(const Access& access) const;  // offset of each point of a full tile
};

Plan make_plan(const Group& group, std::int64_t most_points);  // of a tile; throws Error when the group makes no sense

}  // namespace varve::cpu
