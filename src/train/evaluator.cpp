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
  for (std::size_t i = 0; i < metrics_.size(); ++i) {
    const double value = sums_[i].empty() ? std::numeric_limits<double>::quiet_NaN() : metrics_[i].value(sums_[i]);
    if (metrics_[i].name == "loss")  // of rows that do not all count the same
      values[0].second = value;
    else
      values.push_back({prefix + metrics_[i].name, value});
  }
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
  return dataset.defined() && dataset.targets().size() == 1 && is_integer(dataset.y().dtype) &&
         dataset.y().shape.rank() == 0 && dataset.classes() <= kMost;
}

void build_for(nn::Module& model, const data::Dataset& dataset, std::int64_t batch, std::int64_t seed) {
  if (!model.built()) model.build_all(dataset.inputs(), {.dtype = dataset.x().dtype, .seed = seed, .batch = batch});
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
  objective_ =
      objective_of(model_, dataset_, options_.loss, options_.metrics, std::min(options_.batch, dataset_.total()));
  if (options_.confusion) objective_->add(confusion(dataset_.classes()));
}

void Evaluator::prepare(const std::function<bool()>& go_on) {
  if (program_) return;
  if (often_) held_ = HeldData::of(dataset_, go_on);
  make_program();
}

void Evaluator::make_program() {
  program_.emplace(
      [this](const data::Batch& batch) {
        const nn::Precision precision(options_.precision.dtype);
        const nn::MaskedTensors outputs = model_.masked_all(batch.inputs(), Mode::infer, {batch.mask()});
        return objective_->measure(outputs, objective_->loss(outputs, batch), batch);
      },
      held_, CompileOptions{.name = "evaluate", .tf32 = options_.precision.tf32});
}

data::Loader Evaluator::loader() const {
  return {held_ ? held_->rows() : dataset_,
          {.batch = options_.batch,
           .shuffle = false,
           .workers = held_ ? 0 : options_.workers,
           .buckets = dataset_.varies() ? options_.buckets : 0}};
}

void Evaluator::begin(const std::function<bool()>& go_on) {
  prepare(go_on);
  if (!held_) return;
  data::Loader batches = loader();
  data::Batch batch;
  if (batches.next(batch)) program_->peak_bytes(batch);  // plans it
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
  Totals totals(objective_->metrics());
  model_.reset_state();
  data::Loader batches = loader();
  const std::vector<Variable> parameters = model_.parameters();
  const bool sharded = std::any_of(parameters.begin(), parameters.end(), distributed::is_sharded);
  for (data::Batch& batch : batches) {
    throw_if_interrupted();
    if (batch.samples() > 0)
      totals.add((*program_)(batch), batch.samples());
    else if (sharded)  // the other ranks need this one's part of the weights
      (*program_)(batch.map(one_of_zeros));
  }
  totals.settle();
  totals.add_ranks();
  model_.reset_state();
  return totals;
}

// Each shard's batches are added up apart, whichever rank has it.
Totals Evaluator::measured_by_shards() {
  const ShardRange own = shards_of_rank(options_.shards, distributed::rank(), distributed::size());
  std::vector<Totals> totals(static_cast<std::size_t>(own.size()), Totals(objective_->metrics()));
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
      totals[static_cast<std::size_t>(shard - own.begin)].add((*program_)(batch.rows(begin, end)), end - begin);
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
    score.confusion = totals.sums_of(objective_->metrics().size() - 1);
    score.values.pop_back();
  }
  score.seconds = seconds_since(start);
  return score;
}

Score evaluate(nn::Module& model, const data::Dataset& dataset, const EvaluateOptions& options) {
  return Evaluator(model, dataset, options).run();
}

namespace {

// A batch of inputs to its outputs, in f32.
class Prediction {
 public:
  Prediction(nn::Module& model, const std::vector<std::string>& names, ProductType type)
      : program_(detail::compile(
            [&model, names, type, this](const std::vector<Tensor>& batch) {
              const nn::Precision precision(type.dtype);
              data::Batch samples;
              Tensors x;
              for (std::size_t i = 0; i < names.size(); ++i) x.add(names[i], batch[i]);
              samples = data::Batch(x, {});
              if (batch.size() > names.size()) samples.lengths = batch.back();
              const Tensors y = model.masked_all(x, Mode::infer, {samples.mask()}).y.map([](const Tensor& output) {
                return cast(output, f32);
              });
              outputs_ = y.names();
              return y.list();
            },
            {.name = "predict", .tf32 = type.tf32})) {}
  Prediction(const Prediction&) = delete;
  Prediction& operator=(const Prediction&) = delete;

