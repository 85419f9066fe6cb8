// The gradient of a weight and what an optimiser does with it: piece by piece while the gradient is in the cache, so
// that it is never written to memory.
#include <algorithm>
#include <array>
#include <optional>

#include "backend/update.h"
#include "backends/cpu/common/loops.h"
#include "backends/cpu/common/scratch.h"
#include "backends/cpu/common/team.h"
#include "backends/cpu/matmul/gemm/gemm.h"
#include "backends/cpu/matmul/matmul_claims.h"
#include "backends/cpu/matmul/update_kernels.h"
#include "backends/cpu/tile/tile.h"
#include "base/levers.h"
#include "base/text.h"

namespace varve::cpu {
namespace {

using backend::Claim;
using backend::is_scalar;
using backend::Memory;
using backend::Port;
using backend::Prepared;
using backend::RunArgs;
using backend::Site;

constexpr std::size_t kMostOperands = 12;  // of an update

// What an update takes of a product: the result, or that of bf16 in the type of the weights.
struct Taken {
  ir::NodePtr cast, update;  // null: none
  ir::Value gradient;
};

// Without tiles, bf16 is left to the library as a whole.
Taken taken_from(const Site& site) {
  Taken taken{nullptr, site.sole_user({site.root(), 0}), {site.root(), 0}};
  if (!has_tiles() || taken.gradient.type().dtype != bf16 || !taken.update || !taken.update->is("cast")) return taken;
  if (taken.update->types[0].dtype != f32) return taken;  // the type of the sums
  taken.cast = taken.update;
  taken.gradient = {taken.cast, 0};
  taken.update = site.sole_user(taken.gradient);
  return taken;
}

std::string refusal_of(const Site& site, const Taken& taken) {
  if (taken.update->inputs.size() > kMostOperands) return "too many operands";
  std::string refusal = backend::update_refusal(site.node(), *taken.update, taken.gradient);
  if (!refusal.empty() || !taken.cast) return refusal;
  const double read_again = static_cast<double>(site.node().types[0].bytes());  // by the update
  return tiles_refusal({product_size(site.node())}, read_again);
}

// Adam has a special loop. Where its scalars stand: numbers, or operands in memory.
struct Adam {
  struct Scalar {
    float number = 0;
    int operand = -1;  // of the claim's inputs; -1: the number
    float read(const RunArgs& args) const {
      return operand < 0 ? number : *static_cast<const float*>(args.in[operand]);
    }
  };
  std::array<Scalar, 6> scalars;
  bool decoupled = false;

  AdamStep step(const RunArgs& args) const {
    AdamStep now{.step = scalars[0].read(args),
                 .root = scalars[1].read(args),
                 .blend1 = scalars[2].read(args),
                 .blend2 = scalars[3].read(args),
                 .epsilon = scalars[4].read(args)};
    (decoupled ? now.keep : now.decay) = scalars[5].read(args);
    return now;
  }
};

// w, m and v are the first operands of the claim after the two factors.
std::optional<Adam> adam_of(const ir::Node& update) {
  Adam adam{.decoupled = update.is("adamw_update")};
  const std::vector<ir::Value>& in = update.inputs;
  if ((!adam.decoupled && !update.is("adam_update")) || update.types[0].dtype != f32) return std::nullopt;
  if (is_scalar(in[0]) || is_scalar(in[2]) || is_scalar(in[3])) return std::nullopt;  // moments of a first step: 0
  int operand = 5;
  for (std::size_t i = 0; i < adam.scalars.size(); ++i) {
    if (const auto number = backend::number_of(in[i + 4]))
      adam.scalars[i].number = static_cast<float>(*number);
    else
      adam.scalars[i].operand = operand++;
  }
  return adam;
}

// ---- any update: the formula runs over each piece of the gradient

class PieceUpdate {
 public:
  struct Spec {
    Product product;
    DType factors = f32, dtype = f32;  // of the product; of the gradient and the operands
    expr::Code code;                   // over the gradient, then the operands
    std::vector<bool> scalars;         // per operand
    std::size_t results = 1;
    std::optional<Adam> adam;  // in place of the code
  };
  PieceUpdate(const Spec& spec, const Setting& setting)
      : gemm_(spec.product, {.in = spec.factors, .out = spec.dtype, .pieces = true, .workers = setting.threads}),
        row_(spec.product.n),
        bytes_(static_cast<std::int64_t>(size_of(spec.dtype))),
        scalars_(spec.scalars),
        results_(spec.results) {
    adam_ = spec.adam;
    if (adam_) return;
    for (const plain::Gemm::PieceShape& shape : gemm_.piece_shapes()) {
      kernels_.push_back({shape.rows, shape.columns, TileKernel(group_of(spec, shape))});
      worker_bytes_ = std::max(worker_bytes_, cache_aligned(kernels_.back().kernel.scratch_bytes()));
    }
  }

