// Texts in folders of classes, as rows of word ids.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "base/text.h"
#include "data/class_folders.h"
#include "data/parts.h"
#include "data/pixels.h"
#include "data/text_rows.h"
#include "data/words.h"

namespace varve::data {

// ---- rows of words

void WordCounter::add(const std::string& text, bool counted, TextRows& to) {
  for (std::string& word : Vocabulary::split(text)) {
    if (words_.size() >= INT32_MAX) throw Error("text: there are more words than numbers for them.");
    const auto number = static_cast<std::int32_t>(words_.size());
    Word& found = words_.try_emplace(std::move(word), Word{.number = number}).first->second;
    found.count += counted;
    to.tokens.push_back(found.number);
  }
  to.ends.push_back(std::ssize(to.tokens));
}

std::vector<std::string> WordCounter::most_frequent(std::int64_t most) const {
  std::unordered_map<std::string, std::int64_t> counts;
  for (const auto& [word, found] : words_)
    if (found.count > 0) counts.emplace(word, found.count);
  std::vector<std::string> words = {"<pad>", "<unk>"};
  for (std::string& word : by_frequency(counts)) {
    if (std::ssize(words) >= most) break;
    words.push_back(std::move(word));
  }
  return words;
}

void WordCounter::number(const Vocabulary& vocabulary, TextRows& rows) const {
  std::vector<std::int32_t> ids(words_.size());
  for (const auto& [word, found] : words_) ids[static_cast<std::size_t>(found.number)] = vocabulary.id(word);
  for (std::int32_t& token : rows.tokens) token = ids[static_cast<std::size_t>(token)];
}

namespace {

class TextSource : public Source {
 public:
  TextSource(TextRows rows, std::vector<std::int32_t> labels, const TextFolderOptions& options)
      : rows_(std::move(rows)), labels_(std::move(labels)), length_(options.length), varies_(options.lengths) {}
  std::int64_t size() const override { return std::ssize(labels_); }
  TensorType x() const override { return {i32, {length_}}; }
  TensorType y() const override { return {i32, {}}; }
  void read(std::int64_t index, std::byte* x, std::byte* y) const override {
    rows_.deliver(index, length_, varies_, x);
    deliver_class(labels_[static_cast<std::size_t>(index)], y);
  }
  bool varies() const override { return varies_; }
  std::int64_t length(std::int64_t index) const override { return varies_ ? rows_.length(index, length_) : length_; }

 private:
  TextRows rows_;
  std::vector<std::int32_t> labels_;
  std::int64_t length_;
  bool varies_;
};

// The samples of one folder, their words as they were met.
struct Texts {
  TextRows rows;
  std::vector<std::int32_t> labels;
};

class TextFolder {
 public:
  TextFolder(ClassFolders found, const TextFolderOptions& options) : found_(std::move(found)), options_(options) {}

  Splits read() {
    Parts parts;  // of the training folder
    const bool held_out = found_.test.empty() && options_.test_share > 0;
    parts = parts_of(std::ssize(found_.train.files), held_out ? options_.test_share : 0, found_.name);
    std::vector<bool> counted(found_.train.files.size());
    for (const std::int64_t index : parts.train) counted[static_cast<std::size_t>(index)] = true;
    Texts train = read_part(found_.train, &counted), validation = read_part(found_.validation, nullptr),
          test = read_part(found_.test, nullptr);
    vocabulary_ = options_.vocabulary;
    if (!vocabulary_) vocabulary_ = std::make_shared<const Vocabulary>(counter_.most_frequent(options_.words));
    Splits splits = {.train = dataset(std::move(train), found_.train),
                     .validation = dataset(std::move(validation), found_.validation),
                     .test = dataset(std::move(test), found_.test)};
    if (parts.test.empty()) return splits;
    splits.test = splits.train.subset(std::move(parts.test));
    splits.train = splits.train.subset(std::move(parts.train));
    return splits;
  }

 private:
  Texts read_part(const ClassFiles& files, const std::vector<bool>* counted) {
    constexpr std::uint64_t kMostBytes = 1 << 24;
    Texts texts = {.rows = {}, .labels = files.labels};
    for (std::size_t i = 0; i < files.files.size(); ++i)
      counter_.add(load_text(files.files[i], kMostBytes), counted != nullptr && (*counted)[i], texts.rows);
    return texts;
  }

  Dataset dataset(Texts texts, const ClassFiles& files) const {
    if (files.empty()) return {};
    counter_.number(*vocabulary_, texts.rows);
    const Info info = {
        .name = found_.name, .classes = found_.classes, .vocabulary = vocabulary_, .skipped = files.skipped};
    return Dataset(std::make_shared<TextSource>(std::move(texts.rows), std::move(texts.labels), options_), info);
  }

  ClassFolders found_;
  TextFolderOptions options_;
  WordCounter counter_;
  std::shared_ptr<const Vocabulary> vocabulary_;
};

}  // namespace

std::int64_t TextRows::length(std::int64_t index, std::int64_t most) const {
  const auto at = static_cast<std::size_t>(index);
  return std::min(ends[at] - (at == 0 ? 0 : ends[at - 1]), most);
}

void TextRows::deliver(std::int64_t index, std::int64_t most, bool right, std::byte* to) const {
  const std::int64_t end = ends[static_cast<std::size_t>(index)], count = length(index, most), padding = most - count;
  constexpr std::int64_t kBytes = sizeof(std::int32_t);
  std::byte* const words = right ? to : to + padding * kBytes;
  std::memset(right ? to + count * kBytes : to, 0, static_cast<std::size_t>(padding * kBytes));
  if (count > 0) std::memcpy(words, tokens.data() + end - count, static_cast<std::size_t>(count * kBytes));
}

void check_words(const char* who, std::int64_t words, std::int64_t length) {
  constexpr std::int64_t kMostLength = 1 << 20;
  if (words < 3 || words > INT32_MAX)
    throw Error(cat(who, ": words must be 3 or more (padding, unknown and a word), got ", words, "."));
  if (length < 1 || length > kMostLength)
    throw Error(cat(who, ": length must be from 1 to ", kMostLength, ", got ", length, "."));
}

Splits text_folder(const std::string& path, const TextFolderOptions& options) {
  check_words("text_folder", options.words, options.length);
  check_test_share("text_folder", options.test_share);
  const FileKind kind = {.who = "text_folder", .what = "texts (.txt)", .accepts = [](const std::string& file) {
                           return file.ends_with(".txt");
                         }};
  return TextFolder(list_class_folders(path, kind), options).read();
}

}  // namespace varve::data
