#include "batching/agenda.h"

#include <algorithm>
#include <unordered_map>

#include "ir/fingerprint.h"
#include "ops/batching.h"

namespace varve {
namespace {

constexpr std::size_t kMostBytes = 256 << 10;  // of one call's output: a larger one gains nothing from company

// Kinds of calls, and who is ready: the kind whose calls stand earliest in the graph, on average, runs first, so that
// as many as possible of it are ready by then.
class Schedule {
 public:
  explicit Schedule(const Recorded& graph) : graph_(graph) {
    const std::size_t nodes = graph.nodes.size();
    kind_of_.resize(nodes);
    depth_.assign(nodes, 1);
    waits_.assign(nodes, 0);
    list_users();
    for (std::size_t n = 0; n < nodes; ++n) {
      link(n);
      kind_of_[n] = can_join(n) ? kind_number(n) : kAlone;
      if (kind_of_[n] == kAlone) continue;
      Kind& kind = kinds_[kind_of_[n]];
      ++kind.left;
      kind.depth += depth_[n];
    }
    for (std::size_t n = 0; n < nodes; ++n)
      if (!waits_[n]) ready(n);
  }

  Agenda run() {
    Agenda agenda;
    while (!alone_.empty() || !active_.empty()) {
      std::vector<int> call = alone_.empty() ? take(kinds_[first_kind()]) : take_alone();
      for (const int node : call) done(static_cast<std::size_t>(node));
      if (!graph_.inside[static_cast<std::size_t>(call[0])]) agenda.push_back(std::move(call));
    }
    return agenda;
  }

 private:
  struct Kind {
    std::size_t left = 0;  // calls that have not run
    double depth = 0;      // the sum of theirs
    std::vector<int> ready;
    bool active = false;
  };
  static constexpr std::size_t kAlone = static_cast<std::size_t>(-1);  // in place of a kind: what cannot be joined

  // The users of node n: users_[first_user_[n]] and on.
  void list_users() {
    first_user_.assign(graph_.nodes.size() + 1, 0);
    for (const int input : graph_.inputs)
      if (input >= 0) ++first_user_[static_cast<std::size_t>(input) + 1];
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) first_user_[n + 1] += first_user_[n];
    users_.resize(first_user_.back());
    std::vector<std::size_t> next(first_user_.begin(), first_user_.end() - 1);
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n)
      for (std::size_t i = graph_.first_input[n]; i < graph_.first_input[n + 1]; ++i)
        if (const int input = graph_.inputs[i]; input >= 0)
          users_[next[static_cast<std::size_t>(input)]++] = static_cast<int>(n);
  }

  void link(std::size_t n) {
    for (std::size_t i = graph_.first_input[n]; i < graph_.first_input[n + 1]; ++i) {
      const int input = graph_.inputs[i];
      if (input < 0) continue;
      ++waits_[n];
      depth_[n] = std::max(depth_[n], depth_[static_cast<std::size_t>(input)] + 1);
    }
  }

  bool can_join(std::size_t n) const {
    const ir::Node& node = *graph_.nodes[n];
    if (graph_.moves[n] || graph_.inside[n] || graph_.sums.count(static_cast<int>(n)) || !node.op->pure ||
        node.op->random || !node.regions.empty() || node.origin.rank != -1 || !can_batch(*node.op))
      return false;
    std::size_t bytes = 0;
    for (const TensorType& type : node.types) bytes += type.bytes();
    return bytes > 0 && bytes <= kMostBytes;
  }

  // A literal is part of the call: 2·x and 3·x are two kinds.
  static void add_input(ir::Fingerprint& print, const ir::Value& input) {
    print.add(input.type());
    if (is_literal(input)) print.add_call(*input.node);
  }

  std::size_t kind_number(std::size_t n) {
    const ir::Node& node = *graph_.nodes[n];
    ir::Fingerprint print;
    print.add_call(node);
    print.add(node.origin.path);
    for (const ir::Value& input : node.inputs) add_input(print, input);
    const auto [known, fresh] = numbers_.emplace(print, kinds_.size());
    if (fresh) kinds_.emplace_back();
    return known->second;
  }

