// Text as one long row of ids, cut into streams that are read side by side.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "base/text.h"
#include "data/fetch.h"
#include "data/words.h"

namespace varve::data {
namespace {

// Sample i is window i / streams of stream i % streams: rows of a batch continue where those of the last one ended.
class WindowSource : public Source {
 public:
  WindowSource(std::vector<std::int32_t> tokens, const TextOptions& options, const std::string& what)
      : tokens_(std::move(tokens)), steps_(options.steps), streams_(options.streams) {
    if (steps_ < 1 || streams_ < 1 || steps_ > INT32_MAX || streams_ > INT32_MAX) {
      throw Error(cat(what, ": steps and streams must be positive, got ", steps_, " and ", streams_, "."));
    }
    const std::int64_t count = std::ssize(tokens_);
    stream_length_ = std::max<std::int64_t>(count - 1, 0) / streams_;  // the last target of a stream is one further
    windows_ = stream_length_ / steps_;
    if (windows_ == 0) {
      throw Error(cat(what, ": ", count, " tokens are too few for ", streams_, " streams of ", steps_,
                      " steps, which need ", streams_ * steps_ + 1, ". Use fewer streams or steps."));
    }
  }

  std::int64_t size() const override { return windows_ * streams_; }
  TensorType x() const override { return {i32, {steps_}}; }
  TensorType y() const override { return {i32, {steps_}}; }
  std::int64_t streams() const override { return streams_; }
  void read(std::int64_t index, std::byte* x, std::byte* y) const override {
    const std::int32_t* begin = tokens_.data() + index % streams_ * stream_length_ + index / streams_ * steps_;
    const std::size_t bytes = static_cast<std::size_t>(steps_) * sizeof(std::int32_t);
    std::memcpy(x, begin, bytes);
    std::memcpy(y, begin + 1, bytes);
  }

 private:
  std::vector<std::int32_t> tokens_;
  std::int64_t steps_, streams_, stream_length_, windows_;
};

// Words between blanks; the end of a line is a word too.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : text) {
    if (c != ' ' && c != '\n' && c != '\t' && c != '\r') {
      word += c;
      continue;
    }
    if (!word.empty()) words.push_back(std::move(word));
    word.clear();
    if (c == '\n') words.push_back("<eos>");
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

// UTF-8 characters; a byte that is not of one stands for itself.
std::vector<std::string> characters_of(const std::string& text) {
  std::vector<std::string> found;
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t length = lead < 0xC2 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 1;
    const std::string character = text.substr(i, length);
    const bool whole = character.size() == length && std::all_of(character.begin() + 1, character.end(), [](char c) {
                         return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
                       });
    found.push_back(whole ? character : text.substr(i, 1));
    i += found.back().size();
  }
  return found;
}

// Ids: the reserved words first, then those of the training text by falling frequency.
class Encoder {
 public:
  Encoder(const std::vector<std::string>& training, const std::vector<std::string>& reserved) {
    std::unordered_map<std::string, std::int64_t> counts;
    for (const std::string& word : training) ++counts[word];
    for (const std::string& word : reserved) counts.erase(word);
    std::vector<std::string> words = reserved;
    for (std::string& word : by_frequency(counts)) words.push_back(std::move(word));
    use(std::make_shared<const Vocabulary>(std::move(words)));
  }
  explicit Encoder(const std::shared_ptr<const Vocabulary>& given) { use(given); }
  const std::shared_ptr<const Vocabulary>& vocabulary() const { return vocabulary_; }
  std::vector<std::int32_t> operator()(std::span<const std::string> words) const {
    std::vector<std::int32_t> ids;
    ids.reserve(words.size());
    for (const std::string& word : words) {
      const auto found = ids_.find(word);
      ids.push_back(found == ids_.end() ? kUnknown : found->second);
    }
    return ids;
  }

 private:
  void use(const std::shared_ptr<const Vocabulary>& vocabulary) {
    vocabulary_ = vocabulary;
    const std::vector<std::string>& words = vocabulary->words();
    for (std::size_t i = 0; i < words.size(); ++i) ids_.emplace(words[i], static_cast<std::int32_t>(i));
  }

  std::unordered_map<std::string, std::int32_t> ids_;
  std::shared_ptr<const Vocabulary> vocabulary_;
};

Encoder encoder_for(const TextOptions& options, const std::vector<std::string>& training,
                    const std::vector<std::string>& reserved) {
  return options.vocabulary ? Encoder(options.vocabulary) : Encoder(training, reserved);
}

}  // namespace

Splits ptb(const TextOptions& options) {
  fetch(home("ptb"), options.fetch);
  const auto words = [](const char* part) { return words_of(load_text(local_path(cat("ptb/ptb.", part, ".txt")))); };
  const std::vector<std::string> training = words("train");
  // Windows are never padded, so id 0 is free for the end of a line, and the vocabulary has its usual 10,000 words.
  const Encoder encode = encoder_for(options, training, {"<eos>", "<unk>"});
  const Info info = {.name = "ptb", .classes = encode.vocabulary()->words(), .vocabulary = encode.vocabulary()};
  const auto part = [&](const std::vector<std::string>& text, const char* name) {
    return Dataset(std::make_shared<WindowSource>(encode(text), options, cat("ptb, ", name)), info);
  };
  return {.train = part(training, "train"),
          .validation = part(words("valid"), "valid"),
          .test = part(words("test"), "test")};
}

Splits characters(const std::string& path, const TextOptions& options) {
  const std::vector<std::string> text = characters_of(load_text(path));
  const std::size_t split = text.size() - text.size() / 10;
  const std::vector<std::string> training(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(split));
  const Encoder encode = encoder_for(options, training, {"<pad>", "<unk>"});
  const Info info = {.name = path, .classes = encode.vocabulary()->words(), .vocabulary = encode.vocabulary()};
  const std::string what = cat('"', path, '"');
  return {.train = Dataset(std::make_shared<WindowSource>(encode(training), options, what + ", train"), info),
          .test = Dataset(
              std::make_shared<WindowSource>(encode(std::span(text).subspan(split)), options, what + ", test"), info)};
}

}  // namespace varve::data
