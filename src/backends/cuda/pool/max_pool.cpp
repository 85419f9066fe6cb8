// Maximum pooling and its gradient in one pass with what stands beside them: the bias and ReLU before it, dropout, the
// gradient of a ReLU, the gradient of a bias.
#include <optional>

#include "backend/match.h"
#include "backend/max_pool.h"
#include "backends/cuda/pool/pool.h"
#include "backends/cuda/random/dropout.h"

namespace varve::cuda {
namespace {

using backend::Claim;
using backend::cover_dropout;
using backend::dropout_after;
using backend::MaxPoolGradient;
using backend::Port;
using backend::Prepared;
using backend::RunArgs;
using backend::Site;

// What one kernel does.
struct MaxPool {
  Pool pool;
  bool biased = false;            // x is relu(x + bias)
  bool stored = false;            // and that is written, too
  std::optional<Drop> drop = {};  // of the result, or of dy
  bool positive = false;          // gradient: only where the largest is above zero
  bool summed = false;            // gradient: also its sum over all pixels

  Constants constants() const {
    Constants all;
    const auto define = [&](bool wanted, const char* name) {
      if (wanted) all.emplace_back(name, "1");
    };
    define(biased, "BIAS");
    define(stored, "STORE");
    define(drop.has_value(), "DROPOUT");
    define(positive, "RELU");
    define(summed, "SUM");
    return all;
  }
};

// Operands as the kernels have them.
struct ForwardArgs {
  const void *x, *bias = nullptr;
  void *y, *stored = nullptr;
  DropArgs drop = {};
};
struct BackwardArgs {
  const void *x, *bias = nullptr, *dy;
  void *dx, *sum = nullptr, *shares = nullptr;
  DropArgs drop = {};
};

// Seed and counter are inputs `at` and the next.
DropArgs drop_args(const MaxPool& p, const RunArgs& args, std::size_t at) {
  if (!p.drop) return {};
  return {*p.drop, args.in[at], args.in[at + 1]};
}

// ---- forward: x, bias, seed, counter -> y, x with bias and ReLU

Prepared prepare_forward(const MaxPool& p) {
  if (p.pool.empty()) return nothing();
  const int vec = p.pool.most_channels();
  const PoolKernel kernel("max_pool", p.pool, vec, p.constants(), "pool/max_pool.cu");
  // Patches of x, where all of it is written.
  const PoolShape& shape = p.pool.shape;
  const auto count = [&](int side, int size, int before, int outputs) {
    return p.stored ? static_cast<int>(ceil_div(size + before, p.pool.stride[side])) : outputs;
  };
  const int rows = count(0, shape.height, shape.top, shape.out_height);
  const int columns = count(1, shape.width, shape.left, shape.out_width);
  const auto run = [=](const RunArgs& args) {
    ForwardArgs f{.x = args.in[0], .y = args.out[0], .drop = drop_args(p, args, p.biased ? 2 : 1)};
    if (p.biased) f.bias = args.in[1];
    if (p.stored) f.stored = args.out[1];
    const bool wide = kernel.takes_packs() && aligned(16, f.x, f.y, f.stored);
    const PoolLaunch go = pool_launch(p.pool, rows, columns, wide ? vec : 1);
    kernel.for_packs(wide)(go.launch, go.shape, f);
  };
  return backend::prepared(run);
}

// x, values -> y
Prepared prepare_gather(const Pool& pool) {
  if (pool.empty()) return nothing();
  const KernelText text{"pool/max_pool_gather.cu", pool.constants(1, {})};
  return backend::prepared([=, kernel = Function("max_pool_gather", text)](const RunArgs& args) {
    const PoolLaunch go = pool_launch(pool, pool.shape.out_height, pool.shape.out_width, 1);
    kernel(go.launch, go.shape, args.in[0], args.in[1], args.out[0]);
  });
}

// ---- gradient: x, dy, seed, counter -> dx, its sum over pixels

// Cells of x to a thread, along one side: as far as the next windows begin; of windows that begin everywhere, two.
int patch_of(const Pool& pool, int side) {
  return pool.stride[side] == 1 && pool.window[side] > 1 ? 2 : pool.stride[side];
}

// Whether a thread can hold a patch, and its visits to windows be written out.
bool has_patches(const Pool& pool) {
  constexpr std::int64_t kMostCells = 16, kMostVisits = 150;
  std::int64_t cells = 1, visits = 1;
  for (int side = 0; side < 2; ++side) {
    const std::int64_t window = pool.window[side], stride = pool.stride[side], patch = patch_of(pool, side);
    cells *= patch;
    visits *= ((window - 1) / stride + patch / stride) * window;
    if (cells > kMostCells || visits > kMostVisits) return false;
  }
  return true;
}

// Patches below each other to a thread: where windows reach into the next one, so that each is visited once; as long as
// there are threads enough.
int strip_of(const Pool& pool, int rows, std::int64_t strips_of_one) {
  constexpr int kMost = 8;
  constexpr std::int64_t kThreads = std::int64_t{1} << 17;
  const int reach = (pool.window[0] - 1) / pool.stride[0];
  if (reach != 1 || patch_of(pool, 0) != pool.stride[0]) return 1;
  int strip = kMost;
  while (strip > 1 && ceil_div(rows, strip) * strips_of_one < kThreads) strip /= 2;
  return strip;
}

class Backward {
 public:
  explicit Backward(const MaxPool& p) : p_(p), vec_(p.pool.most_channels()) {
    const int patch[2] = {patch_of(p.pool, 0), patch_of(p.pool, 1)};
    constexpr int kMostHeld = 40;  // sums in registers
    while (vec_ > 1 && vec_ * patch[0] * patch[1] > kMostHeld) vec_ /= 2;
    Constants constants = p.constants();
    constants.emplace_back("PH", cat(patch[0]));
    constants.emplace_back("PW", cat(patch[1]));
    const PoolShape& shape = p.pool.shape;
    const int patches = static_cast<int>(ceil_div(shape.height + shape.top, patch[0]));
    columns_ = static_cast<int>(ceil_div(shape.width + shape.left, patch[1]));
    const int strip = strip_of(p.pool, patches, shape.images * columns_ * ceil_div(shape.channels, vec_));
    constants.emplace_back("STRIP", cat(strip));
    rows_ = static_cast<int>(ceil_div(patches, strip));
    kernel_.emplace("max_pool_grad", p.pool, vec_, constants, "pool/max_pool_grad.cu");
  }

