#include "base/text.h"

#include <gtest/gtest.h>

#include "base/hash.h"

namespace varve {
namespace {

TEST(Text, ConcatenatesAnything) {
  EXPECT_EQ(cat("a", 1, 2.5, Shape{3, 4}, f32, boolean, true, std::int8_t{-3}, std::string("s"), 'c'),
            "a12.5[3, 4]f32booltrue-3sc");
}

TEST(Text, BytesForPeople) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(999), "999 B");
  EXPECT_EQ(human_bytes(1000), "1.0 kB");
  EXPECT_EQ(human_bytes(12'100'000), "12.1 MB");
  EXPECT_EQ(human_bytes(999'960), "1.0 MB");
  EXPECT_EQ(human_bytes(UINT64_MAX), "18.4 EB");
}

TEST(Text, SuggestsTheNearest) {
  EXPECT_EQ(nearest("sofmax", {"softmax", "softplus"}), "softmax");
  EXPECT_EQ(nearest("ReLU", {"gelu", "relu"}), "relu");
  EXPECT_EQ(nearest("trian", {"eval", "train"}), "train");  // two letters swapped are one slip
  EXPECT_EQ(nearest("mnits", {"digits", "mnist"}), "mnist");
  EXPECT_EQ(nearest("banana", {"softmax", "softplus"}), "");
  EXPECT_EQ(nearest("", {"relu"}), "");
  EXPECT_EQ(nearest("x", {}), "");
  EXPECT_EQ(nearest(std::string(1'000'000, 'a'), {"relu"}), "");
}

TEST(Text, NamesDoNotSteerATerminal) {
  EXPECT_EQ(printable("größe\n\t·"), "größe\n\t·");
  EXPECT_EQ(printable("a\x1b[31mb\r\x7f"), "a\\x1b[31mb\\x0d\\x7f");
  EXPECT_EQ(printable("\xc2\x9b\xc2\xa0"), "\\xc2\\x9b\xc2\xa0");  // U+009B is an escape in one character
  EXPECT_STREQ(Error("\x1b]0;evil\x07").what(), "\\x1b]0;evil\\x07");
}

TEST(Text, AMessageEndsWithTheNearest) {
  EXPECT_EQ(did_you_mean("sofmax", {"softmax", "softplus"}), " Did you mean 'softmax'?");
  EXPECT_EQ(did_you_mean("sofmax", {"softmax"}, " See elsewhere."), " Did you mean 'softmax'?");
  EXPECT_EQ(did_you_mean("banana", {"softmax"}), "");
  EXPECT_EQ(did_you_mean("banana", {"softmax"}, " See elsewhere."), " See elsewhere.");
}

TEST(Hash, DependsOnContentLengthAndOrder) {
  EXPECT_EQ(hash_bytes("abc"), hash_bytes("abc"));
  EXPECT_NE(hash_bytes("abc"), hash_bytes("abd"));
  EXPECT_NE(hash_bytes(std::string_view("\0\0", 1)), hash_bytes(std::string_view("\0\0", 2)));
  EXPECT_NE(hash_bytes("abc", 1), hash_bytes("abc", 2));
  EXPECT_NE(hash_combine(hash_combine(0, 1), 2), hash_combine(hash_combine(0, 2), 1));
  EXPECT_NE(hash_combine(0, 0), hash_combine(hash_combine(0, 0), 0));
}

}  // namespace
}  // namespace varve
