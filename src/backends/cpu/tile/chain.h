// Chains: primitives where each works on the result of the one before. One loop runs a whole chain on a few vectors
// that stay in the registers, which is several times faster than one loop over the tile per primitive. Costly functions
// of one operand are called on those vectors in passing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/cpu/tile/kernels.h"

namespace varve::cpu {

// Where the running value stands among the operands of a primitive.
enum class Role : std::uint8_t { first, second, third };

struct Link {
  KernelFn call = nullptr;  // instead of prim: a loop of one operand
  expr::Prim prim = expr::Prim::neg;
  Role role = Role::first;
  int p = 0, q = 0;                         // places of the other operands, in order
  bool p_scalar = false, q_scalar = false;  // single values, the same for the whole tile
};

// out[i] = the last link's value, starting from start[i]. `nontemporal`: stores go past the caches (out must be
// aligned).
using ChainFn = void (*)(const Link* links, std::size_t count, std::byte* const* places, const void* start, void* out,
                         std::size_t n, bool nontemporal);

ChainFn chain_kernel(DType compute);     // nullptr: none in this type
bool inlined_in_chain(expr::Prim prim);  // others have to be called

}  // namespace varve::cpu
