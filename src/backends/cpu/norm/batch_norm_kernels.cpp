#include "backends/cpu/norm/batch_norm_kernels.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <cmath>

#include "backends/cpu/common/cache.h"
#include "backends/cpu/common/index.h"
#include "backends/cpu/common/scratch.h"
#include "base/threads.h"

namespace varve::cpu {
namespace {

constexpr std::int64_t kNarrow = 64;             // columns below which several rows make a line
constexpr std::int64_t kSliceBytes = 128 << 10;  // at least, to be worth a thread's while
constexpr std::int64_t kMostSlices = 64;
constexpr std::int64_t kNormChannels = 64;  // whose results are put together at a time

}  // namespace

struct BatchNormKernel::Slice {
  std::int64_t first, lines, width;
};

// Carved from the caller's memory: one value per column, and two results per column of each slice.
struct BatchNormKernel::Scratch {
  float *mean, *gain, *shift, *offset, *slope;
  double* results;
  float* sums;
  std::size_t width;

  Scratch(const BatchNormKernel& kernel, void* memory) : width(at(kernel.width_)) {
    Carver carver(align(memory));
    for (float** column : {&mean, &gain, &shift, &offset, &slope}) *column = carver.take<float>(width);
    results = carver.take<double>(at(kernel.slices()) * 2 * width);
    sums = carver.take<float>(at(kernel.slices()) * 3 * width);
  }
  double* first(std::int64_t slice) const { return results + at(slice) * 2 * width; }
  double* second(std::int64_t slice) const { return first(slice) + width; }
  float* sums_of(std::int64_t slice) const { return sums + at(slice) * 3 * width; }
};

BatchNormKernel::BatchNormKernel(Matrix shape, DType dtype, double epsilon)
    : shape_(shape),
      dtype_(dtype),
      epsilon_(epsilon),
      loops_(batch_norm_loops(dtype)),
      repeats_(std::clamp<std::int64_t>(kNarrow / shape.columns, 1, std::max<std::int64_t>(shape.rows, 1))),
      width_(repeats_ * shape.columns),
      lines_(shape.rows / repeats_),
      tail_(shape.rows % repeats_ * shape.columns) {
  const std::int64_t bytes = lines_ * width_ * static_cast<std::int64_t>(size_of(dtype));
  slices_ = std::clamp<std::int64_t>(bytes / kSliceBytes, 1, std::min(kMostSlices, lines_));
}

std::size_t BatchNormKernel::scratch_bytes() const {
  const std::size_t width = at(width_), slices = at(this->slices());
  return kCacheLine + 5 * cache_aligned(width * sizeof(float)) + cache_aligned(slices * 2 * width * sizeof(double)) +
         cache_aligned(slices * 3 * width * sizeof(float));
}

// The elements after the last whole line are a slice of their own.
BatchNormKernel::Slice BatchNormKernel::slice(std::int64_t index) const {
  if (index == slices_) return {lines_ * width_, 1, tail_};
  const std::int64_t begin = lines_ * index / slices_, end = lines_ * (index + 1) / slices_;
  return {begin * width_, end - begin, width_};
}

template <class F>
void BatchNormKernel::each_slice(F f) const {
  parallel_for(slices(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s) f(s, slice(s));
  });
}

namespace {

// The elements from `first` on.
const void* from(const void* data, std::int64_t first, DType dtype) {
  return data == nullptr ? nullptr : static_cast<const std::byte*>(data) + at(first) * size_of(dtype);
}
void* from(void* data, std::int64_t first, DType dtype) {
  return data == nullptr ? nullptr : static_cast<std::byte*>(data) + at(first) * size_of(dtype);
}

}  // namespace

// f(k, slice, results of channel first + k there) for all slices, and all columns of a line that are the same channel.
template <class F>
void BatchNormKernel::each_result(const Scratch& scratch, std::int64_t first, std::int64_t channels, F f) const {
  for (std::int64_t s = 0; s < slices(); ++s) {
    const Slice part = slice(s);
    for (std::int64_t i = first; i < part.width; i += shape_.columns)
      for (std::int64_t k = 0; k < channels; ++k) f(k, part, scratch.first(s)[i + k], scratch.second(s)[i + k]);
  }
}

void BatchNormKernel::finish_moments(const Scratch& scratch, float* mean, float* var) const {
  const double share = 1 / static_cast<double>(shape_.rows);
  parallel_for(shape_.columns, kNormChannels, [&](std::int64_t begin, std::int64_t end) {
    double centre[kNormChannels] = {}, squares[kNormChannels] = {};
    each_result(scratch, begin, end - begin, [&](std::int64_t k, const Slice& part, double own, double) {
      centre[k] += static_cast<double>(part.lines) * share * own;
    });
    each_result(scratch, begin, end - begin, [&](std::int64_t k, const Slice& part, double own, double own_squares) {
      const double apart = own - centre[k];
      squares[k] += own_squares + static_cast<double>(part.lines) * apart * apart;
    });
    for (std::int64_t k = 0; k < end - begin; ++k) {
      mean[begin + k] = static_cast<float>(centre[k]);
      var[begin + k] = static_cast<float>(squares[k] * share);
    }
  });
}

