// List scheduling: of the units that may run, the one that leaves the least memory held.
#include <algorithm>
#include <limits>
#include <set>

#include "base/text.h"
#include "compiler/memory.h"
#include "varve/error.h"

namespace varve::compiler {
namespace {

class Scheduler {
 public:
  Scheduler(const Draft& draft, const Memory& memory) : draft_(draft), memory_(memory), waiting_(draft.units.size(), 0), next_(draft.units.size()) {
    for (const Buffer& buffer : memory.buffers) {
      std::set<int> readers(buffer.readers.begin(), buffer.readers.end());
      remaining_.push_back(static_cast<int>(readers.size()));
      if (buffer.writer < 0) continue;
      for (const int reader : readers) edge(buffer.writer, reader);
    }
    for (const auto& [first, then] : memory.before) edge(first, then);
    for (std::size_t u = 0; u < draft.units.size(); ++u)
      if (!waiting_[u]) ready_.push_back(static_cast<int>(u));
  }

  std::vector<int> run() {
    while (!ready_.empty()) {
      const auto best = pick();
      const int unit = ready_[best];
      ready_.erase(ready_.begin() + static_cast<std::ptrdiff_t>(best));
      order_.push_back(unit);
      finish(unit);
    }
    if (order_.size() != draft_.units.size()) throw Error("schedule: the program waits for itself.");
    return std::move(order_);
  }

 private:
  void edge(int first, int then) {
    next_[static_cast<std::size_t>(first)].push_back(then);
    ++waiting_[static_cast<std::size_t>(then)];
  }

  bool in_arena(int buffer) const {
    const Buffer& b = memory_.buffers[static_cast<std::size_t>(buffer)];
    return b.place.kind == Place::Kind::arena && b.shares < 0;
  }

  // Bytes held after the unit, less those before.
  std::int64_t growth(int unit) const {
    const backend::Claim& claim = draft_.units[static_cast<std::size_t>(unit)].claim;
    std::int64_t bytes = 0;
    for (const ir::Value& output : claim.outputs) {
      const int buffer = memory_.of.at(output);
      if (in_arena(buffer)) bytes += static_cast<std::int64_t>(memory_.buffers[static_cast<std::size_t>(buffer)].bytes);
    }
    std::set<int> inputs;
    for (const ir::Value& input : claim.inputs) inputs.insert(memory_.of.at(source(input)));
    for (const int buffer : inputs)
      if (in_arena(buffer) && remaining_[static_cast<std::size_t>(buffer)] == 1)
        bytes -= static_cast<std::int64_t>(memory_.buffers[static_cast<std::size_t>(buffer)].bytes);
    return bytes;
  }

  std::size_t pick() const {
    std::size_t best = 0;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (std::size_t i = 0; i < ready_.size(); ++i) {
      const std::int64_t bytes = growth(ready_[i]);
      if (bytes < least || (bytes == least && ready_[i] < ready_[best])) {
        least = bytes;
        best = i;
      }
    }
    return best;
  }

  void finish(int unit) {
    std::set<int> inputs;
    for (const ir::Value& input : draft_.units[static_cast<std::size_t>(unit)].claim.inputs) inputs.insert(memory_.of.at(source(input)));
    for (const int buffer : inputs) --remaining_[static_cast<std::size_t>(buffer)];
    for (const int user : next_[static_cast<std::size_t>(unit)])
      if (--waiting_[static_cast<std::size_t>(user)] == 0) ready_.push_back(user);
  }

  const Draft& draft_;
  const Memory& memory_;
  std::vector<int> waiting_;
  std::vector<std::vector<int>> next_;
  std::vector<int> remaining_;   // readers of a buffer that have not run
  std::vector<int> ready_, order_;
};

}  // namespace

std::vector<int> schedule(const Draft& draft, const Memory& memory) { return Scheduler(draft, memory).run(); }

}  // namespace varve::compiler
