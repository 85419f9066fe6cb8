#include "train/held_data.h"

#include <cstring>
#include <memory>

#include "varve/ops.h"

namespace varve::train {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;

class RowNumbers final : public data::Source {
 public:
  explicit RowNumbers(std::int64_t size) : size_(size) {}
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

}  // namespace

HeldData::HeldData(const Tensor& x, const Tensor& y)
    : x_("held.x", x, false), y_("held.y", y, false), rows_(std::make_shared<RowNumbers>(x.dim(0)), {}) {}

std::optional<HeldData> HeldData::of(const data::Dataset& dataset, const std::function<bool()>& go_on) {
  const auto bytes = static_cast<std::int64_t>(dataset.x().bytes() + dataset.y().bytes());  // of a sample
  if (!has_own_memory() || !dataset.fixed() || dataset.streams() > 0 || !dataset.parts().empty()) return std::nullopt;
  if (dataset.size() == 0 || bytes == 0 || dataset.size() > kMostBytes / bytes) return std::nullopt;
  const std::optional<std::pair<Tensor, Tensor>> all = data::whole(dataset, go_on);
  if (!all) return std::nullopt;
  return HeldData(all->first, all->second);
}

BatchProgram::BatchProgram(const Body& body, const std::optional<HeldData>& held, const CompileOptions& options)
    : held_(held.has_value()),
      of_samples_(compile([body](Tensor x, Tensor y) { return body(x, y); }, options)),
      of_rows_(
          compile([body, held](Tensor rows) { return body(gather(held->x(), rows, 0), gather(held->y(), rows, 0)); },
                  options)) {}

}  // namespace varve::train
