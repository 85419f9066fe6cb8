// Random numbers on the GPU are the CPU's, bit for bit.
#include <bit>
#include <cstdint>

#include "cuda/on_cuda.h"

namespace varve {
namespace {

using CudaRandom = OnCuda;

std::vector<std::uint32_t> bits(const std::vector<float>& v) {
  std::vector<std::uint32_t> all;
  for (const float x : v) all.push_back(std::bit_cast<std::uint32_t>(x));
  return all;
}

void expect_the_cpus_bits(const Function& f, const TensorList& in) {
  const Outcome cuda = run_on("cuda", f, in), cpu = run_on("cpu", f, in);
  ASSERT_EQ(cuda.results.size(), cpu.results.size());
  for (std::size_t i = 0; i < cuda.results.size(); ++i)
    EXPECT_EQ(bits(cuda.results[i]), bits(cpu.results[i])) << "result " << i << "\n" << cuda.text;
}

TEST_F(CudaRandom, Draws) {
  const Function f = [](const TensorList& in) {
    return TensorList{uniform({5, 2001}, {.seed = -7, .stream = "a", .counter = in[0]}),
                      normal({100003}, {.seed = 1, .stream = "b", .counter = in[0]})};
  };
  for (const std::int64_t counter : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1} << 40})
    expect_the_cpus_bits(f, {full_int({}, counter, i64)});
}

// Where dropout divides, it divides as the CPU does: numbers of all sizes, zeros of both signs, infinities. Subnormal
// numbers are left out: the CPU takes them for zeros.
TEST_F(CudaRandom, DropoutOfNumbersOfAllSizes) {
  std::vector<float> v = {0.0f, -0.0f};
  for (std::uint32_t exponent = 1; exponent < 256; ++exponent)
    for (const std::uint32_t mantissa : {0u, 1u, 0x2aaaaau, 0x555555u, 0x7fffffu}) {
      if (exponent == 255 && mantissa != 0) continue;  // NaN
      v.push_back(std::bit_cast<float>(exponent << 23 | mantissa));
      v.push_back(-v.back());
    }
  const Tensor x = tensor(v, {static_cast<std::int64_t>(v.size())});
  for (const double rate : {0.1, 0.25, 0.3, 0.5, 0.9}) {
    const Function f = [rate](const TensorList& in) {
      return TensorList{dropout(in[0], rate, {.seed = 1, .stream = "c", .counter = in[1]}),
                        dropout(in[0].to(f64), rate, {.seed = 2, .stream = "d", .counter = in[1]}).to(f32)};
    };
    expect_the_cpus_bits(f, {x, full_int({}, 3, i64)});
  }
}

}  // namespace
}  // namespace varve
