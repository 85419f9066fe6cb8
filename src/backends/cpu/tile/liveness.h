// Facts about straight-line code that the tile compiler asks for.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/tile/kernels.h"
#include "varve/expr.h"

namespace varve::cpu {

// How often a value changes: never, from tile to tile, from point to point.
enum class Level : std::uint8_t { once, per_tile, tile };

// The code with peepholes applied. Dead instructions stay, unmarked.
struct Analysed {
  std::vector<expr::Instr> instrs;
  std::vector<Fused> fused;  // per instruction: computed by this loop instead, from operand a
  std::vector<int> outputs;
  std::vector<bool> live;
  std::vector<int> last_use;            // index of the last instruction that reads it; one past the end for outputs
  std::vector<std::vector<int>> chain;  // the instructions run with this one, itself last; none: run with a later one
};

Analysed analyse(const expr::Code& code, DType compute);  // throws Error when operands are not earlier instructions

// Whether a chain can run instruction i.
bool chainable(const Analysed& code, int i);

// Joins neighbours of chainable primitives whose values nobody else reads, and moves the last uses accordingly.
void make_chains(Analysed& code, const std::vector<Level>& level);

}  // namespace varve::cpu
