#include "backends/cuda/matmul/matmul_update.h"

#include <algorithm>
#include <optional>

#include "backend/update.h"
#include "backends/cuda/matmul/matmul_gemm.h"
#include "backends/cuda/matmul/matmul_match.h"
#include "backends/cuda/matmul/matmul_tma.h"
#include "backends/cuda/matmul/matmul_update_plain.h"
#include "backends/cuda/tuning/timing.h"
#include "base/levers.h"
#include "base/text.h"

namespace varve::cuda {
namespace {

using backend::Claim;
using backend::is_scalar;
using backend::Memory;
using backend::Port;
using backend::Prepared;
using backend::RunArgs;
using backend::Site;

// The gradient, whether it is used in the type of the product or in that of the master weights.
struct Gradient {
  ir::NodePtr cast;  // may be null
  ir::Value value;
  ir::NodePtr update;
};

Gradient gradient_of(const Site& site) {
  Gradient g{nullptr, {site.root(), 0}, nullptr};
  g.update = site.sole_user(g.value);
  if (!g.update || !g.update->is("cast")) return g;
  g.cast = g.update;
  g.value = {g.cast, 0};
  g.update = site.sole_user(g.value);
  return g;
}

std::string refusal_of(const Site& site, const Gradient& g) {
  if (g.cast && (g.value.type().dtype != f32 || size_of(site.node().types[0].dtype) != 2)) return "a cast between them";
  return backend::update_refusal(site.node(), *g.update, g.value);
}

// ---- w - rate · (g + decay · w) as a product that is added to the weights: w = beta · w + alpha · a·b

// A scalar of the step: a number, or where the claim reads it.
struct Scalar {
  double number = 0;
  int operand = -1;
  const void* address(const RunArgs& args) const { return operand < 0 ? nullptr : args.in[operand]; }
};

struct SgdStep {
  Scalar rate, decay;
  bool known() const { return rate.operand < 0 && decay.operand < 0; }
};

// Of a plain step: operands of the claim are the factors, the weights, and those of its scalars that are no numbers.
SgdStep step_of(const ir::Node& update) {
  SgdStep step;
  int operand = 3;
  for (const auto& [scalar, input] : {std::pair{&step.rate, std::size_t{2}}, {&step.decay, std::size_t{3}}}) {
    const auto number = backend::number_of(update.inputs[input]);
    *scalar = number ? Scalar{*number} : Scalar{0, operand++};
  }
  return step;
}

bool is_plain(const ir::Node& update) {
  return update.is("sgd_update") && !is_scalar(update.inputs[0]) && is_scalar(update.inputs[2]) &&
         is_scalar(update.inputs[3]);
}

constexpr std::size_t kScaleBytes = 256;  // before the product's scratch memory

Prepared prepare_step(const SgdStep& step, const UpdateSpec& spec, DType dtype) {
  const Gemm gemm({.product = spec.product,
                   .in = spec.in,
                   .out = dtype,
                   .tf32 = spec.tf32,
                   .adds = true,
                   .scaled = !step.known(),
                   .alpha = -step.rate.number,
                   .beta = 1 - step.rate.number * step.decay.number});
  const auto multiply = [gemm](const RunArgs& args, const void* scale, void* scratch) {
    gemm.run(
        {.a = args.in[0], .b = args.in[1], .c0 = args.in[2], .scale = scale, .c = args.out[0], .scratch = scratch});
  };
  if (step.known())
    return backend::prepared([multiply](const RunArgs& args) { multiply(args, nullptr, args.scratch); },
                             gemm.scratch_bytes());
  const Function scale("update_scale", {"matmul/matmul_scale.cu", defines({{"WIDE", type_name(dtype)}})});
  return backend::prepared(
      [multiply, scale, step, dtype](const RunArgs& args) {
        const void *rate = step.rate.address(args), *decay = step.decay.address(args);
        const auto start = [&](auto rate_now, auto decay_now) {
          scale({.block = 1}, rate, decay, rate_now, decay_now, args.scratch);
        };
        if (dtype == f64)
          start(step.rate.number, step.decay.number);
        else
          start(static_cast<float>(step.rate.number), static_cast<float>(step.decay.number));
        multiply(args, args.scratch, static_cast<std::byte*>(args.scratch) + kScaleBytes);
      },
      kScaleBytes + gemm.scratch_bytes());
}

// ---- any formula, by the plain kernel

Prepared prepare_plain_update(const UpdateSpec& spec) {
  return backend::prepared([plain = PlainUpdate(spec)](const RunArgs& args) mutable { plain.run(args.in, args.out); });
}

// The same by TMA; operands that TMA cannot read go to the plain kernel.
Prepared prepare_tma_update(const UpdateSpec& spec) {
  return backend::prepared([tma = TmaUpdate(spec), plain = PlainUpdate(spec)](const RunArgs& args) mutable {
    tma.takes(args.in, args.out) ? tma.run(args.in, args.out) : plain.run(args.in, args.out);
  });
}

// The candidates that there may be, of which the fastest is taken.
struct UpdateCandidates {
  UpdateSpec spec;
  SgdStep step;
  bool kernel = false, gemm = false;  // by a plain kernel, and as one product that adds to the weights
  Transposes transposes = {};
  std::vector<std::pair<int, int>> in_place = {};  // of the claim
};

Prepared prepare_update(const UpdateCandidates& candidates, const std::vector<Port>& in, const std::vector<Port>& out) {
  const DType dtype = out[0].type.dtype;
  UpdateSpec spec = candidates.spec;
  spec.product = folded_product(in[0], in[1], out[0], candidates.transposes);
  if (spec.product.empty()) return backend::prepared([](const RunArgs&) {});
  if (!candidates.kernel || (candidates.gemm && !takes_layout(spec.product)))
    return prepare_step(candidates.step, spec, dtype);
  const auto faster = [&](const std::string& kind, Prepared first, Prepared second) {
    const std::string problem = cat(kind, name(spec.in), spec.tf32 ? " tf32 " : " ", name_of(spec.product),
                                    candidates.step.known() ? "" : " scaled");
    const std::vector<KernelText> kernels{{"matmul/matmul_update_plain.cu", update_text(spec)},
                                          {"matmul/matmul_tma_update.cu", ""}};
    return fastest_kernel({problem, kernels, in, out, candidates.in_place}, std::move(first), std::move(second));
  };
  Prepared best = prepare_plain_update(spec);
  if (candidates.gemm && blas_refusal(spec.in).empty())
    best = faster("step ", std::move(best), prepare_step(candidates.step, spec, dtype));
  if (TmaUpdate::is_worth_trying(spec) && TmaUpdate::refusal(spec).empty())
    best = faster(cat("tma ", spec.scalar.size(), " "), prepare_tma_update(spec), std::move(best));
  return best;
}

// xᵀ·dy, the gradient as it mostly is, and not too long sums.
bool is_for_plain(const ir::Node& product, const UpdateSpec& spec) {
  const Transposes transposes = transposes_of(product);
  return transposes.a && !transposes.b && product.inputs[0].type().shape[0] <= most_update_terms(spec.in, spec.tf32) &&
         update_refusal(spec).empty();
}

// The claim, with what the update is made of.
struct Offer {
  Claim claim;
  UpdateCandidates candidates;
};

// At the product that is the gradient. Nothing where no update follows; a refusal with its reason otherwise.
std::optional<Offer> offer_at(const Site& site) {
  const Gradient g = gradient_of(site);
  if (!g.update || g.update->op->family != "optimizer" || !g.update->op->elementwise()) return std::nullopt;
  const std::string kernel = cat("matmul+", g.update->op->name);
  const auto refuse = [&](const std::string& why) { return Offer{Claim::no(kernel, why), {}}; };
  if (!lever("update-in-gemm")) return refuse(kLeftOut);
  if (const std::string refusal = refusal_of(site, g); !refusal.empty()) return refuse(refusal);

  const backend::UpdateFormula formula = backend::formula_of(*g.update, g.value);
  UpdateCandidates candidates{.gemm = is_plain(*g.update)};
  candidates.spec.in = site.node().types[0].dtype;
  candidates.spec.tf32 = site.choices().tf32;
  candidates.spec.code = expr::flatten(static_cast<int>(formula.inputs.size()) + 1, formula.results);
  for (const ir::Value& in : formula.inputs) candidates.spec.scalar.push_back(is_scalar(in));
  candidates.spec.early = std::all_of(formula.inputs.begin(), formula.inputs.end(),
                                      [&](const ir::Value& in) { return is_scalar(in) || site.is_state(in); });
  if (candidates.gemm) candidates.step = step_of(*g.update);
  candidates.kernel = is_for_plain(site.node(), candidates.spec) && g.value.type().dtype == f32;
  if (!candidates.kernel && !candidates.gemm)
    return refuse("sums of many terms, or another order: a group does it better");
  // Measured: below this the one launch for all updates of a program wins over saving the gradient's way through
  // memory.
  constexpr std::int64_t kWorthIt = std::int64_t{1} << 22;
  if (!candidates.gemm && site.node().types[0].shape.numel() < kWorthIt && lever("launches"))
    return refuse("small: all updates are one launch");

  Claim claim = Claim::of(kernel, site.root(), {});
  backend::cover_update(claim, g.update, formula);
  if (g.cast) claim.nodes.push_back(g.cast);
  candidates.in_place = claim.in_place;
  if (candidates.gemm) claim.memory = {Memory::strided, Memory::strided};
  candidates.transposes = transposes_of(site.node());
  claim.measures = true;
  claim.prepare = [candidates](const std::vector<Port>& in, const std::vector<Port>& out) {
    return prepare_update(candidates, in, out);
  };
  return Offer{std::move(claim), candidates};
}

// ---- with the gradient of the input

// What else reads the weights, or what they are rounded to, has done so before the gradient g of the layer's result is
// there.
bool are_read_last(const Site& site, const ir::Value& weights, const ir::Value& g, const Claim& update) {
  const auto readers = backend::readers_of(site, weights);
  return readers && std::all_of(readers->begin(), readers->end(), [&](const backend::Reader& reader) {
           const ir::Value rounded{reader.node, 0};
           if (match::state_behind_cast(site, rounded)) return are_read_last(site, rounded, g, update);
           return reader.node == site.root() || backend::depends_on(g, reader.node.get()) ||
                  std::find(update.nodes.begin(), update.nodes.end(), reader.node) != update.nodes.end();
         });
}

// Whether something that the update reads, such as a rate that follows the gradients' size, is computed from it.
bool waits_for(const Claim& update, const ir::Node& input_gradient) {
  return std::any_of(update.inputs.begin(), update.inputs.end(),
                     [&](const ir::Value& in) { return backend::depends_on(in, &input_gradient); });
}

// Whether what follows the gradient of the input wants to know of the update: then it has to wait for it.
bool reads_result_of(const match::Following& following, const Claim& update) {
  return std::any_of(following.inputs.begin(), following.inputs.end(), [&](const ir::Value& in) {
    return std::any_of(update.nodes.begin(), update.nodes.end(),
                       [&](const ir::NodePtr& node) { return backend::depends_on(in, node.get()); });
  });
}

// As contiguous tensors will have it.
UpdateSpec with_product(UpdateSpec spec, const Shape& weights, std::int64_t terms) {
  Product& p = spec.product;
  p.m = weights[0];
  p.n = weights[1];
  p.k = terms;
  p.a = {{}, 1, p.m};
  p.b = p.c = {{}, p.n, 1};
  return spec;
}

// One kernel that reads the weights once, or in f32 perhaps the two one after the other: in are those of the update, of
// which number `weights` from the third on are the weights, and the tail's; out are its results, then the gradient of
// the input or what follows it.
Prepared prepare_back(const UpdateCandidates& candidates, std::size_t weights, const Tail& tail,
                      const std::vector<Port>& in, const std::vector<Port>& out) {
  UpdateSpec spec = candidates.spec;
  spec.product = folded_product(in[0], in[1], out[0], candidates.transposes);
  if (spec.in != f32) {
    const TmaBackward tma(spec, weights, tail);
    return backend::prepared([tma](const RunArgs& args) { tma.run(args.in, args.out, args.scratch); },
                             tma.scratch_bytes());
  }
  const std::size_t results = spec.code.outputs.size(), operands = 2 + spec.scalar.size();
  const Port &g = in[1], &w = in[2 + weights], &dx = out[results];
  const auto gradient = out.begin() + static_cast<std::ptrdiff_t>(results);
  Prepared update = prepare_update(candidates, {in.begin(), in.end() - static_cast<std::ptrdiff_t>(tail.operands)},
                                   {out.begin(), gradient});
  std::vector<Port> read{g, w};
  read.insert(read.end(), in.begin() + static_cast<std::ptrdiff_t>(operands), in.end());
  Prepared product = prepare_product(
      {.product = folded_product(g, w, dx, {.b = true}), .tf32 = candidates.spec.tf32, .early = candidates.spec.early},
      read, {gradient, out.end()}, tail);
  const std::size_t scratch = std::max(update.scratch_bytes, product.scratch_bytes);
  const auto both = [update = std::shared_ptr(std::move(update.kernel)), results, operands, weights, tail,
                     product = std::shared_ptr(std::move(product.kernel))](const RunArgs& args) {
    const void* factors[2 + kMostTailOperands] = {args.in[1], args.in[2 + weights]};
    std::copy_n(args.in + operands, tail.operands, factors + 2);
    product->run({factors, args.out + results, args.scratch, args.errors});
    update->run(args);
  };
  Prepared apart = backend::prepared(both, scratch);
  if (!TmaBackward::refusal(spec).empty()) return apart;
  const TmaBackward tma(spec, weights, tail);
  Prepared once = backend::prepared(
      [both, tma](const RunArgs& args) {
        tma.takes(args.in, args.out) ? tma.run(args.in, args.out, args.scratch) : both(args);
      },
      std::max(scratch, tma.scratch_bytes()));
  const std::string problem =
      cat("backward ", spec.scalar.size(), tail.is_simple() ? " " : " tail ", name_of(spec.product));
  const std::vector<KernelText> kernels{{"matmul/matmul_tma_backward.cu", update_text(spec) + tail.function},
                                        {"matmul/matmul_tma_update.cu", ""},
                                        {"matmul/matmul_tma.cu", ""},
                                        {"matmul/matmul_update_plain.cu", ""},
                                        {"matmul/split_k_sum.cu", ""},
                                        {"matmul/split_k_tail.cu", ""}};
  return fastest_kernel({problem, kernels, in, out, candidates.in_place}, std::move(once), std::move(apart));
}

// At g·wᵀ, where g is also what the gradient of w is made of.
std::optional<Claim> back_claim(const Site& site) {
  const Transposes transposes = transposes_of(site.node());
  const TensorType& type = site.node().types[0];
  if (transposes.a || !transposes.b || type.shape.rank() != 2) return std::nullopt;
  const ir::Value& g = site.node().inputs[0];
  ir::Value w = site.node().inputs[1];
  if (type.dtype != f32) {
    const auto state = match::state_behind_cast(site, w);
    if (!state || !match::is_computed(g)) return std::nullopt;
    w = *state;
  }
  for (const ir::Use& use : site.users(g)) {
    if (!use.user->is("matmul") || use.user == site.root() || use.input != 1) continue;
    std::optional<Offer> offer = offer_at(site.at(use.user));
    if (!offer || !offer->claim.accepted() || !offer->candidates.kernel) continue;
    Claim& claim = offer->claim;
    const auto weights = std::find(claim.inputs.begin() + 2, claim.inputs.end(), w);
    if (weights == claim.inputs.end()) continue;
    const UpdateSpec spec = with_product(offer->candidates.spec, w.type().shape, type.shape[0]);
    if (!TmaBackward::is_worth_trying(spec) || !TmaBackward::refusal(spec).empty()) continue;
    if (!are_read_last(site, w, g, claim) || waits_for(claim, site.node())) continue;
    claim.kernel += "+input gradient";
    claim.nodes.push_back(site.root());
    claim.outputs.push_back({site.root(), 0});
    Tail tail;
    const auto number = static_cast<std::size_t>(weights - claim.inputs.begin() - 2);
    const auto following = match::following(site, {site.root(), 0}, kMostTailOperands);
    if (following && !reads_result_of(*following, claim)) {
      tail = match::tail_of(*following);
      match::take_in(*following, claim);
    }
    claim.prepare = [candidates = offer->candidates, number, tail](const std::vector<Port>& in,
                                                                   const std::vector<Port>& out) {
      return prepare_back(candidates, number, tail, in, out);
    };
    return std::move(claim);
  }
  return std::nullopt;
}

}  // namespace

void claim_update(const Site& site, std::vector<Claim>& claims) {
  if (std::optional<Offer> offer = offer_at(site)) claims.push_back(std::move(offer->claim));
}

bool has_back_claim(const Site& site) { return back_claim(site).has_value(); }

void claim_back(const Site& site, std::vector<Claim>& claims) {
  if (std::optional<Claim> claim = back_claim(site)) claims.push_back(std::move(*claim));
}

}  // namespace varve::cuda
