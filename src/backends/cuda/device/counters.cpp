#include "backends/cuda/device/counters.h"

#include <vector>

#include "backends/cuda/device/context.h"

namespace varve::cuda {

std::shared_ptr<ir::Remote> zero_counters(std::size_t count) {
  if (count == 0 || !gpu().present()) return nullptr;
  const std::vector<std::uint32_t> values(count, 0);
  std::shared_ptr<ir::Remote> memory = context().allocate(count * sizeof values[0]);
  context().upload(memory->address, values.data(), count * sizeof values[0], nullptr);
  return memory;
}

}  // namespace varve::cuda
