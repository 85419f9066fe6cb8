// Linear algebra: matrices of a batch side by side, each by one thread.
#include "backend/linalg.h"

#include "backends/cpu/common/loops.h"
#include "backends/cpu/linalg/lapack.h"

namespace varve::cpu {
namespace {

using backend::MatrixCall;
using backend::Prepared;
using backend::RunArgs;

std::vector<TensorType> types_of(const std::vector<backend::Port>& ports) {
  std::vector<TensorType> types;
  for (const backend::Port& port : ports) types.push_back(port.type);
  return types;
}

// Matrix by matrix in double, which is where f32 is copied to.
class Matrices {
 public:
  Matrices(MatrixCall call, DType dtype) : call_(std::move(call)), dtype_(dtype), each_(call_.work) {
    for (const std::int64_t count : call_.in) each_ += count;
    for (const std::int64_t count : call_.out) each_ += count;
    workers_ = std::min<std::int64_t>(std::max<std::int64_t>(call_.batch, 1), threads());
  }

  std::size_t scratch_bytes() const { return static_cast<std::size_t>(workers_ * each_) * sizeof(double); }

  void run(const RunArgs& args) const {
    auto* scratch = static_cast<double*>(args.scratch);
    const std::int64_t share = call_.batch / workers_, more = call_.batch % workers_;
    parallel_for(workers_, 1, [&](std::int64_t worker, std::int64_t) {
      const std::int64_t begin = worker * share + std::min(worker, more), end = begin + share + (worker < more ? 1 : 0);
      for (std::int64_t b = begin; b < end; ++b) run_one(args, b, scratch + worker * each_);
    });
  }

 private:
  static constexpr std::size_t kMostOperands = 4;

  void run_one(const RunArgs& args, std::int64_t b, double* scratch) const {
    const double* from[kMostOperands] = {};
    double* to[kMostOperands] = {};
    const std::int64_t bytes = element_bytes(dtype_);
    for (std::size_t i = 0; i < call_.in.size(); ++i) {
      convert(at(args.in[i], b * call_.in[i] * bytes), dtype_, scratch, f64, call_.in[i]);
      from[i] = scratch;
      scratch += call_.in[i];
    }
    for (std::size_t i = 0; i < call_.out.size(); ++i) {
      to[i] = scratch;
      scratch += call_.out[i];
    }
    if (!call_.run(from, to, scratch)) return args.errors->note(call_.complaint, b);
    for (std::size_t i = 0; i < call_.out.size(); ++i)
      convert(to[i], f64, at(args.out[i], b * call_.out[i] * bytes), dtype_, call_.out[i]);
  }

  MatrixCall call_;
  DType dtype_;
  std::int64_t each_, workers_ = 1;
};

Prepared matrices(const Task& task) {
  MatrixCall call = backend::matrix_call(task.op, task.attrs, types_of(task.in), types_of(task.out));
  prefer_lapack(call, task.op, task.shape_in());
  Matrices each(std::move(call), task.dtype_in());
  const std::size_t scratch = each.scratch_bytes();
  return backend::prepared([each = std::move(each)](const RunArgs& args) { each.run(args); }, scratch);
}

}  // namespace

void add_linalg_claims(ClaimMap& map) {
  for (const std::string& op : backend::matrix_operators()) offer(map, op, matrices);
}

}  // namespace varve::cpu
