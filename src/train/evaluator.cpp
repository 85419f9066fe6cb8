#include "train/evaluator.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "train/clock.h"
#include "train/interrupt.h"
#include "train/parallel.h"
#include "train/shard_tree.h"
#include "varve/distributed.h"
#include "varve/interrupt.h"
#include "varve/memory.h"
#include "varve/ops.h"

namespace varve::train {
namespace {

const Tensor& target_of(const Loss& loss, const Tensor& x, const Tensor& y) { return loss.of_input ? x : y; }

}  // namespace

TargetUnit unit_of(const data::Dataset& dataset, const Loss& loss) {
  const auto& table = dataset.info().table;
  if (!table || !table->regression() || loss.of_input) return {};
  return {table->target.mean, table->target.deviation};
}

std::vector<Tensor> measure(const Tensor& output, const Tensor& loss, const Tensor& target,
                            const std::vector<Metric>& metrics, const TargetUnit& unit) {
  std::vector<Tensor> measured = {cast(loss, f32)};
  for (const Metric& metric : metrics) measured.push_back(metric.sums(unit(output), unit(target)));
  return measured;
}

void Totals::add(std::vector<Tensor> measured, std::int64_t samples) {
  constexpr std::size_t kMostWaiting = 3;  // enough to keep a device busy
  waiting_.push_back({std::move(measured), samples});
  while (!waiting_.empty() && (waiting_.size() > kMostWaiting || waiting_.front().measured.back().ready())) {
    count(waiting_.front());
    waiting_.pop_front();
  }
}

void Totals::settle() {
  for (const Batch& batch : waiting_) count(batch);
  waiting_.clear();
}

void Totals::count(const Batch& batch) {
  last_loss_ = batch.measured[0].item<float>();
  loss_ += last_loss_ * static_cast<double>(batch.samples);
  samples_ += static_cast<double>(batch.samples);
  for (std::size_t i = 0; i < metrics_.size(); ++i) {
    const std::vector<float> values = batch.measured[i + 1].to_vector<float>();
    sums_[i].resize(values.size());
    for (std::size_t k = 0; k < values.size(); ++k) sums_[i][k] += values[k];
  }
  ++counted_;
}

// How many sums each metric has: who has seen no samples does not know.
void Totals::note_lengths(std::vector<std::int64_t>& lengths) const {
  lengths.resize(sums_.size());
  for (std::size_t i = 0; i < sums_.size(); ++i)
    lengths[i] = std::max(lengths[i], static_cast<std::int64_t>(sums_[i].size()));
}

std::vector<double> Totals::in_lengths(const std::vector<std::int64_t>& lengths) const {
  std::vector<double> numbers = {loss_, samples_};
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    numbers.insert(numbers.end(), sums_[i].begin(), sums_[i].end());
    numbers.resize(numbers.size() + static_cast<std::size_t>(lengths[i]) - sums_[i].size());
  }
  return numbers;
}

void Totals::set(const double* numbers, const std::vector<std::int64_t>& lengths) {
  loss_ = *numbers++;
  samples_ = *numbers++;
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    sums_[i].assign(numbers, numbers + lengths[i]);
    numbers += lengths[i];
  }
}

namespace {

std::vector<std::int64_t> longest_of_ranks(const std::vector<std::int64_t>& lengths) {
  return lengths.empty() ? lengths : distributed::all_max(tensor(lengths)).to_vector<std::int64_t>();
}

}  // namespace

void Totals::add_ranks() {
  if (distributed::size() == 1 || !distributed::shares_batch()) return;
  std::vector<std::int64_t> lengths;
  note_lengths(lengths);
  lengths = longest_of_ranks(lengths);
  set(distributed::all_sum(tensor(in_lengths(lengths))).to_vector<double>().data(), lengths);
}

Totals Totals::of_shards(const std::vector<Totals>& own) {
  std::vector<std::int64_t> lengths;
  for (const Totals& shard : own) shard.note_lengths(lengths);
  lengths = longest_of_ranks(lengths);
  std::vector<double> numbers;
  for (const Totals& shard : own) {
    const std::vector<double> row = shard.in_lengths(lengths);
    numbers.insert(numbers.end(), row.begin(), row.end());
  }
  const std::size_t width = numbers.size() / own.size();
  numbers = distributed::all_gather(tensor(numbers)).to_vector<double>();
  std::vector<double> sums(width);
  for (std::size_t i = 0; i < numbers.size(); ++i) sums[i % width] += numbers[i];
  Totals all(own[0].metrics_);
  all.set(sums.data(), lengths);
  return all;
}

