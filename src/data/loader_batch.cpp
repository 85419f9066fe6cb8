#include "data/loader_batch.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/ranks.h"
#include "base/text.h"
#include "data/dataset_target.h"
#include "data/loader_mixup.h"
#include "data/random_order.h"

namespace varve::data {
namespace {

constexpr std::int64_t kMostRows = std::int64_t{1} << 31;
constexpr int kMostRanks = 1 << 20;
constexpr int kIndexBits = 40;  // of a batch's index within a random stream: above them, the shard

void check(const LoaderOptions& options) {
  if (options.batch < 1 || options.batch > kMostRows)
    throw Error(cat("loader: expected a batch of 1 to 2^31 samples, got ", options.batch, "."));
  if (options.epoch < 0) throw Error(cat("loader: expected an epoch of 0 or more, got ", options.epoch, "."));
  if (!(options.mixup >= 0) || !std::isfinite(options.mixup))
    throw Error(cat("loader: expected a mixup of 0 (none) or more, got ", options.mixup, "."));
  if (options.ranks < 1 || options.ranks > kMostRanks || options.rank < 0 || options.rank >= options.ranks)
    throw Error(
        cat("loader: expected a rank from 0 to ranks - 1, got rank ", options.rank, " of ", options.ranks, "."));
  if (options.shards < 0 || options.shards % options.ranks != 0)
    throw Error(cat("loader: ", options.shards, " shards cannot be shared evenly by ", options.ranks, " processes."));
  if (options.batch < options.ranks)
    throw Error(cat("loader: a batch of ", options.batch, " cannot be shared among ", options.ranks, " processes."));
}

void check_streams(const Dataset& dataset, const LoaderOptions& options) {
  const std::int64_t streams = dataset.streams();
  if (streams > 0 && options.batch != streams)
    throw Error(cat("loader: \"", dataset.info().name, "\" is cut into ", streams,
                    " streams, and a batch takes one window of each: expected batch ", streams, ", got ", options.batch,
                    ". Give the data set as many streams, or use that batch."));
}

void check_mixup(const Dataset& dataset) {
  if (dataset.x().dtype != f32)
    throw Error(
        cat("loader: mixup blends samples of f32, but \"", dataset.info().name, "\" has ", dataset.x().str(), "."));
  if (dataset.y().shape.rank() != 0)
    throw Error(cat("loader: mixup needs one class as the target of each sample, but \"", dataset.info().name,
                    "\" has ", dataset.y().str(), "."));
}

LoaderOptions in_the_job(LoaderOptions options) {
  if (options.ranks != 0) return options;
  if (ranks_see_whole_batch()) {
    options.rank = 0;
    options.ranks = 1;
    return options;
  }
  options.rank = rank_place().rank;
  options.ranks = rank_place().size;
  return options;
}

TensorType rows_of_type(const TensorType& sample, std::int64_t rows) {
  Shape shape{rows};
  for (const std::int64_t size : sample.shape) shape.push_back(size);
  return {sample.dtype, std::move(shape)};
}

}  // namespace

BatchReader::BatchReader(Dataset dataset, const LoaderOptions& given)
    : dataset_(std::move(dataset)), options_(in_the_job(given)), x_(dataset_.x()), y_(dataset_.y()) {
  const LoaderOptions& options = options_;
  check(options);
  check_streams(dataset_, options);
  if (const std::size_t parts = dataset_.parts().size(); parts > 0 && static_cast<int>(parts) != options.ranks)
    throw Error(cat("loader: \"", dataset_.info().name, "\" lies in ", parts, " parts, one for each rank, but ",
                    options.ranks, " processes read it."));
  batches_ = batch_count(dataset_.total(), options.batch, options.drop_last);
  if (options.skip < 0 || options.skip > batches_)
    throw Error(cat("loader: ", options.skip, " batches were to be skipped, the epoch has ", batches_, "."));
  if (options.mixup > 0) {
    check_mixup(dataset_);
    classes_ = dataset_.classes();
  }
  if (options.shuffle && dataset_.streams() == 0)
    order_ = permutation(dataset_.size(), Random(static_cast<std::uint64_t>(options.seed),
                                                 static_cast<std::uint64_t>(options.epoch), kOrderStream));
  x_bytes_ = x_.bytes();
  y_bytes_ = y_.bytes();
  std::int64_t share = 1;
  for (std::int64_t index = 0; index < batches_; ++index)
    share = std::max(share, rows_of(index).end - rows_of(index).begin);
  x_pool_ = std::make_shared<Pool>(rows_of_type(x_, share).bytes());
  y_pool_ = std::make_shared<Pool>(classes_ > 0 ? TensorType{f32, {share, classes_}}.bytes()
                                                : rows_of_type(y_, share).bytes());
}

BatchReader::~BatchReader() {
  x_pool_->retire();
  y_pool_->retire();
}

BatchReader::Rows BatchReader::rows_of(std::int64_t index) const {
  const BatchShare share = batch_share(dataset_, index, options_.batch, options_.rank, options_.ranks);
  return {share.begin, share.end};
}

// A contiguous share of the epoch's order. Where samples lie apart, each rank has an order of its own samples and goes
// through it as fast as the batches go through the whole, so that parts of any size end with the same step.
BatchShare batch_share(const Dataset& dataset, std::int64_t index, std::int64_t batch, int rank, int ranks) {
  const std::int64_t all = dataset.total(), begin = index * batch, end = std::min(begin + batch, all);
  if (dataset.parts().empty()) {
    const std::int64_t first = begin + (end - begin) * rank / ranks;
    return {first, first + share_of(end - begin, rank, ranks), end - begin};
  }
  BatchShare share;
  for (int r = 0; r < ranks; ++r) {
    const std::int64_t own = dataset.parts()[static_cast<std::size_t>(r)];
    const std::int64_t from = own * begin / all, to = own * end / all;
    share.of += to - from;
    if (r == rank) std::tie(share.begin, share.end) = std::pair(from, to);
  }
  return share;
}

std::int64_t share_of(std::int64_t count, int rank, int ranks) {
  return count * (rank + 1) / ranks - count * rank / ranks;
}

std::int64_t BatchReader::sample_at(std::int64_t place) const {
  return order_.empty() ? place : order_[static_cast<std::size_t>(place)];
}

Batch BatchReader::read(std::int64_t index, ReadScratch& scratch, const std::atomic<bool>& stop) const {
  const Rows rows = rows_of(index);
  if (options_.mixup > 0) return read_mixed(index, rows, scratch, stop);
  Pool::Lease x = x_pool_->take(), y = y_pool_->take();
  std::byte *x_row = x.data(), *y_row = y.data();
  for (std::int64_t place = rows.begin; place < rows.end; ++place, x_row += x_bytes_, y_row += y_bytes_) {
    if (stop.load(std::memory_order_relaxed)) return {};
    dataset_.read(sample_at(place), static_cast<std::uint64_t>(options_.seed),
                  static_cast<std::uint64_t>(options_.epoch), x_row, y_row, scratch.sample);
  }
  const std::int64_t count = rows.end - rows.begin;
  return {std::move(x).tensor(rows_of_type(x_, count)), std::move(y).tensor(rows_of_type(y_, count))};
}

// Of each of this process's samples one of its share, or of the same shard, by its place in the share.
std::vector<std::int64_t> BatchReader::partners(std::int64_t index, const Random& random) const {
  const BatchShare share = batch_share(dataset_, index, options_.batch, options_.rank, options_.ranks);
  if (options_.shards == 0) return permutation(share.end - share.begin, random);
  const std::int64_t each = options_.shards / options_.ranks, first = each * options_.rank;
  std::vector<std::int64_t> all;
  for (std::int64_t shard = first; shard < first + each; ++shard) {
    const Random own(
        static_cast<std::uint64_t>(options_.seed), static_cast<std::uint64_t>(options_.epoch),
        kMixupStream + (static_cast<std::uint64_t>(shard + 1) << kIndexBits) + static_cast<std::uint64_t>(index));
    const auto before = static_cast<std::int64_t>(all.size());
    const std::int64_t rows = share.of * (shard + 1) / options_.shards - share.of * shard / options_.shards;
    for (const std::int64_t partner : permutation(rows, own)) all.push_back(before + partner);
  }
  return all;
}

Batch BatchReader::read_mixed(std::int64_t index, Rows rows, ReadScratch& scratch,
                              const std::atomic<bool>& stop) const {
  const auto seed = static_cast<std::uint64_t>(options_.seed), epoch = static_cast<std::uint64_t>(options_.epoch);
  const std::int64_t count = rows.end - rows.begin;
  const std::size_t width = x_bytes_ / sizeof(float);
  Pool::Lease x = x_pool_->take(), y = y_pool_->take();
  scratch.target.resize(y_bytes_);
  scratch.labels.clear();
  std::byte* row = x.data();
  for (std::int64_t place = rows.begin; place < rows.end; ++place, row += x_bytes_) {
    if (stop.load(std::memory_order_relaxed)) return {};
    dataset_.read(sample_at(place), seed, epoch, row, scratch.target.data(), scratch.sample);
    scratch.labels.push_back(integer_at(scratch.target.data(), y_.dtype, 0));
  }
  Random random(seed, epoch, kMixupStream + static_cast<std::uint64_t>(index));
  const auto lambda = static_cast<float>(beta(options_.mixup, random));
  const std::vector<std::int64_t> partner = partners(index, random);
  if (scratch.sample.size() < width) scratch.sample.resize(width);
  mix_rows({reinterpret_cast<float*>(x.data()), static_cast<std::size_t>(count) * width}, partner, lambda,
           {scratch.sample.data(), width});
  const TensorType y_type{f32, {count, classes_}};
  mix_targets({reinterpret_cast<float*>(y.data()), static_cast<std::size_t>(y_type.shape.numel())}, scratch.labels,
              partner, lambda, classes_);
  return {std::move(x).tensor(rows_of_type(x_, count)), std::move(y).tensor(y_type)};
}

}  // namespace varve::data
