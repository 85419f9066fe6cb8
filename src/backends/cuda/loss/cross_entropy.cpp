// Cross entropy of logits and labels: the losses, their gradient, and their mean, as much of it in one kernel as the
// graph wants. A step of training has all in one launch.
#include <algorithm>

#include "backends/cuda/device/context.h"
#include "backends/cuda/device/counters.h"
#include "backends/cuda/matmul/matmul_match.h"
#include "backends/cuda/norm/rows.h"
#include "base/text.h"

namespace varve::cuda {
namespace {

using backend::Claim;
using backend::Port;
using backend::Prepared;
using backend::RunArgs;
using backend::Site;

// What the gradient is multiplied with: a number, one element for all rows, or one for each.
enum class Dloss : std::uint8_t { number, one, each };

struct Loss {
  Matrix matrix;
  DType dtype = f32, labels = i64, mean_type = f32, mean_via = f32;
  bool losses = false, gradient = false, mean = false;
  Dloss dloss = Dloss::number;
  double given = 0;                // the number
  double factor = 1, divisor = 1;  // of the sum of all losses

  explicit Loss(const ir::Node& node)
      : matrix(matrix_of(node.inputs[0].type().shape)),
        dtype(node.inputs[0].type().dtype),
        labels(node.inputs[1].type().dtype) {}

