// Layer norm and its gradient, RMS norm: each with the addition that runs beside it in a residual network.
#include <algorithm>
#include <optional>

#include "backends/cuda/device/context.h"
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

struct Norm {
  Matrix matrix;
  DType dtype = f32;
  double epsilon = 0;
  bool centred = true, added = false;
  std::optional<DType> summed;  // gradient: the columns of dx are summed, too, and stored as this type

  explicit Norm(const ir::Node& node) : matrix(matrix_of(node.types[0].shape)), dtype(node.types[0].dtype) {
    if (node.attrs.has("epsilon")) epsilon = node.attrs.number("epsilon");
  }
  KernelText text(const std::string& file, const Team& team) const {
    return row_text(file, team, dtype,
                    {{"CENTRED", centred ? "1" : "0"},
                     {"ADDED", added ? "1" : "0"},
                     {"SUMMED", summed ? "1" : "0"},
                     {"SUM_TYPE", type_name(summed.value_or(dtype))}});
  }
};

// ---- forward

// Inputs: x, what is added to it, gain, bias. Outputs: the sum, y, mean, rstd. Those that there are.
Prepared make_norm(const Norm& norm) {
  const Team team = team_for(norm.matrix, norm.dtype);
  const Function function("norm_rows", norm.text("norm/layer_norm.cu", team));
  return backend::prepared([=](const RunArgs& args) {
    std::size_t in = 0, out = 0;
    const auto input = [&](bool there) { return there ? args.in[in++] : nullptr; };
    const auto output = [&](bool there) { return there ? args.out[out++] : nullptr; };
    const void *x = input(true), *other = input(norm.added), *gain = input(true), *bias = input(norm.centred);
    void *sum = output(norm.added), *y = output(true), *mean = output(norm.centred), *rstd = output(true);
    function({.grid = team.blocks(norm.matrix.rows), .block = team.block}, x, other, gain, bias, sum, y, mean, rstd,
             norm.epsilon, norm.matrix.rows, norm.matrix.columns, aligned({x, other, gain, bias, sum, y}));
  });
}

void claim_norm(const Site& site, std::vector<Claim>& claims) {
  const std::string kernel = cat("rows ", site.node().op->name);
  const std::string refusal = row_refusal(site.node().types[0]);
  if (!refusal.empty()) return claims.push_back(Claim::no(kernel, refusal));
  Norm norm(site.node());
  norm.centred = site.node().is("layer_norm");
  claims.push_back(Claim::of(kernel, site.root(),
                             [norm](const std::vector<Port>&, const std::vector<Port>&) { return make_norm(norm); }));
  claims.back().in_place = {{0, 0}};
}

// x + other, whose norm is taken: the sum is written on the way.
void claim_sum_with_norm(const Site& site, std::vector<Claim>& claims) {
  const ir::Node& add = site.node();
  const TensorType& type = add.types[0];
  if (!row_refusal(type).empty() || add.inputs[0].type() != type || add.inputs[1].type() != type) return;
  const ir::Value sum{site.root(), 0};
  ir::NodePtr found;
  for (const ir::Use& use : site.users(sum))
    if (use.input == 0 && (use.user->is("layer_norm") || use.user->is("rms_norm"))) found = use.user;
  if (!found) return;
  Norm norm(*found);
  norm.centred = found->is("layer_norm");
  norm.added = true;
  Claim claim;
  claim.kernel = cat("rows add+", found->op->name);
  claim.nodes = {site.root(), found};
  claim.inputs = add.inputs;
  for (std::size_t i = 1; i < found->inputs.size(); ++i) {
    if (backend::depends_on(found->inputs[i], &add)) return;
    claim.inputs.push_back(found->inputs[i]);
  }
  claim.outputs = {sum};
  for (int o = 0; o < static_cast<int>(found->types.size()); ++o) claim.outputs.push_back({found, o});
  claim.in_place = {{0, 0}, {0, 1}, {1, 0}, {1, 1}};
  claim.prepare = [norm](const std::vector<Port>&, const std::vector<Port>&) { return make_norm(norm); };
  claims.push_back(std::move(claim));
}

// ---- gradient of layer norm, and of what runs beside it: the two are added on the way

// How the rows of a gradient are shared: each block has the column sums of its rows.
struct RowSharing {
  Team team;
  std::int64_t blocks = 1;

  explicit RowSharing(const Norm& norm) : team(team_for(norm.matrix, norm.dtype, 32)) {
    // Four arrays are in registers.
    constexpr int kMany = 16, kFewThreads = 256, kThreads = 512;
    const bool many = team.items * team.vector > (norm.dtype == f64 ? kMany / 2 : kMany);
    if (team.threads <= 32) team.block = many ? kFewThreads : kThreads;
    const std::int64_t at_once = std::int64_t{gpu().multiprocessors} * std::max(1, kThreads / team.block);
    blocks = std::min(team.blocks(norm.matrix.rows), at_once);
  }
  std::size_t shared(const Norm& norm) const {
    const auto rows = static_cast<std::size_t>(team.rows());
    return rows == 1 ? 0 : rows * static_cast<std::size_t>(norm.matrix.columns) * size_of(wide(norm.dtype));
  }
  // [blocks, dgain and dbias and perhaps dx, columns]
  std::size_t scratch(const Norm& norm) const {
    const std::int64_t arrays = norm.summed ? 3 : 2;
    return blocks == 1 ? 0
                       : static_cast<std::size_t>(arrays * blocks * norm.matrix.columns) * size_of(wide(norm.dtype));
  }
};

