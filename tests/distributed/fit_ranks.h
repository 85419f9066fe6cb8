// Trainings that several ranks do as one would.
#pragma once

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>

#include "distributed/ranks.h"
#include "varve/train.h"

namespace varve::test {

// What the first process has computed with one rank, and hands to the ranks by the environment.
inline std::string losses_text(const train::History& history) {
  std::string text;
  for (const train::Epoch& epoch : history.epochs)
    for (const auto& [name, value] : epoch.values) text += std::to_string(value) + " ";
  return text;
}

inline void expect_near(const std::string& got, const std::string& expected, double tolerance) {
  std::istringstream a(got), b(expected);
  double x = 0, y = 0;
  int count = 0;
  while (b >> y) {
    ASSERT_TRUE(a >> x);
    EXPECT_NEAR(x, y, tolerance * std::max(1.0, std::abs(y)));
    ++count;
  }
  EXPECT_GT(count, 0);
}

// What a test's callback throws to end a run, which then saves.
struct Stopped : Error {
  using Error::Error;
};

class FitRanks : public Ranks {
 protected:
  // The same training, first by one rank here, then by several.
  template <class Train>
  void expect_as_one(Train training, double tolerance = 2e-4) {
    if (!std::getenv("VARVE_RANK")) setenv("ONE_RANK", training().c_str(), 1);
    if (started()) return;
    expect_near(training(), std::getenv("ONE_RANK"), tolerance);
  }
};

}  // namespace varve::test