  void ready(std::size_t n) {
    const std::size_t number = kind_of_[n];
    if (number == kAlone) return alone_.push_back(static_cast<int>(n));
    Kind& kind = kinds_[number];
    kind.ready.push_back(static_cast<int>(n));
    if (kind.active) return;
    kind.active = true;
    active_.push_back(number);
  }

  void done(std::size_t n) {
    if (kind_of_[n] != kAlone) {
      --kinds_[kind_of_[n]].left;
      kinds_[kind_of_[n]].depth -= depth_[n];
    }
    for (std::size_t u = first_user_[n]; u < first_user_[n + 1]; ++u)
      if (const auto user = static_cast<std::size_t>(users_[u]); --waits_[user] == 0) ready(user);
  }

  // Of the kinds that have calls ready, the one with the least average depth.
  std::size_t first_kind() const {
    const auto earlier = [&](std::size_t a, std::size_t b) {
      const Kind &x = kinds_[a], &y = kinds_[b];
      const double dx = x.depth * static_cast<double>(y.left), dy = y.depth * static_cast<double>(x.left);
      return dx != dy ? dx < dy : a < b;
    };
    return *std::min_element(active_.begin(), active_.end(), earlier);
  }

  std::vector<int> take_alone() {
    const int node = alone_.back();
    alone_.pop_back();
    return {node};
  }

  std::vector<int> take(Kind& kind) {
    std::vector<int> call = std::move(kind.ready);
    kind.ready.clear();
    std::sort(call.begin(), call.end());
    std::vector<int> later;
    while (call.size() > 2 && keep_one_operand(call, later)) {
    }
    if (later.empty()) {
      const std::size_t number = kind_of_[static_cast<std::size_t>(call[0])];
      kind.active = false;
      active_.erase(std::find(active_.begin(), active_.end(), number));
    } else {
      kind.ready = std::move(later);
    }
    return call;
  }

  // An operand that is there already and that many of the calls share, a weight, is shared by a whole call: those with
  // another one wait. False when all operands are one for all, or each call's own.
  bool keep_one_operand(std::vector<int>& call, std::vector<int>& later) const {
    const std::size_t operands = graph_.nodes[static_cast<std::size_t>(call[0])]->inputs.size();
    std::size_t fewest = call.size() / 2 + 1, chosen = operands;
    for (std::size_t i = 0; i < operands; ++i) {
      std::unordered_set<const ir::Node*> different;
      bool there = true;
      for (const int node : call) {
        const auto n = static_cast<std::size_t>(node);
        there = there && graph_.inputs[graph_.first_input[n] + i] < 0;
        different.insert(graph_.nodes[n]->inputs[i].node.get());
      }
      if (!there || different.size() < 2 || different.size() >= fewest || is_literal(operand(call[0], i))) continue;
      fewest = different.size();
      chosen = i;
    }
    if (chosen == operands) return false;
    const ir::Value kept = graph_.nodes[static_cast<std::size_t>(call[0])]->inputs[chosen];
    const auto rest = std::stable_partition(call.begin(), call.end(), [&](int node) {
      return graph_.nodes[static_cast<std::size_t>(node)]->inputs[chosen] == kept;
    });
    later.insert(later.end(), rest, call.end());
    call.erase(rest, call.end());
    return call.size() > 2;
  }

  const ir::Value& operand(int node, std::size_t input) const {
    return graph_.nodes[static_cast<std::size_t>(node)]->inputs[input];
  }

  const Recorded& graph_;
  std::vector<std::size_t> kind_of_;
  std::vector<int> depth_, waits_;
  std::vector<std::size_t> first_user_;
  std::vector<int> users_;
  std::vector<Kind> kinds_;
  std::unordered_map<ir::Fingerprint, std::size_t, ir::FingerprintHash> numbers_;
  std::vector<std::size_t> active_;  // kinds with calls that are ready
  std::vector<int> alone_;           // ready, and not to be joined
};

}  // namespace

Agenda agenda(const Recorded& graph) { return Schedule(graph).run(); }

}  // namespace varve
