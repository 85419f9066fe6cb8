#include "backends/cpu/conv/direct/convolution.h"

#include <algorithm>

#include "backends/cpu/common/loops.h"
#include "backends/cpu/common/scratch.h"
#include "backends/cpu/conv/direct/patches.h"
#include "backends/cpu/matmul/gemm/gemm.h"
#include "backends/cpu/matmul/gemm/partial_sums.h"

namespace varve::cpu::plain {
namespace {

// Rows gathered at a time: they stay in the second-level cache until the product has read them.
std::int64_t block_rows(const Gather& gather) {
  constexpr std::int64_t kElements = 64 << 10;
  const std::int64_t fitting =
      std::clamp<std::int64_t>(kElements / std::max<std::int64_t>(gather.columns(), 1), 24, 480);
  return std::min(gather.pixels(), fitting);
}

// Products over a block of gathered rows: a full one, and the last of an image.
struct BlockProducts {
  BlockProducts(Product product, std::int64_t Product::*rows, std::int64_t pixels, std::int64_t block,
                const Gemm::Options& options)
      : full(product, options), rest((product.*rows = pixels % block, product), options) {}

  const Gemm& of(std::int64_t rows, std::int64_t block) const { return rows == block ? full : rest; }
  std::size_t scratch_bytes() const { return cache_aligned(std::max(full.scratch_bytes(), rest.scratch_bytes())); }

  Gemm full, rest;
};

// y from x, and dx from dy, which differ in what is gathered and in how the weights are read.
class SlidingDirect final : public Convolution {
 public:
  SlidingDirect(ConvPass pass, const ConvShape& s, DType dtype, int workers)
      : shape_(s),
        backward_(pass == ConvPass::input_grad),
        bytes_(element_bytes(dtype)),
        gather_(backward_ ? Gather::backward(s) : Gather::forward(s)),
        block_(block_rows(gather_)),
        products_(product(), &Product::m, gather_.pixels(), block_, {.in = dtype, .out = dtype}) {
    blocks_ = (gather_.pixels() + block_ - 1) / block_;
    workers_ = std::min<std::int64_t>(workers, tasks());
    rows_bytes_ = cache_aligned(static_cast<std::size_t>(block_ * gather_.columns() * bytes_));
    worker_bytes_ = rows_bytes_ + products_.scratch_bytes();
    weights_bytes_ = backward_ ? cache_aligned(static_cast<std::size_t>(s.weights() * bytes_)) : 0;
  }

  std::size_t scratch_bytes() const override {
    return weights_bytes_ + worker_bytes_ * static_cast<std::size_t>(workers_);
  }

  void run(const void* images, const void* weights, void* out, void* scratch) const override {
    const auto* w = static_cast<const std::byte*>(weights);
    auto* memory = static_cast<std::byte*>(scratch);
    if (backward_) {
      transpose_weights(w, memory);
      w = memory;
    }
    parallel_for(workers_, 1, [&](std::int64_t worker, std::int64_t) {
      std::byte* own = memory + weights_bytes_ + static_cast<std::size_t>(worker) * worker_bytes_;
      for (std::int64_t task = worker; task < tasks(); task += workers_)
        run_task(task, static_cast<const std::byte*>(images), w, static_cast<std::byte*>(out), own);
    });
  }

 private:
  std::int64_t tasks() const { return shape_.batch * shape_.groups * blocks_; }
  std::int64_t target_channels() const { return backward_ ? shape_.in_channels : shape_.out_channels; }

  Product product() const {
    const std::int64_t k = gather_.columns(), n = target_channels() / shape_.groups;
    Product p{.m = block_, .n = n, .k = k};
    p.a = {{}, k, 1};
    p.b = backward_ ? MatrixStrides{{}, n, 1} : MatrixStrides{{}, 1, k};
    p.c = {{}, target_channels(), 1};
    return p;
  }

  // [O, taps, I/groups] to [groups, taps, O/groups, I/groups]
  void transpose_weights(const std::byte* from, std::byte* to) const {
    const std::int64_t taps = shape_.taps(), outs = shape_.out_group(), row = shape_.in_group() * bytes_;
    parallel_for(shape_.out_channels, grain_for(taps * row), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t o = begin; o < end; ++o)
        for (std::int64_t tap = 0; tap < taps; ++tap)
          std::memcpy(to + ((o / outs * taps + tap) * outs + o % outs) * row, from + (o * taps + tap) * row,
                      static_cast<std::size_t>(row));
    });
  }