  std::size_t scratch_bytes() const {
    return worker_bytes_ * static_cast<std::size_t>(gemm_.workers()) + gemm_.scratch_bytes();
  }

  // The operands stand behind the two factors.
  void run(const RunArgs& args) const {
    std::byte* scratch = static_cast<std::byte*>(args.scratch);
    std::array<const void*, kMostOperands> beside;
    std::size_t count = 0;
    for (std::size_t i = 0; i < scalars_.size(); ++i)
      if (!scalars_[i]) beside[count++] = args.in[i + 2];
    const auto each_piece = [&](const auto& take) {
      gemm_.run_pieces(args.in[0], args.in[1], {beside.data(), count}, scratch, take);
    };
    if (adam_)
      return each_piece(
          [&, step = adam_->step(args)](const plain::Gemm::Piece& piece) { run_adam(args, step, piece); });
    std::byte* workers = scratch + gemm_.scratch_bytes();
    each_piece([&](const plain::Gemm::Piece& piece) {
      run_formula(args, piece, workers + piece.worker * static_cast<std::int64_t>(worker_bytes_));
    });
  }

 private:
  struct Shaped {
    std::int64_t rows, columns;
    TileKernel kernel;
  };

  void run_formula(const RunArgs& args, const plain::Gemm::Piece& piece, void* scratch) const {
    const std::int64_t offset = (piece.row * row_ + piece.column) * bytes_;
    std::array<const void*, kMostOperands> in;
    std::array<void*, kMostOperands> out;
    in[0] = piece.sums;
    for (std::size_t i = 0; i < scalars_.size(); ++i) in[i + 1] = at(args.in[i + 2], scalars_[i] ? 0 : offset);
    for (std::size_t o = 0; o < results_; ++o) out[o] = at(args.out[o], offset);
    kernel_for(piece).run(in.data(), out.data(), scratch);
  }

  void run_adam(const RunArgs& args, const AdamStep& step, const plain::Gemm::Piece& piece) const {
    const auto in = [&](std::size_t i) { return static_cast<const float*>(args.in[i]); };
    const auto out = [&](std::size_t i) { return static_cast<float*>(args.out[i]); };
    for (std::int64_t r = 0; r < piece.rows; ++r) {
      const std::int64_t first = (piece.row + r) * row_ + piece.column;
      adam_run({.g = static_cast<const float*>(piece.sums) + r * piece.stride,
                .w = in(2) + first,
                .m = in(3) + first,
                .v = in(4) + first,
                .next_w = out(0) + first,
                .next_m = out(1) + first,
                .next_v = out(2) + first},
               step, static_cast<std::size_t>(piece.columns));
    }
  }

  static Group group_of(const Spec& spec, const plain::Gemm::PieceShape& shape) {
    Group group;
    group.code = spec.code;
    group.compute = spec.dtype;
    group.extents = {shape.rows, shape.columns};
    group.reduced = {false, false};
    group.inputs = {{spec.dtype, {shape.stride, 1}}};
    const Access matrix{spec.dtype, {spec.product.n, 1}}, scalar{spec.dtype, {0, 0}};
    for (const bool is_scalar : spec.scalars) group.inputs.push_back(is_scalar ? scalar : matrix);
    group.outputs.assign(spec.results, matrix);
    group.reduce.assign(spec.results, Reduce::none);
    return group;
  }

