// Samples of several inputs and targets: by place and by name, through views, loaders, files and transforms.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "temporary_folder.h"
#include "varve/varve.h"

namespace varve::data {
namespace {

std::string refusal_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// Picture i is full of i; its question is i, i + 1; targets: the parity and a tenth of i.
Dataset pairs(std::int64_t count) {
  std::vector<float> pictures, tenths;
  std::vector<std::int64_t> questions, parity;
  for (std::int64_t i = 0; i < count; ++i) {
    pictures.insert(pictures.end(), 6, static_cast<float>(i));
    questions.insert(questions.end(), {i, i + 1});
    parity.push_back(i % 2);
    tenths.push_back(static_cast<float>(i) / 10);
  }
  return from_tensors({{"image", tensor(pictures, {count, 2, 3, 1})}, {"question", tensor(questions, {count, 2})}},
                      {{"parity", tensor(parity)}, {"tenth", tensor(tenths)}}, {.name = "pairs"});
}

TEST(Tensors, AreTakenByPlaceAndByName) {
  const Tensor a = tensor({1.f, 2.f}), b = tensor({3.f});
  const Tensors both = {{"a", a}, {"b", b}};
  EXPECT_EQ(both.size(), 2u);
  EXPECT_EQ(both[1].node(), b.node());
  EXPECT_EQ(both["a"].node(), a.node());
  EXPECT_EQ(both.str(), "a f32 [2], b f32 [1]");
  EXPECT_EQ(refusal_of([&] { both["c"]; }), "tensors: none is named \"c\": there are 2 (a f32 [2], b f32 [1]).");
  EXPECT_EQ(refusal_of([&] { both[2]; }),
            "tensors: number 2 was asked for, counted from 0, but there are 2 (a f32 [2], b f32 [1]).");
  EXPECT_NE(refusal_of([&] { both.one(); }).find("one was expected"), std::string::npos);
  EXPECT_NE(refusal_of([&] { Tensors twice = {{"a", a}, {"a", b}}; }).find("comes twice"), std::string::npos);
  const Tensors one = a;
  EXPECT_EQ(one.one().node(), a.node());
  const Tensors plain = {a, b};
  EXPECT_EQ(plain.names(), (std::vector<std::string>{"", ""}));
  // In another order by name; without names by place.
  EXPECT_EQ(both.as({{"b", {}}, {"a", {}}}, "f")[0].node(), b.node());
  EXPECT_EQ(plain.as({{"b", {}}, {"a", {}}}, "f")["b"].node(), a.node());
  EXPECT_EQ(refusal_of([&] {
              both.as({{"a", {f32, {2}}}, {"size", {f32, {1}}}}, "f");
            }),
            "f: \"size\" is missing: expected 2 (a f32 [2], size f32 [1]), got 2 (a f32 [2], b f32 [1]).");
  EXPECT_EQ(refusal_of([&] {
              one.as({{"a", {}}, {"b", {}}}, "f");
            }),
            "f: expected 2 (a f32 [], b f32 []), got 1 (f32 [2]).");
}

TEST(Fields, ComeInBatchesByPlaceAndByName) {
  const Dataset set = pairs(7).subset({6, 5, 4, 3, 2});
  EXPECT_EQ(str(set.inputs()), "image f32 [2, 3, 1], question i32 [2]");
  EXPECT_EQ(str(set.targets()), "parity i32 [], tenth f32 [1]");
  EXPECT_EQ(set.classes(0), 2);
  EXPECT_THROW(set.classes(1), Error);
  EXPECT_THROW(set.classes(2), Error);
  std::vector<std::int32_t> seen;
  for (Batch& batch : batches(set, {.batch = 2, .shuffle = false, .workers = 2})) {
    const Tensors inputs = batch.inputs(), targets = batch.targets();
    EXPECT_EQ(batch.x.node(), inputs["image"].node());
    EXPECT_EQ(batch.y.node(), targets["parity"].node());
    const auto words = inputs["question"].to_vector<std::int32_t>();
    for (std::int64_t row = 0; row < batch.samples(); ++row) {
      const std::int32_t i = words[static_cast<std::size_t>(2 * row)];
      EXPECT_EQ(inputs[0].to_vector<float>()[static_cast<std::size_t>(6 * row)], static_cast<float>(i));
      EXPECT_FLOAT_EQ(targets[1].to_vector<float>()[static_cast<std::size_t>(row)], static_cast<float>(i) / 10);
      seen.push_back(i);
    }
    auto& [x, y] = batch;
    EXPECT_EQ(&x, &batch.x);
    EXPECT_EQ(&y, &batch.y);
    const Batch last = batch.rows(batch.samples() - 1, batch.samples());
    EXPECT_EQ(last.inputs()["question"].shape(), (Shape{1, 2}));
    EXPECT_EQ(last.inputs()["question"].to_vector<std::int32_t>()[0], seen.back());
  }
  EXPECT_EQ(seen, (std::vector<std::int32_t>{6, 5, 4, 3, 2}));
  const auto [inputs, targets] = set.sample(1);
  EXPECT_EQ(inputs["question"].to_vector<std::int32_t>(), (std::vector<std::int32_t>{5, 6}));
  EXPECT_EQ(targets["parity"].item<int>(), 1);
  const auto whole = whole_fields(set);
  EXPECT_EQ(whole->first["question"].to_vector<std::int32_t>(),
            (std::vector<std::int32_t>{6, 7, 5, 6, 4, 5, 3, 4, 2, 3}));
  EXPECT_EQ(whole->second["tenth"].shape(), (Shape{5, 1}));
}

TEST(Fields, TransformsChangeThePicture) {
  const Transform brighter = {.name = "brighter",
                              .apply =
                                  [](Image& image, Random&) {
                                    for (float& pixel : image.pixels) pixel += 100;
                                  },
                              .moves = false};
  const Dataset set = pairs(3);
  for (const Dataset& mapped : {set.map({brighter}), set.map({brighter}, "image")}) {
    const auto [inputs, targets] = mapped.sample(2);
    EXPECT_EQ(inputs["image"].to_vector<float>(), (std::vector<float>(6, 102)));
    EXPECT_EQ(inputs["question"].to_vector<std::int32_t>(), (std::vector<std::int32_t>{2, 3}));
  }
  EXPECT_NE(refusal_of([&] { set.map({brighter}, "question"); }).find("samples are i32 [2]"), std::string::npos);
  EXPECT_NE(refusal_of([&] { set.map({brighter}, "imag"); }).find("needs an input \"imag\""), std::string::npos);
}

TEST(Fields, ComeFromFiles) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "pairs.npz";
  save_npz(path, {{"x_train.image", ones({4, 2, 3})},
                  {"x_train.question", arange(8).reshape({4, 2})},
                  {"y_train.size", ones({4})}});
  const Dataset set = load("npz:" + path).train;
  EXPECT_EQ(str(set.inputs()), "image f32 [2, 3], question i32 [2]");
  EXPECT_EQ(str(set.targets()), "size f32 [1]");
  EXPECT_EQ(set.sample(3).first["question"].to_vector<std::int32_t>(), (std::vector<std::int32_t>{6, 7}));
}

TEST(Fields, RefuseWhatDoesNotFit) {
  const Tensor rows = ones({4, 2}), more = ones({5});
  EXPECT_NE(refusal_of([&] {
              from_tensors(Tensors{{"a", rows}, {"b", more}}, Tensors(rows));
            }).find("as many rows in all of them, got a f32 [4, 2], b f32 [5]"),
            std::string::npos);
  EXPECT_THROW(from_tensors(Tensors(), Tensors(rows)), Error);
  EXPECT_THROW(from_tensors(Tensors{{"a", Tensor()}}, Tensors(rows)), Error);
  EXPECT_NE(refusal_of([&] { batches(pairs(4), {.batch = 2, .mixup = 0.2}); }).find("one input and one target"),
            std::string::npos);
  std::vector<float> scratch;
  std::byte memory[64];
  EXPECT_THROW(pairs(2).read(0, 0, 0, memory, memory, scratch), Error);
  EXPECT_THROW(pairs(2).source().read(0, memory, memory), Error);
}

}  // namespace
}  // namespace varve::data
