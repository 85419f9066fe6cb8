// Two digits at a time: a small problem of two inputs and two outputs.
#include <cstring>

#include "data/random_order.h"
#include "data/sample_memory.h"
#include "varve/data.h"

namespace varve::data {
namespace {

constexpr std::uint64_t kPairStream = kSplitStream + 1;
constexpr int kSums = 19;  // 0 to 18

// Sample i is digit i beside another one, the same in every run.
class DigitPairs : public FieldSource {
 public:
  DigitPairs(Dataset digits, std::int64_t seed)
      : digits_(std::move(digits)),
        other_(permutation(digits_.size(), Random(static_cast<std::uint64_t>(seed), 0, kPairStream))) {}

  std::int64_t size() const override { return digits_.size(); }
  std::vector<Field> inputs() const override { return {{"left", digits_.x()}, {"right", digits_.x()}}; }
  std::vector<Field> targets() const override { return {{"sum", {i32, {}}}, {"difference", {f32, {1}}}}; }
  void read_fields(std::int64_t index, FieldMemory inputs, FieldMemory targets) const override {
    const std::int32_t left = read_digit(index, inputs[0]);
    const std::int32_t right = read_digit(other_[static_cast<std::size_t>(index)], inputs[1]);
    const std::int32_t sum = left + right;
    const auto difference = static_cast<float>(left - right);
    std::memcpy(targets[0], &sum, sizeof sum);
    std::memcpy(targets[1], &difference, sizeof difference);
  }

 private:
  std::int32_t read_digit(std::int64_t index, std::byte* picture) const {
    std::int32_t digit = 0;
    digits_.source().read(index, picture, reinterpret_cast<std::byte*>(&digit));
    return digit;
  }

  Dataset digits_;
  std::vector<std::int64_t> other_;
};

}  // namespace

Splits digit_pairs(const DigitsOptions& options) {
  Info info{.name = "digit_pairs"};
  for (int sum = 0; sum < kSums; ++sum) info.classes.push_back(std::to_string(sum));
  info.target_classes["sum"] = info.classes;
  const Splits single = digits(options);
  return {.train = Dataset(std::make_shared<DigitPairs>(single.train, options.seed), info),
          .test = Dataset(std::make_shared<DigitPairs>(single.test, options.seed), info)};
}

}  // namespace varve::data
