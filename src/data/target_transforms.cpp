// What is done to targets as they are read.
#include <cmath>
#include <cstring>

#include "base/text.h"
#include "data/dataset_target.h"
#include "varve/data.h"

namespace varve::data {
namespace {

class TargetSource : public Source {
 public:
  TargetSource(Dataset base, TargetTransform transform)
      : base_(std::move(base)), transform_(std::move(transform)), from_(base_.y()), to_(transform_.type(from_)) {
    if (to_.dtype != f32 && to_.dtype != i32)
      throw Error(cat("map_targets: ", transform_.name, " makes ", to_.str(), ": targets are i32 or f32."));
  }
  std::int64_t size() const override { return base_.size(); }
  TensorType x() const override { return base_.x(); }
  TensorType y() const override { return to_; }
  bool varies() const override { return base_.varies(); }
  std::int64_t length(std::int64_t index) const override { return base_.length(index); }
  std::vector<std::int64_t> order(std::uint64_t seed, std::uint64_t epoch) const override {
    return base_.order(seed, epoch);
  }
  void read(std::int64_t index, std::byte* x, std::byte* y) const override {
    std::vector<float> scratch;
    std::vector<std::byte> bytes(from_.bytes());
    base_.read(index, 0, 0, x, bytes.data(), scratch);
    std::vector<double> values(static_cast<std::size_t>(from_.shape.numel()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = value_at(bytes.data(), i);
    std::vector<double> made(static_cast<std::size_t>(to_.shape.numel()));
    transform_.apply(values, made);
    for (std::size_t i = 0; i < made.size(); ++i) put(made[i], y + 4 * i);
  }

 private:
  double value_at(const std::byte* bytes, std::size_t i) const {
    if (from_.dtype != f32) return static_cast<double>(integer_at(bytes, from_.dtype, i));
    float value = 0;
    std::memcpy(&value, bytes + 4 * i, 4);
    return value;
  }
  void put(double value, std::byte* to) const {
    if (to_.dtype == f32) {
      const auto number = static_cast<float>(value);
      std::memcpy(to, &number, 4);
      return;
    }
    if (!(std::abs(value) <= INT32_MAX) || value != std::floor(value))
      throw Error(cat("map_targets: ", transform_.name, " made ", value, ", which is no class."));
    const auto number = static_cast<std::int32_t>(value);
    std::memcpy(to, &number, 4);
  }

  Dataset base_;
  TargetTransform transform_;
  TensorType from_, to_;
};

TargetTransform each_number(std::string name, std::function<double(double)> of) {
  return {.name = std::move(name),
          .type =
              [](const TensorType& from) {
                return from.shape.rank() == 0 ? TensorType{f32, {1}} : TensorType{f32, from.shape};
              },
          .apply =
              [of = std::move(of)](std::span<const double> from, std::span<double> to) {
                for (std::size_t i = 0; i < to.size(); ++i) to[i] = of(from[i]);
              }};
}

}  // namespace

Dataset Dataset::map_targets(TargetTransform transform) const {
  const Info& from = info();
  if (!transform.type || !transform.apply)
    throw Error(cat("data set \"", from.name, "\": map_targets needs a type and a function."));
  if (!fixed() || streams() > 0 || !parts().empty() || has_weights() || inputs().size() != 1 || targets().size() != 1)
    throw Error(cat("data set \"", from.name,
                    "\": targets are mapped first of all, of samples of one input and one target, before transforms, "
                    "weights and parts."));
  Info info = from;
  const auto source = std::make_shared<TargetSource>(*this, std::move(transform));
  // Names and scales are of targets as they were.
  if (source->y() != y()) info.classes.clear();
  info.boxes = false;
  return Dataset(source, std::move(info));
}

TargetTransform scale_targets(double factor, double offset) {
  return each_number("scale", [=](double value) { return factor * value + offset; });
}

TargetTransform log_targets() {
  return each_number("log", [](double value) {
    if (!(value > -1)) throw Error(cat("map_targets: the logarithm of 1 + ", value, " is asked for."));
    return std::log1p(value);
  });
}

TargetTransform one_hot_targets(std::int64_t classes) {
  constexpr std::int64_t kMostClasses = 1 << 20;
  if (classes < 1 || classes > kMostClasses)
    throw Error(cat("one_hot_targets: expected 1 to ", kMostClasses, " classes, got ", classes, "."));
  return {.name = "one_hot",
          .type =
              [classes](const TensorType& from) {
                if (!is_integer(from.dtype) || from.shape.rank() != 0)
                  throw Error(cat("one_hot_targets: expected a class for each sample, got ", from.str(), "."));
                return TensorType{f32, {classes}};
              },
          .apply =
              [classes](std::span<const double> from, std::span<double> to) {
                if (!(from[0] >= 0 && from[0] < static_cast<double>(classes)))
                  throw Error(cat("one_hot_targets: a target is ", from[0], ", of ", classes, " classes."));
                to[static_cast<std::size_t>(from[0])] = 1;
              }};
}

}  // namespace varve::data