std::vector<std::pair<std::string, double>> Totals::values(const std::string& prefix) const {
  std::vector<std::pair<std::string, double>> values = {
      {prefix + "loss", samples_ > 0 ? loss_ / samples_ : std::numeric_limits<double>::quiet_NaN()}};
  for (std::size_t i = 0; i < metrics_.size(); ++i)
    values.push_back({prefix + metrics_[i].name,
                      sums_[i].empty() ? std::numeric_limits<double>::quiet_NaN() : metrics_[i].value(sums_[i])});
  return values;
}

std::vector<double> Totals::flat() const {
  std::vector<double> flat = {loss_};
  for (const std::vector<double>& sums : sums_) {
    flat.push_back(static_cast<double>(sums.size()));
    flat.insert(flat.end(), sums.begin(), sums.end());
  }
  return flat;
}

void Totals::restore(const std::vector<double>& flat, double samples) {
  if (flat.empty()) return;
  samples_ = samples;
  loss_ = flat[0];
  std::size_t at = 1;
  for (std::vector<double>& sums : sums_) {
    if (at >= flat.size()) throw Error("checkpoint: the metrics are not those of the run that was saved.");
    const double length = flat[at++];
    if (!(length >= 0) || length > static_cast<double>(flat.size() - at))
      throw Error("checkpoint: the sums of its metrics are damaged.");
    sums.assign(flat.begin() + static_cast<std::ptrdiff_t>(at),
                flat.begin() + static_cast<std::ptrdiff_t>(at) + static_cast<std::ptrdiff_t>(length));
    at += static_cast<std::size_t>(length);
  }
}

bool has_matrix(const data::Dataset& dataset) {
  constexpr std::int64_t kMost = 100;  // a larger one is neither read nor worth its time
  return dataset.defined() && is_integer(dataset.y().dtype) && dataset.y().shape.rank() == 0 &&
         dataset.classes() <= kMost;
}

void build_for(nn::Module& model, const data::Dataset& dataset, std::int64_t batch, std::int64_t seed) {
  if (!model.built()) model.build(dataset.x().shape, {.dtype = dataset.x().dtype, .seed = seed, .batch = batch});
}

Evaluator::Evaluator(nn::Module& model, const data::Dataset& dataset, EvaluateOptions options, bool often)
    : model_(model), dataset_(dataset), options_(std::move(options)), often_(often) {
  if (dataset_.total() == 0) throw Error("evaluate: the data set is empty.");
  check_targets(options_.loss, dataset_);
  if (options_.batch < 1)
    throw Error("evaluate: batch must be at least 1, got " + std::to_string(options_.batch) + ".");
  if (dataset_.streams() > 0) options_.batch = dataset_.streams();
  options_.batch = std::max<std::int64_t>(options_.batch, std::max<std::int64_t>(options_.shards, distributed::size()));
  check_shards("evaluate", options_.shards, options_.batch, dataset_);
  build_for(model_, dataset_, options_.batch, 0);
  if (options_.metrics.empty()) options_.metrics = metrics_for(options_.loss.name, dataset_.y());
  if (options_.confusion) options_.metrics.push_back(confusion(dataset_.classes()));
}

void Evaluator::prepare(const std::function<bool()>& go_on) {
  if (program_) return;
  if (often_) held_ = HeldData::of(dataset_, go_on);
  make_program();
}

void Evaluator::make_program() {
  program_.emplace(
      [this](const Tensor& x, const Tensor& y) {
        const nn::Precision precision(options_.precision.dtype);
        const Tensor output = model_(x, Mode::infer);
        const Tensor target = target_of(options_.loss, x, y);
        return measure(output, options_.loss(output, target), target, options_.metrics,
                       unit_of(dataset_, options_.loss));
      },
      held_, CompileOptions{.name = "evaluate", .tf32 = options_.precision.tf32});
}

data::Loader Evaluator::loader() const {
  return {held_ ? held_->rows() : dataset_,
          {.batch = options_.batch, .shuffle = false, .workers = held_ ? 0 : options_.workers}};
}

void Evaluator::begin(const std::function<bool()>& go_on) {
  prepare(go_on);
  if (!held_) return;
  data::Loader batches = loader();
  data::Batch batch;
  if (batches.next(batch)) program_->peak_bytes(batch.x, batch.y);  // plans it
}

namespace {

Tensor one_of_zeros(const Tensor& none) {
  Shape shape = none.shape();
  shape[0] = 1;
  return zeros(shape, none.dtype());
}

}  // namespace

Totals Evaluator::measured() {
  if (options_.shards > 0) return measured_by_shards();
  Totals totals(options_.metrics);
  model_.reset_state();
  data::Loader batches = loader();
  const std::vector<Variable> parameters = model_.parameters();
  const bool sharded = std::any_of(parameters.begin(), parameters.end(), distributed::is_sharded);
  for (data::Batch& batch : batches) {
    throw_if_interrupted();
    if (batch.x.dim(0) > 0)
      totals.add((*program_)(batch.x, batch.y), batch.x.dim(0));
    else if (sharded)  // the other ranks need this one's part of the weights
      (*program_)(one_of_zeros(batch.x), one_of_zeros(batch.y));
  }
  totals.settle();
  totals.add_ranks();
  model_.reset_state();
  return totals;
}

