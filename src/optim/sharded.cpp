#include "optim/sharded.h"

#include "varve/distributed.h"
#include "varve/ops.h"

namespace varve::optim {
namespace {

namespace dist = distributed;

// A message costs some 50 µs before its first byte; above this size it no longer matters, and memory does.
constexpr std::int64_t kEnoughBytes = std::int64_t{8} << 20;

std::int64_t part_of(std::int64_t elements) { return (elements + dist::size() - 1) / dist::size(); }

// Runs of neighbours of one type, each of about that size: [begin, end).
std::vector<std::pair<std::size_t, std::size_t>> groups_of(const std::vector<Tensor>& values) {
  std::vector<std::pair<std::size_t, std::size_t>> groups;
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool opens = groups.empty() || bytes >= kEnoughBytes || values[i].dtype() != values[i - 1].dtype();
    if (opens) groups.emplace_back(i, i), bytes = 0;
    groups.back().second = i + 1;
    bytes += values[i].type().bytes();
  }
  return groups;
}

// A row for each rank: its part.
Tensor in_rows(const Tensor& value) {
  const std::int64_t elements = value.numel(), part = part_of(elements), all = part * dist::size();
  const Tensor flat = value.reshape({elements});
  return (all == elements ? flat : pad(flat, {{0, all - elements}})).reshape({dist::size(), part});
}

}  // namespace

std::vector<Tensor> scatter_means(const std::vector<Tensor>& values) {
  std::vector<Tensor> means;
  for (const auto& [begin, end] : groups_of(values)) {
    std::vector<Tensor> rows;
    std::vector<std::int64_t> sizes;
    for (std::size_t i = begin; i < end; ++i) {
      rows.push_back(in_rows(values[i]));
      sizes.push_back(rows.back().dim(1));
    }
    const Tensor sums = dist::scatter_gradients(concat(rows, 1).reshape({-1}));
    for (const Tensor& part : split(sums, sizes, 0)) means.push_back(part * (1.0 / dist::size()));
  }
  return means;
}

std::vector<Tensor> gather_wholes(const std::vector<Tensor>& parts, const std::vector<Shape>& shapes) {
  std::vector<Tensor> wholes;
  for (const auto& [begin, end] : groups_of(parts)) {
    const std::vector<Tensor> group(parts.begin() + static_cast<std::ptrdiff_t>(begin),
                                    parts.begin() + static_cast<std::ptrdiff_t>(end));
    const Tensor rows = dist::all_gather(concat(group, 0)).reshape({dist::size(), -1});
    std::int64_t at = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const std::int64_t part = parts[i].dim(0), elements = shapes[i].numel();
      const Tensor flat = rows.slice({{0, dist::size()}, {at, at + part}}).reshape({-1});
      wholes.push_back(flat.slice({{0, elements}}).reshape(shapes[i]));
      at += part;
    }
  }
  return wholes;
}

}  // namespace varve::optim
