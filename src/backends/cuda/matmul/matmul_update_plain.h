// A weight's gradient and what an optimiser does with it, by one plain kernel: for gradients that are sums of few
// terms, whose weights are all that takes time to move.
#pragma once

#include "backends/cuda/device/function.h"
#include "backends/cuda/matmul/product.h"
#include "varve/expr.h"

namespace varve::cuda {

struct UpdateSpec {
  Product product;  // one matrix: [M,N] = [M,K]·[K,N]
  DType in = f32;   // of the factors; weights and moments are f32
  bool tf32 = false;
  expr::Code code;           // over the gradient, then the operands
  std::vector<bool> scalar;  // per operand: one element for all, or a tensor [M,N]
  bool early = false;        // no earlier kernel of the program writes those tensors
};

// The longest sums that are worth it.
std::int64_t most_update_terms(DType in, bool tf32);
// Why not; empty: it can be done, with operands as they lie where takes_layout() says so.
std::string update_refusal(const UpdateSpec& spec);
bool takes_layout(const Product& product);

// TENSORS, SCALARS, RESULTS and update(g, x, s, y), which the kernels of updates find generated.
std::string update_text(const UpdateSpec& spec);
// The same of a function of one number, and of this many more: x[0] and so on.
std::string function_text(const expr::Code& code, std::size_t more = 0);

class PlainUpdate {
 public:
  explicit PlainUpdate(const UpdateSpec& spec);
  // a and b, then the operands; results.
  void run(const void* const* in, void* const* out);

 private:
  KernelText text(int vector) const;
  UpdateSpec spec_;
  std::int64_t side_ = 64;
  Function wide_, narrow_;  // for rows on 16 bytes, and for any: made when it is first needed
};

}  // namespace varve::cuda
