// Private layouts: how a backend keeps a parameter between steps. A permutation plus zero padding, never other values.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "varve/op.h"

namespace varve::ir {

class PackedLayout {
 public:
  virtual ~PackedLayout() = default;
  virtual std::string key() const = 0;  // equal keys: the same places for the same elements
  virtual std::size_t bytes() const = 0;
  virtual void pack(const void* row_major, void* packed) const = 0;
  virtual void unpack(const void* packed, void* row_major) const = 0;
};
using PackedPtr = std::shared_ptr<const PackedLayout>;

}  // namespace varve::ir
