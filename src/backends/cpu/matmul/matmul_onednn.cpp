#ifdef VARVE_HAS_ONEDNN

#include "backends/cpu/matmul/matmul_onednn.h"

#include <algorithm>

#include "backends/cpu/common/align.h"
#include "backends/cpu/common/scratch.h"
#include "base/threads.h"

namespace varve::cpu {
namespace {

constexpr std::int64_t kBlocks = 16;  // of a product whose bits must not depend on the threads

// One axis of a product cut in pieces of `size`.
struct Cut {
  enum class Axis { none, batch, rows, columns } axis = Axis::none;
  std::int64_t length = 1, size = 1;
};

// By sizes alone.
Cut fixed_cut(const dnn::MatmulSpec& s) {
  const auto pieces = [](std::int64_t length, std::int64_t multiple) {
    return std::min(length, align_up((length + kBlocks - 1) / kBlocks, multiple));
  };
  if (s.batch >= kBlocks) return {Cut::Axis::batch, s.batch, pieces(s.batch, 1)};
  if (s.m >= s.n) return {Cut::Axis::rows, s.m, pieces(s.m, 32)};
  return {Cut::Axis::columns, s.n, pieces(s.n, 64)};
}

dnn::MatmulSpec cut_to(dnn::MatmulSpec s, Cut::Axis axis, std::int64_t size) {
  if (axis == Cut::Axis::batch) s.batch = size;
  if (axis == Cut::Axis::rows) s.m = size;
  if (axis == Cut::Axis::columns) s.n = size;
  return s;
}

dnn::Strides strides_of(const MatrixStrides& matrix, bool batched) {
  return {.batch = batched ? matrix.batch.back() : 0, .row = matrix.row, .col = matrix.col};
}

// The innermost axis of the batch goes to the library, the others are walked here.
dnn::MatmulSpec inner_spec(const Product& p, const DnnProductSpec& spec) {
  const bool batched = !p.batch.empty();
  return {.batch = batched ? p.batch.back() : 1,
          .m = p.m,
          .n = p.n,
          .k = p.k,
          .a = strides_of(p.a, batched),
          .b = strides_of(p.b, batched),
          .c = strides_of(p.c, batched),
          .input = spec.type,
          .output = spec.type,
          .bias = spec.bias,
          .activation = spec.activation};
}

bool is_plain(const DnnProductSpec& s) { return !s.bias && s.activation == dnn::Activation::none; }

// The gradient of a dense layer's input: y·wᵀ with both row-major.
std::optional<dnn::DenseBackwardData> prepare_dense_backward(const Product& p, const DnnProductSpec& spec) {
  if (!p.batch.empty() || !is_plain(spec) || p.k == 0) return std::nullopt;
  if (!is_dense(p.a, p.k) || !is_dense(p.c, p.n) || p.b.row != 1 || p.b.col != p.k) return std::nullopt;
  auto offered =
      dnn::DenseBackwardData::prepare({.m = p.m, .k = p.n, .n = p.k, .input = spec.type, .output = spec.type});
  if (!offered) return std::nullopt;
  return std::move(*offered);
}

}  // namespace

// The calls that make up a product, before anything is prepared.
struct DnnProduct::Plan {
  std::vector<dnn::MatmulSpec> shapes;
  std::vector<Job> jobs;
  bool side_by_side = false;  // each call on one thread, several at a time

