// How a tensor was recorded, for code that reads a graph without computing it.
#pragma once

#include <cstdint>
#include <vector>

#include "varve/op.h"
#include "varve/tensor.h"

namespace varve {
namespace detail {

struct Recorded {
  const OpRecord* op = nullptr;
  Attrs attrs;
  std::vector<Tensor> inputs;
  std::uint64_t number = 0;  // grows with every record: inputs have smaller ones
  bool forgotten = false;    // it was computed, and what it was computed from is known no more
};
Recorded recorded(const Tensor& tensor);
std::uint64_t next_record();  // what is recorded from now on has this number or a larger one

}  // namespace detail
}  // namespace varve
