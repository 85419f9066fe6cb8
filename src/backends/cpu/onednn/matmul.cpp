#include <varve/error.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "backends/cpu/onednn/layout.h"

namespace varve::cpu::dnn {
namespace {

constexpr Type kF32 = Type::f32;

std::string refusal_of(const MatmulSpec& s) {
  if (s.batch < 0 || s.m < 0 || s.n < 0 || s.k < 0) return "negative size";
  if ((s.input == Type::bf16 || s.output == Type::bf16) && !has_bf16()) return "this CPU has no bf16 products";
  if (s.input == kF32 && s.output == Type::bf16) return "f32 inputs with a bf16 output";
  if (s.packed_b && s.batch != 1) return "packed weights in a batch";
  if (s.batch > 1 && s.a.batch == 0 && s.b.batch == 0) return "a batch of which every product is the same";
  if (s.batch > 1 && s.c.batch == 0) return "a batch written to one matrix";
  return "";
}

Desc matrix_desc(const MatmulSpec& s, std::int64_t rows, std::int64_t cols, const Strides& strides, Type type) {
  if (s.batch == 1) return Desc({rows, cols}, data_type(type), Dims{strides.row, strides.col});
  // A repeated matrix is a batch of one, which oneDNN broadcasts.
  const std::int64_t batch = strides.batch == 0 ? 1 : s.batch;
  const std::int64_t step = strides.batch == 0 ? rows * cols : strides.batch;
  return Desc({batch, rows, cols}, data_type(type), Dims{step, strides.row, strides.col});
}

Desc bias_desc(const MatmulSpec& s) {
  if (!s.bias) return Desc();
  const Dims dims = s.batch == 1 ? Dims{1, s.n} : Dims{1, 1, s.n};
  const Dims strides = s.batch == 1 ? Dims{s.n, 1} : Dims{s.n, s.n, 1};
  return Desc(dims, data_type(kF32), strides);
}

bool is_row_major(const Strides& strides, std::int64_t cols) { return strides.col == 1 && strides.row == cols; }

dnnl::primitive_attr attributes(const MatmulSpec& s) {
  dnnl::primitive_attr attr = user_scratch_attr();
  dnnl::post_ops ops;
  if (s.beta != 0) ops.append_sum(s.beta);
  append_activation(ops, s.activation);
  attr.set_post_ops(ops);
  return attr;
}

float activate(Activation activation, float x) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return std::max(x, 0.f);
    case Activation::tanh:
      return std::tanh(x);
    case Activation::sigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::gelu_erf:
      return 0.5f * x * std::erfc(-x * 0.70710678f);
    case Activation::gelu_tanh:
      return 0.5f * x * (1 + std::tanh(0.79788456f * (x + 0.044715f * x * x * x)));
    case Activation::silu:
      return x / (1 + std::exp(-x));
  }
  return x;
}

float widen(std::uint16_t bits) {
  const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
  float value;
  static_assert(sizeof value == sizeof wide);
  std::copy_n(reinterpret_cast<const char*>(&wide), sizeof value, reinterpret_cast<char*>(&value));
  return value;
}

// Rounds to nearest even. NaN does not come here but through a NaN already in C or the bias, and stays one.
std::uint16_t narrow(float value) {
  std::uint32_t wide;
  std::copy_n(reinterpret_cast<const char*>(&value), sizeof wide, reinterpret_cast<char*>(&wide));
  if (std::isnan(value)) return static_cast<std::uint16_t>((wide >> 16) | 0x40);
  return static_cast<std::uint16_t>((wide + 0x7fff + ((wide >> 16) & 1)) >> 16);
}

// Zero K still owes an output: oneDNN returns without writing.
void run_without_product(const MatmulSpec& s, const MatmulArgs& args) {
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t i = 0; i < s.m; ++i) {
      for (std::int64_t j = 0; j < s.n; ++j) {
        const std::int64_t at = b * s.c.batch + i * s.c.row + j * s.c.col;
        float* wide = static_cast<float*>(args.c) + at;
        std::uint16_t* half = static_cast<std::uint16_t*>(args.c) + at;
        const bool is_wide = s.output == kF32;
        // Beta 0 must not read C: it may hold NaN.
        float value = s.beta == 0 ? 0 : s.beta * (is_wide ? *wide : widen(*half));
        if (s.bias) value += args.bias[j];
        value = activate(s.activation, value);
        if (is_wide) {
          *wide = value;
        } else {
          *half = narrow(value);
        }
      }
    }
  }
}

}  // namespace

struct Matmul::Impl {
  MatmulSpec spec;
  bool swapped = false;  // computes Cᵀ = Bᵀ·Aᵀ
  Kernel kernel;
  std::optional<PackedLayout> layout;

  // False when there is no real kernel.
  bool prepare_matmul();
};

