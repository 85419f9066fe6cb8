#include "backends/cpu/recurrent.h"

#include "base/convert.h"
#include "base/levers.h"
#include "base/text.h"

namespace varve::cpu {

using backend::Claim;
using backend::Port;
using backend::RunArgs;

// ---- blocks

Lengths::Lengths(const SequenceShape& shape, const void* given, DType dtype, void* scratch) : steps_(shape.steps) {
  auto* clamped = static_cast<std::int64_t*>(scratch);
  for (std::int64_t row = 0; row < shape.batch; ++row)
    clamped[row] = std::clamp<std::int64_t>(load_i(given, dtype, row), 0, steps_);
  data_ = clamped;
}

void SequenceBlock::last_state(const float* before, const Track<float>& y, float* h) const {
  const std::int64_t width = shape.width;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t length = lengths.of(first + row);
    copy((length == 0 ? before : y.at(length - 1)) + row * width, width, h + row * width);
  }
}

void SequenceBlock::start_gradient(const float* final, float* d) const {
  if (final)
    copy(final, rows * shape.width, d);
  else
    std::fill_n(d, rows * shape.width, 0.f);
}

void SequenceBlock::start_gradient_at(std::int64_t t, const float* final, float* d) const {
  if (!lengths.vary()) return;
  const std::int64_t width = shape.width;
  for (std::int64_t row = 0; row < rows; ++row) {
    if (lengths.of(first + row) != t) continue;
    if (final)
      copy(final + row * width, width, d + row * width);
    else
      std::fill_n(d + row * width, width, 0.f);
  }
}

void SequenceBlock::add(const float* dy, float* d) const {
  if (!dy) return;
  const std::int64_t count = rows * shape.width;
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) d[i] += dy[i];
}

// ---- kernels

CellKernel::CellKernel(CellCall call, const Spec& spec)
    : call_(std::move(call)),
      spec_(spec),
      blocks_(RowBlocks::of(call_.shape.batch, call_.setting)),
      product_(spec.product, blocks_, call_.setting) {}

std::size_t CellKernel::scratch_bytes() const {
  return Lengths::scratch_bytes(has_lengths(), call_.shape.batch) + product_.scratch_bytes() +
         lane_bytes() * static_cast<std::size_t>(blocks_.lanes);
}

void CellKernel::run(const RunArgs& args) {
  const SequenceShape& shape = call_.shape;
  Carver memory(static_cast<std::byte*>(args.scratch));
  auto* numbers = memory.take<std::byte>(Lengths::scratch_bytes(has_lengths(), shape.batch));
  auto* product = memory.take<std::byte>(product_.scratch_bytes());
  auto* own = memory.take<std::byte>(0);
  const Lengths lengths =
      has_lengths() ? Lengths(shape, args.in[call_.in[spec_.lengths]], call_.lengths, numbers) : Lengths(shape.steps);
  const StepProduct::Weights weights = product_.load(call_.input(args, spec_.hidden), product);
  blocks_.each([&](std::int64_t lane, std::int64_t first, std::int64_t rows) {
    auto* scratch = reinterpret_cast<float*>(own + lane * static_cast<std::int64_t>(lane_bytes()));
    run_block(args, {{shape, lengths, lane, first, rows, lengths.longest(first, rows)}, weights, scratch});
  });
}

// ---- claims

namespace {

std::string refusal_of(const ir::Node& node, const CellOffer& offer) {
  const TensorType& sequence = node.inputs[offer.sequence].type();
  const Shape& hidden = node.inputs[offer.hidden].type().shape;
  if (sequence.dtype != f32) return name(sequence.dtype);
  return sequence.shape[1] == 0 || hidden.numel() == 0 ? "an empty batch or state" : "";
}

bool is_zero(const ir::Value& value) {
  const ir::Node& node = *value.node;
  if (node.op->view && !node.inputs.empty()) return is_zero(node.inputs[0]);
  return node.is("fill") && node.attrs.number("value") == 0;
}

bool contains(const std::vector<std::size_t>& list, std::size_t i) {
  return std::find(list.begin(), list.end(), i) != list.end();
}

// The claim without what need not be read or written, and where the rest went.
void leave_out(const backend::Site& site, const CellOffer& offer, Claim& claim, CellCall& call) {
  const ir::Node& node = site.node();
  claim.inputs.clear();
  claim.outputs.clear();
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const bool out = contains(offer.zero_inputs, i) && is_zero(node.inputs[i]);
    call.in.push_back(out ? -1 : static_cast<int>(claim.inputs.size()));
    if (!out) claim.inputs.push_back(node.inputs[i]);
  }
  for (std::size_t o = 0; o < node.types.size(); ++o) {
    const ir::Value value{site.root(), static_cast<int>(o)};
    const bool out = contains(offer.residuals, o) && site.users(value).empty() && !site.is_output(value);
    call.out.push_back(out ? -1 : static_cast<int>(claim.outputs.size()));
    if (!out) claim.outputs.push_back(value);
  }
  claim.in_place.clear();
  for (const auto& [o, i] : offer.in_place) {
    const int to = call.out[static_cast<std::size_t>(o)], from = call.in[static_cast<std::size_t>(i)];
    if (to >= 0 && from >= 0) claim.in_place.push_back({to, from});
  }
}

}  // namespace

void offer_cell(ClaimMap& map, const CellOffer& offer) {
  map[offer.op].push_back([offer](const backend::Site& site, std::vector<Claim>& claims) {
    const ir::Node& node = site.node();
    const std::string kernel = cat("cpu ", offer.op);
    if (!lever("recurrent")) return claims.push_back(Claim::no(kernel, kLeftOut));
    if (const std::string refusal = refusal_of(node, offer); !refusal.empty())
      return claims.push_back(Claim::no(kernel, refusal));
    const Shape& sequence = node.inputs[offer.sequence].type().shape;
    CellCall call{.attrs = node.attrs,
                  .shape = {sequence[0], sequence[1], node.inputs[offer.hidden].type().shape[0]},
                  .setting = Setting::now(),
                  .in = {},
                  .out = {},
                  .lengths = node.inputs.back().type().dtype};
    Claim claim = Claim::of(kernel, site.root(), {});
    leave_out(site, offer, claim, call);
    claim.prepare = [call, prepare = offer.prepare](const std::vector<Port>&, const std::vector<Port>&) {
      return prepare(call);
    };
    claims.push_back(std::move(claim));
  });
}

void add_recurrent_claims(ClaimMap& map) {
  add_lstm_claims(map);
  add_gru_claims(map);
  add_rnn_claims(map);
}

}  // namespace varve::cpu