// Inputs: x, dy, gain, mean, rstd, and what is added to dx. Outputs: dx, dgain, dbias, and the columns of dx.
Prepared make_norm_grad(const Norm& norm) {
  const RowSharing sharing(norm);
  const KernelText text = norm.text("norm/layer_norm_grad.cu", sharing.team);
  const Function rows("layer_norm_grad", text), columns("layer_norm_grad_columns", text);
  const std::size_t shared = sharing.shared(norm);
  return backend::prepared(
      [=](const RunArgs& args) {
        const void* other = norm.added ? args.in[5] : nullptr;
        void* totals = norm.summed ? args.out[3] : nullptr;
        rows({.grid = sharing.blocks, .block = sharing.team.block, .shared = shared}, args.in[0], args.in[1],
             args.in[2], args.in[3], args.in[4], other, args.out[0], args.scratch, args.out[1], args.out[2], totals,
             norm.matrix.rows, norm.matrix.columns, aligned({args.in[0], args.in[1], args.in[2], other, args.out[0]}));
        if (sharing.blocks == 1) return;
        columns({.grid = ((norm.summed ? 3 : 2) * norm.matrix.columns + 31) / 32, .block = 32, .block_y = 16},
                args.scratch, args.out[1], args.out[2], totals, sharing.blocks, norm.matrix.columns);
      },
      sharing.scratch(norm));
}

// What else is added to the gradient of x: the gradient along the way around the norm.
struct Addition {
  ir::NodePtr node;
  ir::Value other;
};
std::optional<Addition> addition_after(const Site& site) {
  const ir::Value dx{site.root(), 0};
  const ir::NodePtr add = site.sole_user(dx);
  if (!add || !add->is("add") || add->types[0] != dx.type()) return std::nullopt;
  const ir::Value& other = add->inputs[add->inputs[0] == dx ? 1 : 0];
  if (other == dx || other.type() != dx.type() || backend::depends_on(other, &site.node())) return std::nullopt;
  return Addition{add, other};
}

// The sum over all rows of a value, as the gradient of a bias is, and perhaps a change of its type.
std::vector<ir::NodePtr> column_sum_after(const Site& site, const ir::Value& value, const ir::Value& seen) {
  for (const ir::Use& use : site.users(seen)) {
    if (use.user->op->view) {
      std::vector<ir::NodePtr> found = column_sum_after(site, value, {use.user, 0});
      if (!found.empty()) return found;
    }
    if (!use.user->is("sum") || use.user->attrs.ints("axes") != Ints{0} || use.user->types[0].shape.rank() != 1 ||
        !backend::is_rows_of(seen, value, 0, matrix_of(value.type().shape).rows))
      continue;
    const ir::NodePtr cast = site.sole_user({use.user, 0});
    if (cast && cast->is("cast") && is_floating(cast->types[0].dtype)) return {use.user, cast};
    return {use.user};
  }
  return {};
}

Claim norm_grad_claim(const Site& site, Norm norm, const std::optional<Addition>& addition,
                      const std::vector<ir::NodePtr>& sum) {
  norm.added = addition.has_value();
  if (!sum.empty()) norm.summed = sum.back()->types[0].dtype;
  Claim claim = Claim::of(cat("rows layer_norm_grad", addition ? "+add" : "", sum.empty() ? "" : "+sum"), site.root(),
                          [norm](const std::vector<Port>&, const std::vector<Port>&) { return make_norm_grad(norm); });
  claim.in_place = {{0, 0}, {0, 1}};
  if (addition) {
    claim.nodes.push_back(addition->node);
    claim.inputs.push_back(addition->other);
    claim.outputs[0] = {addition->node, 0};
    claim.in_place.push_back({0, 5});
  }
  claim.nodes.insert(claim.nodes.end(), sum.begin(), sum.end());
  if (!sum.empty()) claim.outputs.push_back({sum.back(), 0});
  return claim;
}

void claim_norm_grad(const Site& site, std::vector<Claim>& claims) {
  const TensorType& type = site.node().types[0];
  std::string refusal = row_refusal(type);
  if (refusal.empty() && RowSharing(Norm(site.node())).team.items == 0) refusal = "long rows";
  if (!refusal.empty()) return claims.push_back(Claim::no("rows layer_norm_grad", refusal));
  const Norm norm(site.node());
  const std::optional<Addition> addition = addition_after(site);
  const auto offer = [&](const std::optional<Addition>& added) {
    const ir::Value dx{added ? added->node : site.root(), 0};
    const std::vector<ir::NodePtr> sum = column_sum_after(site, dx, dx);
    if (!sum.empty()) claims.push_back(norm_grad_claim(site, norm, added, sum));
    claims.push_back(norm_grad_claim(site, norm, added, {}));
  };
  if (addition) offer(addition);
  offer(std::nullopt);
}

}  // namespace

void add_layer_norm_claims(ClaimMap& map) {
  map["layer_norm"].push_back(claim_norm);
  map["rms_norm"].push_back(claim_norm);
  map["add"].push_back(claim_sum_with_norm);
  map["layer_norm_grad"].push_back(claim_norm_grad);
}

}  // namespace varve::cuda
