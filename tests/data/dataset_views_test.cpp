#include <gtest/gtest.h>

#include <cmath>

#include <algorithm>

#include "loader_sources.h"

namespace varve::data {
namespace {

std::vector<std::int64_t> samples(const Dataset& set) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < set.size(); ++i)
    all.push_back(static_cast<std::int64_t>(set.at(i).first.to_vector<float>()[0]));
  return all;
}

TEST(Dataset, PartsNameTheirSamples) {
  const Dataset set = numbered(10);
  EXPECT_EQ(samples(set.take(3)), (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(set.take(100).size(), 10);
  EXPECT_EQ(samples(set.range(7, 10)), (std::vector<std::int64_t>{7, 8, 9}));
  EXPECT_EQ(set.range(4, 4).size(), 0);
  EXPECT_EQ(samples(set.subset({5, 0, 5})), (std::vector<std::int64_t>{5, 0, 5}));
  EXPECT_EQ(samples(set.range(4, 9).subset({3, 1}).take(1)), (std::vector<std::int64_t>{7}));
  const auto [x, y] = set.at(7);
  EXPECT_EQ(x.type(), (TensorType{f32, {1, 2, 1}}));
  EXPECT_EQ(y.item<int>(), 7);
}

// Enough of them for many threads, in several parts.
TEST(Dataset, IsReadWhole) {
  const Dataset set = numbered(5000, {.height = 64, .width = 64}).subset([] {
    std::vector<std::int64_t> backwards;
    for (std::int64_t i = 4999; i >= 0; --i) backwards.push_back(i);
    return backwards;
  }());
  int asked = 0;
  const auto all = whole(set, [&] { return ++asked > 0; });
  ASSERT_TRUE(all);
  EXPECT_GT(asked, 1);
  EXPECT_EQ(all->first.type(), (TensorType{f32, {5000, 64, 64, 1}}));
  EXPECT_EQ(all->second.type(), (TensorType{i32, {5000}}));
  const std::vector<float> pixels = all->first.to_vector<float>();
  const std::vector<std::int32_t> labels = all->second.to_vector<std::int32_t>();
  for (std::int64_t i = 0; i < 5000; ++i) {
    ASSERT_EQ(pixels[static_cast<std::size_t>(i * 4096)], 4999 - i);
    ASSERT_EQ(pixels[static_cast<std::size_t>(i * 4096 + 4095)], 4999 - i);
    ASSERT_EQ(labels[static_cast<std::size_t>(i)], (4999 - i) % 10);
  }
  EXPECT_FALSE(whole(set, [&] { return --asked > 0; }));
  EXPECT_EQ(whole(set.take(0))->first.dim(0), 0);
  EXPECT_THROW(whole(numbered(100, {.broken = 70})), Error);
}

TEST(Dataset, RefusesWhatIsNotThere) {
  const Dataset set = numbered(10);
  EXPECT_THROW(set.take(-1), Error);
  EXPECT_THROW(set.range(-1, 3), Error);
  EXPECT_THROW(set.range(3, 2), Error);
  EXPECT_THROW(set.range(3, 11), Error);
  EXPECT_THROW(set.subset({10}), Error);
  EXPECT_THROW(set.subset({-1}), Error);
  EXPECT_THROW(set.at(10), Error);
  EXPECT_THROW(set.take(5).at(5), Error);
  EXPECT_THROW(Dataset().size(), Error);
  EXPECT_FALSE(Dataset().defined());
  EXPECT_THROW(Dataset(nullptr, {}), Error);
}

TEST(Dataset, IsFixedUntilSomethingIsDoneToItsSamples) {
  const Dataset set = numbered(10);
  EXPECT_TRUE(set.range(2, 8).fixed());
  EXPECT_TRUE(set.map({}).fixed());
  EXPECT_FALSE(set.map({random_flip()}).take(3).fixed());
}

TEST(Dataset, SplitPartsItBySeed) {
  const Dataset set = numbered(100);
  const auto [held_out, rest] = set.split(0.2, 3);
  const std::vector<std::int64_t> some = samples(held_out), others = samples(rest);
  EXPECT_EQ(some.size(), 20u);
  EXPECT_EQ(others.size(), 80u);
  EXPECT_TRUE(std::is_sorted(some.begin(), some.end()));
  EXPECT_TRUE(std::is_sorted(others.begin(), others.end()));
  std::vector<std::int64_t> both;
  std::merge(some.begin(), some.end(), others.begin(), others.end(), std::back_inserter(both));
  EXPECT_EQ(both, samples(set));
  EXPECT_EQ(samples(set.split(0.2, 3).first), some);
  EXPECT_NE(samples(set.split(0.2, 4).first), some);
  EXPECT_NE(some, samples(set.take(20)));
  EXPECT_EQ(set.split(0).first.size(), 0);
  EXPECT_EQ(set.split(1).second.size(), 0);
  EXPECT_THROW(set.split(1.5), Error);
  EXPECT_THROW(set.split(-0.1), Error);
}

TEST(Dataset, ClassesAreThoseOfTheWholeSource) {
  const auto source = std::make_shared<Numbered>(30, Numbered::Options{.classes = 7});
  const Dataset set(source, {});
  EXPECT_EQ(set.take(3).classes(), 7);
  const std::int64_t reads = source->reads;
  EXPECT_EQ(set.classes(), 7);
  EXPECT_EQ(set.map({random_flip()}).classes(), 7);
  EXPECT_EQ(source->reads, reads) << "scanned again";
  EXPECT_EQ(Dataset(source, {.name = "named", .classes = {"a", "b"}, .vocabulary = nullptr}).classes(), 2);
}

TEST(Dataset, TargetsOfATextAreItsWords) {
  const auto words = std::make_shared<Vocabulary>(std::vector<std::string>{"<pad>", "<unk>", "a", "b", "c"});
  const Info info{.name = "text", .classes = {}, .vocabulary = words};
  EXPECT_EQ(Dataset(std::make_shared<Numbered>(8, Numbered::Options{.classes = 2, .streams = 4}), info).classes(), 5);
  EXPECT_EQ(Dataset(std::make_shared<Numbered>(8, Numbered::Options{.classes = 2}), info).classes(), 2);
}

TEST(Dataset, NumbersHaveNoClasses) {
  class Curve : public Numbered {
   public:
    using Numbered::Numbered;
    TensorType y() const override { return {f32, {}}; }
  };
  EXPECT_THROW(Dataset(std::make_shared<Curve>(4), {}).classes(), Error);
}

TEST(Dataset, StreamsArePartedInWholeWindows) {
  const Dataset set = numbered(12, {.streams = 4});
  EXPECT_EQ(set.take(8).size(), 8);
  EXPECT_EQ(set.take(8).streams(), 4);
  EXPECT_EQ(set.range(4, 12).size(), 8);
  EXPECT_THROW(set.take(6), Error);
  EXPECT_THROW(set.subset({0, 1}), Error);
  EXPECT_THROW(set.split(0.5), Error);
}

TEST(Dataset, TransformsNeedPictures) {
  class Rows : public Numbered {
   public:
    using Numbered::Numbered;
    TensorType x() const override { return {f32, {2}}; }
  };
  EXPECT_THROW(Dataset(std::make_shared<Rows>(4), {}).map({random_flip()}), Error);
  EXPECT_THROW(numbered(4).map({{"nothing", {}}}), Error);
  EXPECT_NO_THROW(Dataset(std::make_shared<Rows>(4), {}).map({}));
}

TEST(Dataset, ASampleChangesAlikeInEverySubset) {
  const Dataset set = numbered(20, {.height = 4, .width = 4}).map({noise(1)});
  const auto pixels = [](const Dataset& part, std::int64_t index, std::uint64_t seed, std::uint64_t epoch) {
    std::vector<float> x(16), scratch;
    std::int32_t y = 0;
    part.read(index, seed, epoch, reinterpret_cast<std::byte*>(x.data()), reinterpret_cast<std::byte*>(&y), scratch);
    return x;
  };
  EXPECT_EQ(pixels(set, 13, 1, 2), pixels(set.subset({4, 13}), 1, 1, 2));
  EXPECT_EQ(pixels(set, 13, 0, 0), set.at(13).first.to_vector<float>());
  EXPECT_NE(pixels(set, 13, 1, 2), pixels(set, 13, 1, 3));
  EXPECT_NE(pixels(set, 13, 1, 2), pixels(set, 13, 2, 2));
  const std::vector<float> a = pixels(set, 13, 1, 2), b = pixels(set, 14, 1, 2);
  EXPECT_NE(a[0] - 13, b[0] - 14);
}

TEST(Dataset, TransformsFollowOneAnother) {
  const Transform twice{"twice", [](Image& image, Random&) {
                          for (float& p : image.pixels) p *= 2;
                        }};
  const Transform plus{"plus", [](Image& image, Random&) {
                         for (float& p : image.pixels) p += 1;
                       }};
  EXPECT_EQ(numbered(5).map({twice, plus}).at(3).first.to_vector<float>()[0], 7);
  EXPECT_EQ(numbered(5).map({plus}).map({twice}).at(3).first.to_vector<float>()[0], 8);
}

TEST(Dataset, ClassesAreNumberedByName) {
  const Dataset set =
      from_tensors(zeros({3, 2}), tensor<std::int32_t>({0, 1, 0}), {.name = "few", .classes = {"b", "d"}});
  const Dataset wide = set.with_classes({"a", "b", "c", "d"});
  const auto labels = [](const Dataset& from) {
    std::vector<int> all;
    for (std::int64_t i = 0; i < from.size(); ++i) all.push_back(from.at(i).second.item<int>());
    return all;
  };
  EXPECT_EQ(labels(wide), (std::vector<int>{1, 3, 1}));
  EXPECT_EQ(wide.classes(), 4);
  EXPECT_EQ(labels(wide.subset({1, 2}).with_classes({"d", "c", "b", "a"})), (std::vector<int>{0, 2}));
  EXPECT_EQ(labels(set), (std::vector<int>{0, 1, 0}));
  try {
    set.with_classes({"b", "c"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "data set \"few\" has a class \"d\" that is none of those wanted. It has \"b\", \"d\"; wanted are \"b\", "
              "\"c\".");
  }
  EXPECT_THROW(from_tensors(zeros({1, 2}), zeros({1})).with_classes({"a"}), Error);
}

TEST(DatasetTargets, AreMapped) {
  const Dataset numbers = from_tensors(zeros({3, 2}), tensor(std::vector<float>{0, 1, 3}));
  EXPECT_EQ(numbers.map_targets(scale_targets(2, 1)).at(2).second.to_vector<float>(), (std::vector<float>{7}));
  EXPECT_NEAR(numbers.map_targets(log_targets()).at(1).second.to_vector<float>()[0], std::log(2.0), 1e-6);
  const Dataset classes = from_tensors(zeros({3, 2}), tensor(std::vector<std::int32_t>{0, 2, 1}));
  const Dataset hot = classes.map_targets(one_hot_targets(3));
  EXPECT_EQ(hot.y(), (TensorType{f32, {3}}));
  EXPECT_EQ(hot.at(1).second.to_vector<float>(), (std::vector<float>{0, 0, 1}));
  const TargetTransform odd = {.name = "odd",
                               .type = [](const TensorType& from) { return from; },
                               .apply = [](auto from, auto to) { to[0] = std::fmod(from[0], 2); }};
  EXPECT_EQ(classes.map_targets(odd).subset({1, 2}).at(1).second.item<std::int32_t>(), 1);
  EXPECT_THROW(classes.map_targets(one_hot_targets(2)).at(1), Error);
  EXPECT_THROW(numbers.map_targets(one_hot_targets(2)), Error);
  EXPECT_THROW(numbers.map_targets(scale_targets(-2)).map_targets(log_targets()).at(2), Error);
  EXPECT_THROW(numbers.map_targets({}), Error);
}

}  // namespace
}  // namespace varve::data
