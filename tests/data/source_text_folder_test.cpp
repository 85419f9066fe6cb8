// Folders of texts.
#include <gtest/gtest.h>

#include "data/source_files.h"

namespace varve::data {
namespace {

class TextFolder : public SourceTest {
 protected:
  void SetUp() override {
    write("t/train/bad/1.txt", "A bad bad film.");
    write("t/train/bad/2.txt", "bad");
    write("t/train/good/1.txt", "A good film, good to see");
    write("t/train/good/notes.md", "no text");
    write("t/test/good/1.txt", "unseen words, good");
  }
};

TEST_F(TextFolder, HasAVocabularyOfItsTrainingPart) {
  const Splits splits = text_folder(path("t"), {.words = 5, .length = 4});
  EXPECT_EQ(splits.train.info().vocabulary->words(), (std::vector<std::string>{"<pad>", "<unk>", "bad", "a", "film"}));
  EXPECT_EQ(splits.train.info().classes, (std::vector<std::string>{"bad", "good"}));
  EXPECT_EQ(splits.train.x(), (TensorType{i32, {4}}));
  EXPECT_EQ(splits.train.at(0).first.to_vector<int>(), (std::vector<int>{3, 2, 2, 4}));
  EXPECT_EQ(splits.train.at(1).first.to_vector<int>(), (std::vector<int>{0, 0, 0, 2}));
  EXPECT_EQ(splits.train.at(2).second.item<int>(), 1);
  EXPECT_EQ(splits.train.info().skipped.size(), 1u);
  ASSERT_EQ(splits.test.size(), 1);
  EXPECT_EQ(splits.test.at(0).first.to_vector<int>(), (std::vector<int>{0, 1, 1, 1}));
  EXPECT_EQ(kind_of_path(path("t")), "text");
}

TEST_F(TextFolder, GoesThroughTheVocabularyOfOtherData) {
  const Info like = text_folder(path("t")).train.info();
  write("other/good/1.txt", "see bad");
  const Splits splits = load("text:" + path("other"), {{"length", 3}, {"test_share", 0}}, {}, like);
  EXPECT_EQ(splits.train.info().classes, like.classes);
  EXPECT_EQ(splits.train.at(0).second.item<int>(), 1);
  EXPECT_EQ(splits.train.at(0).first.to_vector<int>(), like.vocabulary->encode("see bad", 3));
}

TEST_F(TextFolder, HoldsOutAShareWhoseWordsAreNotCounted) {
  for (int i = 0; i < 20; ++i) write("one/a/" + std::to_string(i) + ".txt", "word" + std::to_string(i));
  const Splits splits = text_folder(path("one"), {.test_share = 0.25});
  EXPECT_EQ(splits.train.size(), 15);
  EXPECT_EQ(splits.train.info().vocabulary->size(), 17);
  for (std::int64_t i = 0; i < splits.test.size(); ++i) EXPECT_EQ(splits.test.at(i).first.to_vector<int>().back(), 1);
}

TEST_F(TextFolder, ThatIsNoneIsRefused) {
  expect_error([&] { text_folder(path("none")); }, "is not a folder of texts");
  expect_error([&] { text_folder(path("t"), {.words = 2}); }, "text_folder: words must be 3 or more");
  expect_error([&] { text_folder(path("t"), {.length = 0}); }, "text_folder: length must be from 1");
  std::filesystem::create_directories(path("empty/class"));
  expect_error([&] { text_folder(path("empty")); }, "no texts (.txt) that can be read");
  write("zero/a/1.txt", std::string("a\0b \xFF\xFE c", 9));
  EXPECT_EQ(text_folder(path("zero"), {.test_share = 0}).train.size(), 1);
}

}  // namespace
}  // namespace varve::data
