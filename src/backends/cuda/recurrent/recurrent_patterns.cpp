// More in one kernel than a recurrence. The gates of all steps and their gradient are the largest tensors of a small
// layer by far: every pass over them that is saved counts.
#include <utility>

#include "backends/cuda/matmul/matmul_match.h"
#include "backends/cuda/recurrent/recurrent.h"
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

std::string refusal_of(const Site& site, const ir::Node& lstm) {
  const Shape& table = site.node().inputs[0].type().shape;
  for (std::size_t i = 1; i < lstm.inputs.size(); ++i)
    if (backend::depends_on(lstm.inputs[i], site.root().get())) return "a state or weight computed from the input";
  if (table[0] == 0) return "a table without rows";
  if (table[1] != lstm.types[3].shape[2]) return "rows that are not a step's gates";
  return "";
}

// What sums the gates' gradient over all but its columns.
ir::NodePtr bias_gradient(const Site& site) {
  const ir::Value d{site.root(), 0};
  const Shape& shape = d.type().shape;
  const auto readers = backend::readers_of(site, d);
  if (!readers) return nullptr;
  for (const backend::Reader& reader : *readers) {
    const ir::Node& node = *reader.node;
    if (!node.is("sum") || node.types[0] != TensorType{d.type().dtype, {shape[2]}}) continue;
    const Ints& axes = node.attrs.ints("axes");
    const bool whole = reader.value == d && axes == Ints{0, 1};
    if (whole || (backend::is_rows_of(reader.value, d, 0, shape[0] * shape[1]) && axes == Ints{0})) return reader.node;
  }
  return nullptr;
}

}  // namespace

void claim_gradient_with_bias(const Site& site, const CellOffer& offer, std::vector<Claim>& claims) {
  const ir::NodePtr bias = bias_gradient(site);
  if (!bias) return;
  auto [claim, call] = cell_claim(site, site.root(), offer);
  claim.kernel += "+bias";
  if (!claim.accepted()) return claims.push_back(std::move(claim));
  claim.nodes.push_back(bias);
  call.at[BackwardOperands::kDbias] = static_cast<int>(claim.outputs.size());
  claim.outputs.push_back({bias, 0});
  claim.prepare = [call](const auto&, const auto&) { return prepare_cell(call); };
  claims.push_back(std::move(claim));
}

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
