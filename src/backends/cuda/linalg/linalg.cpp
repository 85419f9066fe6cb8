// Linear algebra by plain kernels: a block for each matrix of a batch, in double.
#include "backend/linalg.h"

#include "backends/cuda/device/launch.h"
#include "backends/cuda/index/index.h"

namespace varve::cuda {
namespace {

using backend::Prepared;
using backend::RunArgs;

// What a call says of sizes and launches.
struct Sizes {
  std::int64_t batch, m, n, least;
  DType dtype;
  int text;
  explicit Sizes(const Task& task)
      : m(task.shape_in()[task.shape_in().rank() - 2]), n(task.shape_in().back()), dtype(task.dtype_in()) {
    const Shape& a = task.shape_in();
    batch = Shape(Ints(a.begin(), a.end() - 2)).numel();
    least = std::min(m, n);
    text = number_of(backend::matrix_complaint(task.op, task.in[0].type));
  }
  Launch launch() const { return {.grid = batch, .block = std::max(m, n) <= 32 ? 64 : 256}; }
  std::size_t scratch(std::int64_t doubles_of_one) const {
    return static_cast<std::size_t>(batch * doubles_of_one) * sizeof(double);
  }
  Function kernel(const char* name, const char* file) const {
    return Function(name, {file, defines({{"T", type_name(dtype)}})});
  }
};

double* doubles(const RunArgs& args) { return static_cast<double*>(args.scratch); }

Prepared cholesky(const Task& task) {
  if (task.shape_out().numel() == 0) return nothing();
  const Sizes z(task);
  return backend::prepared(
      [z, run = z.kernel("cholesky", "linalg/solve.cu")](const RunArgs& args) {
        run(z.launch(), args.in[0], args.out[0], doubles(args), z.n, args.errors->word(), z.text);
      },
      z.scratch(z.n * z.n));
}

Prepared solve(const Task& task) {
  const Sizes z(task);
  if (z.batch == 0 || z.n == 0) return nothing();
  const std::int64_t k = task.shape_out().back();
  return backend::prepared(
      [z, k, run = z.kernel("solve", "linalg/solve.cu")](const RunArgs& args) {
        run(z.launch(), args.in[0], args.in[1], args.out[0], doubles(args), z.n, k, args.errors->word(), z.text);
      },
      z.scratch(z.n * z.n + z.n * k + z.n));
}

Prepared triangular_solve(const Task& task) {
  const Sizes z(task);
  if (z.batch == 0 || z.n == 0) return nothing();
  const std::int64_t k = task.shape_out().back();
  const int lower = task.attrs.flag("lower") ? 1 : 0, transpose = task.attrs.flag("transpose") ? 1 : 0;
  const int unit = task.attrs.flag("unit_diagonal") ? 1 : 0;
  return backend::prepared(
      [=, run = z.kernel("triangular_solve", "linalg/solve.cu")](const RunArgs& args) {
        run(z.launch(), args.in[0], args.in[1], args.out[0], doubles(args), z.n, k, lower, transpose, unit,
            args.errors->word(), z.text);
      },
      z.scratch(z.n * z.n + z.n * k));
}

Prepared det(const Task& task) {
  const Sizes z(task);
  if (z.batch == 0) return nothing();
  const bool logarithm = task.out.size() == 2;
  return backend::prepared(
      [z, logarithm, run = z.kernel("det", "linalg/solve.cu")](const RunArgs& args) {
        run(z.launch(), args.in[0], args.out[0], logarithm ? args.out[1] : nullptr, doubles(args), z.n);
      },
      z.scratch(z.n * z.n + z.n));
}

Prepared qr(const Task& task) {
  const Sizes z(task);
  if (z.batch == 0 || z.least == 0) return nothing();
  return backend::prepared(
      [z, run = z.kernel("qr", "linalg/qr.cu")](const RunArgs& args) {
        run(z.launch(), args.in[0], args.out[0], args.out[1], doubles(args), z.m, z.n);
      },
      z.scratch(z.m * z.n + z.m * z.least + z.least));
}

Prepared eigh(const Task& task) {
  const Sizes z(task);
  if (z.batch == 0 || z.n == 0) return nothing();
  return backend::prepared(
      [z, run = z.kernel("eigh", "linalg/jacobi.cu")](const RunArgs& args) {
        run(z.launch(), args.in[0], args.out[0], args.out[1], doubles(args), z.n, args.errors->word(), z.text);
      },
      z.scratch(2 * z.n * z.n + 4 * z.n + 4));
}

Prepared svd(const Task& task) {
  const Sizes z(task);
  if (z.batch == 0 || z.least == 0) return nothing();
  return backend::prepared(
      [z, run = z.kernel("svd", "linalg/jacobi.cu")](const RunArgs& args) {
        run(z.launch(), args.in[0], args.out[0], args.out[1], args.out[2], doubles(args), z.m, z.n, args.errors->word(),
            z.text);
      },
      z.scratch(2 * z.m * z.n + z.least * z.least + 3 * z.least));
}

}  // namespace

void add_linalg_claims(ClaimMap& map) {
  offer(map, "cholesky", cholesky);
  offer(map, "solve", solve);
  offer(map, "triangular_solve", triangular_solve);
  offer(map, "det", det);
  offer(map, "slogdet", det);
  offer(map, "qr", qr);
  offer(map, "eigh", eigh);
  offer(map, "svd", svd);
}

}  // namespace varve::cuda