bool Matmul::Impl::prepare_matmul() {
  const MatmulSpec& s = spec;
  const Desc a = matrix_desc(s, s.m, s.k, s.a, s.input);
  const Desc c = matrix_desc(s, s.m, s.n, s.c, s.output);
  const Desc b = s.packed_b ? Desc({s.k, s.n}, data_type(s.input), dnnl::memory::format_tag::any)
                            : matrix_desc(s, s.k, s.n, s.b, s.input);
  const Desc bias = bias_desc(s);
  const auto desc = describe<dnnl::matmul>(attributes(s), a, b, bias, c);
  if (!is_fast(desc)) return false;
  const Desc used = desc.weights_desc();
  if (s.packed_b) layout = make_layout(Desc({s.k, s.n}, data_type(s.input), Dims{s.n, 1}), used, s.input);
  kernel = Kernel::make<dnnl::matmul>(
      desc, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, used}, {DNNL_ARG_BIAS, bias}, {DNNL_ARG_DST, c}}, s.single_thread);
  return true;
}

namespace {

// Row-major products without a batch: oneDNN's inner product runs the older GEMM, which reads unpacked weights faster
// than the matmul primitive does (214 to 222 against 171 to 195 GFLOP/s at 64 rows).
Kernel prepare_inner_product(const MatmulSpec& s) {
  if (s.batch != 1 || s.packed_b || s.beta != 0 || s.input != kF32) return {};
  if (!is_row_major(s.a, s.k) || !is_row_major(s.b, s.n) || !is_row_major(s.c, s.n)) return {};
  const Desc a({s.m, s.k}, data_type(kF32), Dims{s.k, 1});
  const Desc b({s.n, s.k}, data_type(kF32), Dims{1, s.n});
  const Desc c({s.m, s.n}, data_type(kF32), Dims{s.n, 1});
  const Desc bias = s.bias ? Desc({s.n}, data_type(kF32), Dims{1}) : Desc();
  const auto desc =
      describe<dnnl::inner_product_forward>(attributes(s), dnnl::prop_kind::forward_inference, a, b, bias, c);
  if (!is_fast(desc)) return {};
  return Kernel::make<dnnl::inner_product_forward>(
      desc, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_BIAS, bias}, {DNNL_ARG_DST, c}}, s.single_thread);
}

MatmulSpec swapped(const MatmulSpec& s) {
  MatmulSpec t = s;
  std::swap(t.m, t.n);
  t.a = {s.b.batch, s.b.col, s.b.row};
  t.b = {s.a.batch, s.a.col, s.a.row};
  t.c = {s.c.batch, s.c.col, s.c.row};
  return t;
}

}  // namespace

Offer<Matmul> Matmul::prepare(const MatmulSpec& spec) {
  if (const std::string reason = refusal_of(spec); !reason.empty()) return Refused{"matmul: " + reason};
  return offer<Matmul>("matmul", [&]() -> Offer<Matmul> {
    limit_isa();
    auto impl = std::make_unique<Impl>();
    impl->spec = spec;
    MatmulSpec& s = impl->spec;
    // oneDNN writes rows; a column-major C is the row-major transpose of it.
    if (s.c.col != 1 && s.c.row == 1 && !s.bias && !s.packed_b) {
      s = swapped(s);
      impl->swapped = true;
    }
    if (s.batch == 0 || s.m == 0 || s.n == 0 || s.k == 0) return Matmul(std::move(impl));
    if (s.c.col != 1 && s.n != 1) return Refused{"matmul: an output whose columns are not adjacent"};
    const OneThread guard(s.single_thread);
    impl->kernel = prepare_inner_product(s);
    if (impl->kernel) return Matmul(std::move(impl));

    return impl->prepare_matmul()
               ? Offer<Matmul>(Matmul(std::move(impl)))
               : Refused{"matmul: oneDNN has no kernel, or only its reference one, for this product"};
  });
}

Matmul::Matmul(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Matmul::Matmul(Matmul&&) noexcept = default;
Matmul& Matmul::operator=(Matmul&&) noexcept = default;
Matmul::~Matmul() = default;

std::size_t Matmul::scratch_bytes() const { return impl_->kernel.scratch_bytes(); }

const PackedLayout& Matmul::b_layout() const {
  if (!impl_->layout) throw Error("matmul: b_layout() is for products prepared with packed_b and K, N > 0");
  return *impl_->layout;
}

std::string Matmul::implementation() const { return impl_->kernel ? impl_->kernel.implementation() : "fill"; }

void Matmul::run(const MatmulArgs& args) const {
  MatmulArgs bound = args;
  if (impl_->swapped) std::swap(bound.a, bound.b);
  if (!impl_->kernel) return run_without_product(impl_->spec, bound);
  impl_->kernel.run({bound.a, bound.b, bound.bias, bound.c}, bound.scratch);
}

}  // namespace varve::cpu::dnn
