// A formula compiled for one plan: a list of SIMD loops over numbered places (memory, tile registers, single values).
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/tile/chain.h"
#include "backends/cpu/tile/kernels.h"
#include "backends/cpu/tile/plan.h"

namespace varve::cpu {

struct Step {
  KernelFn fn = nullptr;             // or, when null, a chain that starts from place a
  int a = 0, b = 0, c = 0, out = 0;  // places
  int repeats = -1;                  // an access: skip the step while its address stays what it was
  int first_link = 0, links = 0;     // of the chain
  bool nontemporal = false;          // the chain's stores go past the caches
};

// What a place stands for. The first places are the accesses, inputs then outputs, and move with the tile.
struct Place {
  enum Kind : std::uint8_t { memory, reg, slot, constant, table } kind;
  int index;
};

struct Program {
  std::vector<Place> places;
  std::vector<Step> once;      // on single values that never change
  std::vector<Step> fills;     // of whole registers, with those
  std::vector<Step> per_tile;  // on single values that change from tile to tile
  std::vector<Step> tile;      // on all points of a tile
  std::vector<Link> links;     // of all chains
  ChainFn chain = nullptr;
  std::vector<int> results;                       // the place of each output's value before reduction
  std::vector<std::int64_t> constants;            // the bits of each, in the compute type
  std::vector<std::vector<std::int64_t>> tables;  // of offsets
  int registers = 0, slots = 0;
};

// How many tile registers the code needs at most, before the plan is known: decides the size of a tile.
int estimate_registers(const Group& group);

// `nontemporal`: outputs bypass the caches. Throws Error when a primitive has no loop in the compute type.
Program compile(const Group& group, const Plan& plan, bool nontemporal);

}  // namespace varve::cpu