  const TileKernel& kernel_for(const plain::Gemm::Piece& piece) const {
    const auto fits = [&](const Shaped& s) { return s.rows == piece.rows && s.columns == piece.columns; };
    return std::find_if(kernels_.begin(), kernels_.end(), fits)->kernel;
  }

  plain::Gemm gemm_;
  std::int64_t row_, bytes_;
  std::vector<bool> scalars_;
  std::size_t results_;
  std::optional<Adam> adam_;
  std::vector<Shaped> kernels_;
  std::size_t worker_bytes_ = 0;
};

// ---- w - rate · g: the product adds itself to the weights

// w - rate · (g + 0 · w), with rate a scalar in memory.
bool is_plain_step(const ir::Node& update) {
  return update.is("sgd_update") && backend::number_of(update.inputs[3]) == 0.0 &&
         !backend::number_of(update.inputs[2]) && update.types[0].dtype == f32;
}

Prepared prepare_step(const Product& product, DType factors, const Setting& setting) {
  plain::Gemm gemm(product, {.in = factors, .accumulate = true, .workers = setting.threads});
  const std::size_t scratch = kCacheLine + gemm.scratch_bytes();
  return backend::prepared(
      [gemm, bytes = product.m * product.n * 4](const RunArgs& args) {
        auto* scale = static_cast<float*>(args.scratch);
        *scale = -*static_cast<const float*>(args.in[3]);
        // In place as a rule; a copy only where a reader of the old weights comes later.
        copy_bytes(args.out[0], args.in[2], bytes);
        gemm.run_scaled(args.in[0], args.in[1], scale, args.out[0], at(args.scratch, kCacheLine));
      },
      scratch);
}

backend::Prepare prepare_for(const Site& site, const ir::Node& update, const backend::UpdateFormula& formula) {
  PieceUpdate::Spec spec;
  spec.factors = site.node().types[0].dtype;
  spec.dtype = update.types[0].dtype;
  spec.code = expr::flatten(static_cast<int>(formula.inputs.size()) + 1, formula.results);
  for (const ir::Value& in : formula.inputs) spec.scalars.push_back(is_scalar(in));
  spec.results = formula.results.size();
  spec.adam = adam_of(update);
  return [spec, plain_step = is_plain_step(update), transposes = transposes_of(site.node()), setting = Setting::now()](
             const std::vector<Port>& in, const std::vector<Port>& out) {
    const Product product = product_of(in[0], in[1], out[0], transposes);
    if (product.empty()) return nothing();
    if (plain_step) return prepare_step(product, spec.factors, setting);
    PieceUpdate::Spec filled = spec;
    filled.product = product;
    PieceUpdate kernel(filled, setting);
    const std::size_t scratch = kernel.scratch_bytes();
    return backend::prepared([kernel = std::move(kernel)](const RunArgs& args) { kernel.run(args); }, scratch);
  };
}

}  // namespace

void claim_update(const Site& site, std::vector<Claim>& claims) {
  const Taken taken = taken_from(site);
  const ir::NodePtr& update = taken.update;
  if (!update || update->op->family != "optimizer" || !update->op->elementwise()) return;
  const std::string kernel = cat("matmul+", taken.cast ? "cast+" : "", update->op->name);
  if (!lever("update-in-gemm")) return claims.push_back(Claim::no(kernel, kLeftOut));
  if (const std::string refusal = refusal_of(site, taken); !refusal.empty()) {
    claims.push_back(Claim::no(kernel, refusal));
    return;
  }
  const backend::UpdateFormula formula = backend::formula_of(*update, taken.gradient);
  Claim claim = Claim::of(kernel, site.root(), prepare_for(site, *update, formula));
  if (taken.cast) claim.nodes.push_back(taken.cast);
  claim.memory = {Memory::strided, Memory::strided};
  backend::cover_update(claim, update, formula);
  claims.push_back(std::move(claim));
}

}  // namespace varve::cpu
