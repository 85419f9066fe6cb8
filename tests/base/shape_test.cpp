#include "varve/shape.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "varve/error.h"

namespace varve {
namespace {

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(Shape, CountsItsElements) {
  EXPECT_EQ(Shape{}.numel(), 1);
  EXPECT_EQ((Shape{3, 4}).numel(), 12);
  EXPECT_EQ((Shape{3, 0}).numel(), 0);
  const std::int64_t big = std::int64_t{1} << 40;
  EXPECT_EQ((Shape{big, big, 0}).numel(), 0);
  EXPECT_EQ((Shape{std::int64_t{1} << 62}).numel(), std::int64_t{1} << 62);
  EXPECT_THROW((Shape{big, big}).numel(), Error);
  EXPECT_THROW((Shape{std::int64_t{1} << 62, 2}).numel(), Error);
  EXPECT_THROW((Shape{INT64_MAX}).numel(), Error);
  EXPECT_THROW((Shape{0, -1}).numel(), Error);
  EXPECT_EQ((Shape{32, 784}).str(), "[32, 784]");
  EXPECT_EQ(Shape{}.str(), "[]");
}

TEST(Shape, Broadcasts) {
  EXPECT_EQ(broadcast({3, 1}, {4}, "add"), (Shape{3, 4}));
  EXPECT_EQ(broadcast({}, {2, 5}, "add"), (Shape{2, 5}));
  EXPECT_EQ(broadcast({1}, {0}, "add"), (Shape{0}));
  EXPECT_EQ(broadcast({5, 1, 7}, {6, 1}, "add"), (Shape{5, 6, 7}));
  EXPECT_EQ(message_of([] {
              broadcast({3, 4}, {5}, "add");
            }),
            "add: shapes [3, 4] and [5] do not broadcast: axis sizes 4 and 5 differ (sizes must be equal, or one of "
            "them 1).");
  EXPECT_THROW(broadcast({0}, {2}, "mul"), Error);
}

TEST(Shape, NormalizesAxes) {
  EXPECT_EQ(normalize_axis(-1, 3, "sum"), 2);
  EXPECT_EQ(normalize_axis(0, 3, "sum"), 0);
  EXPECT_EQ(message_of([] { normalize_axis(3, 3, "sum"); }),
            "sum: axis 3 is out of range for rank 3: expected -3 to 2.");
  EXPECT_EQ(message_of([] { normalize_axis(0, 0, "sum"); }),
            "sum: axis 0 of a scalar: a tensor of rank 0 has no axes.");
  EXPECT_THROW(normalize_axis(INT64_MIN, 3, "sum"), Error);
}

}  // namespace
}  // namespace varve
