// An LSTM whose gates are rows of a table: the recurrence takes them itself, and the gates of all steps, the largest
// tensor of a small layer by far, are never written.
#include <limits>
#include <unordered_set>
#include <utility>

#include "backends/cuda/recurrent.h"
#include "base/text.h"

namespace varve::cuda {

using backend::Claim;
using backend::Site;

namespace {

using Op = ForwardOperands;

// The recurrence that reads the rows and nothing else does, perhaps through a reshape.
ir::NodePtr lstm_after(const Site& site) {
  ir::Value value{site.root(), 0};
  ir::NodePtr next = site.sole_user(value);
  if (next && next->is("reshape")) {
    value = {next, 0};
    next = site.sole_user(value);
  }
  return next && next->is("lstm") && next->inputs[0] == value ? next : nullptr;
}

bool depends_on(const ir::Value& value, const ir::Node* node) {
  std::unordered_set<const ir::Node*> seen;
  std::vector<const ir::Node*> stack{value.node.get()};
  while (!stack.empty()) {
    const ir::Node* next = stack.back();
    stack.pop_back();
    if (next == node) return true;
    // Inputs are older than what reads them.
    if (next->id < node->id || !seen.insert(next).second) continue;
    for (const ir::Value& input : next->inputs) stack.push_back(input.node.get());
  }
  return false;
}

std::string refusal_of(const Site& site, const ir::Node& lstm) {
  const Shape& table = site.node().inputs[0].type().shape;
  for (std::size_t i = 1; i < lstm.inputs.size(); ++i)
    if (depends_on(lstm.inputs[i], site.root().get())) return "a state or weight computed from the input";
  if (table[0] == 0) return "a table without rows";
  if (table[1] != lstm.types[3].shape[2]) return "rows that are not a step's gates";
  return "";
}

}  // namespace

void claim_lstm_with_table(const Site& site, std::vector<Claim>& claims) {
  const char* const kernel = "cuda lstm+table";
  const ir::NodePtr lstm = lstm_after(site);
  if (!lstm) return;
  if (std::string refusal = refusal_of(site, *lstm); !refusal.empty())
    return claims.push_back(Claim::no(kernel, std::move(refusal)));
  auto [claim, call] = cell_claim(site, lstm, lstm_offer());
  claim.kernel = kernel;
  if (!claim.accepted()) return claims.push_back(std::move(claim));
  const std::int64_t rows = site.node().inputs[0].type().shape[0];
  claim.nodes.push_back(site.root());
  claim.in_place.clear();
  // The table stands where the gates would.
  claim.inputs[static_cast<std::size_t>(call.at[Op::kPre])] = site.node().inputs[0];
  call.at[Op::kTable] = std::exchange(call.at[Op::kPre], -1);
  call.at[Op::kIds] = static_cast<int>(claim.inputs.size());
  claim.inputs.push_back(site.node().inputs[1]);
  call.table = {.rows = rows,
                .ids = site.node().inputs[1].type().dtype,
                .out_of_range = cat(site.node().op->name, ": index out of range [0, ", rows, ") along axis 0.")};
  claim.prepare = [call](const auto&, const auto&) { return prepare_cell(call); };
  claims.push_back(std::move(claim));
}

}  // namespace varve::cuda
