#include "backends/cuda/cublas/cublas.h"

#include <algorithm>
#include <mutex>

#include "backends/cuda/cublas/cublas_choice.h"
#include "backends/cuda/device/context.h"
#include "base/levers.h"
#include "base/text.h"
#include "varve/error.h"

namespace varve::cuda {
namespace {

constexpr std::uint32_t kAlignment = 16;  // bytes: what vector loads and TMA need
constexpr std::size_t kMostWorkspace = std::size_t{32} << 20;
constexpr std::size_t kWorkspaceAlignment = 256;
constexpr std::int64_t kMostProducts = 65535;  // of a batch: blocks along one axis of a grid

cudaDataType_t type_of(DType dtype) {
  if (dtype == f64) return CUDA_R_64F;
  if (dtype == bf16) return CUDA_R_16BF;
  return dtype == f16 ? CUDA_R_16F : CUDA_R_32F;
}

cublasComputeType_t compute_type(const GemmSpec& spec) {
  if (spec.out == f64) return CUBLAS_COMPUTE_64F;
  return spec.in == f32 && spec.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

std::uint32_t epilogue(const GemmSpec& spec) {
  if (spec.bias) return spec.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
  return spec.relu ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_DEFAULT;
}

template <class T>
void set(const BlasDesc& desc, cublasLtMatmulDescAttributes_t which, T value) {
  check(cublasLtMatmulDescSetAttribute(desc.get(), which, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
}
template <class T>
void set(const BlasLayout& layout, cublasLtMatrixLayoutAttribute_t which, T value) {
  check(cublasLtMatrixLayoutSetAttribute(layout.get(), which, &value, sizeof value),
        "cublasLtMatrixLayoutSetAttribute");
}
template <class T>
void set(const BlasPreference& preference, cublasLtMatmulPreferenceAttributes_t which, T value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference.get(), which, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute");
}

void make(BlasLayout& layout, const BlasMatrix& matrix, DType dtype, std::int64_t count) {
  check(cublasLtMatrixLayoutCreate(layout.out(), type_of(dtype), static_cast<std::uint64_t>(matrix.rows),
                                   static_cast<std::uint64_t>(matrix.columns), matrix.ld),
        "cublasLtMatrixLayoutCreate");
  if (count == 1) return;
  set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(count));
  set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, matrix.batch);
}

std::string matrix_text(const BlasMatrix& x) {
  return cat(x.rows, "x", x.columns, "/", x.ld, "+", x.batch, x.transposed ? "t" : "n");
}

std::size_t bytes_of(const BlasMatrix& x, std::int64_t count, DType dtype) {
  const std::int64_t elements = x.batch * (count - 1) + x.ld * (x.columns - 1) + x.rows;
  return static_cast<std::size_t>(elements) * size_of(dtype);
}

}  // namespace

void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw Error(cat(call, " failed: ", cublasLtGetStatusString(status), " (", cublasLtGetStatusName(status), ")."));
}

cublasLtHandle_t blas() {
  static std::once_flag once;
  static cublasLtHandle_t handle = nullptr;  // lives as long as the process
  if (!gpu().present()) return nullptr;
  std::call_once(once, [] {
    context().make_current();
    if (cublasLtCreate(&handle) != CUBLAS_STATUS_SUCCESS) handle = nullptr;
  });
  return handle;
}

std::string blas_refusal(DType dtype) {
  if (!lever("cublas")) return kLeftOut;
  if (!is_floating(dtype)) return name(dtype);
  return blas() ? "" : "cuBLASLt finds no GPU";
}

std::shared_ptr<BlasGemm> BlasGemm::prepare(const GemmSpec& spec) {
  if (!blas() || spec.product.count() > kMostProducts) return nullptr;
  context().make_current();
  std::shared_ptr<BlasGemm> gemm(new BlasGemm(spec));
  return gemm->choose() ? gemm : nullptr;
}

void BlasGemm::wake() {
  if (!lever("cublas")) return;
  beside([] {
    if (!blas()) return;
    constexpr std::int64_t kSide = 64;
    const MatrixStrides matrix{{}, kSide, 1};
    const BlasGemm gemm({.product = {{}, kSide, kSide, kSide, matrix, matrix, matrix}});
    static_cast<void>(gemm.candidates(1, kAlignment));
  });
}

BlasGemm::BlasGemm(const GemmSpec& spec) : spec_(spec), problem_(blas_problem(spec.product).value()) {
  check(cublasLtMatmulDescCreate(desc_.out(), compute_type(spec), type_of(scale_type(spec.out))),
        "cublasLtMatmulDescCreate");
  const auto transposed = [](const BlasMatrix& x) { return x.transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(desc_, CUBLASLT_MATMUL_DESC_TRANSA, static_cast<std::int32_t>(transposed(problem_.a)));
  set(desc_, CUBLASLT_MATMUL_DESC_TRANSB, static_cast<std::int32_t>(transposed(problem_.b)));
  set(desc_, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue(spec));
  if (spec.bias) {
    set(desc_, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<std::int32_t>(type_of(spec.out)));
    // Before there is a bias its address says how it will be aligned.
    set(desc_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, reinterpret_cast<const void*>(std::uintptr_t{kAlignment}));
  }
  if (spec.scaled)
    set(desc_, CUBLASLT_MATMUL_DESC_POINTER_MODE, static_cast<std::int32_t>(CUBLASLT_POINTER_MODE_DEVICE));
  make(a_, problem_.a, spec.in, problem_.count);
  make(b_, problem_.b, spec.in, problem_.count);
  make(d_, problem_.d, spec.out, problem_.count);
}

bool BlasGemm::choose() {
  const auto chosen = chosen_algorithm(*this, kAlignment);
  if (!chosen) return false;
  aligned_ = *chosen;
  // Views may begin anywhere; that is rare, and not worth a search.
  if (spec_.bias)
    set(desc_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, reinterpret_cast<const void*>(std::uintptr_t{size_of(spec_.out)}));
  const auto loose = candidates(1, static_cast<std::uint32_t>(std::min(size_of(spec_.in), size_of(spec_.out))));
  if (!loose.empty()) loose_ = loose[0];
  return true;
}

std::size_t BlasGemm::scratch_bytes() const {
  const std::size_t most = std::max(aligned_.workspace, loose_ ? loose_->workspace : 0);
  return most ? most + kWorkspaceAlignment : 0;
}

std::string BlasGemm::key() const {
  return cat(name(spec_.in), ">", name(spec_.out), spec_.tf32 ? " tf32" : "", spec_.bias ? " bias" : "",
             spec_.relu ? " relu" : "", spec_.adds ? " adds" : "", spec_.scaled ? " scaled" : "", " a",
             matrix_text(problem_.a), " b", matrix_text(problem_.b), " d", matrix_text(problem_.d), " x",
             problem_.count);
}

BlasGemm::Bytes BlasGemm::operand_bytes() const {
  return {bytes_of(problem_.b, problem_.count, spec_.in), bytes_of(problem_.a, problem_.count, spec_.in),
          bytes_of(problem_.d, problem_.count, spec_.out),
          spec_.bias ? static_cast<std::size_t>(problem_.d.rows) * size_of(spec_.out) : 0};
}

std::vector<BlasAlgorithm> BlasGemm::candidates(int most, std::uint32_t alignment) const {
  BlasPreference preference;
  check(cublasLtMatmulPreferenceCreate(preference.out()), "cublasLtMatmulPreferenceCreate");
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kMostWorkspace});
  // Sums that are split along k meet in the workspace, in order, and unrounded: the same bits at every run.
  const std::uint32_t schemes = lever("same-bits")
                                    ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                                    : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_INPLACE;
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes);
  for (const auto side : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(preference, side, alignment);
  std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<std::size_t>(most));
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(blas(), desc_.get(), a_.get(), b_.get(), d_.get(),
                                                               d_.get(), preference.get(), most, found.data(), &count);
  if (status != CUBLAS_STATUS_SUCCESS) return {};  // not supported
  std::vector<BlasAlgorithm> result;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
    if (found[i].state == CUBLAS_STATUS_SUCCESS) result.push_back({found[i].algo, found[i].workspaceSize});
  return result;
}

