#include "backends/cuda/groups/groups.h"

#include <algorithm>
#include <map>

#include "backends/cuda/claims.h"
#include "backends/cuda/device/counters.h"
#include "backends/cuda/device/fill.h"
#include "backends/cuda/device/function.h"
#include "backends/cuda/groups/groups_plan.h"
#include "backends/cuda/groups/groups_text.h"
#include "base/text.h"

namespace varve::cuda {
namespace {

using backend::Port;
using backend::Prepared;
using backend::RunArgs;

std::size_t padded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

struct PlannedGroup {
  GroupPlan plan;
  int first_in = 0, first_out = 0;  // of its part, among the operands of all
};

// One launch: the groups sorted by kind, and the words of its argument in which pointers are still missing.
class Merged {
 public:
  explicit Merged(std::vector<PlannedGroup> groups) {
    std::map<std::string, std::vector<PlannedGroup*>> kinds;
    for (PlannedGroup& group : groups) kinds[group_text(group.plan)].push_back(&group);
    std::vector<std::string> texts;
    std::vector<int> counts;
    std::size_t shared = 0;
    for (std::size_t i = 0; i < groups.size(); i += 2) words_.add(std::uint64_t{0});
    for (auto& [text, members] : kinds) {
      texts.push_back(text);
      counts.push_back(static_cast<int>(members.size()));
      for (PlannedGroup* group : members) {
        shared = std::max(shared, shared_bytes(group->plan));
        add(*group);
      }
    }
    for (std::size_t i = 0; i < ends_.size(); i += 2)
      words_.set(i / 2, ends_[i] | (i + 1 < ends_.size() ? ends_[i + 1] << 32 : 0));
    function_ = Function("groups", groups_kernel(texts, counts, shared));
  }

  // Whether every operand that is moved in pieces of up to 16 bytes lies at a multiple of them.
  bool aligned(const RunArgs& args) const {
    return std::all_of(pointers_.begin(), pointers_.end(), [&](const Pointer& pointer) {
      const void* address = pointer.output ? args.out[pointer.operand] : args.in[pointer.operand];
      return reinterpret_cast<std::uintptr_t>(address) % pointer.alignment == 0;
    });
  }

  void run(const RunArgs& args, const ir::Remote* counters) const {
    Words words = words_;
    for (const Pointer& pointer : pointers_)
      words.set(pointer.word, pointer.output ? args.out[pointer.operand] : args.in[pointer.operand]);
    for (const Inner& inner : inner_) {
      words.set(inner.word, static_cast<std::byte*>(args.scratch) + inner.scratch);
      if (counters) words.set(inner.word + 1, static_cast<std::uint32_t*>(counters->address) + inner.counters);
    }
    words.start(function_, {.grid = blocks_, .block = kGroupThreads});
  }

 private:
  struct Pointer {
    std::size_t word, operand, alignment;
    bool output;
  };
  struct Inner {  // scratch memory and counters of a reduction
    std::size_t word, scratch, counters;
  };

  void add(const PlannedGroup& group) {
    const GroupPlan& plan = group.plan;
    for (const GroupOperand& operand : plan.operands) {
      const std::size_t bytes = size_of(operand.dtype) * static_cast<std::size_t>(plan.width);
      const bool vector = plan.reach(operand) == Reach::vector;
      const int first = operand.output ? group.first_out : group.first_in;
      pointers_.push_back({words_.size(), static_cast<std::size_t>(first + operand.number),
                           vector ? std::min<std::size_t>(bytes, 16) : 1, operand.output});
      words_.add(std::uint64_t{0});
    }
    if (plan.walk != Walk::flat) {
      inner_.push_back({words_.size(), scratch_, counters_});
      words_.add(std::uint64_t{0});
      words_.add(std::uint64_t{0});
      scratch_ += padded(plan.scratch_bytes());
      if (plan.slices > 1) counters_ += static_cast<std::size_t>(plan.tiles);
    }
    add_group_words(plan, words_);
    blocks_ += plan.blocks();
    ends_.push_back(static_cast<std::uint64_t>(blocks_));
  }

  Words words_;
  std::vector<std::uint64_t> ends_;
  std::vector<Pointer> pointers_;
  std::vector<Inner> inner_;
  std::int64_t blocks_ = 0;
  std::size_t scratch_ = 0, counters_ = 0;
  Function function_;
};

std::vector<PlannedGroup> planned(const std::vector<GroupPart>& parts, bool vectors) {
  std::vector<PlannedGroup> groups;
  int first_in = 0, first_out = 0;
  for (const GroupPart& part : parts) {
    for (GroupPlan& plan : plan_group(part, vectors)) groups.push_back({std::move(plan), first_in, first_out});
    first_in += static_cast<int>(part.in.size());
    first_out += static_cast<int>(part.out.size());
  }
  return groups;
}

std::size_t words_of(const PlannedGroup& group) {
  Words words;
  add_group_words(group.plan, words);
  return group.plan.operands.size() + 3 + words.size();
}

// As few launches as the size of their arguments allows.
std::vector<Merged> launches(const std::vector<GroupPart>& parts, bool vectors) {
  std::vector<Merged> result;
  std::vector<PlannedGroup> groups;
  std::size_t words = 0;
  const auto finish = [&] {
    if (!groups.empty()) result.emplace_back(std::exchange(groups, {}));
    words = 0;
  };
  for (PlannedGroup& group : planned(parts, vectors)) {
    if (words + words_of(group) > kMostWords) finish();
    words += words_of(group);
    groups.push_back(std::move(group));
  }
  finish();
  return result;
}

// Bytes of scratch memory, and numbers of counters.
struct Needs {
  std::size_t scratch = 0, counters = 0;