  Plan(const Product& p, const DnnProductSpec& spec, const Setting& setting) {
    const dnn::MatmulSpec whole = inner_spec(p, spec);
    Product outer = p;
    if (!outer.batch.empty()) outer.batch.pop_back();
    const std::int64_t count = outer.count();
    side_by_side = setting.deterministic || (setting.threads > 1 && count >= 2 * setting.threads);
    const Cut cut = setting.deterministic ? fixed_cut(whole) : Cut{};
    const std::int64_t rest = cut.length % cut.size;
    shapes.push_back(cut_to(whole, cut.axis, cut.size));
    if (rest != 0) shapes.push_back(cut_to(whole, cut.axis, rest));
    for (dnn::MatmulSpec& shape : shapes) shape.single_thread = side_by_side;
    for (std::int64_t i = 0; i < count; ++i)
      for (std::int64_t first = 0; first < cut.length; first += cut.size) {
        Job job{p.a.offset(outer.batch, i), p.b.offset(outer.batch, i), p.c.offset(outer.batch, i), 0,
                first + cut.size > cut.length ? std::size_t{1} : 0};
        move(job, whole, cut.axis, first);
        jobs.push_back(job);
      }
  }

  static void move(Job& job, const dnn::MatmulSpec& s, Cut::Axis axis, std::int64_t first) {
    if (axis == Cut::Axis::batch) {
      job.a += first * s.a.batch;
      job.b += first * s.b.batch;
      job.c += first * s.c.batch;
    } else if (axis == Cut::Axis::rows) {
      job.a += first * s.a.row;
      job.c += first * s.c.row;
    } else if (axis == Cut::Axis::columns) {
      job.b += first * s.b.col;
      job.c += first * s.c.col;
      job.bias += first;
    }
  }
};

dnn::Offer<DnnProduct> DnnProduct::prepare(const Product& product, const DnnProductSpec& spec, const Setting& setting) {
  DnnProduct result;
  result.threads_ = setting.threads;
  result.element_bytes_ = spec.type == dnn::Type::f32 ? 4 : 2;
  const Team team(setting.threads);
  if (!setting.deterministic) result.dense_backward_ = prepare_dense_backward(product, spec);
  if (result.dense_backward_) {
    result.workers_.resize(1);
    result.worker_bytes_ = result.dense_backward_->scratch_bytes();
    return result;
  }
  Plan plan(product, spec, setting);
  result.jobs_ = std::move(plan.jobs);
  const auto calls = static_cast<std::int64_t>(result.jobs_.size());
  const std::int64_t workers = plan.side_by_side ? std::min<std::int64_t>(setting.threads, calls) : 1;
  for (std::int64_t worker = 0; worker < workers; ++worker) {
    std::vector<dnn::Matmul>& shapes = result.workers_.emplace_back();
    for (const dnn::MatmulSpec& shape : plan.shapes) {
      auto offered = dnn::Matmul::prepare(shape);
      if (!offered) return dnn::Refused{offered.reason()};
      result.worker_bytes_ = std::max(result.worker_bytes_, cache_aligned(offered->scratch_bytes()));
      shapes.push_back(std::move(*offered));
    }
  }
  return result;
}

void DnnProduct::run_job(const Job& job, const dnn::Matmul& matmul, const dnn::MatmulArgs& args, void* scratch) const {
  const auto moved = [&](const void* from, std::int64_t by) {
    return static_cast<const std::byte*>(from) + by * element_bytes_;
  };
  matmul.run({.a = moved(args.a, job.a),
              .b = moved(args.b, job.b),
              .bias = args.bias ? args.bias + job.bias : nullptr,
              .c = const_cast<std::byte*>(moved(args.c, job.c)),
              .scratch = scratch});
}

void DnnProduct::run(const dnn::MatmulArgs& args) const {
  const Team team(threads_);
  if (dense_backward_) return dense_backward_->run(args.a, args.b, args.c, args.scratch);
  const auto workers = static_cast<std::int64_t>(workers_.size());
  parallel_for(workers, 1, [&](std::int64_t worker, std::int64_t) {
    std::byte* scratch = static_cast<std::byte*>(args.scratch) + worker * static_cast<std::int64_t>(worker_bytes_);
    for (auto j = static_cast<std::size_t>(worker); j < jobs_.size(); j += static_cast<std::size_t>(workers))
      run_job(jobs_[j], workers_[static_cast<std::size_t>(worker)][jobs_[j].shape], args, scratch);
  });
}

}  // namespace varve::cpu

#endif  // VARVE_HAS_ONEDNN
