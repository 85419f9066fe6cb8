// A lever that is left out is gone from the program, and nothing else is needed for that.
#include "base/levers.h"

#include <algorithm>
#include <cstdlib>

#include "claims_of.h"

namespace varve {
namespace {

using test::claims_of;
using test::Subject;
using test::zoo_of;

bool any(const std::set<std::string>& names, const std::string& part) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& n) { return n.find(part) != n.npos; });
}

std::set<std::string> without(const std::string& lever, const Subject& subject) {
  setenv("VARVE_WITHOUT", lever.c_str(), 1);
  const std::set<std::string> names = claims_of(subject);
  unsetenv("VARVE_WITHOUT");
  return names;
}

const Subject kDense = {.make = zoo_of("fcn5", {{"width", 256}, {"classes", 100}}), .input = {256}, .batch = 64};
const Subject kPictures = {.make = zoo_of("vgg16-cifar", {{"width", 16}}), .input = {32, 32, 3}};
const Subject kWords = {.make = zoo_of("lstm32", {{"width", 64}, {"vocabulary", 500}}),
                        .input = {8},
                        .dtype = i32,
                        .classes = 500,
                        .tokens = true};

TEST(LeversLeftOut, UpdateInGemm) {
  EXPECT_TRUE(any(claims_of(kDense), "+sgd"));
  EXPECT_FALSE(any(without("update-in-gemm", kDense), "+sgd"));
}

TEST(LeversLeftOut, Winograd) {
  EXPECT_TRUE(any(claims_of(kPictures), "winograd"));
  EXPECT_FALSE(any(without("winograd", kPictures), "winograd"));
}

TEST(LeversLeftOut, Recurrent) {
  EXPECT_TRUE(any(claims_of(kWords), "lstm"));
  EXPECT_FALSE(any(without("recurrent", kWords), "lstm"));
}

// Without groups there are more passes, each over fewer operators.
TEST(LeversLeftOut, Groups) {
  const auto passes = [] {
    auto f = compile([](Tensor x) { return tanh(x * 2 + 1) * sigmoid(x); });
    const Tensor x = zeros({64, 64});
    f(x).eval();
    return f.profile(1, x).rows.size();
  };
  const std::size_t merged = passes();
  setenv("VARVE_WITHOUT", "groups", 1);
  const std::size_t apart = passes();
  unsetenv("VARVE_WITHOUT");
  EXPECT_EQ(merged, 1u);
  EXPECT_GT(apart, merged);
}

}  // namespace
}  // namespace varve
