// Buffers for values; and which outputs may take the buffer of the state they replace.
#include <algorithm>
#include <map>

#include "base/text.h"
#include "compiler/homes.h"
#include "compiler/memory.h"

namespace varve::compiler {

int root(const Memory& memory, int buffer) {
  while (memory.buffers[static_cast<std::size_t>(buffer)].shares >= 0)
    buffer = memory.buffers[static_cast<std::size_t>(buffer)].shares;
  return buffer;
}

namespace {

class StateUpdates {
 public:
  StateUpdates(const Draft& draft, Memory& memory) : draft_(draft), memory_(memory), next_(draft.units.size()) {
    for (const Buffer& buffer : memory.buffers)
      if (buffer.writer >= 0)
        next_[static_cast<std::size_t>(buffer.writer)].insert(next_[static_cast<std::size_t>(buffer.writer)].end(),
                                                              buffer.readers.begin(), buffer.readers.end());
    for (const auto& [first, then] : memory.before) next_[static_cast<std::size_t>(first)].push_back(then);
  }

  // The output takes the input's buffer when its kernel can and every other reader comes before.
  bool in_place(int input, const ir::Value& output) {
    const int buffer = memory_.of.at(output),
              state = memory_.of.at({draft_.graph.inputs[static_cast<std::size_t>(input)], 0});
    const int writer = memory_.buffers[static_cast<std::size_t>(buffer)].writer;
    if (writer < 0 || !can_share(writer, output, input)) return false;
    const std::vector<bool> later = after(writer);
    for (const int reader : memory_.buffers[static_cast<std::size_t>(state)].readers)
      if (reader != writer && later[static_cast<std::size_t>(reader)]) return false;
    for (const int reader : memory_.buffers[static_cast<std::size_t>(state)].readers) {
      if (reader == writer) continue;
      memory_.before.push_back({reader, writer});
      next_[static_cast<std::size_t>(reader)].push_back(writer);
    }
    return true;
  }

 private:
  bool can_share(int writer, const ir::Value& output, int input) const {
    const Unit& unit = draft_.units[static_cast<std::size_t>(writer)];
    const ir::Value state{draft_.graph.inputs[static_cast<std::size_t>(input)], 0};
    if (!is_contiguous(state.type().shape, draft_.input_layouts[static_cast<std::size_t>(input)])) return false;
    bool reads_otherwise = false;
    int reads = 0;
    for (std::size_t i = 0; i < unit.claim.inputs.size(); ++i) {
      if (source(unit.claim.inputs[i]) != state) continue;
      if (unit.claim.inputs[i] != state)
        reads_otherwise = true;  // through a view: other places
      else
        ++reads;
    }
    if (reads_otherwise || reads > 1) return false;  // as another operand too: read while it is written
    if (reads == 0) return true;                     // does not look at the old value at all
    return std::any_of(unit.claim.in_place.begin(), unit.claim.in_place.end(), [&](const auto& pair) {
      return unit.claim.outputs[static_cast<std::size_t>(pair.first)] == output &&
             unit.claim.inputs[static_cast<std::size_t>(pair.second)] == state;
    });
  }

  // Units that must wait for this one. An update is mostly the last of its kind: the search ends where it began.
  std::vector<bool> after(int unit) const {
    std::vector<bool> seen(draft_.units.size(), false);
    std::vector<int> stack{unit};
    while (!stack.empty()) {
      const int u = stack.back();
      stack.pop_back();
      for (const int user : next_[static_cast<std::size_t>(u)]) {
        if (seen[static_cast<std::size_t>(user)]) continue;
        seen[static_cast<std::size_t>(user)] = true;
        stack.push_back(user);
      }
    }
    return seen;
  }

  const Draft& draft_;
  Memory& memory_;
  std::vector<std::vector<int>> next_;  // units that wait for each unit
};

void chain(const Draft& draft, const char* place, Memory& memory) {
  std::map<std::int64_t, int> chain;
  for (std::size_t u = 0; u < draft.units.size(); ++u)
    for (const ir::NodePtr& node : draft.units[u].claim.nodes)
      if (node->attrs.has(place)) chain[node->attrs.integer(place)] = static_cast<int>(u);
  int before = -1;
  for (const auto& [order, unit] : chain) {
    if (before >= 0) memory.before.push_back({before, unit});
    before = unit;
  }
}

// In the order that all ranks keep (passes/buckets.cpp); messages are awaited in the order in which they are begun.
void chain_collectives(const Draft& draft, Memory& memory) {
  chain(draft, "order", memory);
  chain(draft, "ends", memory);
}

int add_buffer(Memory& memory, Place::Kind kind, int index, std::size_t bytes, int writer) {
  Buffer buffer;
  buffer.place.kind = kind;
  buffer.place.index = index;
  buffer.bytes = bytes;
  buffer.writer = writer;
  memory.buffers.push_back(buffer);
  return static_cast<int>(memory.buffers.size()) - 1;
}

}  // namespace

Memory make_memory(const Draft& draft) {
  Memory memory;
  const ir::Graph& graph = draft.graph;
  memory.written.assign(graph.inputs.size(), false);
  memory.returned.assign(graph.outputs.size(), true);
  for (std::size_t i = 0; i < graph.inputs.size(); ++i)
    memory.of[{graph.inputs[i], 0}] =
        add_buffer(memory, Place::Kind::input, static_cast<int>(i), graph.inputs[i]->types[0].bytes(), -1);
  for (std::size_t u = 0; u < draft.units.size(); ++u)
    for (const ir::Value& output : draft.units[u].claim.outputs)
      memory.of[output] = add_buffer(memory, Place::Kind::arena, 0, output.type().bytes(), static_cast<int>(u));
  for (std::size_t u = 0; u < draft.units.size(); ++u)
    for (const ir::Value& input : draft.units[u].claim.inputs)
      memory.buffers[static_cast<std::size_t>(memory.of.at(source(input)))].readers.push_back(static_cast<int>(u));

  chain_collectives(draft, memory);
  StateUpdates state(draft, memory);
  for (const auto& [in, out] : graph.updates) {
    const ir::Value& output = graph.outputs[static_cast<std::size_t>(out)];
    memory.returned[static_cast<std::size_t>(out)] = false;
    if (state.in_place(in, output)) {
      memory.buffers[static_cast<std::size_t>(memory.of.at(output))].shares =
          memory.of.at({graph.inputs[static_cast<std::size_t>(in)], 0});
      memory.written[static_cast<std::size_t>(in)] = true;
    } else {
      memory.late.push_back({static_cast<std::size_t>(out), static_cast<std::size_t>(in)});
      memory.reports.push_back(cat("state '", graph.inputs[static_cast<std::size_t>(in)]->attrs.text("name"),
                                   "' is copied back: a reader comes after its new value"));
    }
  }
  for (std::size_t o = 0; o < graph.outputs.size(); ++o) {
    if (!memory.returned[o]) continue;
    Buffer& buffer = memory.buffers[static_cast<std::size_t>(memory.of.at(graph.outputs[o]))];
    buffer.place.kind = Place::Kind::output;
    buffer.place.index = static_cast<int>(o);
  }
  return memory;
}

}  // namespace varve::compiler
