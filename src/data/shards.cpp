#include "data/shards.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <future>
#include <list>
#include <mutex>

#include "base/text.h"
#include "data/npz.h"
#include "data/parts.h"
#include "data/random_order.h"
#include "data/row_reader.h"

namespace varve::data {

namespace fs = std::filesystem;

// Files that were used last. A file is read by the thread that asks first; others that want it wait.
class ShardSource::Cache {
 public:
  Cache(Load load, std::size_t most) : load_(std::move(load)), most_(most) {}

  Dataset get(std::size_t file) {
    std::promise<Dataset> mine;
    std::shared_future<Dataset> found;
    bool reads = false;
    {
      const std::lock_guard lock(guard_);
      const auto at = std::find_if(held_.begin(), held_.end(), [&](const Held& held) { return held.file == file; });
      reads = at == held_.end();
      if (reads) {
        held_.push_front({file, mine.get_future().share()});
        if (held_.size() > most_) held_.pop_back();
      } else {
        held_.splice(held_.begin(), held_, at);
      }
      found = held_.front().set;
    }
    if (reads) read(file, mine);
    return found.get();
  }

 private:
  struct Held {
    std::size_t file;
    std::shared_future<Dataset> set;
  };

  void read(std::size_t file, std::promise<Dataset>& to) {
    try {
      to.set_value(load_(file));
    } catch (...) {
      to.set_exception(std::current_exception());
      const std::lock_guard lock(guard_);  // the next one tries again
      held_.remove_if([&](const Held& held) { return held.file == file; });
    }
  }

