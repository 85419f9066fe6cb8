#include "backends/cpu/recurrent/recurrent.h"
#include "backend/match.h"

#include "backends/cpu/tile/kernels.h"
#include "base/convert.h"
#include "base/levers.h"
#include "base/text.h"
#include "base/threads.h"

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

void SequenceBlock::last_state(const Series& before, const Series& y, const Series& h, DType dtype) const {
  const std::size_t bytes = static_cast<std::size_t>(shape.width) * size_of(dtype);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t length = lengths.of(first + row);
    const auto skipped = row * static_cast<std::int64_t>(bytes);
    const void* from = length == 0 ? before.raw(0) : y.raw(length - 1);
    std::memcpy(static_cast<std::byte*>(h.raw(0)) + skipped, static_cast<const std::byte*>(from) + skipped, bytes);
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

// ---- steps of either type

void* Series::raw(std::int64_t t) const {
  return const_cast<std::byte*>(static_cast<const std::byte*>(data_)) +
         t * step_ * static_cast<std::int64_t>(size_of(dtype_));
}

const float* Series::read(std::int64_t t, std::int64_t count, float* room) const {
  if (!data_) return nullptr;
  if (is_f32()) return floats(raw(t));
  from_half(raw(t), count, room);
  return room;
}

void Series::keep(std::int64_t t, std::int64_t count, const float* from) const {
  if (!data_) return;
  if (is_f32())
    copy(from, count, floats(raw(t)));
  else
    to_half(from, count, raw(t));
}

void Series::zero(std::int64_t t, std::int64_t count) const {
  if (data_) std::memset(raw(t), 0, static_cast<std::size_t>(count) * size_of(dtype_));
}

plain::Fetch Series::fetch(std::int64_t t, std::int64_t count) const {
  return {floats(raw(t)), count * static_cast<std::int64_t>(size_of(dtype_)) / 4};
}

void from_half(const void* from, std::int64_t count, float* to) {
  static const KernelFn load = load_kernel(bf16, f32);
  load(from, nullptr, nullptr, to, static_cast<std::size_t>(count));
}

void to_half(const float* from, std::int64_t count, void* to) {
  static const KernelFn store = store_kernel(f32, bf16);
  store(from, nullptr, nullptr, to, static_cast<std::size_t>(count));
}

// ---- kernels

CellKernel::CellKernel(CellCall call, Spec spec)
    : call_(std::move(call)),
      spec_(std::move(spec)),
      blocks_(RowBlocks::of(call_.shape.batch, call_.setting, spec_.enough_rows)) {
  for (const Factor& factor : spec_.factors) factors_.emplace_back(factor.product);
}

// Room behind the last row too: products read whole vectors.
std::size_t CellKernel::worker_bytes() const {
  return spec_.worker_floats + spec_.worker_more == 0
             ? 0
             : float_bytes(spec_.worker_floats * blocks_.block + spec_.worker_more + plain::vector_columns());
}

std::size_t CellKernel::wide_bytes() const {
  std::int64_t most = 0;
  for (const Factor& factor : spec_.factors) most = std::max(most, factor.product.k * factor.product.n);
  return call_.dtype == f32 ? 0 : float_bytes(most);
}

std::size_t CellKernel::scratch_bytes() const {
  std::size_t bytes = Lengths::scratch_bytes(call_.has_input(spec_.lengths), call_.shape.batch);
  for (const StepProduct& factor : factors_) bytes += factor.scratch_bytes();
  return bytes + wide_bytes() + table_bytes() + sum_bytes() * static_cast<std::size_t>(sums()) +
         worker_bytes() * static_cast<std::size_t>(blocks_.workers);
}

const float* CellKernel::load_table(const RunArgs& args, float* room) const {
  if (spec_.table_floats == 0 || call_.dtype == f32) return call_.input(args, spec_.table);
  const auto* halves = static_cast<const bfloat16*>(args.in[call_.in[spec_.table]]);
  parallel_for(spec_.table_floats, 4096,
               [&](std::int64_t begin, std::int64_t end) { from_half(halves + begin, end - begin, room + begin); });
  return room;
}

void CellKernel::run(const RunArgs& args) {
  const SequenceShape& shape = call_.shape;
  const bool vary = call_.has_input(spec_.lengths);
  Carver memory(static_cast<std::byte*>(args.scratch));
  auto* numbers = memory.take<std::byte>(Lengths::scratch_bytes(vary, shape.batch));
  const Lengths lengths =
      vary ? Lengths(shape, args.in[call_.in[spec_.lengths]], call_.lengths, numbers) : Lengths(shape.steps);
  std::array<const float*, kMostFactors> weights{};
  auto* wide = memory.take<float>(wide_bytes() / sizeof(float));
  for (std::size_t f = 0; f < factors_.size(); ++f) {
    const StepSpec& product = spec_.factors[f].product;
    const float* given = call_.input(args, spec_.factors[f].weights);
    if (call_.dtype != f32) from_half(given, product.k * product.n, wide);
    weights[f] =
        factors_[f].load(call_.dtype == f32 ? given : wide, memory.take<std::byte>(factors_[f].scratch_bytes()));
  }
  const float* table = load_table(args, memory.take<float>(table_bytes() / sizeof(float)));
  const std::int64_t stride = static_cast<std::int64_t>(sum_bytes() / sizeof(float));
  auto* sums = memory.take<float>(static_cast<std::size_t>(stride * this->sums()));
  auto* own = memory.take<std::byte>(0);
  blocks_.each([&](std::int64_t worker, std::int64_t first, std::int64_t rows) {
    auto* scratch = reinterpret_cast<float*>(own + worker * static_cast<std::int64_t>(worker_bytes()));
    const std::int64_t block = first / blocks_.block, which = call_.setting.deterministic ? block : worker;
    if (which == block) std::fill_n(sums + which * stride, stride, 0.f);  // a worker's first block has its number
    run_block(args, {.block = {shape, lengths, worker, first, rows, lengths.longest(first, rows)},
                     .weights = weights,
                     .table = table,
                     .scratch = scratch,
                     .sums = sums + which * stride});
  });
  add_up(sums);
  finish(args, sums);
}

// All into the first, in the order of the blocks.
void CellKernel::add_up(float* sums) const {
  const std::int64_t stride = static_cast<std::int64_t>(sum_bytes() / sizeof(float)), count = this->sums();
  if (count == 1) return;
  parallel_for(spec_.sum_floats, 4096, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = 1; part < count; ++part)
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) sums[i] += sums[part * stride + i];
  });
}

