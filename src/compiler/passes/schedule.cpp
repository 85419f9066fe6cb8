// List scheduling: of the units that may run, the one that leaves the least memory held; what begins a message goes
// before them, and so does what is computed for messages alone, the next message first; what waits for one goes after.
// What another rank of a pipeline waits for goes before what it does not.
#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "compiler/memory.h"
#include "varve/error.h"

namespace varve::compiler {
namespace {

class Scheduler {
 public:
  Scheduler(const Draft& draft, const Memory& memory)
      : memory_(memory),
        waiting_(draft.units.size(), 0),
        growth_(draft.units.size(), 0),
        timing_(draft.units.size(), 0),
        message_(draft.units.size(), 0),
        passed_on_(draft.units.size(), std::numeric_limits<std::int64_t>::max()),
        done_(draft.units.size(), false),
        next_(draft.units.size()),
        read_(draft.units.size()) {
    for (std::size_t b = 0; b < memory.buffers.size(); ++b) {
      const Buffer& buffer = memory.buffers[b];
      const std::set<int> readers(buffer.readers.begin(), buffer.readers.end());
      remaining_.push_back(static_cast<int>(readers.size()));
      for (const int reader : readers) {
        read_[static_cast<std::size_t>(reader)].push_back(b);
        if (buffer.writer >= 0) edge(buffer.writer, reader);
        if (readers.size() == 1) growth_[static_cast<std::size_t>(reader)] -= held(buffer);
      }
    }
    find_passed_on(draft);
    for (const auto& [first, then] : memory.before) edge(first, then);
    for (std::size_t u = 0; u < draft.units.size(); ++u) {
      for (const ir::Value& output : draft.units[u].claim.outputs)
        growth_[u] += held(memory.buffers[static_cast<std::size_t>(memory.of.at(output))]);
      for (const ir::NodePtr& node : draft.units[u].claim.nodes)
        if (node->op->timing != Timing::any) {
          timing_[u] = node->op->timing == Timing::early ? -1 : 1;
          message_[u] = (timing_[u] < 0 ? node : node->inputs[0].node)->attrs.integer("order");
        }
    }
    hurry(memory);
    for (std::size_t u = 0; u < draft.units.size(); ++u)
      if (!waiting_[u]) ready_.insert(key(static_cast<int>(u)));
  }

  std::vector<int> run() {
    while (!ready_.empty()) {
      const int unit = std::get<3>(*ready_.begin());
      ready_.erase(ready_.begin());
      order_.push_back(unit);
      finish(unit);
    }
    if (order_.size() != done_.size()) throw Error("schedule: the program waits for itself.");
    return std::move(order_);
  }

 private:
  void edge(int first, int then) {
    next_[static_cast<std::size_t>(first)].push_back(then);
    ++waiting_[static_cast<std::size_t>(then)];
  }

  // The gradient of a large weight holds more memory than the gradient that goes on to the layer before: by memory
  // alone it would be left for later, and the wire without work.
  void hurry(const Memory& memory) {
    std::vector<int> unhurried(timing_.size(), 0);  // readers that may wait
    std::vector<std::vector<int>> writers(timing_.size());
    for (const Buffer& buffer : memory.buffers) {
      if (buffer.writer < 0) continue;
      for (const int reader : std::set<int>(buffer.readers.begin(), buffer.readers.end())) {
        ++unhurried[static_cast<std::size_t>(buffer.writer)];
        writers[static_cast<std::size_t>(reader)].push_back(buffer.writer);
      }
    }
    std::vector<bool> known(timing_.size(), false);
    std::vector<int> hurried;
    for (std::size_t u = 0; u < timing_.size(); ++u)
      if (timing_[u] < 0) hurried.push_back(static_cast<int>(u));
    while (!hurried.empty()) {
      const int unit = hurried.back();
      hurried.pop_back();
      for (const int writer : writers[static_cast<std::size_t>(unit)]) {
        const auto w = static_cast<std::size_t>(writer);
        const std::int64_t message = message_[static_cast<std::size_t>(unit)];
        if (timing_[w] == 0) message_[w] = known[w] ? std::min(message_[w], message) : message;
        known[w] = true;
        if (--unhurried[w] > 0 || timing_[w] != 0) continue;
        timing_[w] = -1;
        hurried.push_back(writer);
      }
    }
  }

  // Units come after those that they read from.
  void find_passed_on(const Draft& draft) {
    for (std::size_t u = draft.units.size(); u-- > 0;) {
      for (const ir::NodePtr& node : draft.units[u].claim.nodes)
        if (node->is("send_begin")) passed_on_[u] = std::min(passed_on_[u], node->attrs.integer("order"));
      for (const int user : next_[u])
        passed_on_[u] = std::min(passed_on_[u], passed_on_[static_cast<std::size_t>(user)]);
    }
  }

  using Key = std::tuple<int, std::int64_t, std::int64_t, int>;  // timing, message, growth, then as recorded
  Key key(int unit) const {
    const auto u = static_cast<std::size_t>(unit);
    return {timing_[u], timing_[u] ? message_[u] : passed_on_[u], growth_[u], unit};
  }

  // Bytes that this buffer takes of the arena.
  static std::int64_t held(const Buffer& buffer) {
    return buffer.place.kind == Place::Kind::arena && buffer.shares < 0 ? static_cast<std::int64_t>(buffer.bytes) : 0;
  }

  // The one reader that is left will free the buffer.
  void last_reader_of(std::size_t buffer) {
    for (const int reader : memory_.buffers[buffer].readers) {
      const auto r = static_cast<std::size_t>(reader);
      if (done_[r]) continue;
      const bool ready = ready_.erase(key(reader)) > 0;
      growth_[r] -= held(memory_.buffers[buffer]);
      if (ready) ready_.insert(key(reader));
      return;
    }
  }

  void finish(int unit) {
    const auto u = static_cast<std::size_t>(unit);
    done_[u] = true;
    for (const std::size_t buffer : read_[u])
      if (--remaining_[buffer] == 1) last_reader_of(buffer);
    for (const int user : next_[u])
      if (--waiting_[static_cast<std::size_t>(user)] == 0) ready_.insert(key(user));
  }

  const Memory& memory_;
  std::vector<int> waiting_;
  std::vector<std::int64_t> growth_;     // bytes held after the unit, less those before, as things stand
  std::vector<int> timing_;              // -1: as early as it can, 1: as late
  std::vector<std::int64_t> message_;    // where timing says so: the first that needs it, or the one that it waits for
  std::vector<std::int64_t> passed_on_;  // the first message to one other rank that is made of it
  std::vector<bool> done_;
  std::vector<std::vector<int>> next_;
  std::vector<std::vector<std::size_t>> read_;  // buffers that each unit reads
  std::vector<int> remaining_;                  // readers of a buffer that have not run
  std::set<Key> ready_;
  std::vector<int> order_;
};

}  // namespace

std::vector<int> schedule(const Draft& draft, const Memory& memory) { return Scheduler(draft, memory).run(); }

}  // namespace varve::compiler
