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

std::optional<std::pair<Tensors, Tensors>> whole_fields(const Dataset& dataset, const std::function<bool()>& go_on) {
  const std::int64_t samples = dataset.size();
  std::vector<Rows> x, y;
  std::size_t sample_bytes = 0;
  const auto make = [&](const std::vector<Field>& fields, std::vector<Rows>& rows) {
    for (const Field& field : fields) {
      rows.emplace_back(field.type, samples);
      sample_bytes += field.type.bytes();
    }
  };
  make(dataset.inputs(), x);
  make(dataset.targets(), y);
  const auto bytes = static_cast<std::int64_t>(std::max<std::size_t>(sample_bytes, 1));
  const std::int64_t part = std::max<std::int64_t>(kReadBytes / bytes, 1);
  for (std::int64_t first = 0; first < samples; first += part) {
    if (!go_on()) return std::nullopt;
    const auto read = [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> scratch;
      std::vector<std::byte*> inputs(x.size()), targets(y.size());
      for (std::int64_t i = first + begin; i < first + end; ++i) {
        for (std::size_t k = 0; k < x.size(); ++k) inputs[k] = x[k].at(i);
        for (std::size_t k = 0; k < y.size(); ++k) targets[k] = y[k].at(i);
        dataset.read(i, 0, 0, FieldMemory(inputs), FieldMemory(targets), scratch);
      }
    };
    parallel_for(std::min(part, samples - first), std::max<std::int64_t>(kGrainBytes / bytes, 1), read);
  }
  const auto tensors = [](const std::vector<Field>& fields, const std::vector<Rows>& rows) {
    Tensors all;
    for (std::size_t k = 0; k < rows.size(); ++k) all.add(fields[k].name, rows[k].tensor());
    return all;
  };
  return std::pair{tensors(dataset.inputs(), x), tensors(dataset.targets(), y)};
}

std::optional<std::pair<Tensor, Tensor>> whole(const Dataset& dataset, const std::function<bool()>& go_on) {
  const auto all = whole_fields(dataset, go_on);
  if (!all) return std::nullopt;
  return std::pair{all->first[0], all->second[0]};
}

}  // namespace varve::data
