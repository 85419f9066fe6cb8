#include "backends/cuda/matmul/matmul_plain.h"

#include <cstdlib>

#include "backends/cuda/device/context.h"

namespace varve::cuda {
namespace {

constexpr std::int64_t kBlock = 64;    // rows and columns of a block
constexpr int kPlainThreads = 256;     // of a block
constexpr std::size_t kBatchAxes = 4;  // that one launch takes

// As matmul/matmul_plain.cu reads it.
struct MatmulShape {
  std::int64_t m, n, k;
  std::int64_t a_row, a_col, b_row, b_col, c_row, c_col;
  std::int64_t axes = 0;
  std::int64_t size[kBatchAxes] = {}, a_batch[kBatchAxes] = {}, b_batch[kBatchAxes] = {}, c_batch[kBatchAxes] = {};
};

// Axes of the batch that are walked on the processor, one launch each.
std::size_t outer_axes(const Product& p) { return p.batch.size() > kBatchAxes ? p.batch.size() - kBatchAxes : 0; }

MatmulShape shape_of(const Product& p) {
  MatmulShape shape{p.m, p.n, p.k, p.a.row, p.a.col, p.b.row, p.b.col, p.c.row, p.c.col};
  for (std::size_t axis = outer_axes(p); axis < p.batch.size(); ++axis) {
    const auto at = static_cast<std::size_t>(shape.axes++);
    shape.size[at] = p.batch[axis];
    shape.a_batch[at] = p.a.batch[axis];
    shape.b_batch[at] = p.b.batch[axis];
    shape.c_batch[at] = p.c.batch[axis];
  }
  return shape;
}

const char* wide_name(DType dtype) { return is_floating(dtype) ? type_name(scale_type(dtype)) : "u64"; }

KernelText text_of(const GemmSpec& spec) {
  Constants constants{{"IN", type_name(spec.in)}, {"OUT", type_name(spec.out)}, {"WIDE", wide_name(spec.out)}};
  if (spec.bias) constants.push_back({"BIAS", "1"});
  if (spec.relu) constants.push_back({"RELU", "1"});
  if (spec.adds) constants.push_back({"ADDS", "1"});
  if (spec.scaled) constants.push_back({"SCALED", "1"});
  return {"matmul/matmul_plain.cu", defines(constants)};
}

const void* at(const void* data, std::int64_t elements, DType dtype) {
  return data ? static_cast<const std::byte*>(data) + elements * static_cast<std::int64_t>(size_of(dtype)) : nullptr;
}

}  // namespace

DType scale_type(DType out) { return out == f64 ? f64 : f32; }

PlainGemm::PlainGemm(const GemmSpec& spec, Begin begin) : spec_(spec), function_("matmul", text_of(spec), begin) {}

void PlainGemm::launch(const GemmOperands& o, const Offsets& offsets) const {
  const Product& p = spec_.product;
  const MatmulShape shape = shape_of(p);
  Launch launch{.grid = (p.m + kBlock - 1) / kBlock * ((p.n + kBlock - 1) / kBlock), .block = kPlainThreads};
  for (std::int64_t axis = 0; axis < shape.axes; ++axis) launch.grid *= shape.size[axis];
  const void *a = at(o.a, offsets.a, spec_.in), *b = at(o.b, offsets.b, spec_.in), *c0 = at(o.c0, offsets.c, spec_.out);
  const void* c = at(o.c, offsets.c, spec_.out);
  const auto start = [&](auto alpha, auto beta) {
    function_(launch, a, b, o.bias, c0, o.scale, alpha, beta, c, shape);
  };
  if (!is_floating(spec_.out))
    start(static_cast<std::uint64_t>(spec_.alpha), static_cast<std::uint64_t>(spec_.beta));
  else if (spec_.out == f64)
    start(spec_.alpha, spec_.beta);
  else
    start(static_cast<float>(spec_.alpha), static_cast<float>(spec_.beta));
}

void PlainGemm::run(const GemmOperands& operands) const {
  const Product& p = spec_.product;
  if (p.empty()) return;
  const std::size_t outer = outer_axes(p);
  std::int64_t launches = 1;
  for (std::size_t axis = 0; axis < outer; ++axis) launches *= p.batch[axis];
  for (std::int64_t i = 0; i < launches; ++i) launch(operands, offsets_of(p, outer, i));
}

namespace {

constexpr std::int64_t kSmallSide = 32;  // rows and columns of a block
std::int64_t small_blocks(const Product& p) {
  return (p.m + kSmallSide - 1) / kSmallSide * ((p.n + kSmallSide - 1) / kSmallSide);
}

// As matmul/matmul_small.cu reads it.
struct SmallProduct {
  int m, n, k;
  int a_row, a_col, b_row, b_col, c_row, c_col;
};

// Whether 32 bits say where all of it lies.
bool is_near(const MatrixStrides& strides, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  const std::int64_t row = std::abs(strides.row), column = std::abs(strides.col);
  return row < kMost && column < kMost && rows * row + columns * column < kMost;
}

}  // namespace

bool SmallGemm::takes(const GemmSpec& spec) {
  constexpr std::int64_t kDeepest = 1024;
  const std::int64_t most_blocks = 2 * gpu().multiprocessors;
  const Product& p = spec.product;
  if (!is_near(p.a, p.m, p.k) || !is_near(p.b, p.k, p.n) || !is_near(p.c, p.m, p.n)) return false;
  return (spec.in == f32 || size_of(spec.in) == 2) && is_floating(spec.in) && spec.out == spec.in && !spec.adds &&
         !spec.wide_b && p.batch.empty() && !p.empty() && p.k > 0 && p.k <= kDeepest && small_blocks(p) <= most_blocks;
}

SmallGemm::SmallGemm(const GemmSpec& spec)
    : spec_(spec), function_("matmul_small", {"matmul/matmul_small.cu", defines({{"T", type_name(spec.in)}})}) {}

void SmallGemm::run(const GemmOperands& o) const {
  const Product& p = spec_.product;
  const auto whole = [](std::int64_t n) { return static_cast<int>(n); };
  const SmallProduct shape{whole(p.m),     whole(p.n),     whole(p.k),     whole(p.a.row), whole(p.a.col),
                           whole(p.b.row), whole(p.b.col), whole(p.c.row), whole(p.c.col)};
  function_({.grid = small_blocks(p), .block = 256}, o.a, o.b, o.bias, o.c, shape, spec_.relu ? 1 : 0);
}

}  // namespace varve::cuda
