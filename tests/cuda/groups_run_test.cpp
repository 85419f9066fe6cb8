// Generated groups as they run, where there is a GPU, if only an emulated one: every walk, with and without vectors,
// sliced reductions, several groups in one launch.
#include <gtest/gtest.h>

#include <cmath>

#include "backends/cuda/claims.h"
#include "backends/cuda/device/context.h"
#include "base/convert.h"
#include "cuda/group_parts.h"
#include "ir/expr_eval.h"
#include "varve/error.h"

namespace varve::cuda {
namespace {

using backend::Port;
using backend::Reduce;
using Values = std::vector<double>;

// Elements that the layout reaches, from the first on.
std::int64_t port_reach(const Port& port) {
  std::int64_t last = 0;
  for (int a = 0; a < port.type.shape.rank(); ++a)
    last += (port.type.shape[a] - 1) * port.layout.strides[static_cast<std::size_t>(a)];
  return port.type.shape.numel() == 0 ? 0 : last + 1;
}

// Memory of the GPU that holds an operand, `shift` elements from its beginning.
class Memory {
 public:
  Memory(const Port& port, std::int64_t shift, const Values* values) : port_(port), count_(port_reach(port)) {
    const std::size_t bytes = size_of(port.type.dtype);
    std::vector<std::byte> data(static_cast<std::size_t>(count_ + shift + 1) * bytes);
    for (std::int64_t i = 0; values && i < count_; ++i)
      store_f(data.data(), port.type.dtype, i + shift, (*values)[static_cast<std::size_t>(i)]);
    memory_ = context().allocate(data.size());
    context().upload(memory_->address, data.data(), data.size(), nullptr);
    first_ = static_cast<std::byte*>(memory_->address) + static_cast<std::size_t>(shift) * bytes;
    shift_ = shift;
  }
  void* first() const { return first_; }
  Values fetched() const {
    std::vector<std::byte> data(memory_->bytes);
    memory_->fetch(data.data());
    Values values;
    for (std::int64_t i = 0; i < count_; ++i) values.push_back(load_f(data.data(), port_.type.dtype, i + shift_));
    return values;
  }

 private:
  Port port_;
  std::int64_t count_, shift_ = 0;
  std::shared_ptr<ir::Remote> memory_;
  std::byte* first_;
};

// As the types store them.
Values values_for(const Port& port, int seed) {
  Values values;
  for (std::int64_t i = 0; i < port_reach(port); ++i) {
    double value = std::sin(static_cast<double>(i * 37 + seed * 101)) * 3;
    if (is_integer(port.type.dtype)) value = std::floor(value * 10);
    if (port.type.dtype == u8 || port.type.dtype == boolean) value = std::fabs(value) > 1 ? 1 : 0;
    std::byte stored[8];
    store_f(stored, port.type.dtype, 0, value);
    values.push_back(load_f(stored, port.type.dtype, 0));
  }
  return values;
}

double combined(Reduce op, double a, double b) {
  return op == Reduce::sum ? a + b : op == Reduce::prod ? a * b : op == Reduce::max ? std::fmax(a, b) : std::fmin(a, b);
}
double neutral(Reduce op) {
  return op == Reduce::sum ? 0 : op == Reduce::prod ? 1 : op == Reduce::max ? -INFINITY : INFINITY;
}

// Plain loops in double.
std::vector<Values> expected(const GroupPart& part, const std::vector<Values>& in) {
  const Shape& space = part.group.shape;
  std::vector<Values> out;
  for (std::size_t o = 0; o < part.out.size(); ++o)
    out.emplace_back(static_cast<std::size_t>(part.out[o].type.shape.numel()), neutral(part.group.reduce[o]));
  std::vector<std::int64_t> index(static_cast<std::size_t>(space.rank()), 0);
  for (std::int64_t n = 0; n < space.numel(); ++n) {
    std::int64_t rest = n, kept = 0, stride = 1;
    for (int a = space.rank() - 1; a >= 0; rest /= space[a--]) {
      index[static_cast<std::size_t>(a)] = rest % space[a];
      if (part.group.reduced_axes[static_cast<std::size_t>(a)]) continue;
      kept += rest % space[a] * stride;
      stride *= space[a];
    }
    Values point;
    for (std::size_t i = 0; i < in.size(); ++i) {
      const Shape& shape = part.in[i].type.shape;
      std::int64_t at = 0;
      for (int a = 0; a < shape.rank(); ++a)
        if (shape[a] != 1)
          at += index[static_cast<std::size_t>(a + space.rank() - shape.rank())] *
                part.in[i].layout.strides[static_cast<std::size_t>(a)];
      point.push_back(in[i][static_cast<std::size_t>(at)]);
    }
    for (std::size_t o = 0; o < out.size(); ++o) {
      const double value = expr::evaluate(part.group.code, point.data(), static_cast<int>(o));
      const Reduce op = part.group.reduce[o];
      double& to = out[o][static_cast<std::size_t>(op == Reduce::none ? n : kept)];
      to = op == Reduce::none ? value : combined(op, to, value);
    }
  }
  return out;
}

// `terms` of either sign meet in a result: what is left of their sum is exact to a part of what was added.
void expect_close(const Values& got, const Values& wanted, DType dtype, double terms, const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  const double relative = dtype == bf16 ? 8e-3 : dtype == f16 ? 1e-3 : 2e-5;
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], wanted[i], relative * (1 + std::fabs(wanted[i])) + 1e-8 * terms) << what << ", element " << i;
}