  // A share of the sums for each block.
  std::size_t scratch_bytes() const {
    if (!p_.summed) return 0;
    const std::int64_t blocks = std::max(launch(vec_).launch.grid, launch(1).launch.grid);
    return static_cast<std::size_t>(blocks * p_.pool.shape.channels * (p_.pool.dtype == f64 ? 8 : 4));
  }

  void operator()(const RunArgs& args) const {
    BackwardArgs b{.x = args.in[0], .dy = args.in[1], .dx = args.out[0], .drop = drop_args(p_, args, 2)};
    if (p_.summed) b.sum = args.out[1];
    b.shares = args.scratch;
    const bool wide = kernel_->takes_packs() && aligned(vec_ * element_bytes(p_.pool.dtype), b.x, b.dy, b.dx);
    const PoolLaunch go = launch(wide ? vec_ : 1);
    kernel_->for_packs(wide)(go.launch, go.shape, b);
  }

 private:
  PoolLaunch launch(int vec) const {
    if (!p_.summed) return pool_launch(p_.pool, rows_, columns_, vec);
    // Few blocks for the same channels, so that few shares are to be added: four to a multiprocessor, each with no more
    // than a line of 128 bytes along the channels, but no more parts of the channels than the kernel counts.
    constexpr std::int64_t kSharing = 4, kLine = 8, kMostParts = 256;
    const std::int64_t packs = (p_.pool.shape.channels + vec - 1) / vec;
    return pool_launch(p_.pool, rows_, columns_, vec, kSharing, std::max(kLine, (packs + kMostParts - 1) / kMostParts));
  }