  explicit Needs(const std::vector<PlannedGroup>& groups) {
    for (const PlannedGroup& group : groups) {
      scratch += padded(group.plan.scratch_bytes());
      if (group.plan.slices > 1) counters += static_cast<std::size_t>(group.plan.tiles);
    }
  }
};

// Operands are nearly always aligned; kernels for those that are not are made when they are first seen.
class GroupsKernel final : public backend::Kernel {
 public:
  GroupsKernel(std::vector<GroupPart> parts, std::size_t counters)
      : parts_(std::move(parts)), fast_(launches(parts_, true)), counters_(zero_counters(counters)) {}

  void run(const RunArgs& args) override {
    const bool aligned = std::all_of(fast_.begin(), fast_.end(), [&](const Merged& m) { return m.aligned(args); });
    if (!aligned && slow_.empty()) slow_ = launches(parts_, false);
    for (const Merged& merged : aligned ? fast_ : slow_) merged.run(args, counters_.get());
  }

 private:
  std::vector<GroupPart> parts_;
  std::vector<Merged> fast_, slow_;
  std::shared_ptr<ir::Remote> counters_;  // zero between launches
};

// A program outlives the graph it came from: what is kept names no node.
GroupPart without_nodes(GroupPart part) {
  part.group.nodes.clear();
  part.group.inputs.clear();
  part.group.outputs.clear();
  return part;
}

}  // namespace

Prepared prepare_merged(const std::vector<GroupPart>& parts) {
  std::vector<GroupPart> kept;
  for (const GroupPart& part : parts) kept.push_back(without_nodes(part));
  const Needs fast(planned(kept, true)), slow(planned(kept, false));
  return {std::make_unique<GroupsKernel>(std::move(kept), std::max(fast.counters, slow.counters)),
          std::max(fast.scratch, slow.scratch)};
}

namespace {

// Lets the driver do it where the group is but one number everywhere.
void fill_instead(const backend::Group& group, backend::Claim& claim) {
  const ir::Node& node = *group.nodes.front();
  if (group.nodes.size() > 1 || !node.is("fill")) return;
  const double number = node.attrs.number("value");
  if (!driver_fills(node.types[0].dtype, number)) return;
  claim.kernel = "cuda fill";
  claim.prepare = [number, generated = claim.prepare](const std::vector<Port>& in, const std::vector<Port>& out) {
    const bool contiguous = is_contiguous(out[0].type.shape, out[0].layout);
    return contiguous ? prepare_fill(out[0].type, number) : generated(in, out);
  };
}

}  // namespace

backend::Claim offer_group(const backend::Group& group) { return offer_groups({group}); }

backend::Claim offer_groups(const std::vector<backend::Group>& groups) {
  backend::Claim claim;
  claim.kernel = groups.size() == 1 ? "generated" : cat("generated, ", groups.size(), " in one");
  for (const backend::Group& group : groups) {
    const std::string refusal = formula_refusal(group.code, group.compute);
    if (!refusal.empty()) return backend::Claim::no("generated", refusal);
    claim.nodes.insert(claim.nodes.end(), group.nodes.begin(), group.nodes.end());
    claim.inputs.insert(claim.inputs.end(), group.inputs.begin(), group.inputs.end());
    claim.outputs.insert(claim.outputs.end(), group.outputs.begin(), group.outputs.end());
  }
  claim.memory.assign(claim.inputs.size(), backend::Memory::strided);
  claim.prepare = [groups](const std::vector<Port>& in, const std::vector<Port>& out) {
    std::vector<GroupPart> parts;
    auto next_in = in.begin();
    auto next_out = out.begin();
    for (const backend::Group& group : groups) {
      const auto ins = static_cast<std::ptrdiff_t>(group.inputs.size()),
                 outs = static_cast<std::ptrdiff_t>(group.outputs.size());
      parts.push_back({group, {next_in, next_in + ins}, {next_out, next_out + outs}});
      next_in += ins;
      next_out += outs;
    }
    return prepare_merged(parts);
  };
  if (groups.size() == 1) fill_instead(groups.front(), claim);
  return claim;
}

}  // namespace varve::cuda