// Runs the parts as one kernel, twice, and compares with the plain loops.
void check(const std::vector<GroupPart>& parts, std::int64_t shift = 0) {
  std::vector<Memory> in, out;
  std::vector<std::vector<Values>> wanted;
  for (const GroupPart& part : parts) {
    std::vector<Values> values;
    for (const Port& port : part.in) {
      values.push_back(values_for(port, static_cast<int>(in.size())));
      in.emplace_back(port, shift, &values.back());
    }
    for (const Port& port : part.out) out.emplace_back(port, shift, nullptr);
    wanted.push_back(expected(part, values));
  }
  const backend::Prepared prepared = prepare_merged(parts);
  std::vector<const void*> from;
  std::vector<void*> to;
  for (const Memory& memory : in) from.push_back(memory.first());
  for (const Memory& memory : out) to.push_back(memory.first());
  const auto scratch = context().allocate(prepared.scratch_bytes + 1);
  for (int run = 0; run < 2; ++run) {
    prepared.kernel->run({from.data(), to.data(), scratch->address, nullptr});
    context().wait();
    std::size_t next = 0;
    for (std::size_t p = 0; p < parts.size(); ++p)
      for (std::size_t o = 0; o < parts[p].out.size(); ++o)
        expect_close(out[next++].fetched(), wanted[p][o], parts[p].out[o].type.dtype,
                     static_cast<double>(parts[p].group.shape.numel()),
                     "part " + std::to_string(p) + ", output " + std::to_string(o) + ", run " + std::to_string(run));
  }
}

class CudaGroups : public testing::Test {
 protected:
  void SetUp() override {
    try {
      context();
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }
};

GroupPart scaled(const Shape& shape, DType dtype) {
  return part(shape, {port(dtype, shape)}, {port(dtype, shape)}, {x(0) * 3 + 1});
}

TEST_F(CudaGroups, Elementwise) {
  for (const DType dtype : {f32, bf16})
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{7}, Shape{3, 5}, Shape{400, 1000}, Shape{1 << 20}})
      check({scaled(shape, dtype)});
  check({scaled({400, 1000}, f32)}, 1);
  check({scaled({400, 1000}, bf16)}, 3);
}

