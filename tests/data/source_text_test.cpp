// Reviews, and text in streams.
#include <gtest/gtest.h>

#include <fstream>

#include "data/imdb.h"
#include "data/source_files.h"

namespace varve::data {
namespace {

class ImdbFiles : public SourceTest {
 protected:
  ImdbFiles() {
    write("aclImdb/train/pos/0_9.txt", "Good good GOOD film.<br />A film!");
    write("aclImdb/train/pos/1_8.txt", "good");
    write("aclImdb/train/neg/0_1.txt", "bad, bad film");
    write("aclImdb/train/neg/1_2.txt", "zzz aaa");
    write("aclImdb/test/pos/0_9.txt", "a good unseen film");
    write("aclImdb/test/neg/0_1.txt", "unseen bad");
  }
  static Splits load(std::int64_t words = 100, std::int64_t length = 5) {
    return imdb({.words = words, .length = length, .fetch = kOffline});
  }
  static std::vector<std::int32_t> x(const Dataset& set, std::int64_t index) {
    return set.at(index).first.to_vector<std::int32_t>();
  }
  using Ids = std::vector<std::int32_t>;
};

TEST_F(ImdbFiles, AreIdsByFrequencyOfTheTrainingPart) {
  const Splits splits = load();
  // good 4, film 3, bad 2, then a, aaa and zzz once each, in the order of their letters
  EXPECT_EQ(splits.train.info().vocabulary->words(),
            (std::vector<std::string>{"<pad>", "<unk>", "good", "film", "bad", "a", "aaa", "zzz"}));
  EXPECT_EQ(splits.train.x(), (TensorType{i32, {5}}));
  EXPECT_EQ(splits.train.info().classes, (std::vector<std::string>{"negative", "positive"}));
  ASSERT_EQ(splits.train.size(), 4);
  for (std::int64_t i = 0; i < 4; ++i) EXPECT_EQ(splits.train.at(i).second.item<std::int32_t>(), i % 2);
  EXPECT_EQ(x(splits.train, 0), (Ids{0, 0, 4, 4, 3}));
  EXPECT_EQ(x(splits.train, 1), (Ids{2, 2, 3, 5, 3}));  // the last five of six
  EXPECT_EQ(x(splits.test, 0), (Ids{0, 0, 0, 1, 4}));
  EXPECT_EQ(x(splits.test, 1), (Ids{0, 5, 2, 1, 3}));
}

TEST_F(ImdbFiles, CountPaddingAndUnknownAmongTheWords) {
  const Splits splits = load(4, 3);
  EXPECT_EQ(splits.train.info().vocabulary->size(), 4);
  EXPECT_EQ(x(splits.train, 0), (Ids{1, 1, 3}));
  EXPECT_EQ(x(splits.train, 1), (Ids{3, 1, 3}));
  expect_error([] { load(2); }, "words must be 3 or more");
  expect_error([] { load(10, 0); }, "length must be from 1");
}

TEST_F(ImdbFiles, AreReadOnceAndKeptForEveryChoiceOfOptions) {
  load();
  ASSERT_TRUE(std::filesystem::exists(path("cache/imdb.npz")));
  // Changed within, which the folder does not tell: what was kept is what comes.
  write("aclImdb/train/neg/0_1.txt", "other words");
  EXPECT_EQ(x(load(5, 3).train, 0), (Ids{4, 4, 3}));
  // A new file is noticed.
  write("aclImdb/train/neg/2_1.txt", "more");
  EXPECT_EQ(load().train.size(), 5);
}

TEST_F(ImdbFiles, WithADamagedCacheAreReadAgain) {
  const Ids expected = x(load().train, 1);
  std::ifstream file(path("cache/imdb.npz"), std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(file), {}};
  ASSERT_GT(good.size(), 1000u);
  for (std::size_t size = 0; size < good.size(); size += 101) {
    write("cache/imdb.npz", good.substr(0, size));
    EXPECT_EQ(x(load().train, 1), expected) << size;
  }
  survives(
      [&](const std::string& bytes) {
        write("cache/imdb.npz", bytes);
        read_all(load().train);
      },
      good);
}

TEST_F(ImdbFiles, WithACacheThatLiesAreReadAgain) {
  const std::vector<std::int64_t> stamp = {1, 2};
  const std::string file = path("reviews.npz");
  const ReviewPart sound = {.tokens = {2, 1, 2}, .ends = {1, 3}, .labels = {0, 1}};
  const auto kept = [&](const ReviewPart& part) {
    save_reviews(file, stamp, {.words = {"<pad>", "<unk>", "a"}, .train = part, .test = sound});
    return load_reviews(file, stamp).has_value();
  };
  EXPECT_TRUE(kept(sound));
  EXPECT_FALSE(load_reviews(file, {1, 3}).has_value());
  EXPECT_FALSE(kept({.tokens = {2, 3, 2}, .ends = {1, 3}, .labels = {0, 1}}));  // no such word
  EXPECT_FALSE(kept({.tokens = {2, -1, 2}, .ends = {1, 3}, .labels = {0, 1}}));
  EXPECT_FALSE(kept({.tokens = {2, 1, 2}, .ends = {1, 4}, .labels = {0, 1}}));  // beyond the end
  EXPECT_FALSE(kept({.tokens = {2, 1, 2}, .ends = {4, 3}, .labels = {0, 1}}));  // backwards
  EXPECT_FALSE(kept({.tokens = {2, 1, 2}, .ends = {-1, 3}, .labels = {0, 1}}));
  EXPECT_FALSE(kept({.tokens = {2, 1, 2}, .ends = {1, 3}, .labels = {0, 2}}));  // no such class
  EXPECT_FALSE(kept({.tokens = {2, 1, 2}, .ends = {1, 3}, .labels = {0}}));
}

TEST_F(ImdbFiles, ThatAreMissingAreNamed) {
  std::filesystem::remove(path("aclImdb/test/pos/0_9.txt"));
  expect_error([] { load(); }, "aclImdb/test/pos\" holds no .txt files");
  std::filesystem::remove_all(path("aclImdb"));
  expect_error([] { load(); }, "aclImdb_v1.tar.gz is missing");
}

class TextFiles : public SourceTest {
 protected:
  static std::string text(const Dataset& set, std::int64_t index, bool target = false) {
    const auto [x, y] = set.at(index);
    std::string words;
    for (const std::int32_t id : (target ? y : x).to_vector<std::int32_t>()) {
      words += (words.empty() ? "" : " ") + set.info().vocabulary->word(id);
    }
    return words;
  }
};

TEST_F(TextFiles, OfTheTreebankAreWindowsOfStreams) {
  write("ptb/ptb.train.txt", " a b a c \n a <unk> a b \n d e f g h \n");  // 16 words
  write("ptb/ptb.valid.txt", " a b \n a new b \n");
  write("ptb/ptb.test.txt", "c c c\nc c c");
  const Splits splits = ptb({.steps = 3, .streams = 2, .fetch = kOffline});
  EXPECT_EQ(splits.train.info().vocabulary->words(),
            (std::vector<std::string>{"<eos>", "<unk>", "a", "b", "c", "d", "e", "f", "g", "h"}));
  EXPECT_EQ(splits.train.classes(), 10);
  EXPECT_EQ(splits.train.streams(), 2);
  EXPECT_EQ(splits.train.x(), (TensorType{i32, {3}}));
  EXPECT_EQ(splits.train.y(), (TensorType{i32, {3}}));
  // Two streams of 7: a b a c . a <unk> | a b . d e f g, in two windows of 3 each.
  ASSERT_EQ(splits.train.size(), 4);
  EXPECT_EQ(text(splits.train, 0), "a b a");
  EXPECT_EQ(text(splits.train, 0, true), "b a c");
  EXPECT_EQ(text(splits.train, 1), "a b <eos>");
  EXPECT_EQ(text(splits.train, 2), "c <eos> a");
  EXPECT_EQ(text(splits.train, 2, true), "<eos> a <unk>");
  EXPECT_EQ(text(splits.train, 3), "d e f");
  EXPECT_EQ(text(splits.train, 3, true), "e f g");
  EXPECT_EQ(text(splits.validation, 1), "a <unk> b");
  EXPECT_EQ(text(splits.test, 0), "c c c");
}

TEST_F(TextFiles, ThatAreTooShortAreRefused) {
  for (const char* part : {"train", "valid", "test"}) write(std::string("ptb/ptb.") + part + ".txt", "a b c d e f");
  EXPECT_EQ(ptb({.steps = 5, .streams = 1, .fetch = kOffline}).train.size(), 1);
  expect_error([] { ptb({.steps = 6, .streams = 1, .fetch = kOffline}); }, "6 tokens are too few");
  expect_error([] { ptb({.steps = 0, .fetch = kOffline}); }, "must be positive");
  expect_error([] { ptb({.steps = INT64_MAX, .streams = INT64_MAX, .fetch = kOffline}); }, "must be positive");
  write("ptb/ptb.test.txt", "");
  expect_error([] { ptb({.steps = 2, .streams = 1, .fetch = kOffline}); }, "ptb, test: 0 tokens are too few");
  std::filesystem::remove(path("ptb/ptb.valid.txt"));
  expect_error([] { ptb({.fetch = kOffline}); }, "ptb.valid.txt is missing");
}

TEST_F(TextFiles, ByCharactersKeepUtf8Together) {
  // 20 characters: the last 2 test, one of them never seen in training.
  const Splits splits = characters(write("a.txt", "aaabéébaéaééaabaaaa~"), {.steps = 1, .streams = 1});
  EXPECT_EQ(splits.train.info().vocabulary->words(), (std::vector<std::string>{"<pad>", "<unk>", "a", "é", "b"}));
  EXPECT_EQ(splits.train.size(), 17);
  EXPECT_EQ(text(splits.train, 4), "é");
  EXPECT_EQ(text(splits.train, 5, true), "b");
  EXPECT_EQ(text(splits.test, 0), "a");
  EXPECT_EQ(text(splits.test, 0, true), "<unk>");
  EXPECT_FALSE(splits.validation.defined());
}

TEST_F(TextFiles, ByCharactersMayHoldAnyBytes) {
  survives(
      [&](const std::string& bytes) {
        const Splits splits = characters(write("noise", bytes + bytes + bytes + bytes), {.steps = 2, .streams = 1});
        std::string back;
        for (std::int64_t i = 0; i < splits.train.size(); ++i) {
          for (const std::int32_t id : splits.train.at(i).first.to_vector<std::int32_t>()) {
            back += splits.train.info().vocabulary->word(id);
          }
        }
        EXPECT_TRUE((bytes + bytes + bytes + bytes).starts_with(back));
        read_all(splits.test);
      },
      "");
  expect_error([&] { characters(write("empty", "")); }, "too few");
  expect_error([&] { characters(path("nowhere")); }, "nowhere");
}

// Another text by the vocabulary of the first: the same characters have the same ids, others are unknown.
TEST(OtherText, IsReadByAGivenVocabulary) {
  const test::TemporaryFolder folder;
  std::string first, second;
  for (int i = 0; i < 60; ++i) first += "abc"[i % 3], second += i < 40 ? 'c' : "bx"[i % 2];
  save_text(folder / "one.txt", first + first);
  save_text(folder / "two.txt", second + second);
  const TextOptions options = {.steps = 3, .streams = 2};
  const Splits one = characters(folder / "one.txt", options);
  const auto vocabulary = one.train.info().vocabulary;
  const Splits two = load("chars:" + (folder / "two.txt"), {{"steps", 3}, {"streams", 2}}, {}, one.train.info());
  EXPECT_EQ(two.train.info().vocabulary, vocabulary);
  EXPECT_EQ(two.train.at(0).first.to_vector<std::int32_t>(), std::vector<std::int32_t>(3, vocabulary->id("c")));
  EXPECT_EQ(two.train.classes(), one.train.classes());
  const std::vector<std::int32_t> last = two.train.at(two.train.size() - 1).second.to_vector<std::int32_t>();
  EXPECT_NE(std::find(last.begin(), last.end(), 1), last.end());  // x
}

}  // namespace
}  // namespace varve::data
