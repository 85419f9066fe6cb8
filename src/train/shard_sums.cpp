#include "train/shard_sums.h"

#include <algorithm>

#include "varve/distributed.h"
#include "varve/ops.h"

namespace varve::train {
namespace {

namespace dist = distributed;

// A message costs some 50 µs before its first byte; above this size it no longer matters, and memory does.
constexpr std::int64_t kEnoughBytes = std::int64_t{8} << 20;

// Sums of subtrees wait for their siblings: as many at a time as this.
std::size_t most_waiting(const ShardRange& range) {
  std::size_t most = 0;
  for (std::int64_t end = range.begin + 1; end < range.end; ++end)
    most = std::max(most, roots_of({range.begin, end}).size());
  return most;
}

std::int64_t bytes_of(const std::vector<Variable>& variables) {
  std::int64_t bytes = 0;
  for (const Variable& variable : variables) bytes += static_cast<std::int64_t>(variable.type().bytes());
  return bytes;
}

// Neighbours of one type, several to a message: [begin, end).
std::vector<std::pair<std::size_t, std::size_t>> groups_of(const std::vector<Variable>& values) {
  std::vector<std::pair<std::size_t, std::size_t>> groups;
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (groups.empty() || bytes >= kEnoughBytes || values[i].type().dtype != values[i - 1].type().dtype)
      groups.emplace_back(i, i), bytes = 0;
    groups.back().second = i + 1;
    bytes += static_cast<std::int64_t>(values[i].type().bytes());
  }
  return groups;
}

// One after the other, filled up with zeros, a row for each rank.
Tensor in_rows(const std::vector<Variable>& values, std::size_t begin, std::size_t end) {
  std::vector<Tensor> flat;
  for (std::size_t i = begin; i < end; ++i) flat.push_back(values[i].value().reshape({-1}));
  const Tensor all = concat(flat, 0);
  const std::int64_t part = (all.numel() + dist::size() - 1) / dist::size(), more = part * dist::size() - all.numel();
  return (more == 0 ? all : pad(all, {{0, more}})).reshape({dist::size(), 1, part});
}

}  // namespace

ShardSums::ShardSums(std::int64_t shards, const std::vector<TensorType>& types)
    : shards_(shards),
      own_(shards_of_rank(shards, dist::rank(), dist::size())),
      roots_(roots_of(own_)),
      next_(own_.begin) {
  const auto variables = [&](const std::string& name) {
    std::vector<Variable> made;
    for (const TensorType& type : types) made.emplace_back(name, zeros(type.shape, type.dtype), false);
    return made;
  };
  values_ = variables("shard");
  for (std::size_t slot = 0; slot < most_waiting(own_); ++slot) slots_.push_back(variables("shards"));
  make_programs();
}

void ShardSums::make_programs() {
  for (std::size_t slot = 0; slot < slots_.size(); ++slot)
    folds_.push_back(compile(
        [this, slot] {
          for (std::size_t i = 0; i < values_.size(); ++i)
            values_[i].assign(slots_[slot][i].value() + values_[i].value());
        },
        {.name = "add shards"}));
  if (dist::size() == 1 && roots_.size() == 1) return;
  combine_ = std::make_unique<Program>(compile(
      [this] {
        const ShardValues sums = dist::size() == 1 ? sum_of_shards(shards_, own_subtrees()) : sum_over_ranks();
        for (std::size_t i = 0; i < values_.size(); ++i) values_[i].assign(sums[i]);
      },
      {.name = "add shards of ranks"}));
}

void ShardSums::set_aside(std::size_t slot) {
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const Tensor sum = values_[i].value();
    values_[i].assign(slots_[slot][i].value());
    slots_[slot][i].assign(sum);
  }
}

void ShardSums::take() {
  ShardNode node{0, next_++};
  for (; !waiting_.empty() && are_siblings(waiting_.back(), node); waiting_.pop_back()) {
    folds_[waiting_.size() - 1]();
    node = parent_of(node);
  }
  if (next_ == own_.end) return;
  set_aside(waiting_.size());
  waiting_.push_back(node);
}

void ShardSums::finish() {
  if (combine_) (*combine_)();
  waiting_.clear();
  next_ = own_.begin;
}

std::map<ShardNode, ShardValues> ShardSums::own_subtrees() const {
  std::map<ShardNode, ShardValues> subtrees;
  for (std::size_t r = 0; r < roots_.size(); ++r) {
    ShardValues& sums = subtrees[roots_[r]];
    for (const Variable& value : r + 1 == roots_.size() ? values_ : slots_[r]) sums.push_back(value.value());
  }
  return subtrees;
}

// Each rank adds all subtrees of its part of the elements, and gathers the others' parts. The engine adds nothing.
ShardValues ShardSums::sum_over_ranks() const {
  std::vector<std::vector<ShardNode>> all_roots;
  std::size_t most = 0;
  for (int r = 0; r < dist::size(); ++r) {
    all_roots.push_back(roots_of(shards_of_rank(shards_, r, dist::size())));
    most = std::max(most, all_roots.back().size());
  }
  ShardValues sums;
  for (const auto& [begin, end] : groups_of(values_)) {
    std::vector<Tensor> rows;
    for (std::size_t r = 0; r < most;
         ++r)  // ranks may have unlike numbers of roots: what is sent beside them is not read
      rows.push_back(in_rows(r + 1 < roots_.size() ? slots_[r] : values_, begin, end));
    const Tensor got = dist::all_to_all(concat(rows, 1));
    const std::int64_t part = got.dim(2);
    std::map<ShardNode, ShardValues> subtrees;
    for (int r = 0; r < dist::size(); ++r)
      for (std::size_t root = 0; root < all_roots[static_cast<std::size_t>(r)].size(); ++root) {
        const auto at = static_cast<std::int64_t>(root);
        subtrees[all_roots[static_cast<std::size_t>(r)][root]] = {
            got.slice({{r, r + 1}, {at, at + 1}, {0, part}}).reshape({part})};
      }
    const Tensor all = dist::all_gather(sum_of_shards(shards_, subtrees)[0]);
    std::int64_t at = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const std::int64_t count = values_[i].shape().numel();
      sums.push_back(all.slice({{at, at + count}}).reshape(values_[i].shape()));
      at += count;
    }
  }
  return sums;
}

std::int64_t ShardSums::bytes_of_values() const { return bytes_of(values_); }

std::int64_t ShardSums::bytes_beside() {
  const std::int64_t each = bytes_of_values();
  // The program that combines them reads the values and, but for the last root, one slot for each root.
  const std::int64_t arena =
      combine_ ? combine_->peak_bytes() - each * static_cast<std::int64_t>(roots_.size()) : std::int64_t{0};
  return each * static_cast<std::int64_t>(slots_.size()) + arena;
}

}  // namespace varve::train
