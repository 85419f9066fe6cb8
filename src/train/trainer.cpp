#include "train/trainer.h"

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <new>
#include <set>
#include <tuple>

#include "train/clock.h"
#include "train/interrupt.h"
#include "train/parallel.h"
#include "train/run_folder.h"
#include "train/same_start.h"
#include "varve/distributed.h"
#include "varve/interrupt.h"
#include "varve/io.h"
#include "varve/memory.h"

namespace varve::train {
namespace {

// By `varve launch`, after a rank had died.
bool is_restarted() {
  const char* count = std::getenv("VARVE_RESTART");
  return count && *count;
}

// Larger batches than in training waste less; those that divide the samples evenly leave no smaller one at the end,
// which would be one more program to compile.
std::int64_t validation_batch(std::int64_t samples, std::int64_t batch) {
  constexpr std::int64_t kEnough = 256;
  const std::int64_t most = std::max(batch, kEnough);
  for (std::int64_t even = std::min(most, samples); even > most / 2; --even)
    if (samples % even == 0) return even;
  return most;
}

void check(const FitOptions& o, const data::Dataset& train) {
  check_parallel("fit: parallel", o.parallel);
  if (!train.defined() || train.total() == 0) throw Error("fit: the training data is empty.");
  check_shards("fit: parallel", o.parallel.shards, o.batch, train);
  if (o.epochs < 0) throw Error("fit: epochs must not be negative, got " + std::to_string(o.epochs) + ".");
  if (o.batch < 1) throw Error("fit: batch must be at least 1, got " + std::to_string(o.batch) + ".");
  if (o.accumulate < 1) throw Error("fit: accumulate must be at least 1, got " + std::to_string(o.accumulate) + ".");
  if (o.swa < 0 || o.swa > o.epochs)
    throw Error("fit: swa must be at least 0 and at most the number of epochs, " + std::to_string(o.epochs) + ", got " +
                std::to_string(o.swa) + ".");
  if (o.swa > 0 && o.average > 0) throw Error("fit: average and swa are two averages of the weights; set one of them.");
  if (!(o.validation_share >= 0 && o.validation_share < 1))
    throw Error("fit: validation_share must be at least 0 and less than 1, got " + std::to_string(o.validation_share) +
                ".");
  if (o.accumulate > 1 && o.parallel.staleness >= 0)
    throw Error("fit: a parameter server takes the gradients of each batch: leave accumulate or staleness out.");
  if (o.precision != f32 && o.precision != tf32 && o.precision != bf16)
    throw Error("fit: precision is f32, tf32 or bf16, got " + name(o.precision) +
                ". f16 has too small a range to train in; it is for storage and inference.");
}

// Rank 0's whole values, of which the others keep their parts.
void give_parts(const std::vector<Variable>& variables, const std::vector<Tensor>& wholes) {
  for (std::size_t i = 0; i < variables.size(); ++i) {
    if (distributed::kept_of(variables[i]).same(variables[i])) continue;
    const TensorType type = variables[i].type();
    const Tensor own = wholes.empty() ? zeros(type.shape, type.dtype) : wholes[i];
    Variable(variables[i]).assign(distributed::broadcast(own).eval());
    distributed::kept_of(variables[i]).value().eval();
  }
}

Tensors one_of_zeros(const std::vector<Field>& sample) {
  Tensors all;
  for (const auto& [name, type] : sample) {
    Shape shape{1};
    for (const std::int64_t size : type.shape) shape.push_back(size);
    all.add(name, zeros(shape, type.dtype));
  }
  return all;
}

data::Batch first_of(const data::Batch& batch) {
  return batch.rows(0, 1).map([](const Tensor& field) { return field.eval(); });
}

// Values whose rise is progress; everything else, losses and perplexities first of all, should fall.
bool rises(const std::string& monitor, const std::vector<Metric>& metrics) {
  for (const Metric& metric : metrics)
    if (monitor == metric.name || monitor == "val_" + metric.name) return metric.higher_is_better;
  return false;
}

// What decides which epoch was best, when nobody says: the metric people quote, else the loss.
std::string standard_monitor(const Objective& objective, bool validated) {
  const std::string prefix = validated ? "val_" : "";
  for (const Metric& metric : objective.metrics())
    if (metric.name == "accuracy" || metric.name == "binary_accuracy" || metric.name == "perplexity")
      return prefix + metric.name;
  return prefix + "loss";
}

}  // namespace

Trainer::Trainer(nn::Module& model, const data::Dataset& train, FitOptions options)
    : model_(model), train_(train), options_(std::move(options)) {
  check(options_, train_);
  if (!options_.validation.defined() && options_.validation_share > 0)
    std::tie(options_.validation, train_) = train_.split(options_.validation_share, options_.seed);
  batches_ = data::batch_count(train_.total(), options_.batch, options_.drop_last);
  if (batches_ == 0)
    throw Error("fit: " + std::to_string(train_.total()) + " samples do not fill a batch of " +
                std::to_string(options_.batch) + ", and drop_last leaves partial ones out.");
  check_targets(options_.loss, train_);
  build_for(model_, train_, options_.batch, options_.seed);
  objective_ = objective_of(model_, train_, options_.loss, options_.metrics, options_.batch);
  if (options_.monitor.empty()) options_.monitor = standard_monitor(*objective_, options_.validation.defined());
  check_value_name("fit: monitor", options_.monitor, value_names());
  higher_is_better_ = rises(options_.monitor, objective_->metrics());
  prepare_model();
  at_.seed = options_.seed;
  at_.batch = options_.batch;
  at_.samples = train_.total();
  at_.accumulate = options_.accumulate;
  at_.shards = options_.parallel.shards;
  at_.optimizer = options_.optimizer.name();
  at_.loss = options_.loss.name;
  at_.history.monitor = options_.monitor;
  at_.history.run = options_.run;
  const bool first = distributed::rank() == 0;
  progress_ = std::make_unique<ProgressLine>(first ? options_.verbosity : Verbosity::quiet, options_.epochs, batches_,
                                             first ? options_.progress : nullptr);
  if (is_restarted()) options_.resume = true;
  if (!options_.run.empty() && first) prepare_folder();
  if (distributed::size() > 1) join_ranks();
}

// All ranks begin where the first one does. It alone has the folder.
void Trainer::join_ranks() {
  const bool first = distributed::rank() == 0;
  check_same_start(at_, kept_, train_, options_.validation);
  if (options_.parallel.shards > 0) distributed::check_processors();
  distributed::join();
  const std::string position = distributed::gather_text(first ? position_text(at_) : "")[0];
  if (!first) {
    options_.run.clear();
    Position sent = position_of(position, "what rank 0 has sent");
    check_same_run("rank 0", sent, at_);
    go_on_from(std::move(sent));
  } else if (!options_.run.empty()) {
    distributed::note("run", options_.run);  // where a launcher that starts again finds it
  }
  if (!first && averages()) at_.sums.clear(), at_.seen = 0;  // those of all ranks count once
  std::vector<Variable> variables;
  for (const Kept& kept : kept_) variables.push_back(kept.variable);
  distributed::broadcast_variables(variables);
  if (!saves_together()) return;
  if (distributed::gather_text(loaded_.empty() ? "" : "loaded")[0] == "loaded") give_parts(variables, loaded_);
  loaded_.clear();
  if (at_.total_steps == 0) save(nullptr);
}

bool Trainer::saves_together() const {
  const distributed::Parallel& p = options_.parallel;
  return distributed::size() > 1 &&
         (averages() || p.shard_optimizer || p.shard_parameters || p.compress.name != "none" || whole_batch_);
}

// Each rank then has a part of the model, and sees the whole batch.
void Trainer::place_model() {
  if (options_.parallel.pipeline) nn::place_evenly(model_);
  if (options_.parallel.split) nn::split_layers(model_);
  if (!is_model_parallel(model_)) return;
  check_model_parallel("fit: parallel", options_.parallel);
  whole_batch_.emplace();
}

namespace {

// Parameters, and what batch norms remember of their inputs.
std::vector<Variable> averaged_variables(const nn::Module& model) {
  std::vector<Variable> all = model.parameters();
  std::set<const void*> seen;
  for (const nn::NamedVariable& named : model.named_variables())
    if (!named.parameter && is_floating(named.variable.type().dtype) &&
        named.path.find("running_") != std::string::npos && seen.insert(named.variable.state().get()).second)
      all.push_back(named.variable);
  return all;
}

}  // namespace

void Trainer::prepare_model() {
  place_model();
  if (whole_batch_) check_outputs(model_, train_, *objective_, options_.batch);
  if (options_.parallel.shard_parameters) distributed::broadcast_variables(model_.parameters());
  distributed::Parallel parallel = options_.parallel;
  parallel.shards = 0;  // its gradients are then all ranks' already
  optimizer_ = options_.optimizer.over(model_.parameters(), parallel);
  if (options_.average > 0) average_.emplace(model_.parameters(), options_.average);
  if (options_.swa > 0) average_.emplace(optim::Average::equal(averaged_variables(model_)));
  std::set<const void*> seen;  // tied variables are kept once
  for (const nn::NamedVariable& named : model_.named_variables())
    if (seen.insert(named.variable.state().get()).second) kept_.push_back({named.path, named.variable});
  for (const Variable& variable : optimizer_.state()) kept_.push_back({"optimizer." + variable.name(), variable});
  if (average_)
    for (const Variable& variable : average_->state()) kept_.push_back({"average." + variable.name(), variable});
  prepare_alone();
  const bool classes = !options_.loss.of_input && has_matrix(options_.validation);
  if (options_.validation.defined())
    validation_ = std::make_unique<Evaluator>(
        model_, options_.validation,
        EvaluateOptions{.loss = options_.loss,
                        .metrics = options_.metrics,
                        .batch = validation_batch(options_.validation.total(), options_.batch),
                        .confusion = !options_.run.empty() && classes,
                        .precision = options_.precision,
                        .workers = options_.workers,
                        .shards = options_.parallel.shards,
                        .buckets = options_.buckets},
        options_.epochs > 1);
}

std::vector<std::string> Trainer::value_names() const {
  std::vector<std::string> names;
  for (const char* prefix : {"", "val_"}) {
    if (*prefix != 0 && !options_.validation.defined()) break;
    names.push_back(std::string(prefix) + "loss");
    for (const Metric& metric : objective_->metrics())
      if (metric.name != "loss") names.push_back(prefix + metric.name);
  }
  return names;
}

TrainStep::Parts Trainer::parts(bool check_layers) {
  return {.model = model_,
          .objective = *objective_,
          .optimizer = optimizer_,
          .average = options_.swa > 0 ? std::nullopt : average_,
          .accumulate = options_.accumulate,
          .precision = options_.precision,
          .check_layers = check_layers,
          .held = held_,
          .sync_batch_norm = options_.parallel.sync_batch_norm,
          .micro_batches = options_.parallel.micro_batches,
          .shards = options_.parallel.shards,
          .spare = options_.parallel.shards > 0 ? spare_sample() : data::Batch{},
          .alone = averages() || has_server(),
          .keeps_gradients = has_server(),
          .sharers = sharers()};
}

// The first of the data, whichever rank asks, or the first of each stream.
data::Batch Trainer::spare_sample() const {
  data::Loader first{held_ ? held_->rows() : train_,
                     {.batch = std::max<std::int64_t>(1, train_.streams()),
                      .seed = options_.seed,
                      .shuffle = false,
                      .workers = 0,
                      .mixup = options_.mixup,
                      .ranks = 1}};
  data::Batch batch;
  first.next(batch);
  return first_of(batch);
}

void Trainer::prepare_step() {
  bool said = false;
  const auto read_on = [&](const data::Dataset& dataset) {
    return [&, samples = dataset.size(), began = Clock::now()] {
      if (!said && seconds_since(began) > 2) {
        progress_->note("reading " + std::to_string(samples) + " samples, to hold them on " + device());
        said = true;
      }
      return !InterruptScope::asked();
    };
  };
  // Mixed samples are new ones, and those read once are read while the device computes.
  const bool drawn = options_.balanced || !options_.sampling.empty();
  if (!is_server() && options_.mixup == 0 && !drawn && options_.epochs - at_.epoch > 1)
    held_ = HeldData::of(train_, read_on(train_));
  step_ = std::make_unique<TrainStep>(parts(options_.check_layers));
  if (is_server()) {
    if (validation_) validation_->begin(read_on(options_.validation));
    return;
  }
  data::Loader first = loader();
  data::Batch batch;
  bool any = first.next(batch);
  while (any && batch.samples() == 0) any = first.next(batch);
  if (any) at_.history.peak_bytes = step_->peak_bytes(batch);
  // A rank that a batch leaves without samples still takes part in its sums, with one that counts nothing.
  if (distributed::size() > 1)
    first_sample_ = any ? first_of(batch) : data::Batch{one_of_zeros(train_.inputs()), one_of_zeros(train_.targets())};
  if (validation_) validation_->begin(read_on(options_.validation));
}

// The step needs the memory more.
void Trainer::let_data_go() {
  progress_->note("the training data does not fit on " + device() +
                  " beside what is computed: batches are copied one by one");
  held_.reset();
  step_ = std::make_unique<TrainStep>(parts(options_.check_layers));
}

void Trainer::prepare_folder() {
  folder_.emplace(options_.run);
  if (options_.resume && std::filesystem::exists(last_checkpoint(options_.run)))
    resume();
  else
    begin_anew();
  card_ = card_text(card_of(train_));
  save_text(options_.run + "/model.json", card_);
  if (!options_.config.empty()) save_text(options_.run + "/config.toml", options_.config);
  environment_ = environment_json(options_.seed);
  save_text(options_.run + "/environment.json", environment_);
  summary_ = model_.summarize({.batch = options_.batch}).str();
  if (at_.total_steps == 0 && !saves_together()) save(nullptr);
}

// What somebody trained for hours must not go because a program was started twice.
void Trainer::begin_anew() {
  const std::string trained = options_.overwrite ? "" : what_is_trained(options_.run);
  if (!trained.empty())
    throw Error("fit: \"" + options_.run + "\" holds a run already (" + trained +
                "). To go on with it: .resume = true. To start over in its place: .overwrite = true. Or name another "
                "folder.");
  std::error_code ignored;
  for (const std::string& name : run_files()) std::filesystem::remove(options_.run + "/" + name, ignored);
}

void Trainer::resume() {
  const std::string path = last_checkpoint(options_.run);
  Position saved = load_checkpoint(path, kept_, saves_together() ? &loaded_ : nullptr);
  check_same_run(path, saved, at_);
  go_on_from(std::move(saved));
  folder_->keep();
  const std::string all = std::to_string(options_.epochs);
  if (!at_.history.stopped.empty())
    progress_->note(options_.run + " has ended early (" + at_.history.stopped + "): nothing is left to train");
  else if (at_.epoch >= options_.epochs)
    progress_->note(options_.run + " has trained its " + (options_.epochs == 1 ? "epoch" : all + " epochs") +
                    " already: more of them would go on");
  else
    progress_->note("resuming " + options_.run + " at epoch " + std::to_string(epoch()) + " of " + all + ", step " +
                    std::to_string(at_.step) + " of " + std::to_string(batches_));
}

void Trainer::go_on_from(Position saved) {
  at_ = std::move(saved);
  at_.history.run = options_.run;
  if (at_.total_steps == 0) return;
  options_.schedule.restore(at_.schedule);
  for (const CallbackPtr& callback : options_.callbacks)
    if (const auto state = at_.callbacks.find(callback->name()); state != at_.callbacks.end())
      callback->restore(state->second);
}

History Trainer::go() {
  const InterruptScope interrupts;
  ticked_ = saved_ = Clock::now();  // what was prepared before is not training
  if (at_.epoch < options_.epochs && at_.history.stopped.empty()) prepare_step();
  for (const CallbackPtr& callback : options_.callbacks) callback->begin(*this);
  while (at_.epoch < options_.epochs && at_.history.stopped.empty())
    if (!train_epoch()) break;
  if (options_.parallel.shard_parameters) distributed::unshard(model_.parameters());
  if (whole_batch_) model_.place({.rank = -1});
  whole_batch_.reset();
  for (const CallbackPtr& callback : options_.callbacks) callback->end(*this);
  if (folder_ && began_ && !at_.history.interrupted) write_page(true);
  return at_.history;
}

data::Loader Trainer::loader() const {
  return {held_ ? held_->rows() : train_,
          {.batch = options_.batch,
           .seed = options_.seed,
           .epoch = at_.epoch,
           .skip = at_.step,
           .drop_last = options_.drop_last,
           .workers = held_ ? 0 : options_.workers,  // numbers are read faster than handed over
           .mixup = options_.mixup,
           .shards = options_.parallel.shards,
           .rank = place(),
           .ranks = sharers(),
           .buckets = options_.buckets,
           .balanced = options_.balanced,
           .sampling = options_.sampling}};
}

bool Trainer::completes_step() const { return (at_.step + 1) % options_.accumulate == 0 || at_.step + 1 == batches_; }

void Trainer::set_rate() {
  const double done = static_cast<double>(at_.step) / static_cast<double>(batches_);
  const double factor = options_.schedule.factor({.step = at_.total_steps,
                                                  .steps = options_.epochs * batches_,
                                                  .epoch = at_.epoch + done,
                                                  .epochs = static_cast<double>(options_.epochs)});
  const double rate = options_.optimizer.rate() * factor * rate_share();
  if (static_cast<float>(rate) != static_cast<float>(optimizer_.current_rate())) optimizer_.set_rate(rate);
}

data::BatchShare Trainer::batch_share() const {
  return data::batch_share(train_, at_.step, options_.batch, place(), sharers());
}

void Trainer::train_batch(TrainStep& step, const data::Batch& batch, Totals& totals) {
  if (!has_server()) set_rate();
  const data::BatchShare share = batch_share();
  step.take_part({.samples = share.end - share.begin,
                  .of = share.of,
                  .ends = InterruptScope::asked(),
                  .stops = !at_.history.stopped.empty(),
                  .saves = save_due()});
  const bool applies = completes_step() && !has_server();
  std::vector<Tensor> measured = batch.samples() > 0 ? step(batch, applies) : step(first_sample_, applies);
  const bool alone = averages() || has_server();
  if (!alone) wishes_ = TrainStep::wishes(measured);
  const std::int64_t counted = alone ? share.end - share.begin : share.of;
  if (counted > 0) totals.add(std::move(measured), counted);
  if (totals.counted() == 0) totals.settle();
  loss_ = totals.last_loss();
  ++at_.step;
  ++at_.total_steps;
  if (alone) settle_alone(step, counted);
}

// A device is some steps ahead of the losses that came back.
void Trainer::check_finite(const Totals& totals) {
  if (std::isfinite(loss_)) return;
  at_.step -= totals.waiting();
  report_not_finite();
}

void Trainer::settle(Totals& totals) {
  totals.settle();
  loss_ = totals.last_loss();
  check_finite(totals);
}

void Trainer::tick() {
  const double elapsed = seconds_since(ticked_);
  ticked_ = Clock::now();
  epoch_seconds_ += elapsed;
  at_.history.seconds += elapsed;
}

// False where the work was interrupted, in the middle of an epoch or of its validation.
bool Trainer::train_epoch() {
  if (at_.step == 0) model_.reset_state();
  Totals totals(objective_->metrics());
  totals.restore(at_.sums, at_.seen);
  epoch_seconds_ = 0;
  try {
    return is_server() ? serve_epoch(totals) : train_epoch(totals);
  } catch (const Interrupted&) {
    return end_interrupted(totals);
  }
}

// Between the batches of one step there is nothing to go on from: then the last checkpoint stands.
bool Trainer::end_interrupted(Totals& totals) {
  const bool whole = at_.step % options_.accumulate == 0 || at_.step == batches_;
  if (whole) {
    settle(totals);
    save(&totals);
  }
  note_interrupt();
  progress_->note("interrupted at epoch " + std::to_string(epoch()) + ", step " + std::to_string(at_.step) +
                  (options_.run.empty() ? ""
                   : whole              ? "; saved, and can be resumed"
                                        : "; can be resumed from its last checkpoint"));
  return false;
}

// A callback that throws ends the run, which is saved first: hours of training must not go with a typing error.
void Trainer::call_step_end(Totals& totals) {
  try {
    for (const CallbackPtr& callback : options_.callbacks) callback->step_end(*this);
  } catch (...) {
    // Where ranks save together, the others do not know of this.
    if (!saves_together() && (at_.step % options_.accumulate == 0 || at_.step == batches_)) {
      totals.settle();
      save(&totals);
    }
    throw;
  }
}

bool Trainer::train_epoch(Totals& totals) {
  progress_->begin_epoch(epoch(), at_.step);
  data::Loader batches = loader();
  for (const data::Batch& batch : batches) {
    const bool complete = completes_step();
    try {
      train_batch(*step_, batch, totals);
    } catch (const OutOfMemory&) {
      if (!held_ || began_) throw;  // later, gradients that were accumulated for a step would be lost
      let_data_go();
      return train_epoch(totals);
    }
    began_ = true;
    if (folder_) folder_->keep();
    check_finite(totals);
    progress_->step(at_.step, totals.values());
    call_step_end(totals);
    if (complete) check_ranks();
    if (stops_now()) break;
    if (!complete || at_.step == batches_) continue;
    if (ends_now()) return end_interrupted(totals);
    if (saves_now()) {
      settle(totals);
      save(&totals);
    }
  }
  if (has_server() && !finish_work(totals)) return end_interrupted(totals);
  return finish_epoch(totals);
}

bool Trainer::finish_epoch(Totals& totals) {
  settle(totals);
  if (averages() || has_server()) totals.add_ranks();
  end_epoch(totals);
  agree();
  if (wishes_.end && at_.epoch < options_.epochs) {
    note_interrupt();
    progress_->note("interrupted after epoch " + std::to_string(at_.epoch) +
                    (options_.run.empty() ? "" : "; saved, and can be resumed"));
  }
  return !at_.history.interrupted;
}

// Whether all ranks still have the same weights and state, now and then.
void Trainer::check_ranks() const {
  const std::int64_t every = options_.parallel.check_every;
  if (every == 0 || at_.total_steps % every != 0) return;
  std::vector<Variable> variables;
  for (const Kept& kept : kept_) variables.push_back(kept.variable);
  distributed::check_ranks(variables);
}

// One rank's wish is all ranks' at the end of the step that told them.
bool Trainer::stops_now() {
  if (distributed::size() == 1) return !at_.history.stopped.empty();
  if (wishes_.stop && at_.history.stopped.empty()) at_.history.stopped = "another rank asked for it";
  return wishes_.stop;
}

bool Trainer::ends_now() const { return distributed::size() == 1 ? InterruptScope::asked() : wishes_.end; }

// Between epochs.
void Trainer::agree() {
  wishes_ = {InterruptScope::asked(), !at_.history.stopped.empty(), save_due()};
  if (distributed::size() == 1) return;
  const Tensor own = tensor({wishes_.end ? 1.f : 0.f, wishes_.stop ? 1.f : 0.f, wishes_.save ? 1.f : 0.f});
  const std::vector<float> any = distributed::all_max(own).to_vector<float>();
  wishes_ = {any[0] > 0, any[1] > 0, any[2] > 0};
  stops_now();
}

void Trainer::note_interrupt() {
  at_.history.interrupted = true;
  at_.history.signal = InterruptScope::asked() ? InterruptScope::signal() : SIGINT;  // another rank's
}

bool Trainer::better(double value) const {
  if (!std::isfinite(value)) return false;
  if (at_.history.best_epoch == 0) return true;
  return higher_is_better_ ? value > at_.history.best : value < at_.history.best;
}

// Between epochs nothing waits in the step, which can be made anew.
Score Trainer::validation_score() {
  try {
    return validation_->run();
  } catch (const OutOfMemory&) {
    if (!held_) throw;
    let_data_go();
    return validation_->run();
  }
}

void Trainer::validate(Epoch& record) {
  if (!validation_) return;
  const Score score = validation_score();
  for (const auto& [name, value] : score.values) record.values.push_back({"val_" + name, value});
  confusion_ = score.confusion;
}

void Trainer::end_epoch(const Totals& totals) {
  Epoch record{
      .epoch = epoch(), .seconds = 0, .rate = optimizer_.current_rate() / rate_share(), .values = totals.values()};
  const bool averaged = average_ && (options_.swa == 0 || epoch() > options_.epochs - options_.swa);
  if (averaged && options_.swa > 0) average_->update();
  if (averaged) average_->swap();
  try {
    validate(record);
  } catch (...) {
    if (averaged) average_->swap();
    throw;
  }
  tick();
  record.seconds = epoch_seconds_;
  at_.history.epochs.push_back(record);
  const double monitored = record.value(options_.monitor);
  if (better(monitored)) {
    at_.history.best = monitored;
    at_.history.best_epoch = record.epoch;
    save_best();
  }
  if (averaged) average_->swap();
  options_.schedule.observe(higher_is_better_ ? -monitored : monitored);
  progress_->end_epoch(record.seconds, record.values);
  const auto advance = [&] {
    ++at_.epoch;
    at_.step = 0;
    save(nullptr);
  };
  try {
    for (const CallbackPtr& callback : options_.callbacks) callback->epoch_end(*this);
  } catch (...) {
    advance();
    throw;
  }
  advance();  // first: what can be made again must not cost what cannot
  if (!options_.run.empty()) write_page(false);
}

void Trainer::save_best() {
  if (options_.run.empty() && !saves_together()) return;
  const Safetensors weights = model_.weights({.metadata = {{kCardKey, card_}, {"varve.crc32", ""}}});
  for (const auto& [name, tensor] : weights.tensors) tensor.eval();
  if (!options_.run.empty()) save_safetensors(best_weights(options_.run), weights);
}

bool Trainer::saves_now() const { return saves_together() ? wishes_.save : save_due(); }

bool Trainer::save_due() const {
  if (options_.run.empty()) return false;
  if (options_.save_steps > 0 && at_.total_steps % options_.save_steps == 0) return true;
  return seconds_since(saved_) >= options_.save_seconds;
}

void Trainer::save(const Totals* totals) {
  Totals all(objective_->metrics());
  if (totals && averages()) {
    all = *totals;
    all.add_ranks();
    totals = &all;
  }
  if (options_.run.empty()) {
    if (saves_together()) save_checkpoint("", kept_, at_);  // rank 0 reads the whole of them now
    return;
  }
  tick();
  at_.sums = totals ? totals->flat() : std::vector<double>{};
  at_.seen = totals ? totals->samples() : 0;
  at_.schedule = options_.schedule.state();
  for (const CallbackPtr& callback : options_.callbacks)
    if (!callback->name().empty()) at_.callbacks[callback->name()] = callback->state();
  save_checkpoint(last_checkpoint(options_.run), kept_, at_, {{kCardKey, card_}});
  at_.sums.clear();
  at_.seen = 0;
  saved_ = Clock::now();
}

void Trainer::write_page(bool last) {
  std::vector<WorstSample> worst;
  if (last && options_.validation.defined()) worst = worst_samples(model_, options_.validation, options_.loss);
  write_run_page(options_.run, {.title = std::filesystem::path(options_.run).filename().string(),
                                .history = at_.history,
                                .config = options_.config,
                                .summary = summary_,
                                .environment = environment_,
                                .confusion = confusion_,
                                .classes = train_.info().classes,
                                .test = {},
                                .worst = worst});
}

History fit(nn::Module& model, const data::Dataset& train, const FitOptions& options) {
  try {
    return Trainer(model, train, options).go();
  } catch (const std::bad_alloc&) {
    constexpr auto kWhy = "fit: out of memory beside the tensors. A smaller batch or fewer workers need less.";
    distributed::last_words(kWhy);
    throw OutOfMemory(kWhy);
  } catch (const std::exception& error) {
    distributed::last_words(error.what());
    throw;
  }
}

double Epoch::value(const std::string& wanted) const {
  for (const auto& [name, value] : values)
    if (name == wanted) return value;
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace varve::train
