// Maximum pooling and its gradient in one pass with what stands beside them: dropout, the gradient of a ReLU, the
// gradient of a bias.
#include <optional>

#include "backend/match.h"
#include "backend/max_pool.h"
#include "backends/cpu/common/loops.h"
#include "backends/cpu/common/scratch.h"
#include "backends/cpu/pool/max_pool_fused.h"
#include "backends/cpu/pool/max_pool_kernels.h"
#include "backends/cpu/pool/windows.h"
#include "backends/cpu/random/dropout.h"

namespace varve::cpu {
namespace {

using backend::Claim;
using backend::MaxPoolGradient;
using backend::Port;
using backend::Prepared;
using backend::RunArgs;
using backend::Site;

struct Drop {
  std::int64_t stream;
  double rate;
};

// What one kernel does.
struct MaxPool {
  Pool pool;
  DType dtype;
  std::optional<Drop> drop = {};
  bool positive = false;  // gradient: only where the largest is above zero
  bool summed = false;    // gradient: also its sum over all pixels

  std::int64_t bytes() const { return element_bytes(dtype); }
  std::int64_t row() const { return pool.out_width * pool.channels; }  // elements of y

  // Rows of y in fixed blocks, so that sums repeat.
  std::int64_t grain() const {
    constexpr std::int64_t kMostBlocks = 64;
    return std::max(grain_for(row() * pool.window[0] * pool.window[1] * bytes()),
                    (pool.out_rows() + kMostBlocks - 1) / kMostBlocks);
  }
  std::int64_t blocks() const { return (pool.out_rows() + grain() - 1) / grain(); }

  // Where rows are dropped or widened, and sums, of one block.
  std::size_t row_bytes() const { return drop || dtype != f32 ? float_bytes(row()) : 0; }
  std::size_t sum_bytes() const { return summed ? float_bytes(pool.channels) : 0; }
  std::size_t scratch_bytes() const { return static_cast<std::size_t>(blocks()) * (row_bytes() + sum_bytes()); }

  PoolRow windows(const void* x, std::int64_t image, std::int64_t number) const {
    const Range rows = covered(pool, 0, number);
    return {at(x, (image * pool.height + rows.begin) * pool.width * pool.channels * bytes()),
            rows.end - rows.begin,
            pool.width,
            pool.channels,
            pool.out_width,
            pool.window[1],
            pool.stride[1],
            pool.before[1]};
  }
};

// `dropped` [seed, counter] follows the first `count` inputs.
std::optional<RandomSource> source(const MaxPool& p, const RunArgs& args, std::size_t count) {
  if (!p.drop) return std::nullopt;
  return random_source(args.in[count], args.in[count + 1], p.drop->stream);
}

// ---- forward

Prepared prepare_largest(const MaxPool& p) {
  const auto run = [p, kernels = pool_kernels(p.dtype)](const RunArgs& args) {
    const std::optional<RandomSource> from = source(p, args, 1);
    parallel_for(p.pool.out_rows(), p.grain(), [&](std::int64_t begin, std::int64_t end) {
      auto* floats =
          reinterpret_cast<float*>(at(args.scratch, begin / p.grain() * static_cast<std::int64_t>(p.row_bytes())));
      each_row(begin, end, p.pool.out_height, [&](std::int64_t image, std::int64_t number) {
        const std::int64_t first = (image * p.pool.out_height + number) * p.row();
        std::byte* y = at(args.out[0], first * p.bytes());
        kernels.largest(p.windows(args.in[0], image, number), y);
        if (!from) return;
        float* values = p.dtype == f32 ? reinterpret_cast<float*>(y) : floats;
        if (p.dtype != f32) convert(y, p.dtype, values, f32, p.row());
        drop_floats(values, values, first, p.row(), p.drop->rate, *from);
        if (p.dtype != f32) convert(values, f32, y, p.dtype, p.row());
      });
    });
  };
  return backend::prepared(run, p.scratch_bytes());
}

// ---- gradient

// Each window writes its own cells; cells of no window are zeroed with the rows that follow a window.
class Spread {
 public:
  explicit Spread(const MaxPool& p) : p_(p), kernels_(pool_kernels(p.dtype)) {
    const Pool& pool = p.pool;
    gaps_ = pool.stride[0] != pool.window[0] || pool.stride[1] != pool.window[1] || pool.before[0] != 0 ||
            pool.before[1] != 0 || pool.out_height * pool.window[0] != pool.height ||
            pool.out_width * pool.window[1] != pool.width;
  }

  void operator()(const RunArgs& args) const {
    const std::optional<RandomSource> from = source(p_, args, 2);
    std::byte* sums = at(args.scratch, p_.blocks() * static_cast<std::int64_t>(p_.row_bytes()));
    parallel_for(p_.pool.out_rows(), p_.grain(), [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t block = begin / p_.grain();
      auto* floats = reinterpret_cast<float*>(at(args.scratch, block * static_cast<std::int64_t>(p_.row_bytes())));
      float* sum = p_.summed ? block_sums(sums, block) : nullptr;
      if (sum) std::fill_n(sum, p_.pool.channels, 0.f);
      each_row(begin, end, p_.pool.out_height,
               [&](std::int64_t image, std::int64_t number) { run_row(args, image, number, from, floats, sum); });
    });
    if (p_.summed) add_sums(sums, args.out[1]);
  }

