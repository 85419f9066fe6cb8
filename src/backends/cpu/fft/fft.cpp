// The operator dft: rows are transformed several at a time, blocks of them by different threads.
#include <memory>

#include "backends/cpu/common/loops.h"
#include "backends/cpu/fft/fft_plan.h"

namespace varve::cpu {
namespace {

using backend::Prepared;
using backend::RunArgs;

constexpr std::int64_t kCached = 256 << 10;  // bytes that a block of rows may take

// Rows beside each other, point by point, and back.
template <class T>
void interleave(const T* rows, T* lanes_of, std::int64_t lanes, std::int64_t n) {
  for (std::int64_t l = 0; l < lanes; ++l)
    for (std::int64_t i = 0; i < n; ++i) lanes_of[i * lanes + l] = rows[l * n + i];
}
template <class T>
void separate(const T* lanes_of, T* rows, std::int64_t lanes, std::int64_t n) {
  for (std::int64_t l = 0; l < lanes; ++l)
    for (std::int64_t i = 0; i < n; ++i) rows[l * n + i] = lanes_of[i * lanes + l];
}

template <class T>
Prepared prepare(std::int64_t rows, std::int64_t n, bool inverse) {
  const auto plan = std::make_shared<const FftPlan<T>>(n);
  const std::int64_t most = 64 / static_cast<std::int64_t>(sizeof(T));
  const std::int64_t bytes = 4 * n * static_cast<std::int64_t>(sizeof(T));
  const std::int64_t lanes = std::min(std::clamp<std::int64_t>(kCached / bytes, 1, most), rows);
  const std::int64_t blocks = (rows + lanes - 1) / lanes, workers = std::min<std::int64_t>(blocks, threads());
  const std::int64_t each = 2 * n * lanes + plan->work(lanes), share = (blocks + workers - 1) / workers;
  const auto run = [=](const RunArgs& args) {
    parallel_for(workers, 1, [&](std::int64_t worker, std::int64_t) {
      T *re = static_cast<T*>(args.scratch) + worker * each, *im = re + n * lanes, *work = im + n * lanes;
      for (std::int64_t block = worker * share; block < std::min((worker + 1) * share, blocks); ++block) {
        const std::int64_t first = block * lanes, count = std::min(lanes, rows - first);
        interleave(static_cast<const T*>(args.in[0]) + first * n, re, count, n);
        interleave(static_cast<const T*>(args.in[1]) + first * n, im, count, n);
        inverse ? plan->run(im, re, work, count) : plan->run(re, im, work, count);
        separate(re, static_cast<T*>(args.out[0]) + first * n, count, n);
        separate(im, static_cast<T*>(args.out[1]) + first * n, count, n);
      }
    });
  };
  return backend::prepared(run, static_cast<std::size_t>(workers * each) * sizeof(T));
}

Prepared dft(const Task& task) {
  const std::int64_t count = task.shape_in().numel();
  if (count == 0) return nothing();
  const std::int64_t n = task.shape_in().back();
  const bool inverse = task.attrs.flag("inverse");
  return task.dtype_in() == f64 ? prepare<double>(count / n, n, inverse) : prepare<float>(count / n, n, inverse);
}

}  // namespace

void add_fft_claims(ClaimMap& map) { offer(map, "dft", dft); }

}  // namespace varve::cpu
