// A model's layers, cut into one stage for each rank.
#include <algorithm>
#include <limits>

#include "nn/state.h"
#include "varve/distributed.h"
#include "varve/nn/combine.h"

namespace varve::nn {
namespace {

struct Piece {
  std::string path;
  Layer layer;
  double work = 0;
};

void add_pieces(const std::string& path, const std::vector<std::pair<std::string, Layer>>& children,
                std::vector<Piece>& pieces) {
  for (const auto& [name, child] : children) {
    const std::string inner = join_path(path, name);
    const bool opens = child->kind() == "sequential" || child->kind() == "graph";
    if (opens && !child->children().empty())
      add_pieces(inner, child->children(), pieces);
    else
      pieces.push_back({inner, child});
  }
}

bool is_in(const std::string& path, const std::string& piece) { return path == piece || path.starts_with(piece + "."); }

// FLOPs of each; where none has any, parameters.
void weigh(const Summary& summary, std::vector<Piece>& pieces) {
  for (Piece& piece : pieces)
    for (const SummaryRow& row : summary.rows)
      if (is_in(row.path, piece.path))
        piece.work += summary.flops > 0 ? row.flops : static_cast<double>(row.parameters);
}

// The first piece of each stage, so that the largest stage is as small as can be.
std::vector<std::size_t> cut(const std::vector<Piece>& pieces, std::size_t stages) {
  const std::size_t count = pieces.size();
  std::vector<double> before(count + 1, 0);
  for (std::size_t i = 0; i < count; ++i) before[i + 1] = before[i] + pieces[i].work;
  constexpr double kNever = std::numeric_limits<double>::infinity();
  // largest[s][end]: of the first `end` pieces in s stages; from[s][end]: where the last of them begins.
  std::vector<std::vector<double>> largest(stages + 1, std::vector<double>(count + 1, kNever));
  std::vector<std::vector<std::size_t>> from(stages + 1, std::vector<std::size_t>(count + 1, 0));
  largest[0][0] = 0;
  for (std::size_t s = 1; s <= stages; ++s)
    for (std::size_t end = s; end <= count; ++end)
      for (std::size_t begin = s - 1; begin < end; ++begin) {
        const double now = std::max(largest[s - 1][begin], before[end] - before[begin]);
        if (now >= largest[s][end]) continue;
        largest[s][end] = now;
        from[s][end] = begin;
      }
  std::vector<std::size_t> firsts(stages);
  for (std::size_t s = stages, end = count; s > 0; --s) end = firsts[s - 1] = from[s][end];
  return firsts;
}

}  // namespace

void place_evenly(Module& model) {
  const auto ranks = static_cast<std::size_t>(distributed::size());
  std::vector<Piece> pieces;
  add_pieces("", model.children(), pieces);
  if (pieces.size() < ranks)
    throw Error(model.kind() + ": has " + std::to_string(pieces.size()) + " layers, which " + std::to_string(ranks) +
                " ranks cannot share as a pipeline: each takes one or more. Start fewer ranks, or place modules "
                "yourself: module.place({.rank = 1}).");
  if (ranks == 1) return;
  weigh(model.summarize(), pieces);
  const std::vector<std::size_t> firsts = cut(pieces, ranks);
  for (std::size_t stage = 0; stage < ranks; ++stage) {
    const std::size_t end = stage + 1 < ranks ? firsts[stage + 1] : pieces.size();
    for (std::size_t i = firsts[stage]; i < end; ++i) pieces[i].layer->place({.rank = static_cast<int>(stage)});
  }
}

}  // namespace varve::nn