 private:
  float* block_sums(std::byte* sums, std::int64_t block) const {
    return reinterpret_cast<float*>(at(sums, block * static_cast<std::int64_t>(p_.sum_bytes())));
  }

  void run_row(const RunArgs& args, std::int64_t image, std::int64_t number, const std::optional<RandomSource>& from,
               float* floats, float* sum) const {
    const Pool& pool = p_.pool;
    const std::int64_t first = (image * pool.out_height + number) * p_.row(), pitch = pool.width * pool.channels;
    const std::byte* dy = at(args.in[1], first * p_.bytes());
    if (p_.dtype != f32) convert(dy, p_.dtype, floats, f32, p_.row());
    const float* given = p_.dtype == f32 ? reinterpret_cast<const float*>(dy) : floats;
    if (from) {
      drop_floats(given, floats, first, p_.row(), p_.drop->rate, *from);
      given = floats;
    }
    if (gaps_) {
      const std::int64_t begin = number == 0 ? 0 : covered(pool, 0, number).begin;
      const std::int64_t end = number + 1 == pool.out_height ? pool.height : covered(pool, 0, number + 1).begin;
      std::memset(at(args.out[0], (image * pool.height + begin) * pitch * p_.bytes()), 0,
                  static_cast<std::size_t>((end - begin) * pitch * p_.bytes()));
    }
    const std::int64_t covered_first = image * pool.height + covered(pool, 0, number).begin;
    kernels_.spread(p_.windows(args.in[0], image, number), given, p_.positive,
                    at(args.out[0], covered_first * pitch * p_.bytes()), sum);
  }

  void add_sums(std::byte* sums, void* out) const {
    float* total = block_sums(sums, 0);
    for (std::int64_t block = 1; block < p_.blocks(); ++block)
      for (std::int64_t c = 0; c < p_.pool.channels; ++c) total[c] += block_sums(sums, block)[c];
    convert(total, f32, out, p_.dtype, p_.pool.channels);
  }

  MaxPool p_;
  PoolKernels kernels_;
  bool gaps_;
};

// ---- patterns

std::optional<Drop> drop_of(const ir::NodePtr& node) {
  if (!node) return std::nullopt;
  return Drop{node->attrs.integer("stream"), node->attrs.number("rate")};
}

bool takes(const Pool& pool, DType dtype) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;  // pixels are numbered in 32 bits
  return (dtype == f32 || dtype == bf16) && pool.images * pool.out_height > 0 && pool.channels > 0 &&
         pool.height * pool.width < kMost;
}

void claim_largest(const Site& site, std::vector<Claim>& claims) {
  const ir::NodePtr& node = site.root();
  const TensorType& type = node->types[0];
  MaxPool p{Pool(node->attrs, node->inputs[0].type().shape, type.shape), type.dtype};
  if (!takes(p.pool, p.dtype)) return;
  const auto claim = [&](const std::string& name) {
    return Claim::of(name, node,
                     [p](const std::vector<Port>&, const std::vector<Port>&) { return prepare_largest(p); });
  };
  if (const ir::NodePtr dropout = backend::dropout_after(site, {node, 0})) {
    p.drop = drop_of(dropout);
    claims.push_back(claim("cpu max_pool2d+dropout"));
    backend::cover_dropout(claims.back(), dropout);
    p.drop.reset();
  }
  claims.push_back(claim("cpu max_pool2d"));
}

Claim gradient_claim(const MaxPoolGradient& pattern, bool with_mask) {
  const ir::NodePtr& grad = pattern.grad;
  const MaxPool p{Pool(grad->attrs, grad->types[0].shape, grad->inputs[1].type().shape), grad->types[0].dtype,
                  drop_of(pattern.drop), with_mask, with_mask && pattern.sum};
  Claim claim =
      Claim::of(cat("cpu ", pattern.text(with_mask)), grad, [p](const std::vector<Port>&, const std::vector<Port>&) {
        return backend::prepared(Spread(p), p.scratch_bytes());
      });
  pattern.cover(claim, with_mask);
  return claim;
}

void claim_spread(const Site& site, const ir::NodePtr& grad, const ir::NodePtr& drop, std::vector<Claim>& claims) {
  const Pool pool(grad->attrs, grad->types[0].shape, grad->inputs[1].type().shape);
  if (!takes(pool, grad->types[0].dtype) || pool.overlaps()) return;
  const MaxPoolGradient pattern(site, grad, drop);
  if (pattern.masked) claims.push_back(gradient_claim(pattern, true));
  claims.push_back(gradient_claim(pattern, false));
}

void claim_max_pool_gradient(const Site& site, std::vector<Claim>& claims) {
  claim_spread(site, site.root(), nullptr, claims);
}

void claim_dropped_gradient(const Site& site, std::vector<Claim>& claims) {
  const ir::Value dropped{site.root(), 0};
  const ir::NodePtr next = site.sole_user(dropped);
  if (next && next->is("max_pool2d_grad") && next->inputs[1] == dropped) claim_spread(site, next, site.root(), claims);
}

}  // namespace

void add_fused_max_pool_claims(ClaimMap& map) {
  const auto first = [&](const char* op, ClaimFn claim) { map[op].insert(map[op].begin(), std::move(claim)); };
  first("max_pool2d", claim_largest);
  first("max_pool2d_grad", claim_max_pool_gradient);
  first("dropout", claim_dropped_gradient);
}

}  // namespace varve::cpu
