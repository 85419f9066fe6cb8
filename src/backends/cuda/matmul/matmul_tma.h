// Products of few rows with large weights of f32, and the updates of those weights, which read the weights once, by
// TMA. For compute capability 9.0, in TF32, or in bf16 and f16, to which weights are rounded as they are loaded.
#pragma once

#include "backends/cuda/matmul/matmul_plain.h"
#include "backends/cuda/matmul/matmul_update_plain.h"
#include "backends/cuda/matmul/split_k.h"

namespace varve::cuda {

// y[M,N] = x[M,K]·w, and perhaps a function of it.
class TmaGemm {
 public:
  explicit TmaGemm(const GemmSpec& spec, const Tail& tail = {});
  static std::string refusal(const GemmSpec& spec);   // empty: it can be done, where takes() says so too
  static bool is_worth_trying(const GemmSpec& spec);  // by its size

  std::size_t scratch_bytes() const;
  static bool takes(const GemmOperands& operands);  // by their addresses
  void run(const GemmOperands& operands) const;
  void apply(const GemmOperands& operands) const;  // the function alone, where somebody else has multiplied

 private:
  bool along() const { return spec_.product.b.row == 1; }
  std::int64_t stripe_width() const { return along() ? 64 : 32 * units_; }
  std::int64_t stripes() const { return (spec_.product.n + stripe_width() - 1) / stripe_width(); }
  std::int64_t tiles() const;
  void divide();
  std::int64_t bytes_of_a_block() const;
  bool in_parts() const { return splits_ > 1 || !tail_.is_simple(); }
  void finish(const Function& function, const Parts& parts, const void* bias, const GemmOperands& operands) const;

  GemmSpec spec_;
  Tail tail_;
  std::int64_t units_ = 1, stages_ = 1, splits_ = 1;
  Function product_, sum_, apply_;
};

class TmaUpdate {
 public:
  explicit TmaUpdate(const UpdateSpec& spec);
  static std::string refusal(const UpdateSpec& spec);
  static bool is_worth_trying(const UpdateSpec& spec);

  bool takes(const void* const* in, void* const* out) const;
  void run(const void* const* in, void* const* out) const;  // as PlainUpdate has them

 private:
  UpdateSpec spec_;
  std::int64_t stages_ = 1, steps_ = 1;
  Function function_;
};

// The same with dx[K,M] = g[K,N]·w[M,N]ᵀ beside it, of the type of g, where the gradient of w[M,N] is x[K,M]ᵀ·g; or
// with what follows dx.
class TmaBackward {
 public:
  TmaBackward(const UpdateSpec& spec, std::size_t weights,
              const Tail& tail = {});  // weights: which of the operands w is
  static std::string refusal(const UpdateSpec& spec);
  static bool is_worth_trying(const UpdateSpec& spec);

  std::size_t scratch_bytes() const;
  // x, g, the operands, and those of the tail; results, and then dx, and sums of the tail.
  bool takes(const void* const* in, void* const* out) const;
  void run(const void* const* in, void* const* out, void* scratch) const;

 private:
  std::int64_t stripes() const;
  std::int64_t splits() const;

  UpdateSpec spec_;
  Tail tail_;
  std::int64_t stages_ = 1;
  Function function_, sum_;
};

}  // namespace varve::cuda