// Each shard's batches are added up apart, whichever rank has it.
Totals Evaluator::measured_by_shards() {
  const ShardRange own = shards_of_rank(options_.shards, distributed::rank(), distributed::size());
  std::vector<Totals> totals(static_cast<std::size_t>(own.size()), Totals(options_.metrics));
  std::int64_t left = dataset_.size();
  for (data::Batch& batch : loader()) {
    throw_if_interrupted();
    const std::int64_t samples = std::min(options_.batch, left);
    left -= samples;
    const auto first_row = [&](std::int64_t shard) { return samples * shard / options_.shards; };
    for (std::int64_t shard = own.begin; shard < own.end; ++shard) {
      const std::int64_t begin = first_row(shard) - first_row(own.begin),
                         end = first_row(shard + 1) - first_row(own.begin);
      if (begin == end) continue;
      totals[static_cast<std::size_t>(shard - own.begin)].add(
          (*program_)(batch.x.slice({{begin, end}}), batch.y.slice({{begin, end}})), end - begin);
    }
  }
  for (Totals& each : totals) each.settle();
  return Totals::of_shards(totals);
}

// What is read batch by batch needs less of a device's memory than what is held there.
Totals Evaluator::measured_somehow() {
  try {
    return measured();
  } catch (const OutOfMemory&) {
    if (!held_) throw;
    held_.reset();
    make_program();
    return measured();
  }
}

Score Evaluator::run() {
  const auto start = std::chrono::steady_clock::now();
  std::optional<distributed::WholeBatch> whole;
  if (is_model_parallel(model_)) whole.emplace();
  prepare([] { return !InterruptScope::asked(); });
  const Totals totals = measured_somehow();
  Score score;
  score.values = totals.values();
  score.loss = score.values[0].second;
  score.accuracy = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [name, value] : score.values)
    if (name == "accuracy" || name == "binary_accuracy") score.accuracy = value;
  if (options_.confusion) {
    score.confusion = totals.sums_of(options_.metrics.size() - 1);
    score.values.pop_back();
  }
  score.seconds = seconds_since(start);
  return score;
}

Score evaluate(nn::Module& model, const data::Dataset& dataset, const EvaluateOptions& options) {
  return Evaluator(model, dataset, options).run();
}

namespace {

Compiled<Tensor, 1> prediction(nn::Module& model, ProductType type) {
  return compile(
      [&model, type](Tensor x) {
        const nn::Precision precision(type.dtype);
        return cast(model(x, Mode::infer), f32);
      },
      {.name = "predict", .tf32 = type.tf32});
}

// Batches of outputs, one after the other.
class Outputs {
 public:
  void add(const Tensor& batch) {
    const std::vector<float> values = batch.to_vector<float>();
    values_.insert(values_.end(), values.begin(), values.end());
    shape_ = batch.shape();
    rows_ += batch.dim(0);
  }
  Tensor all() && {
    shape_[0] = rows_;
    return tensor(values_, shape_);
  }

 private:
  std::vector<float> values_;
  Shape shape_;
  std::int64_t rows_ = 0;
};

}  // namespace

Tensor predict(nn::Module& model, const data::Dataset& dataset, const PredictOptions& options) {
  if (dataset.size() == 0) throw Error("predict: the data set is empty.");
  const std::int64_t batch = dataset.streams() > 0 ? dataset.streams() : options.batch;
  build_for(model, dataset, batch, 0);
  auto program = prediction(model, options.precision);
  model.reset_state();
  Outputs outputs;
  for (data::Batch& b :
       data::batches(dataset, {.batch = batch, .shuffle = false, .workers = options.workers, .ranks = 1})) {
    throw_if_interrupted();
    outputs.add(program(b.x));
  }
  return std::move(outputs).all();
}

Tensor predict(nn::Module& model, const Tensor& x, const PredictOptions& options) {
  if (x.rank() < 1 || x.dim(0) == 0)
    throw Error("predict: expected a batch of samples, got shape " + x.shape().str() + ".");
  if (options.batch < 1) throw Error("predict: batch must be at least 1, got " + std::to_string(options.batch) + ".");
  if (!model.built()) model(x, Mode::infer);
  auto program = prediction(model, options.precision);
  Outputs outputs;
  for (std::int64_t at = 0; at < x.dim(0); at += options.batch) {
    throw_if_interrupted();
    outputs.add(program(x.slice({{at, std::min(at + options.batch, x.dim(0))}})));
  }
  return std::move(outputs).all();
}

}  // namespace varve::train
