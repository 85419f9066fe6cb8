#include "data/loader_batch.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <tuple>

#include "base/ranks.h"
#include "base/text.h"
#include "data/buckets.h"
#include "data/dataset_target.h"
#include "data/loader_mixup.h"
#include "data/random_order.h"
#include "data/sampling.h"

namespace varve::data {
namespace {

constexpr std::int64_t kMostRows = std::int64_t{1} << 31;
constexpr int kMostRanks = 1 << 20;
constexpr std::int64_t kMostBuckets = 256;
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

const std::vector<double>& checked_sampling(const Dataset& dataset, const std::vector<double>& weights) {
  if (std::ssize(weights) != dataset.size())
    throw Error(
        cat("loader: ", weights.size(), " sampling weights for ", dataset.size(), " samples; expected one for each."));
  double total = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!(weights[i] >= 0) || !std::isfinite(weights[i]))
      throw Error(cat("loader: the sampling weight of sample ", i, " is ", weights[i], "; expected 0 or more."));
    total += weights[i];
  }
  if (!(total > 0) && !weights.empty()) throw Error("loader: all sampling weights are 0.");
  return weights;
}

void check_mixup(const Dataset& dataset) {
  if (dataset.inputs().size() != 1 || dataset.targets().size() != 1)
    throw Error(cat("loader: mixup blends samples of one input and one target, but \"", dataset.info().name, "\" has ",
                    str(dataset.inputs()), " with ", str(dataset.targets()), "."));
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
    : dataset_(std::move(dataset)), options_(in_the_job(given)) {
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
  choose_order();
  choose_steps();
  std::int64_t share = 1;
  for (std::int64_t index = 0; index < batches_; ++index)
    share = std::max(share, rows_of(index).end - rows_of(index).begin);
  for (const Field& field : dataset_.inputs())
    input_pools_.push_back(std::make_shared<Pool>(rows_of_type(field.type, share).bytes()));
  for (const Field& field : dataset_.targets()) {
    const TensorType type = classes_ > 0 ? TensorType{f32, {share, classes_}} : rows_of_type(field.type, share);
    target_pools_.push_back(std::make_shared<Pool>(type.bytes()));
  }
}

void BatchReader::choose_order() {
  const LoaderOptions& options = options_;
  const auto random = [&](std::uint64_t stream) {
    return Random(static_cast<std::uint64_t>(options.seed), static_cast<std::uint64_t>(options.epoch), stream);
  };
  const bool drawn = options.balanced || !options.sampling.empty();
  if (drawn && (!options.shuffle || dataset_.streams() > 0))
    throw Error(
        "loader: samples that are drawn by class or by weight have no order of their own: expected shuffle, and "
        "no text in streams.");
  if (options.balanced && !options.sampling.empty())
    throw Error("loader: balanced says how often samples are drawn, and sampling as well; expected one of them.");
  if (options.balanced)
    order_ = balanced_order(dataset_.labels(), random(kOrderStream), random(kAmongStream));
  else if (!options.sampling.empty())
    order_ = weighted_order(checked_sampling(dataset_, options.sampling), random(kOrderStream));
  else if (options.shuffle && dataset_.streams() == 0)
    order_ = dataset_.order(static_cast<std::uint64_t>(options_.seed), static_cast<std::uint64_t>(options_.epoch));
}

// What batches are padded to. All processes choose alike: each knows the whole order.
void BatchReader::choose_steps() {
  if (options_.buckets < 0 || options_.buckets > kMostBuckets)
    throw Error(cat("loader: expected 0 (none) to ", kMostBuckets, " buckets, got ", options_.buckets, "."));
  if (!dataset_.varies()) {
    if (options_.buckets > 0)
      throw Error(cat("loader: buckets are of samples of different lengths, and those of \"", dataset_.info().name,
                      "\" all have one. Load it with lengths, or give them with_lengths()."));
    return;
  }
  if (options_.mixup > 0) throw Error("loader: mixup blends samples of one length, and these have their own.");
  for (std::int64_t i = 0; i < dataset_.size(); ++i) lengths_.push_back(dataset_.length(i));
  if (options_.buckets == 0 || lengths_.empty()) return;
  if (!dataset_.parts().empty())
    throw Error("loader: buckets need an order that all processes know, and these samples lie apart on ranks.");
  if (order_.empty()) {
    order_.resize(lengths_.size());
    std::iota(order_.begin(), order_.end(), std::int64_t{0});
  }
  Bucketed bucketed = in_buckets(order_, lengths_, bucket_lengths(lengths_, options_.buckets), options_.batch);
  order_ = std::move(bucketed.order);
  steps_ = std::move(bucketed.steps);
}

void BatchReader::add_lengths_and_weights(Batch& batch, Rows rows) const {
  std::vector<std::int32_t> lengths;
  std::vector<float> weights;
  for (std::int64_t place = rows.begin; place < rows.end; ++place) {
    const std::int64_t sample = sample_at(place);
    if (!lengths_.empty()) lengths.push_back(static_cast<std::int32_t>(lengths_[static_cast<std::size_t>(sample)]));
    if (dataset_.has_weights()) weights.push_back(static_cast<float>(dataset_.weight(sample)));
  }
  if (!lengths_.empty()) batch.lengths = tensor(lengths);
  if (dataset_.has_weights()) batch.weight = tensor(weights);
}

BatchReader::~BatchReader() {
  for (const auto& pool : input_pools_) pool->retire();
  for (const auto& pool : target_pools_) pool->retire();
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

namespace {

// The fields of a batch, filled row by row; those that `cut` names are cut to fewer steps.
class FieldRows {
 public:
  using Cut = std::function<bool(std::size_t field)>;
  FieldRows(std::vector<Field> fields, const std::vector<std::shared_ptr<Pool>>& pools, std::int64_t steps,
            const Cut& cut)
      : fields_(std::move(fields)), whole_(fields_.size()) {
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      memory_.push_back(pools[i]->take());
      to_.push_back(memory_.back().data());
      row_.push_back(to_.back());
      if (!cut(i) || steps == fields_[i].type.shape[0]) continue;
      whole_[i].resize(fields_[i].type.bytes());
      row_[i] = whole_[i].data();
      fields_[i].type.shape = with_steps(fields_[i].type.shape, steps);
    }
  }
  FieldMemory row() const { return row_; }
  void next() {
    for (std::size_t i = 0; i < row_.size(); ++i) {
      const std::size_t bytes = fields_[i].type.bytes();
      if (!whole_[i].empty()) std::memcpy(to_[i], row_[i], bytes);
      to_[i] += bytes;
      if (whole_[i].empty()) row_[i] = to_[i];
    }
  }
  Tensors tensors(std::int64_t rows) && {
    Tensors all;
    for (std::size_t i = 0; i < fields_.size(); ++i)
      all.add(fields_[i].name, std::move(memory_[i]).tensor(rows_of_type(fields_[i].type, rows)));
    return all;
  }

 private:
  static Shape with_steps(const Shape& shape, std::int64_t steps) {
    std::vector<std::int64_t> sizes = shape.vec();
    sizes[0] = steps;
    return Shape(sizes);
  }
  std::vector<Field> fields_;
  std::vector<Pool::Lease> memory_;
  std::vector<std::vector<std::byte>> whole_;  // a row before it is cut; empty: it is not
  std::vector<std::byte*> to_, row_;           // where the next row of the batch is, and where it is read to
};

}  // namespace

Batch BatchReader::read(std::int64_t index, ReadScratch& scratch, const std::atomic<bool>& stop) const {
  const Rows rows = rows_of(index);
  if (options_.mixup > 0) return read_mixed(index, rows, scratch, stop);
  const Shape sample = dataset_.x().shape;
  const std::int64_t all_steps = sample.rank() > 0 ? sample[0] : 0;
  const std::int64_t steps = steps_.empty() ? all_steps : steps_[static_cast<std::size_t>(index)];
  FieldRows inputs(dataset_.inputs(), input_pools_, steps,
                   [&](std::size_t field) { return !steps_.empty() && field == 0; });
  FieldRows targets(dataset_.targets(), target_pools_, steps, [&](std::size_t field) {
    const Shape& shape = dataset_.targets()[field].type.shape;
    return !steps_.empty() && shape.rank() > 0 && shape[0] == all_steps;
  });
  for (std::int64_t place = rows.begin; place < rows.end; ++place, inputs.next(), targets.next()) {
    if (stop.load(std::memory_order_relaxed)) return {};
    dataset_.read(sample_at(place), static_cast<std::uint64_t>(options_.seed),
                  static_cast<std::uint64_t>(options_.epoch), inputs.row(), targets.row(), scratch.sample);
  }
  const std::int64_t count = rows.end - rows.begin;
  Batch batch(std::move(inputs).tensors(count), std::move(targets).tensors(count));
  if (!lengths_.empty() || dataset_.has_weights()) add_lengths_and_weights(batch, rows);
  return batch;
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
  const TensorType &sample = dataset_.inputs()[0].type, &label = dataset_.targets()[0].type;
  const std::size_t width = sample.bytes() / sizeof(float);
  Pool::Lease x = input_pools_[0]->take(), y = target_pools_[0]->take();
  scratch.target.resize(label.bytes());
  scratch.labels.clear();
  std::byte* row = x.data();
  for (std::int64_t place = rows.begin; place < rows.end; ++place, row += sample.bytes()) {
    if (stop.load(std::memory_order_relaxed)) return {};
    dataset_.read(sample_at(place), seed, epoch, row, scratch.target.data(), scratch.sample);
    scratch.labels.push_back(integer_at(scratch.target.data(), label.dtype, 0));
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
  Tensors inputs, targets;
  inputs.add(dataset_.inputs()[0].name, std::move(x).tensor(rows_of_type(sample, count)));
  targets.add(dataset_.targets()[0].name, std::move(y).tensor(y_type));
  return {std::move(inputs), std::move(targets)};
}

}  // namespace varve::data