// The same expressions forward and backward: a ReLU is asked twice and must answer the same.
void BatchNormKernel::set_columns(const Scratch& scratch, const float* mean, const float* var, const float* scale,
                                  const float* shift) const {
  for (std::int64_t i = 0; i < width_; ++i) {
    const std::int64_t c = i % shape_.columns;
    scratch.mean[i] = mean[c];
    scratch.gain[i] = static_cast<float>(scale[c] / std::sqrt(static_cast<double>(var[c]) + epsilon_));
    scratch.shift[i] = shift == nullptr ? 0 : shift[c];
  }
}

// A result that outgrows the last cache is written past it. In place it is not: the lines are there already.
bool BatchNormKernel::nontemporal_stores(const BatchNormForward& args) const {
  const std::int64_t bytes = shape_.rows * shape_.columns * static_cast<std::int64_t>(size_of(dtype_));
  const bool aligned = reinterpret_cast<std::uintptr_t>(args.y) % kCacheLine == 0 && width_ % kNarrow == 0;
  return aligned && args.y != args.x && args.y != args.added && bytes > last_level_cache();
}

void BatchNormKernel::forward(const BatchNormForward& args, void* memory) const {
  const Scratch scratch(*this, memory);
  const auto lines_of = [&](const Slice& part) -> NormLines {
    return {at(part.lines), at(part.width), from(args.x, part.first, dtype_),
            scratch.mean,   scratch.gain,   scratch.shift};
  };
  each_slice([&](std::int64_t s, const Slice& part) {
    loops_.moments({lines_of(part), scratch.sums_of(s), scratch.first(s), scratch.second(s)});
  });
  finish_moments(scratch, args.mean, args.var);
  set_columns(scratch, args.mean, args.var, args.scale, args.shift);
  const bool nontemporal = nontemporal_stores(args);
  each_slice([&](std::int64_t, const Slice& part) {
    const bool whole = part.width == width_;
    loops_.normalise({lines_of(part), from(args.added, part.first, dtype_), args.relu, nontemporal && whole,
                      from(args.y, part.first, dtype_)});
    if (nontemporal) hwy::FlushStream();  // non-temporal stores are not ordered with anything else
  });
}

// dshift = Σ g, dscale = Σ g·(x - mean)·rstd; dx = gain·(g - dshift/n - (x - mean)·rstd·dscale/n)
void BatchNormKernel::finish_sums(const Scratch& scratch, const BatchNormBackward& args) const {
  const double share = 1 / static_cast<double>(shape_.rows);
  parallel_for(shape_.columns, kNormChannels, [&](std::int64_t begin, std::int64_t end) {
    double sum[kNormChannels] = {}, product[kNormChannels] = {};
    each_result(scratch, begin, end - begin, [&](std::int64_t k, const Slice&, double own_sum, double own_product) {
      sum[k] += own_sum;
      product[k] += own_product;
    });
    for (std::int64_t c = begin; c < end; ++c) {
      const double rstd = 1 / std::sqrt(static_cast<double>(args.var[c]) + epsilon_);
      const double gain = args.scale[c] * rstd * share;
      args.dshift[c] = static_cast<float>(sum[c - begin]);
      args.dscale[c] = static_cast<float>(product[c - begin] * rstd);
      for (std::int64_t i = c; i < width_; i += shape_.columns) {
        scratch.offset[i] = static_cast<float>(gain * sum[c - begin]);
        scratch.slope[i] = static_cast<float>(gain * rstd * rstd * product[c - begin]);
      }
    }
  });
}

void BatchNormKernel::backward(const BatchNormBackward& args, void* memory) const {
  const Scratch scratch(*this, memory);
  set_columns(scratch, args.mean, args.var, args.scale, args.shift);
  const auto lines_of = [&](const Slice& part) -> NormLines {
    return {at(part.lines), at(part.width), from(args.x, part.first, dtype_),
            scratch.mean,   scratch.gain,   scratch.shift};
  };
  const auto source_of = [&](const Slice& part) -> GradientSource {
    return {from(args.from.dy, part.first, dtype_), from(args.from.more, part.first, dtype_), args.from.passing,
            from(args.from.output, part.first, dtype_)};
  };
  each_slice([&](std::int64_t s, const Slice& part) {
    loops_.gradient_sums({lines_of(part), source_of(part), from(args.passed, part.first, dtype_), scratch.sums_of(s),
                          scratch.first(s), scratch.second(s)});
  });
  finish_sums(scratch, args);
  each_slice([&](std::int64_t, const Slice& part) {
    const GradientSource source =
        args.passed == nullptr ? source_of(part) : GradientSource{.dy = from(args.passed, part.first, dtype_)};
    loops_.gradient({lines_of(part), source, scratch.offset, scratch.slope, from(args.dx, part.first, dtype_)});
  });
}

}  // namespace varve::cpu