bool BlasGemm::takes(BlasAlgorithm& algorithm) const {
  cublasLtMatmulHeuristicResult_t result = {};
  if (cublasLtMatmulAlgoCheck(blas(), desc_.get(), a_.get(), b_.get(), d_.get(), d_.get(), &algorithm.algorithm,
                              &result) != CUBLAS_STATUS_SUCCESS)
    return false;
  algorithm.workspace = result.workspaceSize;
  return algorithm.workspace <= kMostWorkspace;
}

void BlasGemm::run(const GemmOperands& o, const BlasAlgorithm& algorithm) const {
  context().make_current();
  if (spec_.bias) set(desc_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, o.bias);
  const float scales[2] = {static_cast<float>(spec_.alpha), static_cast<float>(spec_.adds ? spec_.beta : 0)};
  const double wide[2] = {spec_.alpha, spec_.adds ? spec_.beta : 0};
  const DType type = scale_type(spec_.out);
  const void* alpha = spec_.scaled ? o.scale : type == f64 ? static_cast<const void*>(wide) : scales;
  const void* beta = static_cast<const std::byte*>(alpha) + size_of(type);
  const std::uintptr_t scratch = reinterpret_cast<std::uintptr_t>(o.scratch);
  void* workspace =
      reinterpret_cast<void*>((scratch + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment);
  check(cublasLtMatmul(blas(), desc_.get(), alpha, o.b, a_.get(), o.a, b_.get(), beta, spec_.adds ? o.c0 : o.c,
                       d_.get(), o.c, d_.get(), &algorithm.algorithm, algorithm.workspace ? workspace : nullptr,
                       algorithm.workspace, context().stream()),
        "cublasLtMatmul");
}

bool BlasGemm::is_aligned(const GemmOperands& o) {
  for (const void* address : {o.a, o.b, o.bias, o.c0, static_cast<const void*>(o.c)})
    if (reinterpret_cast<std::uintptr_t>(address) % kAlignment != 0) return false;
  return true;
}

void BlasGemm::run(const GemmOperands& o) const { run(o, is_aligned(o) ? aligned_ : loose_.value()); }

}  // namespace varve::cuda
