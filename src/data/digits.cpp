#include "data/digits.h"

#include <atomic>
#include <cstring>
#include <numeric>

#include "data/pixels.h"

namespace varve::data {
namespace {

// Draws a picture when it is first asked for, and keeps it. Each depends on (seed, part, index) alone, so the order of
// reading and the number of threads do not matter.
class DigitsSource : public Source {
 public:
  DigitsSource(std::int64_t count, std::int64_t seed, std::uint64_t part)
      : count_(count),
        seed_(static_cast<std::uint64_t>(seed)),
        part_(part),
        pictures_(new DigitPicture[static_cast<std::size_t>(count)]),
        states_(new std::atomic<State>[static_cast<std::size_t>(count)]()) {}

  std::int64_t size() const override { return count_; }
  TensorType x() const override { return {f32, {kDigitSide, kDigitSide, 1}}; }
  TensorType y() const override { return {i32, {}}; }

  void read(std::int64_t index, std::byte* x, std::byte* y) const override {
    const int digit = label(index);
    deliver_class(digit, y);
    const auto at = static_cast<std::size_t>(index);
    if (states_[at].load(std::memory_order_acquire) == State::drawn) {
      deliver_pixels(pictures_[at].data(), std::ssize(pictures_[at]), x);
      return;
    }
    Random random(seed_, 2 * part_, static_cast<std::uint64_t>(index));
    const DigitPicture picture = draw_digit(digit, random);
    deliver_pixels(picture.data(), std::ssize(picture), x);
    // Of several threads that drew the same picture, one keeps it.
    State blank = State::blank;
    if (states_[at].compare_exchange_strong(blank, State::taken, std::memory_order_relaxed)) {
      pictures_[at] = picture;
      states_[at].store(State::drawn, std::memory_order_release);
    }
  }

 private:
  enum class State : std::uint8_t { blank, taken, drawn };

  // Every ten samples hold each digit once, in an order of their own: any first part of the set is balanced.
  int label(std::int64_t index) const {
    std::array<int, 10> order;
    std::iota(order.begin(), order.end(), 0);
    Random random(seed_, 2 * part_ + 1, static_cast<std::uint64_t>(index / 10));
    for (std::int64_t i = 9; i > 0; --i) {
      std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(random.integer(i + 1))]);
    }
    return order[static_cast<std::size_t>(index % 10)];
  }

  std::int64_t count_;
  std::uint64_t seed_, part_;
  std::unique_ptr<DigitPicture[]> pictures_;
  std::unique_ptr<std::atomic<State>[]> states_;
};

void check_count(const char* part, std::int64_t count) {
  constexpr std::int64_t kMost = 10'000'000;
  if (count < 0 || count > kMost) {
    throw Error(std::string("digits: ") + part + " must be from 0 to " + std::to_string(kMost) + ", got " +
                std::to_string(count) + ".");
  }
}

}  // namespace

Splits digits(const DigitsOptions& options) {
  check_count("train", options.train);
  check_count("test", options.test);
  const Info info = {.name = "digits", .classes = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}};
  return {.train = Dataset(std::make_shared<DigitsSource>(options.train, options.seed, 0), info),
          .test = Dataset(std::make_shared<DigitsSource>(options.test, options.seed, 1), info)};
}

}  // namespace varve::data
