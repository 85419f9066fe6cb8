#include <algorithm>
#include <cctype>

#include "base/text.h"
#include "varve/data.h"

namespace varve::data {
namespace {

// Letters and digits of ASCII, and every byte of a longer UTF-8 character.
bool in_word(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || std::isalnum(byte);
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// The end of "<br>", "<br/>" or "<br />" that begins at `at`, or `at` when none does.
std::size_t after_break(const std::string& text, std::size_t at) {
  if (at + 2 >= text.size() || text[at] != '<' || lower(text[at + 1]) != 'b' || lower(text[at + 2]) != 'r') return at;
  std::size_t end = at + 3;
  while (end < text.size() && (text[end] == ' ' || text[end] == '/')) ++end;
  return end < text.size() && text[end] == '>' ? end + 1 : at;
}

// The same for a dash, a quotation mark, … beyond ASCII: U+2000 to U+203F.
std::size_t after_mark(const std::string& text, std::size_t at) {
  return text.compare(at, 2, "\xE2\x80") == 0 && at + 2 < text.size() ? at + 3 : at;
}

}  // namespace

Vocabulary::Vocabulary(std::vector<std::string> words) : words_(std::move(words)) {
  if (words_.size() < 2 || words_.size() > INT32_MAX)
    throw Error(cat("vocabulary: expected 2 words or more (the first two stand for padding and unknown), got ",
                    words_.size(), "."));
  for (std::size_t i = 2; i < words_.size(); ++i) ids_.emplace(words_[i], static_cast<std::int32_t>(i));
}

std::int32_t Vocabulary::id(const std::string& word) const {
  const auto found = ids_.find(word);
  return found == ids_.end() ? 1 : found->second;
}

const std::string& Vocabulary::word(std::int32_t id) const {
  if (id < 0 || id >= size()) throw Error(cat("vocabulary: no word has id ", id, ", there are ", size(), " words."));
  return words_[static_cast<std::size_t>(id)];
}

std::vector<std::int32_t> Vocabulary::encode(const std::string& text, std::int64_t length) const {
  if (length < 0) throw Error(cat("vocabulary: expected a length of 0 or more, got ", length, "."));
  const std::vector<std::string> found = split(text);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(length), 0);
  auto place = ids.rbegin();
  for (auto word = found.rbegin(); word != found.rend() && place != ids.rend(); ++word, ++place) *place = id(*word);
  return ids;
}

std::vector<std::string> Vocabulary::split(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) words.push_back(std::move(word));
    word.clear();
  };
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t end = std::max(after_break(text, i), after_mark(text, i));
    // An apostrophe within a word belongs to it: don't.
    const bool inside = text[i] == '\'' && !word.empty() && i + 1 < text.size() && in_word(text[i + 1]);
    if (end == i && (in_word(text[i]) || inside))
      word += lower(text[i]);
    else
      end_word();
    i = std::max(end, i + 1);
  }
  end_word();
  return words;
}

}  // namespace varve::data
