// TOML as plain values: what is read, what is written, and what a hostile file gets.
#include "varve/toml.h"

#include <gtest/gtest.h>

#include <random>

namespace varve::text {
namespace {

std::string error_of(const std::string& text) {
  try {
    parse_toml(text, "f.toml");
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(Toml, ReadsValuesWithTheirLines) {
  const Value v = parse_toml("z = 3\na = [1.5, \"x\"]\n[t]\nflag = true\nday = 2020-01-02\n", "f.toml");
  ASSERT_EQ(v.fields.size(), 3u);
  EXPECT_EQ(v.fields[0].key, "z");  // in the order of the file, not of the alphabet
  EXPECT_EQ(v.fields[1].key, "a");
  EXPECT_EQ(v.find("z")->whole, 3);
  EXPECT_EQ(v.find("z")->line, 1);
  EXPECT_EQ(v.find("a")->items[0].real, 1.5);
  EXPECT_EQ(v.find("a")->items[1].word, "x");
  EXPECT_TRUE(v.find("t")->find("flag")->flag);
  EXPECT_EQ(v.find("t")->find("flag")->line, 4);
  EXPECT_EQ(v.find("t")->find("day")->word, "2020-01-02");
  EXPECT_EQ(v.find("nothing"), nullptr);
}

TEST(Toml, WhatIsWrittenReadsBackTheSame) {
  const std::string source =
      "name = \"a \\\"quoted\\\" \\\\ \\n\\t\\u0001 é\"\nbig = 9007199254740993\ntiny = 1e-300\nthird = 0.1\n"
      "whole = 2.0\nnone = []\ndeep = [[1, 2], [3]]\n\"odd key\" = 1\n[t]\nx = {y = 1, z = {}}\n[[l]]\na = 1\n[[l]]\n"
      "b = {c = 2}\n[block.q]\np = [\"w\"]\n[[block.q.layer]]\nd = 1\n";
  const Value first = parse_toml(source, "f");
  const std::string written = toml_document(first);
  const Value second = parse_toml(written, "f");
  EXPECT_EQ(first.str(), second.str()) << written;
  EXPECT_EQ(written, toml_document(second));
  EXPECT_EQ(second.find("whole")->kind, Value::number);
  EXPECT_EQ(second.find("big")->whole, 9007199254740993);
  EXPECT_EQ(second.find("third")->real, 0.1);
}

TEST(Toml, ErrorsNameFileAndLine) {
  EXPECT_EQ(error_of("a = 1\nb = = 2\n").rfind("f.toml:2: not TOML", 0), 0u) << error_of("a = 1\nb = = 2\n");
  EXPECT_NE(error_of("a = 1\na = 2\n"), "no error");
  EXPECT_NE(error_of("a = \"open\n"), "no error");
  EXPECT_NE(error_of("a = 99999999999999999999\n"), "no error");
}

TEST(Toml, DepthIsBounded) {
  std::string dots = "a", brackets, braces;
  for (int i = 0; i < 200000; ++i) dots += ".a";
  for (int i = 0; i < 200000; ++i) brackets += "[";
  for (int i = 0; i < 200000; ++i) braces += "{a=";
  EXPECT_NE(error_of(dots + " = 1").find("dots"), std::string::npos);
  EXPECT_NE(error_of("[" + dots + "]").find("dots"), std::string::npos);
  EXPECT_NE(error_of("x = {" + dots + " = 1}").find("dots"), std::string::npos);
  EXPECT_NE(error_of("a = " + brackets), "no error");
  EXPECT_NE(error_of("a = " + braces), "no error");
  std::string nested = "a = ";
  for (int i = 0; i < 100; ++i) nested += "[";
  for (int i = 0; i < 100; ++i) nested += "]";
  EXPECT_NE(error_of(nested).find("nested more than"), std::string::npos) << error_of(nested);
  // Dots inside strings and comments are text.
  EXPECT_EQ(error_of("a = \"" + dots + "\"\nb = '''" + dots + "'''\n# " + dots + "\nc = \"\"\"" + dots + "\"\"\""),
            "no error");
}

TEST(Toml, TooLongIsRefusedBeforeItIsRead) {
  EXPECT_NE(error_of("# " + std::string(9 << 20, 'x')).find("8 MB"), std::string::npos);
}

TEST(Toml, RandomBytesAreAnsweredNotObeyed) {
  std::mt19937 random(5);
  const std::string alphabet = std::string("ab=.[]{}\"'#\n,1e-_\\ $\xff\x80\t\r") + '\0';
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text(random() % 60, ' ');
    for (char& c : text) c = i % 2 ? static_cast<char>(random()) : alphabet[random() % alphabet.size()];
    refused += error_of(text) != "no error";
  }
  EXPECT_GT(refused, 2000);
}

TEST(Toml, OneValue) {
  EXPECT_EQ(parse_toml_value("1e-3").real, 1e-3);
  EXPECT_EQ(parse_toml_value("[1, 2]").items.size(), 2u);
  EXPECT_EQ(parse_toml_value("{a = 1}").find("a")->whole, 1);
  EXPECT_THROW(parse_toml_value("bare"), Error);
  EXPECT_THROW(parse_toml_value("1\nb = 2"), Error);
  EXPECT_THROW(parse_toml_value(""), Error);
}

}  // namespace
}  // namespace varve::text
