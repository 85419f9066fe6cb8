// Random numbers: pure functions of seed, stream, counter and position, so blocks are drawn in any order.
#include "base/philox.h"

#include "backends/cpu/common/loops.h"
#include "backends/cpu/random/dropout.h"

namespace varve::cpu {
namespace {

using backend::Prepared;
using backend::RunArgs;

constexpr std::int64_t kBlock = 16 << 10;  // numbers for one thread
constexpr std::int64_t kBatch = 512;       // numbers that wait in L1 for what is done with them

using Source = RandomSource;

// Seed and counter are read when the program runs.
Source source(const RunArgs& args, std::size_t first, std::int64_t stream) {
  return random_source(args.in[first], args.in[first + 1], stream);
}

template <class Number>
using Fill = void (*)(Number*, std::int64_t begin, std::int64_t count, std::uint64_t seed, std::uint64_t stream,
                      std::uint64_t counter);

// use(numbers, position of the first, how many), batch by batch.
template <class Number, class Use>
void draw(Fill<Number> fill, std::int64_t count, const Source& from, Use use) {
  parallel_for(count, kBlock, [&](std::int64_t begin, std::int64_t end) {
    Number numbers[kBatch];
    for (std::int64_t i = begin; i < end; i += kBatch) {
      const std::int64_t n = std::min(kBatch, end - i);
      fill(numbers, i, n, from.seed, from.stream, from.counter);
      use(numbers, i, n);
    }
  });
}

template <class Out, class Number>
Prepared converted(const Task& task, Fill<Number> fill) {
  const std::int64_t count = task.shape_out().numel(), stream = task.attrs.integer("stream");
  return backend::prepared([=](const RunArgs& args) {
    Out* out = static_cast<Out*>(args.out[0]);
    draw(fill, count, source(args, 0, stream), [&](const Number* numbers, std::int64_t at, std::int64_t n) {
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) out[at + i] = static_cast<Out>(numbers[i]);
    });
  });
}

// A draw is an f32; an f64 holds it exactly.
Prepared real(const Task& task, Fill<float> fill) {
  if (task.dtype_out() == f64) return converted<double>(task, fill);
  const std::int64_t count = task.shape_out().numel(), stream = task.attrs.integer("stream");
  return backend::prepared([=](const RunArgs& args) {
    const Source from = source(args, 0, stream);
    float* out = static_cast<float*>(args.out[0]);
    parallel_for(count, kBlock, [&](std::int64_t begin, std::int64_t end) {
      fill(out + begin, begin, end - begin, from.seed, from.stream, from.counter);
    });
  });
}

Prepared uniform(const Task& task) { return real(task, fill_uniform); }
Prepared normal(const Task& task) { return real(task, fill_normal); }
Prepared bits(const Task& task) { return converted<std::int64_t>(task, fill_bits); }

// By value all of it: what is read through a pointer might be what is written.
template <class T, class S>
void drop(const T* x, T* out, const float* chance, std::int64_t count, float rate, S keep) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const S scaled = cast_to<S>(element(x, i)) / keep;
    out[i] = cast_to<T>(chance[i] >= rate ? scaled : S{0});
  }
}

// One pass: the mask is drawn where it is used and never stored. The comparison is made in f32, as every backend does.
Prepared dropout(const Task& task) {
  const std::int64_t count = task.shape_out().numel(), stream = task.attrs.integer("stream");
  const double rate = task.attrs.number("rate");
  return dispatch(task.dtype_out(), [&]<class T>(std::type_identity<T>) {
    using S = std::conditional_t<std::is_same_v<T, double>, double, float>;
    return backend::prepared([=](const RunArgs& args) {
      const T* x = static_cast<const T*>(args.in[0]);
      T* out = static_cast<T*>(args.out[0]);
      draw(fill_uniform, count, source(args, 1, stream), [&](const float* chance, std::int64_t at, std::int64_t n) {
        drop(x + at, out + at, chance, n, static_cast<float>(rate), static_cast<S>(1 - rate));
      });
    });
  });
}

}  // namespace

RandomSource random_source(const void* seed, const void* counter, std::int64_t stream) {
  return {static_cast<std::uint64_t>(load_as<std::int64_t>(seed, 0)), static_cast<std::uint64_t>(stream),
          static_cast<std::uint64_t>(load_as<std::int64_t>(counter, 0))};
}

void drop_floats(const float* x, float* out, std::int64_t first, std::int64_t count, double rate,
                 const RandomSource& from) {
  float chance[kBatch];
  for (std::int64_t i = 0; i < count; i += kBatch) {
    const std::int64_t n = std::min(kBatch, count - i);
    fill_uniform(chance, first + i, n, from.seed, from.stream, from.counter);
    drop(x + i, out + i, chance, n, static_cast<float>(rate), static_cast<float>(1 - rate));
  }
}

void add_random_claims(ClaimMap& map) {
  offer(map, "random_uniform", uniform);
  offer(map, "random_normal", normal);
  offer(map, "random_bits", bits);
  offer(map, "dropout", dropout);
}

}  // namespace varve::cpu
