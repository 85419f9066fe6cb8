#include "backends/cuda/norm/rows.h"

#include <algorithm>
#include <bit>

#include "base/text.h"

namespace varve::cuda {

Matrix matrix_of(const Shape& shape) { return {shape.numel() / shape.back(), shape.back()}; }

std::string row_refusal(const TensorType& type) {
  if (!is_floating(type.dtype)) return name(type.dtype);
  if (type.shape.rank() == 0) return "a scalar";
  return type.shape.numel() == 0 ? "an empty tensor" : "";
}

DType wide(DType dtype) { return dtype == f64 ? f64 : f32; }

Team team_for(const Matrix& matrix, DType dtype, int most) {
  constexpr std::int64_t kFew = 4, kWarp = 32, kLargestBlock = 1024;
  Team team;
  while (team.vector < static_cast<int>(16 / size_of(dtype)) && matrix.columns % (2 * team.vector) == 0)
    team.vector *= 2;
  if (dtype == f64) most /= 2;
  const std::int64_t packs = matrix.columns / team.vector;
  const auto items = [&](std::int64_t threads) { return (packs + threads - 1) / threads; };
  const auto fits = [&](std::int64_t threads) { return items(threads) * team.vector <= most; };
  if (fits(kWarp)) {
    // A few elements for each lane: short rows share a warp.
    const auto few = static_cast<std::uint64_t>((matrix.columns + kFew - 1) / kFew);
    team.threads = static_cast<int>(std::min<std::uint64_t>(std::bit_ceil(few), kWarp));
  } else {
    std::int64_t threads = 2 * kWarp;
    // Less than what would fit: several blocks then share a multiprocessor.
    while (threads < kLargestBlock && items(threads) * team.vector > most * 3 / 4) threads *= 2;
    team.threads = team.block = static_cast<int>(threads);
  }
  if (fits(team.threads)) team.items = static_cast<int>(items(team.threads));
  return team;
}

KernelText row_text(const std::string& file, const Team& team, DType dtype, Constants more) {
  more.insert(more.end(), {{"T", type_name(dtype)},
                           {"TEAM", std::to_string(team.threads)},
                           {"BLOCK", std::to_string(team.block)},
                           {"VEC", std::to_string(team.vector)},
                           {"ITEMS", std::to_string(team.items)}});
  return {file, defines(more)};
}

int aligned(std::initializer_list<const void*> pointers) {
  return std::all_of(pointers.begin(), pointers.end(),
                     [](const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; })
             ? 1
             : 0;
}

void add_row_claims(ClaimMap& map) {
  add_softmax_claims(map);
  add_row_loss_claims(map);
  add_layer_norm_claims(map);
}

}  // namespace varve::cuda
