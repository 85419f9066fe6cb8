#include <filesystem>

#include "data/imdb.h"
#include "varve/io.h"

namespace varve::data {
namespace {

std::vector<std::string> lines_of(const std::vector<std::uint8_t>& text) {
  std::vector<std::string> lines;
  std::string line;
  for (const std::uint8_t c : text) {
    if (c != '\n') {
      line += static_cast<char>(c);
      continue;
    }
    lines.push_back(std::move(line));
    line.clear();
  }
  return lines;
}

bool sound(const ReviewPart& part, std::size_t words) {
  if (part.labels.empty() || part.ends.size() != part.labels.size()) return false;
  std::int64_t last = 0;
  for (const std::int64_t end : part.ends) {
    if (end < last) return false;
    last = end;
  }
  if (last != std::ssize(part.tokens)) return false;
  for (const std::int32_t id : part.tokens) {
    if (id < 1 || static_cast<std::size_t>(id) >= words) return false;
  }
  for (const std::uint8_t label : part.labels) {
    if (label > 1) return false;
  }
  return true;
}

ReviewPart part_of(const std::map<std::string, Tensor>& arrays, const std::string& name) {
  return {.tokens = arrays.at(name + "_tokens").to_vector<std::int32_t>(),
          .ends = arrays.at(name + "_ends").to_vector<std::int64_t>(),
          .labels = arrays.at(name + "_labels").to_vector<std::uint8_t>()};
}

}  // namespace

std::optional<Reviews> load_reviews(const std::string& path, const std::vector<std::int64_t>& stamp) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  try {
    const std::map<std::string, Tensor> arrays = load_npz(path);
    if (arrays.at("stamp").to_vector<std::int64_t>() != stamp) return std::nullopt;
    Reviews reviews = {.words = lines_of(arrays.at("words").to_vector<std::uint8_t>()),
                       .train = part_of(arrays, "train"),
                       .test = part_of(arrays, "test")};
    const std::size_t words = reviews.words.size();
    if (words < 2 || !sound(reviews.train, words) || !sound(reviews.test, words)) return std::nullopt;
    return reviews;
  } catch (const std::exception&) {  // whatever is wrong with it, the reviews themselves are still there
    return std::nullopt;
  }
}

void save_reviews(const std::string& path, const std::vector<std::int64_t>& stamp, const Reviews& reviews) {
  std::vector<std::uint8_t> words;
  for (const std::string& word : reviews.words) {
    words.insert(words.end(), word.begin(), word.end());
    words.push_back('\n');
  }
  try {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    save_npz(path, {{"stamp", tensor(stamp)},
                    {"words", tensor(words)},
                    {"train_tokens", tensor(reviews.train.tokens)},
                    {"train_ends", tensor(reviews.train.ends)},
                    {"train_labels", tensor(reviews.train.labels)},
                    {"test_tokens", tensor(reviews.test.tokens)},
                    {"test_ends", tensor(reviews.test.ends)},
                    {"test_labels", tensor(reviews.test.labels)}});
  } catch (const std::exception&) {
    // A folder that cannot be written to costs time in the next run, nothing else.
  }
}

}  // namespace varve::data
