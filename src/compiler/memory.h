// Buffers of a draft: who writes them, who reads them, where they come from.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/draft.h"

namespace varve::compiler {

struct Buffer {
  Place place;  // arena buffers get their offset last
  std::size_t bytes = 0;
  int writer = -1;           // unit; -1 for inputs
  std::vector<int> readers;  // units
  int first = 0, last = 0;   // lifetime in the schedule
  int shares = -1;           // lies in this other buffer
};

struct Memory {
  std::vector<Buffer> buffers;
  std::unordered_map<ir::Value, int, ir::ValueHash> of;  // buffer of a value that some unit writes, or of an input
  std::vector<int> scratch;                              // buffer of each unit's scratch, -1 for none
  std::vector<std::pair<int, int>> before;               // (unit, unit): the first must have run
  std::vector<FinalCopy> copies;
  std::vector<std::pair<std::size_t, std::size_t>> late;  // (output, input): copied after the last step
  std::vector<bool> written;                              // per input
  std::vector<bool> returned;                             // per output
  std::vector<std::string> reports;
};

// Gives every value a buffer: state is updated in its own where that is legal.
Memory make_memory(const Draft& draft);
// The order in which units run: as their data demand, and with a low peak.
std::vector<int> schedule(const Draft& draft, const Memory& memory);
// Lifetimes along the order, buffers shared in place, offsets in one arena. Returns its size.
std::size_t plan_arena(const Draft& draft, const std::vector<int>& order, Memory& memory);

int root(const Memory& memory, int buffer);  // follows `shares`

}  // namespace varve::compiler