  MaxPool p_;
  int vec_, rows_, columns_;
  std::optional<PoolKernel> kernel_;
};

Prepared prepare_backward(const MaxPool& p) {
  if (p.pool.empty()) return nothing();
  Backward run(p);
  const std::size_t scratch = run.scratch_bytes();
  return backend::prepared(std::move(run), scratch);
}

// Windows of any size.
Prepared prepare_backward_any(const Pool& pool) {
  if (pool.empty()) return nothing();
  const KernelText text{"pool/max_pool_grad_any.cu", pool.constants(1, {})};
  return backend::prepared([=, kernel = Function("max_pool_grad_any", text)](const RunArgs& args) {
    const PoolLaunch go = pool_launch(pool, pool.shape.height, pool.shape.width, 1);
    kernel(go.launch, go.shape, args.in[0], args.in[1], args.out[0]);
  });
}

// ---- patterns

Claim claim_with(const std::string& name, const ir::NodePtr& node, Prepared (*prepare)(const MaxPool&),
                 const MaxPool& p) {
  return Claim::of(name, node, [=](const std::vector<Port>&, const std::vector<Port>&) { return prepare(p); });
}

Pool pool_of(const ir::Node& node) { return {node.attrs, node.inputs[0].type().shape, node.types[0]}; }
Pool pool_of_gradient(const ir::Node& node) { return {node.attrs, node.types[0].shape, node.inputs[1].type()}; }

void claim_max_pool(const Site& site, std::vector<Claim>& claims) {
  const ir::NodePtr& node = site.root();
  if (const std::string no = Pool::refusal(node->inputs[0].type().shape); !no.empty())
    return claims.push_back(Claim::no("cuda max_pool2d", no));
  MaxPool p{.pool = pool_of(*node)};
  if (const ir::NodePtr dropout = dropout_after(site, {node, 0})) {
    p.drop = Drop(*dropout);
    claims.push_back(claim_with("cuda max_pool2d+dropout", node, prepare_forward, p));
    cover_dropout(claims.back(), dropout);
    p.drop.reset();
  }
  claims.push_back(claim_with("cuda max_pool2d", node, prepare_forward, p));
}

// add(x, bias [C]) -> relu -> max_pool2d (-> dropout), where nobody took the first two.
void claim_biased(const Site& site, std::vector<Claim>& claims) {
  const ir::NodePtr& add = site.root();
  const TensorType& type = add->types[0];
  if (type.shape.rank() != 4 || !is_floating(type.dtype)) return;
  const int x = add->inputs[0].type() == type ? 0 : 1;
  const ir::Value &image = add->inputs[static_cast<std::size_t>(x)],
                  &bias = add->inputs[static_cast<std::size_t>(1 - x)];
  if (image.type() != type || bias.type() != TensorType{type.dtype, {type.shape.back()}}) return;
  const ir::NodePtr relu = site.sole_user({add, 0});
  if (!relu || !relu->is("relu") || !Pool::refusal(type.shape).empty()) return;
  const ir::Value activated{relu, 0};
  const auto& readers = site.users(activated);
  const auto reader =
      std::find_if(readers.begin(), readers.end(), [](const ir::Use& use) { return use.user->is("max_pool2d"); });
  if (reader == readers.end()) return;
  const ir::NodePtr& node = reader->user;
  MaxPool p{.pool = pool_of(*node), .biased = true, .stored = readers.size() > 1 || site.is_output(activated)};
  const ir::NodePtr dropout = dropout_after(site, {node, 0});
  if (dropout) p.drop = Drop(*dropout);
  Claim claim = claim_with(cat("cuda bias+relu+max_pool2d", dropout ? "+dropout" : ""), add, prepare_forward, p);
  claim.nodes = {add, relu, node};
  claim.inputs = {image, bias};
  claim.outputs = {{node, 0}};
  claim.in_place = {};
  if (dropout) cover_dropout(claim, dropout);
  if (p.stored) claim.outputs.push_back(activated);
  claims.push_back(std::move(claim));
}

Claim gradient_claim(const MaxPoolGradient& pattern, bool with_mask) {
  MaxPool p{.pool = pool_of_gradient(*pattern.grad), .positive = with_mask, .summed = with_mask && pattern.sum};
  if (pattern.drop) p.drop = Drop(*pattern.drop);
  Claim claim = claim_with(cat("cuda ", pattern.text(with_mask)), pattern.grad, prepare_backward, p);
  pattern.cover(claim, with_mask);
  return claim;
}

void claim_patches(const Site& site, const ir::NodePtr& grad, const ir::NodePtr& drop, std::vector<Claim>& claims) {
  constexpr std::int64_t kMostChannels = 64 * 256;  // that the sums' counters are enough for, one at a time
  const Shape& x = grad->types[0].shape;
  if (!Pool::refusal(x).empty() || !has_patches(pool_of_gradient(*grad))) return;
  const MaxPoolGradient pattern(site, grad, drop);
  if (pattern.masked && (!pattern.sum || x[3] <= kMostChannels)) claims.push_back(gradient_claim(pattern, true));
  claims.push_back(gradient_claim(pattern, false));
}

void claim_max_pool_grad(const Site& site, std::vector<Claim>& claims) {
  const ir::NodePtr& node = site.root();
  if (const std::string no = Pool::refusal(node->types[0].shape); !no.empty())
    return claims.push_back(Claim::no("cuda max_pool2d_grad", no));
  claim_patches(site, node, nullptr, claims);
  if (!claims.empty()) return;
  claims.push_back(Claim::of("cuda max_pool2d_grad", node,
                             [pool = pool_of_gradient(*node)](const std::vector<Port>&, const std::vector<Port>&) {
                               return prepare_backward_any(pool);
                             }));
}

void claim_dropped_gradient(const Site& site, std::vector<Claim>& claims) {
  const ir::Value dropped{site.root(), 0};
  const ir::NodePtr next = site.sole_user(dropped);
  if (next && next->is("max_pool2d_grad") && next->inputs[1] == dropped && next->inputs[0] != dropped)
    claim_patches(site, next, site.root(), claims);
}

void claim_gather(const Site& site, std::vector<Claim>& claims) {
  const ir::NodePtr& node = site.root();
  if (const std::string no = Pool::refusal(node->inputs[0].type().shape); !no.empty())
    return claims.push_back(Claim::no("cuda max_pool2d_gather", no));
  claims.push_back(Claim::of(
      "cuda max_pool2d_gather", node,
      [pool = pool_of(*node)](const std::vector<Port>&, const std::vector<Port>&) { return prepare_gather(pool); }));
}

}  // namespace

void add_max_pool_claims(ClaimMap& map) {
  const auto first = [&](const char* op, ClaimFn claim) { map[op].insert(map[op].begin(), std::move(claim)); };
  map["max_pool2d"].push_back(claim_max_pool);
  map["max_pool2d_grad"].push_back(claim_max_pool_grad);
  map["max_pool2d_gather"].push_back(claim_gather);
  first("dropout", claim_dropped_gradient);
  first("add", claim_biased);
}

}  // namespace varve::cuda
