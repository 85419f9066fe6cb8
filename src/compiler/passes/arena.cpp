// One arena for everything that lives within a step: lifetimes, sharing in place, offsets by best fit.
#include <algorithm>

#include "compiler/homes.h"
#include "compiler/memory.h"

namespace varve::compiler {
namespace {

std::size_t aligned(std::size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

void set_lifetimes(const std::vector<int>& order, Memory& memory) {
  std::vector<int> when(order.size());
  for (std::size_t t = 0; t < order.size(); ++t) when[static_cast<std::size_t>(order[t])] = static_cast<int>(t);
  for (Buffer& buffer : memory.buffers) {
    buffer.first = buffer.writer >= 0 ? when[static_cast<std::size_t>(buffer.writer)] : 0;
    buffer.last = buffer.first;
    for (const int reader : buffer.readers) buffer.last = std::max(buffer.last, when[static_cast<std::size_t>(reader)]);
  }
  for (std::size_t b = 0; b < memory.scratch.size(); ++b)
    if (memory.scratch[b] >= 0) {
      Buffer& scratch = memory.buffers[static_cast<std::size_t>(memory.scratch[b])];
      scratch.first = scratch.last = when[b];
    }
}

// All of its source's elements in their order: the value itself, or a reshape of it.
bool is_whole(const Draft& draft, const ir::Value& value) {
  if (!is_view(*value.node)) return true;
  const std::optional<Layout> layout = layout_of(draft, value);
  return layout && layout->offset == 0 && is_contiguous(value.type().shape, *layout) &&
         value.type().bytes() == source(value).type().bytes();
}

// May this output lie where this input lies, which is in the arena and read here for the last time? What the program
// returns has a place outside: then the input moves there.
bool may_share(const Draft& draft, const Memory& memory, const Unit& unit, std::size_t output, std::size_t input,
               int now) {
  const ir::Value& in = unit.claim.inputs[input];
  const int from = memory.of.at(source(in));
  const Buffer& a = memory.buffers[static_cast<std::size_t>(root(memory, from))];
  const Buffer& b = memory.buffers[static_cast<std::size_t>(memory.of.at(unit.claim.outputs[output]))];
  if (b.shares >= 0 || a.place.kind != Place::Kind::arena) return false;
  if (b.place.kind != Place::Kind::arena && b.place.kind != Place::Kind::output) return false;
  if (a.last != now || a.bytes != b.bytes || a.bytes == 0) return false;
  if (in.type() != unit.claim.outputs[output].type() || !is_whole(draft, in)) return false;
  for (std::size_t i = 0; i < unit.claim.inputs.size(); ++i)  // read as another operand at the same time
    if (i != input && source(unit.claim.inputs[i]) == source(in)) return false;
  return true;
}

void share_in_place(const Draft& draft, const std::vector<int>& order, Memory& memory) {
  for (std::size_t t = 0; t < order.size(); ++t) {
    const Unit& unit = draft.units[static_cast<std::size_t>(order[t])];
    std::vector<int> taken;  // buffers that have got their partner
    for (const auto& [o, i] : unit.claim.in_place) {
      if (!may_share(draft, memory, unit, static_cast<std::size_t>(o), static_cast<std::size_t>(i),
                     static_cast<int>(t)))
        continue;
      const int into = root(memory, memory.of.at(source(unit.claim.inputs[static_cast<std::size_t>(i)])));
      const int result = memory.of.at(unit.claim.outputs[static_cast<std::size_t>(o)]);
      const auto is_taken = [&](int buffer) { return std::find(taken.begin(), taken.end(), buffer) != taken.end(); };
      if (is_taken(into) || is_taken(result)) continue;
      taken.insert(taken.end(), {into, result});
      Buffer& output = memory.buffers[static_cast<std::size_t>(result)];
      if (output.place.kind == Place::Kind::output) {
        memory.buffers[static_cast<std::size_t>(into)].shares = result;
        continue;
      }
      output.shares = into;
      Buffer& whole = memory.buffers[static_cast<std::size_t>(into)];
      whole.last = std::max(whole.last, output.last);
    }
  }
}

}  // namespace

std::size_t plan_arena(const Draft& draft, const std::vector<int>& order, Memory& memory) {
  set_lifetimes(order, memory);
  for (const auto& [out, in] : memory.late)
    memory.buffers[static_cast<std::size_t>(memory.of.at(draft.graph.outputs[out]))].last =
        static_cast<int>(order.size());
  share_in_place(draft, order, memory);
  std::vector<int> bySize;
  for (int b = 0; b < static_cast<int>(memory.buffers.size()); ++b) {
    const Buffer& buffer = memory.buffers[static_cast<std::size_t>(b)];
    if (buffer.place.kind == Place::Kind::arena && buffer.shares < 0 && buffer.bytes > 0) bySize.push_back(b);
  }
  std::stable_sort(bySize.begin(), bySize.end(), [&](int a, int b) {
    return memory.buffers[static_cast<std::size_t>(a)].bytes > memory.buffers[static_cast<std::size_t>(b)].bytes;
  });
  std::size_t size = 0;
  std::vector<int> placed;  // by offset
  for (const int b : bySize) {
    Buffer& buffer = memory.buffers[static_cast<std::size_t>(b)];
    std::size_t offset = 0, best = SIZE_MAX, best_gap = SIZE_MAX;
    for (const int p : placed) {
      const Buffer& other = memory.buffers[static_cast<std::size_t>(p)];
      if (other.last < buffer.first || other.first > buffer.last) continue;
      const auto begin = static_cast<std::size_t>(other.place.offset);
      if (begin >= offset + aligned(buffer.bytes) && begin - offset < best_gap) {
        best_gap = begin - offset;
        best = offset;
      }
      offset = std::max(offset, begin + aligned(other.bytes));
    }
    buffer.place.offset = static_cast<std::int64_t>(best == SIZE_MAX ? offset : best);
    size = std::max(size, static_cast<std::size_t>(buffer.place.offset) + aligned(buffer.bytes));
    placed.insert(std::upper_bound(placed.begin(), placed.end(), b,
                                   [&](int a, int c) {
                                     return memory.buffers[static_cast<std::size_t>(a)].place.offset <
                                            memory.buffers[static_cast<std::size_t>(c)].place.offset;
                                   }),
                  b);
  }
  return size;
}

}  // namespace varve::compiler