  Team team() const {
    Team team = team_for(matrix, dtype);
    // Small batches are one block's work: it needs nobody to add up the losses.
    constexpr std::int64_t kSmall = 16384, kLargestBlock = 1024;
    if (matrix.rows * matrix.columns <= kSmall && team.threads <= 32) {
      const std::int64_t threads = (matrix.rows * team.threads + 31) / 32 * 32;
      team.block = static_cast<int>(std::min(threads, kLargestBlock));
    }
    return team;
  }
  KernelText text(const Team& team) const {
    const auto flag = [](bool on) { return std::string(on ? "1" : "0"); };
    return row_text("loss/cross_entropy.cu", team, dtype,
                    {{"LABEL", type_name(labels)},
                     {"LOSSES", flag(losses)},
                     {"GRADIENT", flag(gradient)},
                     {"DLOSS", std::to_string(static_cast<int>(dloss))},
                     {"MEAN", flag(mean)},
                     {"MEAN_TYPE", type_name(mean_type)},
                     {"MEAN_VIA", type_name(mean_via)}});
  }
  std::string complaint() const { return cat("cross_entropy: a label is out of range [0, ", matrix.columns, ")."); }
};

// Inputs: logits, labels, and the gradient of the loss unless it is a number. Outputs: losses, mean, gradient of the
// logits, those that are wanted.
Prepared make_loss(const Loss& loss) {
  const Team team = loss.team();
  const Function function("cross_entropy", loss.text(team));
  const std::int64_t blocks = loss.mean && team.rows() >= loss.matrix.rows ? 1 : team.blocks(loss.matrix.rows);
  const bool adds = loss.mean && blocks > 1;
  const std::shared_ptr<ir::Remote> counter = zero_counters(adds ? 1 : 0);
  const int number = gpu().present() ? context().note(loss.complaint()) : 0;
  const std::size_t scratch = adds ? static_cast<std::size_t>(blocks) * size_of(wide(loss.dtype)) : 0;
  return backend::prepared(
      [=](const RunArgs& args) {
        std::size_t next = 0;
        const auto output = [&](bool wanted) { return wanted ? args.out[next++] : nullptr; };
        void* losses = output(loss.losses);
        void* mean = output(loss.mean);
        void* dlogits = output(loss.gradient);
        const void* dloss = loss.gradient && loss.dloss != Dloss::number ? args.in[2] : nullptr;
        function({.grid = blocks, .block = team.block}, args.in[0], args.in[1], dloss, loss.given, losses, dlogits,
                 mean, loss.factor, loss.divisor, args.scratch, counter ? counter->address : nullptr,
                 args.errors->word(), number, loss.matrix.rows, loss.matrix.columns, aligned({args.in[0], dlogits}));
      },
      scratch);
}

// ---- the mean of all losses

// What follows the losses: Σ, then a quotient or product with a number, and changes of type.
struct Mean {
  std::vector<ir::NodePtr> nodes;
  double factor = 1, divisor = 1;
  std::optional<ir::Value> number;  // which of them was given so
  DType via = f32;                  // the narrowest type on the way
};

bool is_float_cast(const ir::NodePtr& node) { return node && node->is("cast") && is_floating(node->types[0].dtype); }

std::optional<Mean> mean_after(const Site& site) {
  Mean mean;
  const auto follow = [&] {
    ir::NodePtr next = site.sole_user({mean.nodes.empty() ? site.root() : mean.nodes.back(), 0});
    return next && next->types.size() == 1 ? next : nullptr;
  };
  const auto take_casts = [&] {
    for (ir::NodePtr next = follow(); is_float_cast(next); next = follow()) mean.nodes.push_back(next);
  };
  take_casts();
  const ir::NodePtr sum = follow();
  if (!sum || !sum->is("sum") || sum->types[0].shape.numel() != 1) return std::nullopt;
  mean.nodes.push_back(sum);
  if (const ir::NodePtr next = follow(); next && next->types[0].shape.numel() == 1) {
    const bool first = next->inputs[0] == ir::Value{sum, 0};
    const bool quotient = next->is("divide") && first;
    const ir::Value& other = next->inputs[first ? next->inputs.size() - 1 : 0];
    if (const auto number = backend::number_behind(other); number && (quotient || next->is("multiply"))) {
      (quotient ? mean.divisor : mean.factor) = *number;
      mean.number = other;
      mean.nodes.push_back(next);
    }
  }
  take_casts();
  mean.via = mean.nodes.back()->types[0].dtype;
  for (auto node = mean.nodes.rbegin(); *node != sum; ++node)
    if (size_of((*node)->types[0].dtype) < size_of(mean.via)) mean.via = (*node)->types[0].dtype;
  return mean;
}

// ---- claims

std::string refusal_of(const Site& site) { return row_refusal(site.node().inputs[0].type()); }

void offer(const ir::NodePtr& gradient, const std::optional<Mean>& mean, const Site& site, std::vector<Claim>& claims) {
  Loss loss(site.node());
  loss.losses = !mean;
  loss.mean = mean.has_value();
  loss.gradient = gradient != nullptr;
  Claim claim;
  claim.kernel = cat("rows cross_entropy", mean ? "+mean" : "", gradient ? "+gradient" : "");
  claim.nodes = {site.root()};
  claim.inputs = {site.node().inputs[0], site.node().inputs[1]};
  if (mean) {
    loss.factor = mean->factor;
    loss.divisor = mean->divisor;
    loss.mean_type = mean->nodes.back()->types[0].dtype;
    loss.mean_via = mean->via;
    claim.nodes.insert(claim.nodes.end(), mean->nodes.begin(), mean->nodes.end());
    claim.outputs = {{mean->nodes.back(), 0}};
  } else {
    claim.outputs = {{site.root(), 0}};
  }
  if (gradient) {
    const ir::Value& dloss = gradient->inputs[2];
    if (const auto number = backend::number_behind(dloss)) {
      loss.given = *number;
    } else {
      const ir::Value& behind = backend::behind_views(dloss);
      loss.dloss = behind.type().shape.numel() == 1 ? Dloss::one : Dloss::each;
      claim.inputs.push_back(loss.dloss == Dloss::one ? behind : dloss);
    }
    claim.nodes.push_back(gradient);
    claim.outputs.push_back({gradient, 0});
    claim.in_place = {{1, 0}};
  }
  if (mean && mean->number) match::cover_number(site, *mean->number, claim);
  if (gradient && loss.dloss == Dloss::number) match::cover_number(site, gradient->inputs[2], claim);
  claim.prepare = [loss](const std::vector<Port>&, const std::vector<Port>&) { return make_loss(loss); };
  claims.push_back(std::move(claim));
}

// The gradient of the same logits and labels, where it does not wait for the losses.
ir::NodePtr gradient_beside(const Site& site) {
  const ir::Node& loss = site.node();
  for (const ir::Use& use : site.users(loss.inputs[0]))
    if (use.user->is("softmax_cross_entropy_grad") && use.input == 0 && use.user->inputs[1] == loss.inputs[1] &&
        !backend::depends_on(use.user->inputs[2], &loss))
      return use.user;
  return nullptr;
}

void claim_loss(const Site& site, std::vector<Claim>& claims) {
  if (const std::string refusal = refusal_of(site); !refusal.empty())
    return claims.push_back(Claim::no("rows cross_entropy", refusal));
  const ir::NodePtr gradient = gradient_beside(site);
  const std::optional<Mean> mean = mean_after(site);
  if (gradient && mean) offer(gradient, mean, site, claims);
  if (gradient) offer(gradient, std::nullopt, site, claims);
  if (mean) offer(nullptr, mean, site, claims);
  offer(nullptr, std::nullopt, site, claims);
}

void claim_loss_gradient(const Site& site, std::vector<Claim>& claims) {
  if (const std::string refusal = refusal_of(site); !refusal.empty())
    return claims.push_back(Claim::no("rows cross_entropy gradient", refusal));
  Loss loss(site.node());
  loss.gradient = true;
  loss.dloss = Dloss::each;
  Claim claim = Claim::of("rows cross_entropy gradient", site.root(),
                          [loss](const std::vector<Port>&, const std::vector<Port>&) { return make_loss(loss); });
  claim.in_place = {{0, 0}};
  claims.push_back(std::move(claim));
}

}  // namespace

void add_row_loss_claims(ClaimMap& map) {
  map["softmax_cross_entropy"].push_back(claim_loss);
  map["softmax_cross_entropy_grad"].push_back(claim_loss_gradient);
}

}  // namespace varve::cuda