  Load load_;
  std::size_t most_;
  std::mutex guard_;
  std::list<Held> held_;  // the last used first
};

namespace {

// The most files that are mixed together, whatever their order.
std::size_t most_together(std::vector<std::int64_t> counts, std::int64_t buffer) {
  std::sort(counts.begin(), counts.end());
  std::size_t files = 0;
  for (std::int64_t samples = 0; files < counts.size() && samples < buffer; ++files) samples += counts[files];
  return std::max<std::size_t>(files, 1);
}

}  // namespace

ShardSource::ShardSource(std::vector<std::int64_t> counts, std::int64_t buffer, Load load)
    : starts_{0}, buffer_(buffer) {
  for (const std::int64_t count : counts) starts_.push_back(starts_.back() + count);
  // Those of one buffer, and as many that threads which read ahead have begun.
  cache_ = std::make_unique<Cache>(std::move(load), 2 * most_together(std::move(counts), buffer) + 1);
  const Dataset first = cache_->get(0);
  x_ = first.x();
  y_ = first.y();
}

ShardSource::~ShardSource() = default;

void ShardSource::read(std::int64_t index, std::byte* x, std::byte* y) const {
  const auto file =
      static_cast<std::size_t>(std::upper_bound(starts_.begin(), starts_.end(), index) - starts_.begin() - 1);
  const Dataset set = cache_->get(file);
  if (set.x() != x_ || set.y() != y_)
    throw Error(cat("shards: samples of \"", set.info().name, "\" are ", set.x().str(), " with ", set.y().str(),
                    ", those of the first file ", x_.str(), " with ", y_.str(), "."));
  if (set.size() != starts_[file + 1] - starts_[file])
    throw Error(cat("shards: \"", set.info().name, "\" has ", set.size(), " samples, and had ",
                    starts_[file + 1] - starts_[file], " at first: files must not change."));
  set.source().read(index - starts_[file], x, y);
}

std::vector<std::int64_t> ShardSource::order(std::uint64_t seed, std::uint64_t epoch) const {
  return shard_order(starts_, buffer_, seed, epoch);
}

std::vector<std::int64_t> shard_order(const std::vector<std::int64_t>& starts, std::int64_t buffer, std::uint64_t seed,
                                      std::uint64_t epoch) {
  Random random(seed, epoch, kOrderStream);
  const std::vector<std::int64_t> files = permutation(std::ssize(starts) - 1, random);
  Random mixing(seed, epoch, kBufferStream);
  std::vector<std::int64_t> order;
  order.reserve(static_cast<std::size_t>(starts.back()));
  std::size_t begun = 0;  // where the samples that are mixed together begin
  const auto mix = [&] {
    for (std::size_t i = order.size(); i > begun + 1; --i)
      std::swap(order[i - 1],
                order[begun + static_cast<std::size_t>(mixing.integer(static_cast<std::int64_t>(i - begun)))]);
    begun = order.size();
  };
  for (const std::int64_t file : files) {
    const auto at = static_cast<std::size_t>(file);
    for (std::int64_t i = starts[at]; i < starts[at + 1]; ++i) order.push_back(i);
    if (static_cast<std::int64_t>(order.size() - begun) >= buffer) mix();
  }
  mix();
  return order;
}

std::size_t held_files(std::size_t files, double test_share) {
  const auto held = static_cast<std::size_t>(std::llround(test_share * static_cast<double>(files)));
  return std::min(held, files - 1);
}

namespace {

// * stands for any letters, ? for one.
bool matches(std::string_view name, std::string_view pattern) {
  std::size_t at = 0, p = 0, star = std::string_view::npos, from = 0;
  while (at < name.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || (pattern[p] == name[at] && pattern[p] != '*'))) {
      ++at;
      ++p;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      from = at;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      at = ++from;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

std::vector<std::string> files_of(const std::string& pattern) {
  const fs::path path = pattern, folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (at->is_regular_file(error) && matches(at->path().filename().string(), path.filename().string()))
      files.push_back(at->path().string());
  if (files.empty())
    throw Error(cat("shards: no file is named \"", pattern, "\". * and ? stand for letters of the file's name."));
  std::sort(files.begin(), files.end());
  return files;
}

std::string ending_of(const std::vector<std::string>& files) {
  const std::string ending = fs::path(files[0]).extension().string();
  for (const std::string& file : files)
    if (fs::path(file).extension() != ending)
      throw Error(cat("shards: \"", files[0], "\" and \"", file, "\" are of different kinds."));
  return ending;
}

Splits splits_of(const std::vector<std::string>& files, const std::vector<std::int64_t>& counts,
                 const ShardOptions& options, const std::string& name,
                 const std::function<Dataset(const std::string&)>& load) {
  const std::size_t held = held_files(files.size(), options.rows.test_share), kept = files.size() - held;
  const auto part = [&](std::size_t begin, std::size_t end) -> Dataset {
    if (begin == end) return {};
    const std::vector<std::string> mine(files.begin() + static_cast<std::ptrdiff_t>(begin),
                                        files.begin() + static_cast<std::ptrdiff_t>(end));
    const auto source =
        std::make_shared<ShardSource>(std::vector<std::int64_t>(counts.begin() + static_cast<std::ptrdiff_t>(begin),
                                                                counts.begin() + static_cast<std::ptrdiff_t>(end)),
                                      options.buffer, [mine, load](std::size_t file) { return load(mine[file]); });
    Info info = load(mine[0]).info();
    info.name = name;
    return Dataset(source, std::move(info));
  };
  return {.train = part(0, kept), .test = part(kept, files.size())};
}

Splits row_shards(const std::vector<std::string>& files, bool json, const ShardOptions& options,
                  const std::string& name) {
  const auto reader = std::make_shared<RowReader>(json, options.rows);
  const std::size_t kept = files.size() - held_files(files.size(), options.rows.test_share);
  std::vector<std::int64_t> counts;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string text = load_text(files[i]), source = cat('"', files[i], '"');
    std::vector<bool> none(i < kept ? 0 : std::count(text.begin(), text.end(), '\n') + 1);
    counts.push_back(reader->look(text, source, i < kept ? nullptr : &none));
  }
  reader->finish();
  reader->name(name);
  return splits_of(files, counts, options, name,
                   [reader](const std::string& file) { return reader->read(load_text(file), cat('"', file, '"')); });
}

Dataset npz_shard(const std::string& file) {
  const std::map<std::string, Tensor> arrays = load_npz(file);
  const auto one = [&](const char* name, const char* other) {
    const auto found = arrays.contains(name) ? arrays.find(name) : arrays.find(other);
    if (found == arrays.end()) throw Error(cat('"', file, "\" must hold the arrays x and y."));
    return found->second;
  };
  return from_tensors(one("x", "x_train"), one("y", "y_train"), {.name = file});
}

}  // namespace

Splits shards(const std::string& pattern, const ShardOptions& options) {
  check_test_share("shards", options.rows.test_share);
  if (options.buffer < 1) throw Error(cat("shards: expected a buffer of 1 sample or more, got ", options.buffer, "."));
  const std::vector<std::string> files = files_of(pattern);
  const std::string ending = ending_of(files);
  const fs::path path = fs::absolute(pattern).lexically_normal();
  const std::string name = path.parent_path().filename().string();
  if (ending == ".csv" || ending == ".tsv") return row_shards(files, false, options, name);
  if (ending == ".jsonl") return row_shards(files, true, options, name);
  if (ending == ".tar") return tar_shards(files, options, name);
  if (ending != ".npz")
    throw Error(cat("shards: \"", files[0], "\": expected files that end in .csv, .jsonl, .npz or .tar."));
  std::vector<std::int64_t> counts;
  for (const std::string& file : files) counts.push_back(npz_shard(file).size());
  return splits_of(files, counts, options, name, npz_shard);
}

}  // namespace varve::data
