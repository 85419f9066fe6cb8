#include <gtest/gtest.h>

#include "varve/data.h"

namespace varve::data {
namespace {

using Words = std::vector<std::string>;
using Ids = std::vector<std::int32_t>;

TEST(Vocabulary, SplitsTextIntoWords) {
  EXPECT_EQ(Vocabulary::split("It's a 10/10 MOVIE!"), (Words{"it's", "a", "10", "10", "movie"}));
  EXPECT_EQ(Vocabulary::split("one<br /><br/>two<BR>three"), (Words{"one", "two", "three"}));
  EXPECT_EQ(Vocabulary::split("a<b <brick"), (Words{"a", "b", "brick"}));
  EXPECT_EQ(Vocabulary::split("'quoted' dogs' x'"), (Words{"quoted", "dogs", "x"}));
  EXPECT_EQ(Vocabulary::split("café – “naïve”\xE2\x80"), (Words{"café", "naïve", "\xE2\x80"}));
  EXPECT_EQ(Vocabulary::split("<br"), (Words{"br"}));
  EXPECT_EQ(Vocabulary::split(""), Words{});
  EXPECT_EQ(Vocabulary::split(" .,;\n"), Words{});
}

TEST(Vocabulary, KnowsItsWords) {
  const Vocabulary words({"<pad>", "<unk>", "the", "film", "the"});
  EXPECT_EQ(words.size(), 5);
  EXPECT_EQ(words.id("the"), 2);
  EXPECT_EQ(words.id("film"), 3);
  EXPECT_EQ(words.id("book"), 1);
  EXPECT_EQ(words.id("<pad>"), 1);
  EXPECT_EQ(words.word(3), "film");
  EXPECT_THROW(words.word(5), Error);
  EXPECT_THROW(words.word(-1), Error);
  EXPECT_THROW(Vocabulary({"<pad>"}), Error);
  EXPECT_EQ(Vocabulary(words.words()).id("film"), 3);
}

TEST(Vocabulary, EncodesTheLastWordsWithPaddingOnTheLeft) {
  const Vocabulary words({"<pad>", "<unk>", "the", "film"});
  EXPECT_EQ(words.encode("The film: good", 5), (Ids{0, 0, 2, 3, 1}));
  EXPECT_EQ(words.encode("the film film the", 2), (Ids{3, 2}));
  EXPECT_EQ(words.encode("", 2), (Ids{0, 0}));
  EXPECT_EQ(words.encode("the", 0), Ids{});
  EXPECT_THROW(words.encode("the", -1), Error);
}

}  // namespace
}  // namespace varve::data