  void run_task(std::int64_t task, const std::byte* images, const std::byte* weights, std::byte* out,
                std::byte* scratch) const {
    const std::int64_t first = task % blocks_ * block_, group = task / blocks_ % shape_.groups;
    const std::int64_t image = task / blocks_ / shape_.groups;
    const std::int64_t count = std::min(block_, gather_.pixels() - first);
    const std::int64_t source = image * gather_.height * gather_.width * gather_.channels + group * gather_.group;
    const std::int64_t target =
        (image * gather_.pixels() + first) * target_channels() + group * (target_channels() / shape_.groups);
    gather_.rows(images + source * bytes_, first, count, bytes_, scratch);
    products_.of(count, block_)
        .run(scratch, weights + group * (shape_.weights() / shape_.groups) * bytes_, out + target * bytes_,
             scratch + rows_bytes_);
  }

  ConvShape shape_;
  bool backward_;
  std::int64_t bytes_;
  Gather gather_;
  std::int64_t block_;
  BlockProducts products_;
  std::int64_t blocks_ = 1, workers_ = 1;
  std::size_t rows_bytes_ = 0, worker_bytes_ = 0, weights_bytes_ = 0;
};

// dw = Σ dyᵀ · patches of x
class DirectWeightGradient final : public Convolution {
 public:
  DirectWeightGradient(const ConvShape& s, DType dtype, int workers)
      : shape_(s),
        bytes_(element_bytes(dtype)),
        gather_(Gather::forward(s)),
        block_(block_rows(gather_)),
        products_(product(), &Product::k, gather_.pixels(), block_,
                  {.in = dtype, .out = sum_type(dtype), .accumulate = true}),
        sums_(s.weights(), image_blocks(s), dtype) {
    workers_ = std::min<std::int64_t>(workers, sums_.blocks() * s.groups);
    rows_bytes_ = cache_aligned(static_cast<std::size_t>(block_ * gather_.columns() * bytes_));
    worker_bytes_ = rows_bytes_ + products_.scratch_bytes();
  }

  std::size_t scratch_bytes() const override {
    return sums_.bytes() + worker_bytes_ * static_cast<std::size_t>(workers_);
  }

  void run(const void* x, const void* dy, void* dw, void* scratch) const override {
    auto* memory = static_cast<std::byte*>(scratch);
    zero_bytes(memory, static_cast<std::int64_t>(sums_.bytes()));
    parallel_for(workers_, 1, [&](std::int64_t worker, std::int64_t) {
      std::byte* own = memory + sums_.bytes() + static_cast<std::size_t>(worker) * worker_bytes_;
      for (std::int64_t task = worker; task < sums_.blocks() * shape_.groups; task += workers_)
        run_task(task / shape_.groups, task % shape_.groups, static_cast<const std::byte*>(x),
                 static_cast<const std::byte*>(dy), memory, own);
    });
    sums_.add(memory, dw);
  }

 private:
  Product product() const {
    const std::int64_t n = gather_.columns();
    Product p{.m = shape_.out_group(), .n = n, .k = block_};
    p.a = {{}, 1, shape_.out_channels};
    p.b = {{}, n, 1};
    p.c = {{}, n, 1};
    return p;
  }

  void run_task(std::int64_t part, std::int64_t group, const std::byte* x, const std::byte* dy, std::byte* sums,
                std::byte* scratch) const {
    std::byte* sum = sums_.place(sums, part, group * (shape_.weights() / shape_.groups));
    const auto [begin, end] = sums_.range(part, shape_.batch);
    for (std::int64_t image = begin; image < end; ++image)
      for (std::int64_t first = 0; first < gather_.pixels(); first += block_) {
        const std::int64_t count = std::min(block_, gather_.pixels() - first);
        gather_.rows(x + (image * shape_.in_image() + group * shape_.in_group()) * bytes_, first, count, bytes_,
                     scratch);
        const std::int64_t pixel = (image * gather_.pixels() + first) * shape_.out_channels;
        products_.of(count, block_)
            .run(dy + (pixel + group * shape_.out_group()) * bytes_, scratch, sum, scratch + rows_bytes_);
      }
  }

  ConvShape shape_;
  std::int64_t bytes_;
  Gather gather_;
  std::int64_t block_;
  BlockProducts products_;
  PartialSums sums_;
  std::int64_t workers_ = 1;
  std::size_t rows_bytes_ = 0, worker_bytes_ = 0;
};

}  // namespace

std::int64_t image_blocks(const ConvShape& shape) {
  constexpr std::int64_t kMost = 16;            // fixed, for the same bits with any number of threads
  constexpr std::int64_t kElements = 16 << 20;  // of all partial sums together
  return std::clamp<std::int64_t>(kElements / std::max<std::int64_t>(shape.weights(), 1), 1,
                                  std::clamp<std::int64_t>(shape.batch, 1, kMost));
}

std::unique_ptr<Convolution> convolution(ConvPass pass, const ConvShape& shape, DType dtype, int workers) {
  if (shape.in_group() == 1) return depthwise(pass, shape, dtype, workers);
  if (pass == ConvPass::weight_grad) return std::make_unique<DirectWeightGradient>(shape, dtype, workers);
  return std::make_unique<SlidingDirect>(pass, shape, dtype, workers);
}

}  // namespace varve::cpu::plain
