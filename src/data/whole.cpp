#include <algorithm>
#include <memory>

#include "base/threads.h"
#include "varve/data.h"

namespace varve::data {
namespace {

constexpr std::int64_t kReadBytes = std::int64_t{64} << 20;  // at a time: enough for all threads to be busy
constexpr std::int64_t kGrainBytes = std::int64_t{1} << 20;

// Rows in memory that is not filled before.
class Rows {
 public:
  Rows(const TensorType& row, std::int64_t count) : row_(row.bytes()), type_{row.dtype, {count}} {
    for (const std::int64_t size : row.shape) type_.shape.push_back(size);
    memory_ = std::make_unique_for_overwrite<std::byte[]>(type_.bytes());
  }
  std::byte* at(std::int64_t index) { return memory_.get() + static_cast<std::size_t>(index) * row_; }
  Tensor tensor() const {
    return from_memory(memory_.get(), type_, [kept = memory_] {});
  }

 private:
  std::size_t row_;
  TensorType type_;
  std::shared_ptr<std::byte[]> memory_;
};

}  // namespace

std::optional<std::pair<Tensor, Tensor>> whole(const Dataset& dataset, const std::function<bool()>& go_on) {
  const std::int64_t samples = dataset.size();
  const auto bytes = static_cast<std::int64_t>(std::max<std::size_t>(dataset.x().bytes() + dataset.y().bytes(), 1));
  const std::int64_t part = std::max<std::int64_t>(kReadBytes / bytes, 1);
  Rows x(dataset.x(), samples), y(dataset.y(), samples);
  for (std::int64_t first = 0; first < samples; first += part) {
    if (!go_on()) return std::nullopt;
    const auto read = [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> scratch;
      for (std::int64_t i = first + begin; i < first + end; ++i) dataset.read(i, 0, 0, x.at(i), y.at(i), scratch);
    };
    parallel_for(std::min(part, samples - first), std::max<std::int64_t>(kGrainBytes / bytes, 1), read);
  }
  return std::pair{x.tensor(), y.tensor()};
}

}  // namespace varve::data
