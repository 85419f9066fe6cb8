// Copies, shape operators, orders and places on a GPU, if only an emulated one, at sizes that need several blocks.
#include <cmath>

#include "cuda/on_cuda.h"

namespace varve {
namespace {

class CudaShapes : public OnCuda {};

// Every element comes from one place: the same bits.
void expect_same(const Function& f, const TensorList& in) {
  const Outcome cuda = run_on("cuda", f, in), reference = run_on("reference", f, in);
  ASSERT_EQ(cuda.results.size(), reference.results.size());
  for (std::size_t i = 0; i < cuda.results.size(); ++i)
    EXPECT_EQ(cuda.results[i], reference.results[i]) << "result " << i << "\n" << cuda.text;
}

const std::vector<DType> kSizes = {f64, f32, bf16, u8};

TEST_F(CudaShapes, Transposes) {
  for (const DType dtype : kSizes) {
    const TensorList in = {(values({20, 70, 130}, 1) * 100.f).to(dtype)};
    for (const std::vector<std::int64_t>& order :
         std::vector<std::vector<std::int64_t>>{{0, 2, 1}, {2, 1, 0}, {1, 0, 2}, {1, 2, 0}})
      expect_same([&](const TensorList& t) { return barrier({transpose(t[0], order)}); }, in);
  }
}

// By the driver, but for those of eight bytes that are not the same four twice.
TEST_F(CudaShapes, OneNumberEverywhere) {
  for (const DType dtype : {f64, f32, bf16, f16, i64, i32, i8, u8, boolean})
    for (const double number : {0.0, -0.0, 1.0, 2.5}) {
      const Function f = [&](const TensorList&) { return TensorList{full({3, 1001}, number, dtype)}; };
      expect_same(f, {});
      const bool halves_differ = size_of(dtype) == 8 && (number != 0 || (std::signbit(number) && dtype == f64));
      EXPECT_EQ(run_on("cuda", f, {}).text.find("cuda fill") == std::string::npos, halves_differ)
          << name(dtype) << " " << number;
    }
}

TEST_F(CudaShapes, WindowsAndParts) {
  for (const DType dtype : kSizes) {
    const TensorList in = {(values({5, 12, 20}, 1) * 100.f).to(dtype), (values({5, 7, 20}, 2) * 100.f).to(dtype),
                           (values({5, 12, 3}, 3) * 100.f).to(dtype)};
    expect_same(
        [](const TensorList& t) {
          return TensorList{concat({t[0], t[1], t[0]}, 1), concat({t[0], t[2]}, 2)};
        },
        in);
    expect_same(
        [](const TensorList& t) {
          return TensorList{pad(t[0], {{1, 0}, {0, 2}, {4, 4}}, {.value = 7}), pad(t[0], {{0, 0}, {0, 0}, {1, 2}})};
        },
        in);
  }
}

TEST_F(CudaShapes, Orders) {
  for (const std::int64_t n : {1, 10, 1000, 2048, 2049, 10000})
    for (const DType dtype : {f32, f64, bf16, i32, i64}) {
      const TensorList in = {floor(values({2, n}, 5) * 50.f).to(dtype)};  // equals abound
      for (const bool descending : {false, true})
        expect_same(
            [&](const TensorList& t) {
              return TensorList{sort(t[0], 1, descending), argsort(t[0], 1, descending)};
            },
            in);
    }
  expect_same([](const TensorList& t) { return TensorList{sort(t[0], 0), argsort(t[0], 0)}; }, {values({3000, 3}, 6)});
}

TEST_F(CudaShapes, PlacesOfExtremes) {
  for (const Shape& shape : {Shape{3, 100000}, Shape{100000, 3}, Shape{500, 40}, Shape{4, 300, 70}, Shape{1, 7}})
    for (const DType dtype : {f32, bf16, i32}) {
      const TensorList in = {floor(values(shape, 7) * 100.f).to(dtype)};
      for (int axis = 0; axis < shape.rank(); ++axis)
        expect_same([&](const TensorList& t) { return TensorList{argmax(t[0], axis), argmin(t[0], axis)}; }, in);
    }
}

TEST_F(CudaShapes, RunningSums) {
  for (const Shape& shape : {Shape{3, 5000}, Shape{700, 30}, Shape{4, 300, 7}})
    for (const DType dtype : {f32, i32}) {
      const TensorList in = {floor(values(shape, 8) * 100.f).to(dtype)};
      for (int axis = 0; axis < shape.rank(); ++axis)
        expect_same([&](const TensorList& t) { return TensorList{cumsum(t[0], axis)}; }, in);
    }
}

}  // namespace
}  // namespace varve
