// How a mask finds its way through a forward pass that says nothing about masks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "varve/nn/module.h"

namespace varve::nn {

// What a call in progress knows of values: their mask, or that they have none.
struct KnownMask {
  Tensor value;
  Mask mask;
};
struct KnownMasks {
  std::vector<KnownMask> known;
  std::uint64_t since = 0;  // what was recorded before cannot depend on any of it

  void add(const Tensor& value, const Mask& mask);
  const Mask* find(const Tensor& value) const;  // null: nothing is known
};

// The mask of a value that was computed from known ones: theirs, as long as every operator between treats each step by
// itself. Throws NoWay otherwise.
struct NoWay : Error {
  using Error::Error;
};
Mask mask_behind(const Tensor& value, const std::vector<const KnownMasks*>& tables);

// Error, named by the module, where a mask's sizes are not those of the input.
void check_mask(const std::string& where, const Mask& mask, const Tensor& x);

}  // namespace varve::nn
