// Pictures in archives: name.jpg beside name.cls, as WebDataset lays them out. A picture is read where it lies.
#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "base/text.h"
#include "data/lists.h"
#include "data/pixels.h"
#include "data/shards.h"
#include "data/tar_index.h"

namespace varve::data {
namespace {

struct TarSample {
  std::size_t archive;
  TarPlace picture;
  std::string kind;  // what its .cls says
};

// "a/b.jpg" is "a/b" and "jpg".
std::pair<std::string, std::string> parted(const std::string& name) {
  const std::size_t folder = name.rfind('/');
  const std::size_t dot = name.find('.', folder == std::string::npos ? 0 : folder + 1);
  return dot == std::string::npos ? std::pair(name, std::string())
                                  : std::pair(name.substr(0, dot), name.substr(dot + 1));
}

std::string class_in(const std::string& archive, const TarPlace& place) {
  constexpr std::uint64_t kMostClass = 1000;
  if (place.size > kMostClass) throw Error(cat('"', archive, "\": \"", place.name, "\" is too long for a class."));
  std::string text = read_place(archive, place);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.pop_back();
  return text;
}

std::vector<TarSample> samples_of(const std::vector<std::string>& archives, std::size_t number) {
  const std::string& archive = archives[number];
  struct Half {
    TarPlace picture;
    std::string kind;
    bool has_picture = false, has_kind = false;
  };
  std::map<std::string, Half> halves;
  for (const TarPlace& place : tar_index(archive)) {
    const auto [name, ending] = parted(place.name);
    Half& half = halves[name];
    if (ending == "cls") {
      half.kind = class_in(archive, place);
      half.has_kind = true;
    } else if (has_picture_name(place.name)) {
      half.picture = place;
      half.has_picture = true;
    }
  }
  std::vector<TarSample> samples;
  for (const auto& [name, half] : halves) {
    if (!half.has_picture && !half.has_kind) continue;
    if (!half.has_picture || !half.has_kind)
      throw Error(cat('"', archive, "\": \"", name, "\" has ", half.has_picture ? "no class (.cls)." : "no picture."));
    samples.push_back({number, half.picture, half.kind});
  }
  if (samples.empty()) throw Error(cat('"', archive, "\" holds no pictures with classes."));
  return samples;
}

// Names in order, or the numbers from 0 to the largest.
std::vector<std::string> classes_of(const std::vector<TarSample>& samples) {
  constexpr std::int64_t kMostClasses = 1'000'000;
  std::set<std::string> names;
  std::int64_t largest = -1;
  bool numbers = true;
  for (const TarSample& sample : samples) {
    std::int64_t number = -1;
    const char* end = sample.kind.data() + sample.kind.size();
    const auto [stop, error] = std::from_chars(sample.kind.data(), end, number);
    numbers = numbers && error == std::errc() && stop == end && number >= 0 && number < kMostClasses;
    largest = std::max(largest, number);
    names.insert(sample.kind);
  }
  if (!numbers) return {names.begin(), names.end()};
  std::vector<std::string> all;
  for (std::int64_t i = 0; i <= largest; ++i) all.push_back(cat(i));
  return all;
}

class TarSource : public Source {
 public:
  TarSource(std::vector<std::string> archives, const std::vector<TarSample>& samples, const ShardOptions& options,
            const std::vector<std::string>& classes)
      : archives_(std::move(archives)), samples_(samples), options_(options), starts_{0} {
    std::map<std::string, std::int32_t> numbers;
    for (const std::string& name : classes) numbers.emplace(name, static_cast<std::int32_t>(numbers.size()));
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      if (i > 0 && samples_[i].archive != samples_[i - 1].archive) starts_.push_back(static_cast<std::int64_t>(i));
      const auto found = numbers.find(samples_[i].kind);
      if (found == numbers.end())
        throw Error(cat('"', archives_[samples_[i].archive], "\": \"", samples_[i].kind, "\" is none of the classes ",
                        some_quoted(classes), "."));
      labels_.push_back(found->second);
    }
    starts_.push_back(std::ssize(samples_));
  }
  std::int64_t size() const override { return std::ssize(samples_); }
  TensorType x() const override { return {f32, {options_.height, options_.width, options_.channels}}; }
  TensorType y() const override { return {i32, {}}; }
  void read(std::int64_t index, std::byte* x, std::byte* y) const override {
    const auto at = static_cast<std::size_t>(index);
    const TarSample& sample = samples_[at];
    const std::string& archive = archives_[sample.archive];
    const std::string bytes = read_place(archive, sample.picture);
    const Picture picture =
        decode_picture(bytes.data(), bytes.size(), archive + "/" + sample.picture.name, options_.channels);
    const Picture fitted = resize_to_fill(picture, options_.height, options_.width);
    deliver_pixels(fitted.pixels.data(), std::ssize(fitted.pixels), x);
    deliver_class(labels_[at], y);
  }
  std::vector<std::int64_t> order(std::uint64_t seed, std::uint64_t epoch) const override {
    return shard_order(starts_, options_.buffer, seed, epoch);
  }

 private:
  std::vector<std::string> archives_;
  std::vector<TarSample> samples_;
  ShardOptions options_;
  std::vector<std::int64_t> starts_;
  std::vector<std::int32_t> labels_;
};

}  // namespace

Splits tar_shards(const std::vector<std::string>& files, const ShardOptions& options, const std::string& name) {
  constexpr std::int64_t kMostSide = 8192;
  if (options.height < 1 || options.height > kMostSide || options.width < 1 || options.width > kMostSide ||
      (options.channels != 1 && options.channels != 3))
    throw Error(cat("shards: expected pictures of 1 to ", kMostSide, " pixels a side and 1 or 3 channels, got ",
                    options.height, "×", options.width, "×", options.channels, "."));
  const std::size_t kept = files.size() - held_files(files.size(), options.rows.test_share);
  std::vector<TarSample> train, test;
  for (std::size_t i = 0; i < files.size(); ++i)
    for (TarSample& sample : samples_of(files, i)) (i < kept ? train : test).push_back(std::move(sample));
  const std::vector<std::string> classes = options.names.empty() ? classes_of(train) : options.names;
  const Info info = {.name = name, .classes = classes};
  Splits splits = {.train = Dataset(std::make_shared<TarSource>(files, train, options, classes), info)};
  if (!test.empty()) splits.test = Dataset(std::make_shared<TarSource>(files, test, options, classes), info);
  return splits;
}

}  // namespace varve::data
