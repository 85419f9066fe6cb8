// The rnn, gru and lstm records and their gradients: a few big kernels instead of a loop over the steps.
#include "backends/cuda/recurrent/recurrent.h"

#include <algorithm>

#include "backend/match.h"
#include "base/levers.h"
#include "base/text.h"

namespace varve::cuda {

using backend::Claim;
using backend::Port;
using backend::Site;

namespace {

using In = ForwardOperands;
using Back = BackwardOperands;

bool contains(const std::vector<std::size_t>& list, std::size_t i) {
  return std::find(list.begin(), list.end(), i) != list.end();
}

std::size_t place_of(const std::vector<std::size_t>& operands, std::size_t operand) {
  return static_cast<std::size_t>(std::find(operands.begin(), operands.end(), operand) - operands.begin());
}

Tensor tensor_of(DType dtype, const backend::Choices& choices) {
  if (dtype == bf16) return Tensor::bf16;
  if (dtype == f16) return Tensor::f16;
  return dtype == f32 && choices.tf32 ? Tensor::tf32 : Tensor::none;
}

RecurrentShape shape_of(const Site& site, const ir::Node& node, const CellOffer& offer) {
  const auto input = [&](std::size_t operand) { return node.inputs[place_of(offer.in, operand)].type(); };
  // Whatever else a record has, a sequence is its first output or, in the backward pass, the gates' gradient.
  const Shape& sequence = node.types[0].shape;
  return {.pass = offer.pass,
          .gates = offer.gates,
          .steps = sequence[0],
          .batch = sequence[1],
          .width = input(offer.hidden()).shape[0],
          .real_bytes = input(offer.hidden()).dtype == f64 ? 8 : 4,
          .tensor = tensor_of(input(offer.hidden()).dtype, site.choices())};
}

// What the steps take one by one: each a product and a few small kernels.
double seconds_apart(const RecurrentShape& shape) {
  const double flops = 2.0 * static_cast<double>(shape.batch * shape.gates) * static_cast<double>(shape.width) *
                       static_cast<double>(shape.width);
  return static_cast<double>(shape.steps) * (8e-6 + flops / (shape.tensor == Tensor::none ? 40e12 : 250e12));
}

std::string refusal_of(const RecurrentShape& shape) {
  if (!lever("recurrent")) return kLeftOut;
  if (shape.batch == 0 || shape.width == 0) return "an empty batch or state";
  if (shape.steps > 1 << 30 || shape.batch > 1 << 30 || shape.width > 1 << 16) return "its size";
  return "";
}

}  // namespace

CellClaim cell_claim(const Site& site, const ir::NodePtr& node, const CellOffer& offer) {
  CellClaim made;
  auto& [claim, call] = made;
  claim.kernel = cat("cuda ", offer.op);
  claim.nodes = {node};
  call.offer = offer;
  call.shape = shape_of(site, *node, offer);
  call.dtype = node->types[0].dtype;
  if (node->inputs.size() == offer.in.size()) call.lengths = node->inputs.back().type().dtype;
  call.relu = offer.cell == "RNN" && node->attrs.flag("relu");
  call.at.fill(-1);
  claim.refusal = refusal_of(call.shape);
  if (!claim.refusal.empty()) return made;
  const std::optional<RecurrentPlan> plan = plan_recurrence(call.shape, gpu());
  if (!plan) claim.refusal = "more weights than the chip has room for";
  if (plan && plan->seconds > seconds_apart(call.shape)) claim.refusal = "faster step by step";
  if (!claim.refusal.empty()) return made;
  call.plan = *plan;
  for (std::size_t i = 0; i < node->inputs.size(); ++i) {
    if (contains(offer.zero_inputs, offer.in[i]) && backend::number_behind(node->inputs[i]) == 0.0) continue;
    call.at[offer.in[i]] = static_cast<int>(claim.inputs.size());
    claim.inputs.push_back(node->inputs[i]);
  }
  for (std::size_t o = 0; o < node->types.size(); ++o) {
    const ir::Value value{node, static_cast<int>(o)};
    if (contains(offer.residuals, offer.out[o]) && site.users(value).empty() && !site.is_output(value)) continue;
    call.at[offer.out[o]] = static_cast<int>(claim.outputs.size());
    claim.outputs.push_back(value);
  }
  for (const auto& [o, i] : offer.in_place) {
    const int to = call.at[static_cast<std::size_t>(o)], from = call.at[static_cast<std::size_t>(i)];
    if (to >= 0 && from >= 0) claim.in_place.push_back({to, from});
  }
  return made;
}

namespace {

void offer_cell(ClaimMap& map, const CellOffer& offer) {
  map[offer.op].push_back([offer](const Site& site, std::vector<Claim>& claims) {
    if (offer.pass == Pass::backward) claim_gradient_with_bias(site, offer, claims);
    auto [claim, call] = cell_claim(site, site.root(), offer);
    claim.prepare = [call](const std::vector<Port>&, const std::vector<Port>&) { return prepare_cell(call); };
    claims.push_back(std::move(claim));
  });
}

CellOffer lstm_grad_offer() {
  return {.op = "lstm_grad",
          .cell = "LSTM",
          .gates = 4,
          .pass = Pass::backward,
          .in = {Back::kHidden, Back::kC0, Back::kGates, Back::kCells, Back::kDy, Back::kDh, Back::kDc, Back::kLengths},
          .out = {Back::kDpre, Back::kDh0, Back::kDc0},
          .zero_inputs = {Back::kC0, Back::kDy, Back::kDh, Back::kDc},
          .residuals = {Back::kDh0, Back::kDc0},
          .in_place = {{Back::kDpre, Back::kGates}}};
}

CellOffer gru_offer() {
  return {.op = "gru",
          .cell = "GRU",
          .gates = 3,
          .in = {In::kPre, In::kHidden, In::kH0, In::kBias, In::kLengths},
          .out = {In::kY, In::kH, In::kGates},
          .zero_inputs = {In::kH0, In::kBias},
          .residuals = {In::kY, In::kH, In::kGates}};
}

CellOffer gru_grad_offer() {
  return {.op = "gru_grad",
          .cell = "GRU",
          .gates = 3,
          .pass = Pass::backward,
          .in = {Back::kHidden, Back::kH0, Back::kY, Back::kGates, Back::kDy, Back::kDh, Back::kLengths},
          .out = {Back::kDpre, Back::kDshare, Back::kDh0},
          .zero_inputs = {Back::kH0, Back::kDy, Back::kDh},
          .residuals = {Back::kDh0}};
}

CellOffer rnn_offer() {
  return {.op = "rnn",
          .cell = "RNN",
          .in = {In::kPre, In::kHidden, In::kH0, In::kLengths},
          .out = {In::kY, In::kH},
          .zero_inputs = {In::kH0},
          .residuals = {In::kY, In::kH},
          .in_place = {{In::kY, In::kPre}}};
}

CellOffer rnn_grad_offer() {
  return {.op = "rnn_grad",
          .cell = "RNN",
          .pass = Pass::backward,
          .in = {Back::kHidden, Back::kY, Back::kDy, Back::kDh, Back::kLengths},
          .out = {Back::kDpre, Back::kDh0},
          .zero_inputs = {Back::kDy, Back::kDh},
          .residuals = {Back::kDh0},
          .in_place = {{Back::kDpre, Back::kDy}}};
}

}  // namespace

CellOffer lstm_offer() {
  return {.op = "lstm",
          .cell = "LSTM",
          .gates = 4,
          .in = {In::kPre, In::kHidden, In::kH0, In::kC0, In::kLengths},
          .out = {In::kY, In::kH, In::kC, In::kGates, In::kCells},
          .zero_inputs = {In::kH0, In::kC0},
          .residuals = {In::kY, In::kH, In::kC, In::kGates, In::kCells},
          .in_place = {{In::kGates, In::kPre}}};
}

std::vector<CellOffer> cell_offers() {
  return {lstm_offer(), lstm_grad_offer(), gru_offer(), gru_grad_offer(), rnn_offer(), rnn_grad_offer()};
}

void add_recurrent_claims(ClaimMap& map) {
  map["embedding"].insert(map["embedding"].begin(), claim_lstm_with_table);  // before the rows alone
  for (const CellOffer& offer : cell_offers()) offer_cell(map, offer);
}

}  // namespace varve::cuda
