// A program flushes denormals while it runs; the caller's own parallel loops, which OpenMP gives the same threads, find
// the floating-point mode that they had.
#include <omp.h>

#include <limits>

#include "backends/cpu_programs.h"

namespace varve {
namespace {

TEST(FloatMode, OfTheCallersTeamIsAsItWas) {
  constexpr int kTeam = 2;
  const int before = threads();
  set_threads(kTeam);
  const Function f = [](const TensorList& in) { return TensorList{gelu(matmul(in[0], in[1])), exp(in[0] * 2 + 1)}; };
  run_on("cpu", f, {values({512, 512}, 1), values({512, 512}, 2)});
  std::vector<float> quarters(kTeam, 0.f);
  volatile float smallest = std::numeric_limits<float>::min();
#pragma omp parallel for num_threads(kTeam) schedule(static)
  for (int i = 0; i < kTeam; ++i) quarters[static_cast<std::size_t>(i)] = smallest * 0.25f;
  set_threads(before);
  EXPECT_EQ(quarters, std::vector<float>(kTeam, std::numeric_limits<float>::min() * 0.25f));
}

}  // namespace
}  // namespace varve
