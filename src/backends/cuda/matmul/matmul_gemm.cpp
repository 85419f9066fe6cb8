#include "backends/cuda/matmul/matmul_gemm.h"

#include <algorithm>
#include <optional>

#include "backends/cuda/claims.h"
#include "backends/cuda/device/sizes.h"
#include "backends/cuda/matmul/matmul_tma.h"
#include "backends/cuda/tuning/timing.h"
#include "base/text.h"
#include "varve/error.h"

namespace varve::cuda {
namespace {

Ints with_matrix(Ints batch, std::int64_t row, std::int64_t col) {
  batch.push_back(row);
  batch.push_back(col);
  return batch;
}

GemmOperands operands_of(const backend::RunArgs& args, const GemmSpec& spec, const Tail& tail = {}) {
  return {.a = args.in[0],
          .b = args.in[1],
          .bias = spec.bias ? args.in[2] : nullptr,
          .c = args.out[0],
          .scratch = args.scratch,
          .more = args.in + (spec.bias ? 3 : 2),
          .sums = tail.columns ? args.out[1] : nullptr};
}

}  // namespace

Gemm::Gemm(const GemmSpec& spec) {
  if (spec.product.empty()) return;
  const bool by_library = spec.product.k > 0 && blas_refusal(spec.in).empty() && prepare_blas(spec);
  if (!by_library || !blas_->takes_any_address())
    plain_ = std::make_shared<PlainGemm>(spec, by_library ? Begin::when_started : Begin::now);
}

// Operands that the library cannot read lie copied in scratch memory.
bool Gemm::prepare_blas(const GemmSpec& spec) {
  Packed packed = pack_for_blas(spec.product);
  if (spec.transpose_a) packed.product.a = {{}, spec.product.k, 1};
  if (spec.transpose_b) packed.product.b = {{}, 1, spec.product.k};
  packed.a = packed.a || spec.transpose_a;
  packed.b = packed.b || spec.transpose_b;
  GemmSpec call = spec;
  call.product = packed.product;
  fold(call.product);
  if (!blas_problem(call.product)) return false;
  blas_ = BlasGemm::prepare(call);
  if (!blas_) return false;
  const Product& p = spec.product;
  if (packed.a) a_ = make_copy(p.a, packed.product.a, Shape(with_matrix(p.batch, p.m, p.k)), spec.in);
  if (packed.b) b_ = make_copy(p.b, packed.product.b, Shape(with_matrix(p.batch, p.k, p.n)), spec.in);
  return true;
}

// Axes along which the matrix repeats are copied once.
Gemm::Copy Gemm::make_copy(const MatrixStrides& from, const MatrixStrides& to, const Shape& shape, DType dtype) {
  Shape once = shape;
  for (std::size_t axis = 0; axis < to.batch.size(); ++axis)
    if (to.batch[axis] == 0) once[static_cast<int>(axis)] = 1;
  const TensorType type{dtype, once};
  backend::Prepared copy = prepare_strided_copy({type, {0, with_matrix(from.batch, from.row, from.col)}, nullptr},
                                                {type, {0, with_matrix(to.batch, to.row, to.col)}, nullptr});
  return {std::move(copy.kernel), align_up(type.bytes()), align_up(copy.scratch_bytes)};
}

std::size_t Gemm::scratch_bytes() const {
  if (!blas_) return 0;
  const std::size_t copies = a_.bytes + a_.scratch + b_.bytes + b_.scratch;
  return (copies ? copies + kAlign : 0) + blas_->scratch_bytes();
}

const void* Gemm::copied(const Copy& copy, const void* from, std::byte*& scratch) const {
  if (!copy.kernel) return from;
  void* to = scratch;
  copy.kernel->run({.in = &from, .out = &to, .scratch = scratch + copy.bytes, .errors = nullptr});
  scratch += copy.bytes + copy.scratch;
  return to;
}

void Gemm::run(const GemmOperands& operands) const {
  if (!blas_) {
    if (plain_) plain_->run(operands);
    return;
  }
  GemmOperands o = operands;
  const auto address = reinterpret_cast<std::uintptr_t>(operands.scratch);
  auto* scratch =
      static_cast<std::byte*>(operands.scratch) + (a_.kernel || b_.kernel ? align_up(address) - address : 0);
  o.a = copied(a_, operands.a, scratch);
  o.b = copied(b_, operands.b, scratch);
  o.scratch = scratch;
  if (plain_ && !BlasGemm::is_aligned(o)) return plain_->run(operands);
  blas_->run(o);
}

namespace {

backend::Prepared prepare_gemm(const GemmSpec& spec) {
  const Gemm gemm(spec);
  return backend::prepared([gemm, spec](const backend::RunArgs& args) { gemm.run(operands_of(args, spec)); },
                           gemm.scratch_bytes());
}

// Tensor cores read TF32 along k alone. Where much is made of a factor that lies across, a copy of it may pay.
std::vector<GemmSpec> transposed_specs(const GemmSpec& spec) {
  constexpr std::int64_t kMuch = 512, kMostCopied = std::int64_t{8} << 20;  // elements
  const Product& p = spec.product;
  if (spec.in != f32 || !spec.tf32 || spec.adds || !p.batch.empty() || p.k < kMuch || !blas_refusal(f32).empty())
    return {};
  const bool a = p.a.col != 1 && p.n >= kMuch, b = p.b.row != 1 && p.m >= kMuch;
  std::vector<GemmSpec> specs;
  for (const auto& [transpose_a, transpose_b] : {std::pair{true, false}, {false, true}, {true, true}}) {
    if ((transpose_a && !a) || (transpose_b && !b)) continue;
    if ((transpose_a ? p.m * p.k : 0) + (transpose_b ? p.k * p.n : 0) > kMostCopied) continue;
    specs.push_back(spec);
    specs.back().transpose_a = transpose_a;
    specs.back().transpose_b = transpose_b;
  }
  return specs;
}

backend::Prepared prepare_fastest_gemm(const GemmSpec& spec, const std::vector<backend::Port>& in,
                                       const std::vector<backend::Port>& out) {
  std::optional<SmallGemm> small;  // first: its kernel is compiled while the library is asked
  if (SmallGemm::takes(spec)) small.emplace(spec);
  backend::Prepared best = prepare_gemm(spec);
  for (const GemmSpec& transposed : transposed_specs(spec)) {
    backend::Prepared rival = prepare_gemm(transposed);
    const std::string problem =
        cat("transposed", transposed.transpose_a ? " a" : "", transposed.transpose_b ? " b" : "",
            spec.bias ? " bias" : "", spec.relu ? " relu " : " ", name_of(transposed.product));
    const std::vector<KernelText> kernels{{"shape/strided_copy.cu", ""}, {"shape/transpose.cu", ""}};
    best = fastest_kernel({problem, kernels, in, out}, std::move(best), std::move(rival));
  }
  if (small) {
    backend::Prepared rival =
        backend::prepared([gemm = *small, spec](const backend::RunArgs& args) { gemm.run(operands_of(args, spec)); });
    const std::string problem = cat("small ", name(spec.in), spec.tf32 ? " tf32" : "", spec.bias ? " bias" : "",
                                    spec.relu ? " relu " : " ", name_of(spec.product));
    const std::vector<KernelText> kernels{{"matmul/matmul_small.cu", ""}, {"matmul/matmul_plain.cu", ""}};
    best = fastest_kernel({problem, kernels, in, out}, std::move(best), std::move(rival));
  }
  return best;
}

}  // namespace

backend::Prepared prepare_product(const GemmSpec& spec, const std::vector<backend::Port>& in,
                                  const std::vector<backend::Port>& out, const Tail& tail) {
  if (spec.wide_b) {
    const TmaGemm tma(spec, tail);
    return backend::prepared(
        [tma, spec, tail](const backend::RunArgs& args) { tma.run(operands_of(args, spec, tail)); },
        tma.scratch_bytes());
  }
  if (!TmaGemm::is_worth_trying(spec) || !TmaGemm::refusal(spec).empty()) {
    if (!tail.function.empty()) throw Error("a function of a product that does not tma.");
    return prepare_fastest_gemm(spec, in, out);
  }
  const Gemm gemm(spec);
  const TmaGemm tma(spec, tail);
  const auto run = [gemm, tma, spec, tail](const backend::RunArgs& args) {
    const GemmOperands operands = operands_of(args, spec, tail);
    gemm.run(operands);
    tma.apply(operands);
  };
  backend::Prepared by_tma = backend::prepared(
      [run, tma, spec, tail](const backend::RunArgs& args) {
        const GemmOperands operands = operands_of(args, spec, tail);
        TmaGemm::takes(operands) ? tma.run(operands) : run(args);
      },
      std::max(tma.scratch_bytes(), gemm.scratch_bytes()));
  backend::Prepared plain = backend::prepared(run, gemm.scratch_bytes());
  const std::string problem = cat("tma ", name(spec.in), spec.bias ? " bias" : "", spec.relu ? " relu" : "",
                                  tail.function.empty() ? " "
                                  : tail.is_simple()    ? " function "
                                                        : " tail ",
                                  name_of(spec.product));
  const std::vector<KernelText> kernels{
      {"matmul/matmul_tma.cu", tail.function}, {"matmul/split_k_sum.cu", ""}, {"matmul/split_k_tail.cu", ""}};
  return fastest_kernel({problem, kernels, in, out}, std::move(by_tma), std::move(plain));
}

}  // namespace varve::cuda
