#include "data/imdb.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <unordered_map>

#include "base/text.h"
#include "data/fetch.h"
#include "data/fetch_progress.h"
#include "data/pixels.h"
#include "data/words.h"

namespace varve::data {
namespace {

namespace fs = std::filesystem;

struct ReviewFile {
  fs::path path;
  std::uint8_t label;
};

std::vector<fs::path> texts_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  if (files.empty()) throw Error(cat("imdb: \"", folder.string(), "\" holds no .txt files."));
  return files;
}

// Negative and positive in turn, so that any first part is balanced.
std::vector<ReviewFile> list_part(const fs::path& folder, std::vector<std::int64_t>& stamp) {
  const std::vector<fs::path> negative = texts_in(folder / "neg"), positive = texts_in(folder / "pos");
  std::vector<ReviewFile> files;
  for (std::size_t i = 0; i < std::max(negative.size(), positive.size()); ++i) {
    if (i < negative.size()) files.push_back({negative[i], 0});
    if (i < positive.size()) files.push_back({positive[i], 1});
  }
  for (const char* sentiment : {"neg", "pos"}) {
    stamp.push_back(static_cast<std::int64_t>(fs::last_write_time(folder / sentiment).time_since_epoch().count()));
  }
  stamp.push_back(std::ssize(files));
  return files;
}

// Gives words numbers as they come, and in the end by frequency.
class Counter {
 public:
  void add(const ReviewFile& file, bool counted, ReviewPart& part) {
    constexpr std::uint64_t kMostBytes = 1 << 24;
    for (std::string& word : Vocabulary::split(load_text(file.path.string(), kMostBytes))) {
      const auto number = static_cast<std::int32_t>(words_.size());
      Word& found = words_.try_emplace(std::move(word), Word{.number = number}).first->second;
      found.count += counted;
      part.tokens.push_back(found.number);
      if (words_.size() >= INT32_MAX) throw Error("imdb: there are more words than numbers for them.");
    }
    part.ends.push_back(std::ssize(part.tokens));
    part.labels.push_back(file.label);
  }

  // Words that were not counted become unknown.
  std::vector<std::string> finish(ReviewPart& train, ReviewPart& test) const {
    std::unordered_map<std::string, std::int64_t> counts;
    for (const auto& [word, found] : words_) {
      if (found.count > 0) counts.emplace(word, found.count);
    }
    std::vector<std::string> words = {"<pad>", "<unk>"};
    std::vector<std::int32_t> ids(words_.size(), kUnknown);
    for (std::string& word : by_frequency(counts)) {
      ids[static_cast<std::size_t>(words_.at(word).number)] = static_cast<std::int32_t>(words.size());
      words.push_back(std::move(word));
    }
    for (ReviewPart* part : {&train, &test}) {
      for (std::int32_t& token : part->tokens) token = ids[static_cast<std::size_t>(token)];
    }
    return words;
  }

 private:
  struct Word {
    std::int32_t number;
    std::int64_t count = 0;
  };
  std::unordered_map<std::string, Word> words_;
};

Reviews read_reviews(const std::vector<ReviewFile>& train, const std::vector<ReviewFile>& test, bool quiet) {
  Progress progress("imdb: reading reviews", {.quiet = quiet, .after = 2});
  const auto total = static_cast<std::int64_t>(train.size() + test.size());
  std::int64_t done = 0;
  Reviews reviews;
  Counter counter;
  const auto read = [&](const std::vector<ReviewFile>& files, bool counted, ReviewPart& part) {
    for (const ReviewFile& file : files) {
      counter.add(file, counted, part);
      progress.update(++done, total);
    }
  };
  read(train, true, reviews.train);
  read(test, false, reviews.test);
  reviews.words = counter.finish(reviews.train, reviews.test);
  return reviews;
}

Reviews all_reviews(bool quiet) {
  const fs::path folder = local_path("aclImdb");
  std::vector<std::int64_t> stamp = {1};  // of this way of splitting and storing
  const std::vector<ReviewFile> train = list_part(folder / "train", stamp), test = list_part(folder / "test", stamp);
  const std::string cache = local_path("cache/imdb.npz");
  if (std::optional<Reviews> kept = load_reviews(cache, stamp)) return std::move(*kept);
  Reviews reviews = read_reviews(train, test, quiet);
  save_reviews(cache, stamp, reviews);
  return reviews;
}

class ReviewSource : public Source {
 public:
  ReviewSource(ReviewPart part, std::int64_t words, const ImdbOptions& options)
      : part_(std::move(part)), length_(options.length), varies_(options.lengths) {
    for (std::int32_t& token : part_.tokens) {
      if (token >= words) token = kUnknown;
    }
  }
  std::int64_t size() const override { return std::ssize(part_.labels); }
  TensorType x() const override { return {i32, {length_}}; }
  TensorType y() const override { return {i32, {}}; }
  void read(std::int64_t index, std::byte* x, std::byte* y) const override {
    const auto at = static_cast<std::size_t>(index);
    const std::int64_t count = words_of(at), padding = length_ - count;
    constexpr std::int64_t kBytes = sizeof(std::int32_t);
    std::byte* const words = varies_ ? x : x + padding * kBytes;
    std::memset(varies_ ? x + count * kBytes : x, 0, static_cast<std::size_t>(padding * kBytes));
    if (count > 0)
      std::memcpy(words, part_.tokens.data() + part_.ends[at] - count, static_cast<std::size_t>(count * kBytes));
    deliver_class(part_.labels[at], y);
  }
  bool varies() const override { return varies_; }
  std::int64_t length(std::int64_t index) const override {
    return varies_ ? words_of(static_cast<std::size_t>(index)) : length_;
  }

 private:
  std::int64_t words_of(std::size_t at) const {
    return std::min(part_.ends[at] - (at == 0 ? 0 : part_.ends[at - 1]), length_);
  }
  ReviewPart part_;
  std::int64_t length_;
  bool varies_;
};

}  // namespace

Splits imdb(const ImdbOptions& options) {
  constexpr std::int64_t kMostLength = 1 << 20;
  if (options.words < 3)
    throw Error(cat("imdb: words must be 3 or more (padding, unknown and a word), got ", options.words, "."));
  if (options.length < 1 || options.length > kMostLength) {
    throw Error(cat("imdb: length must be from 1 to ", kMostLength, ", got ", options.length, "."));
  }
  fetch(home("imdb"), options.fetch);
  try {
    Reviews reviews = all_reviews(options.fetch.quiet);
    const auto words = std::min(static_cast<std::size_t>(options.words), reviews.words.size());
    reviews.words.resize(words);
    const Info info = {.name = "imdb",
                       .classes = {"negative", "positive"},
                       .vocabulary = std::make_shared<const Vocabulary>(std::move(reviews.words))};
    const auto source = [&](ReviewPart& part) {
      return std::make_shared<ReviewSource>(std::move(part), static_cast<std::int64_t>(words), options);
    };
    return {.train = Dataset(source(reviews.train), info), .test = Dataset(source(reviews.test), info)};
  } catch (const fs::filesystem_error& error) {
    throw Error(cat("imdb: ", error.what()));
  }
}

}  // namespace varve::data
