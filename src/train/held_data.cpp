#include "train/held_data.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "varve/ops.h"

namespace varve::train {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;
constexpr std::int64_t kReadBytes = std::int64_t{4} << 20;  // at a time: enough for several workers to be busy

class Numbers final : public data::Source {
 public:
  explicit Numbers(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  TensorType x() const override { return {i32, {}}; }
  TensorType y() const override { return {i32, {}}; }
  void read(std::int64_t index, std::byte* x, std::byte* y) const override {
    const auto number = static_cast<std::int32_t>(index);
    std::memcpy(x, &number, sizeof number);
    std::memcpy(y, &number, sizeof number);
  }

 private:
  std::int64_t size_;
};

// Rows that come batch by batch, one after the other in memory that is not filled before.
class Rows {
 public:
  Rows(const TensorType& sample, std::int64_t count) : type_{sample.dtype, {count}} {
    for (const std::int64_t size : sample.shape) type_.shape.push_back(size);
    memory_ = std::make_unique_for_overwrite<std::byte[]>(type_.bytes());
  }
  void add(const Tensor& batch) {
    std::memcpy(memory_.get() + filled_, batch.data(), batch.type().bytes());
    filled_ += batch.type().bytes();
  }
  Tensor all() const {
    return from_memory(memory_.get(), type_, [kept = memory_] {});
  }

 private:
  TensorType type_;
  std::shared_ptr<std::byte[]> memory_;
  std::size_t filled_ = 0;
};

}  // namespace

HeldData::HeldData(const Tensor& x, const Tensor& y)
    : x_("held.x", x, false), y_("held.y", y, false), rows_(std::make_shared<Numbers>(x.dim(0)), {}) {}

std::optional<HeldData> HeldData::of(const data::Dataset& dataset, int workers, const std::function<bool()>& go_on) {
  const auto bytes = static_cast<std::int64_t>(dataset.x().bytes() + dataset.y().bytes());  // of a sample
  if (!has_own_memory() || !dataset.fixed() || dataset.streams() > 0) return std::nullopt;
  if (dataset.size() == 0 || bytes == 0 || dataset.size() > kMostBytes / bytes) return std::nullopt;
  Rows x(dataset.x(), dataset.size()), y(dataset.y(), dataset.size());
  const std::int64_t batch = std::clamp<std::int64_t>(kReadBytes / bytes, 1, dataset.size());
  for (const data::Batch& read : data::batches(dataset, {.batch = batch, .shuffle = false, .workers = workers})) {
    x.add(read.x);
    y.add(read.y);
    if (!go_on()) return std::nullopt;
  }
  return HeldData(x.all(), y.all());
}

BatchProgram::BatchProgram(const Body& body, const std::optional<HeldData>& held, const CompileOptions& options)
    : held_(held.has_value()),
      of_samples_(compile([body](Tensor x, Tensor y) { return body(x, y); }, options)),
      of_rows_(
          compile([body, held](Tensor rows) { return body(gather(held->x(), rows, 0), gather(held->y(), rows, 0)); },
                  options)) {}

}  // namespace varve::train
