// Texts as rows of word ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "varve/data.h"

namespace varve::data {

struct TextRows {
  std::vector<std::int32_t> tokens;  // of all texts, one after another
  std::vector<std::int64_t> ends;    // where each ends in tokens
  // The last `most` ids of a row, padded with 0 on the left, or on the right.
  void deliver(std::int64_t index, std::int64_t most, bool right, std::byte* to) const;
  std::int64_t length(std::int64_t index, std::int64_t most) const;  // of a row, cut to the most
};

// Gives words numbers as they come; in the end those of a vocabulary.
class WordCounter {
 public:
  void add(const std::string& text, bool counted, TextRows& to);
  std::vector<std::string> most_frequent(std::int64_t most) const;  // with the two that stand for padding and unknown
  void number(const Vocabulary& vocabulary, TextRows& rows) const;

 private:
  struct Word {
    std::int32_t number;
    std::int64_t count = 0;
  };
  std::unordered_map<std::string, Word> words_;
};

void check_words(const char* who, std::int64_t words, std::int64_t length);

}  // namespace varve::data