// ---- claims

std::string cell_refusal(const ir::Node& node, const CellOffer& offer) {
  if (!lever("recurrent")) return kLeftOut;
  const TensorType& sequence = node.inputs[offer.sequence].type();
  const Shape& hidden = node.inputs[offer.hidden].type().shape;
  if (sequence.dtype != f32 && !(offer.half && sequence.dtype == bf16)) return name(sequence.dtype);
  return sequence.shape[1] == 0 || hidden.numel() == 0 ? "an empty batch or state" : "";
}

namespace {

bool contains(const std::vector<std::size_t>& list, std::size_t i) {
  return std::find(list.begin(), list.end(), i) != list.end();
}

}  // namespace

CellClaim cell_claim(const backend::Site& site, const ir::NodePtr& node, const CellOffer& offer) {
  const Shape& sequence = node->inputs[offer.sequence].type().shape;
  Claim claim;
  claim.kernel = cat("cpu ", offer.op);
  claim.nodes = {node};
  CellCall call{.attrs = node->attrs,
                .shape = {sequence[0], sequence[1], node->inputs[offer.hidden].type().shape[0]},
                .setting = Setting::now(),
                .in = {},
                .out = {},
                .lengths = node->inputs.back().type().dtype,
                .dtype = node->inputs[offer.sequence].type().dtype};
  for (std::size_t i = 0; i < node->inputs.size(); ++i) {
    const bool out = contains(offer.zero_inputs, i) && backend::number_behind(node->inputs[i]) == 0.0;
    call.in.push_back(out ? -1 : static_cast<int>(claim.inputs.size()));
    if (!out) claim.inputs.push_back(node->inputs[i]);
  }
  for (std::size_t o = 0; o < node->types.size(); ++o) {
    const ir::Value value{node, static_cast<int>(o)};
    const bool out = contains(offer.residuals, o) && site.users(value).empty() && !site.is_output(value);
    call.out.push_back(out ? -1 : static_cast<int>(claim.outputs.size()));
    if (!out) claim.outputs.push_back(value);
  }
  for (const auto& [o, i] : offer.in_place) {
    const int to = call.out[static_cast<std::size_t>(o)], from = call.in[static_cast<std::size_t>(i)];
    if (to >= 0 && from >= 0) claim.in_place.push_back({to, from});
  }
  return {std::move(claim), std::move(call)};
}

void offer_cell(ClaimMap& map, const CellOffer& offer) {
  map[offer.op].push_back([offer](const backend::Site& site, std::vector<Claim>& claims) {
    if (const std::string refusal = cell_refusal(site.node(), offer); !refusal.empty())
      return claims.push_back(Claim::no(cat("cpu ", offer.op), refusal));
    auto [claim, call] = cell_claim(site, site.root(), offer);
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