// A vector along rows, one along columns, a scalar, a transposed matrix.
TEST_F(CudaGroups, Broadcasting) {
  for (const std::int64_t columns : {1000, 998, 1001, 3}) {
    const Shape shape{300, columns};
    Port transposed = port(f32, shape);
    transposed.layout.strides = {1, 300};
    const std::vector<Port> in = {port(f32, shape), port(bf16, {columns}), port(f32, Shape{300, 1}), port(f32, Shape{}),
                                  transposed};
    check({part(shape, in, {port(f32, shape), port(boolean, shape)}, {x(0) * x(1) + x(2) - x(3) * x(4), x(0) < x(1)})});
  }
  const Shape image{8, 6, 10, 10};
  check({part(image, {port(f32, image), port(f32, Shape{6, 1, 1}), port(f32, Shape{1, 6, 1, 10})}, {port(f32, image)},
              {x(0) * x(1) + x(2)})});
}

TEST_F(CudaGroups, RowReductions) {
  for (const Shape& shape : {Shape{300, 3}, Shape{5, 131}, Shape{40, 1024}, Shape{3000, 64}, Shape{2, 300000}}) {
    const Shape rows{shape[0]};
    for (const std::int64_t shift : {0, 1})
      check({part(shape, {port(f32, shape), port(f32, Shape{shape[0], 1})},
                  {port(f32, rows), port(f32, shape), port(bf16, rows), port(f32, rows)},
                  {x(0) * x(1), x(0) + x(1), x(0), x(0) * 2}, {Reduce::sum, Reduce::none, Reduce::max, Reduce::min},
                  {1})},
            shift);
  }
}

TEST_F(CudaGroups, ColumnReductions) {
  for (const Shape& shape : {Shape{3, 300}, Shape{131, 5}, Shape{4096, 24}, Shape{2, 40000}, Shape{50000, 3}}) {
    const Shape columns{shape[1]};
    for (const std::int64_t shift : {0, 1})
      check({part(shape, {port(bf16, shape), port(f32, columns)},
                  {port(f32, columns), port(f32, shape), port(f32, columns)}, {x(0) * x(1), x(0) + x(1), x(0)},
                  {Reduce::sum, Reduce::none, Reduce::max}, {0})},
            shift);
  }
}

TEST_F(CudaGroups, OtherReductions) {
  const Shape image{16, 6, 30, 30};
  check({part(image, {port(f32, image)}, {port(f32, {6}), port(f32, {6})}, {x(0), x(0) * x(0)},
              {Reduce::sum, Reduce::sum}, {0, 2, 3})});
  check({part(image, {port(f32, image)}, {port(f32, {16, 30})}, {x(0)}, {Reduce::sum}, {1, 3})});
  check({part(image, {port(f32, image)}, {port(f32, {6, 30})}, {x(0)}, {Reduce::sum}, {0, 2})});
  check({part({1 << 20}, {port(f32, {1 << 20})}, {port(f32, Shape{})}, {x(0) * x(0)}, {Reduce::sum}, {0})});
  check({part({64, 0}, {port(f32, {64, 0})}, {port(f32, {64}), port(f32, {64})}, {x(0), x(0)},
              {Reduce::sum, Reduce::prod}, {1})});
  GroupPart whole =
      part(image, {port(i32, image), port(boolean, image)}, {port(i64, {6})}, {x(0) * x(1)}, {Reduce::sum}, {0, 2, 3});
  whole.group.compute = i64;
  check({whole});
}

// As of an optimiser: many tensors, a few kinds of groups.
TEST_F(CudaGroups, ShareALaunch) {
  std::vector<GroupPart> parts;
  for (const std::int64_t n : {1, 10, 1000, 4096, 100000, 7}) {
    const Shape shape{n};
    parts.push_back(part(shape, {port(f32, shape), port(f32, shape), port(f32, Shape{})},
                         {port(f32, shape), port(f32, shape)}, {x(0) - x(2) * x(1), x(1) * 0.9}));
    const Shape rows{n, 12};
    parts.push_back(part(rows, {port(f32, rows)}, {port(f32, {12})}, {x(0)}, {Reduce::sum}, {0}));
    parts.push_back(part(rows, {port(bf16, rows)}, {port(f32, {n})}, {x(0)}, {Reduce::max}, {1}));
  }
  check(parts);
  check(parts, 1);
}

}  // namespace
}  // namespace varve::cuda
