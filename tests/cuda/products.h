// Products of matrices by their definition, and memory of the GPU, if only an emulated one.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "backends/cuda/device/context.h"
#include "backends/cuda/matmul/product.h"
#include "base/convert.h"
#include "cuda/gpu_here.h"

namespace varve::cuda {

inline std::int64_t reach(const MatrixStrides& x, const Ints& batch, std::int64_t rows, std::int64_t columns) {
  std::int64_t last = (rows - 1) * x.row + (columns - 1) * x.col;
  for (std::size_t axis = 0; axis < batch.size(); ++axis) last += (batch[axis] - 1) * x.batch[axis];
  return last + 1;
}

inline std::vector<double> counted(std::int64_t size, int step) {
  std::vector<double> x(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(static_cast<int>(i) * step % 17 - 8);
  return x;
}

inline double at(const std::vector<double>& x, std::int64_t i) { return x.at(static_cast<std::size_t>(i)); }

// By the definition, with our strides.
inline std::vector<double> by_rows(const Product& p, const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> c(static_cast<std::size_t>(reach(p.c, p.batch, p.m, p.n)), -99);
  for (std::int64_t i = 0; i < p.count(); ++i) {
    const Offsets o = offsets_of(p, p.batch.size(), i);
    for (std::int64_t r = 0; r < p.m; ++r)
      for (std::int64_t q = 0; q < p.n; ++q) {
        double sum = 0;
        for (std::int64_t t = 0; t < p.k; ++t)
          sum += at(a, o.a + r * p.a.row + t * p.a.col) * at(b, o.b + t * p.b.row + q * p.b.col);
        c[static_cast<std::size_t>(o.c + r * p.c.row + q * p.c.col)] = sum;
      }
  }
  return c;
}

inline Product dense(std::int64_t m, std::int64_t n, std::int64_t k, bool transposed_a, bool transposed_b,
                     std::int64_t gap) {
  Product p{.m = m, .n = n, .k = k};
  p.a = transposed_a ? MatrixStrides{{}, 1, m + gap} : MatrixStrides{{}, k + gap, 1};
  p.b = transposed_b ? MatrixStrides{{}, 1, k + gap} : MatrixStrides{{}, n + gap, 1};
  p.c = {{}, n, 1};
  return p;
}

class OnGpu {
 public:
  explicit OnGpu(const std::vector<float>& x, DType dtype = f32)
      : memory_(context().allocate(x.size() * size_of(dtype))), size_(x.size()), dtype_(dtype) {
    std::vector<std::byte> bytes(memory_->bytes);
    for (std::size_t i = 0; i < size_; ++i) store_f(bytes.data(), dtype_, static_cast<std::int64_t>(i), x[i]);
    context().upload(memory_->address, bytes.data(), bytes.size(), nullptr);
  }
  void* get() const { return memory_->address; }
  std::vector<float> read() const {
    std::vector<std::byte> bytes(memory_->bytes);
    memory_->fetch(bytes.data());
    std::vector<float> x;
    for (std::size_t i = 0; i < size_; ++i)
      x.push_back(static_cast<float>(load_f(bytes.data(), dtype_, static_cast<std::int64_t>(i))));
    return x;
  }

 private:
  std::shared_ptr<ir::Remote> memory_;
  std::size_t size_;
  DType dtype_;
};

inline std::vector<float> floats(const std::vector<double>& x) { return {x.begin(), x.end()}; }
// As the type has them.
inline std::vector<float> rounded(const std::vector<double>& x, DType dtype) {
  std::vector<float> result;
  for (const double number : x) {
    std::byte bytes[8];
    store_f(bytes, dtype, 0, number);
    result.push_back(static_cast<float>(load_f(bytes, dtype, 0)));
  }
  return result;
}

}  // namespace varve::cuda