  Tensors operator()(const Tensors& x, const Tensor& lengths = {}) {
    std::vector<Tensor> fields = x.list();
    if (lengths.defined()) fields.push_back(lengths);
    std::vector<const Tensor*> pointers;
    for (const Tensor& field : fields) pointers.push_back(&field);
    std::vector<Tensor> results;
    detail::call(*program_, pointers.data(), pointers.size(), results);
    Tensors y;
    for (std::size_t i = 0; i < results.size(); ++i) y.add(outputs_[i], results[i]);
    return y;
  }

 private:
  std::vector<std::string> outputs_;
  std::shared_ptr<detail::CompiledFn> program_;
};

// Batches of one output, one after the other.
class Output {
 public:
  void add(const Tensor& batch) {
    if (batch.rank() < 1)
      throw Error("predict: an output has no axis of samples: a module gives a row for each sample.");
    const std::vector<float> values = batch.to_vector<float>();
    values_.insert(values_.end(), values.begin(), values.end());
    shape_ = batch.shape();
    rows_ += batch.dim(0);
  }
  Tensor all() {
    shape_[0] = rows_;
    return tensor(values_, shape_);
  }

 private:
  std::vector<float> values_;
  Shape shape_;
  std::int64_t rows_ = 0;
};

class Outputs {
 public:
  void add(const Tensors& batch) {
    all_.resize(batch.size());
    names_ = batch.names();
    for (std::size_t i = 0; i < batch.size(); ++i) all_[i].add(batch[i]);
  }
  Tensors all() {
    Tensors y;
    for (std::size_t i = 0; i < all_.size(); ++i) y.add(names_[i], all_[i].all());
    return y;
  }

 private:
  std::vector<Output> all_;
  std::vector<std::string> names_;
};

Tensor only_one(const Tensors& outputs) {
  if (outputs.size() == 1) return outputs[0];
  throw Error("predict: the network gives " + std::to_string(outputs.size()) + " outputs (" + outputs.str() +
              "): predict_all() returns all of them.");
}

std::vector<std::string> names_of(const std::vector<Field>& fields) {
  std::vector<std::string> names;
  for (const Field& field : fields) names.push_back(field.name);
  return names;
}

}  // namespace

Tensors predict_all(nn::Module& model, const data::Dataset& dataset, const PredictOptions& options) {
  if (dataset.size() == 0) throw Error("predict: the data set is empty.");
  const std::int64_t batch = dataset.streams() > 0 ? dataset.streams() : options.batch;
  build_for(model, dataset, batch, 0);
  Prediction program(model, names_of(dataset.inputs()), options.precision);
  model.reset_state();
  Outputs outputs;
  for (data::Batch& b :
       data::batches(dataset, {.batch = batch, .shuffle = false, .workers = options.workers, .ranks = 1})) {
    throw_if_interrupted();
    outputs.add(program(b.inputs(), b.lengths));
  }
  return outputs.all();
}

Tensors predict_all(nn::Module& model, const Tensors& x, const PredictOptions& options) {
  if (x.empty()) throw Error("predict: expected a batch of samples, got no inputs.");
  for (const auto& [name, input] : x) {
    if (!input.defined())
      throw Error("predict: the input" + (name.empty() ? "" : " '" + name + "'") + " is undefined.");
    if (input.rank() < 1 || input.dim(0) == 0)
      throw Error("predict: expected a batch of samples, got shape " + input.shape().str() + ".");
    if (input.dim(0) != x[0].dim(0))
      throw Error("predict: expected as many samples in every input, got " + x.str() + ".");
  }
  if (options.batch < 1) throw Error("predict: batch must be at least 1, got " + std::to_string(options.batch) + ".");
  if (!model.built()) model(x, Mode::infer);
  Prediction program(model, x.names(), options.precision);
  Outputs outputs;
  for (std::int64_t at = 0; at < x[0].dim(0); at += options.batch) {
    throw_if_interrupted();
    const std::int64_t end = std::min(at + options.batch, x[0].dim(0));
    outputs.add(program(x.map([&](const Tensor& input) { return input.slice({{at, end}}); })));
  }
  return outputs.all();
}

Tensor predict(nn::Module& model, const data::Dataset& dataset, const PredictOptions& options) {
  return only_one(predict_all(model, dataset, options));
}

Tensor predict(nn::Module& model, const Tensor& x, const PredictOptions& options) {
  return only_one(predict_all(model, Tensors(x), options));
}

}  // namespace varve::train
