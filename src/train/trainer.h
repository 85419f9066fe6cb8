// One run of fit.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "train/checkpoint.h"
#include "train/evaluator.h"
#include "train/progress.h"
#include "train/run_lock.h"
#include "train/server.h"
#include "train/step.h"
#include "varve/train.h"

namespace varve::train {

class Trainer : public Session {
 public:
  Trainer(nn::Module& model, const data::Dataset& train, FitOptions options);
  History go();

  nn::Module& model() override { return model_; }
  optim::Bound& optimizer() override { return optimizer_; }
  const History& history() const override { return at_.history; }
  int epoch() const override { return at_.epoch + 1; }
  std::int64_t step() const override { return at_.total_steps; }
  double loss() const override { return loss_; }
  const std::string& run() const override { return options_.run; }
  void stop(const std::string& why) override { at_.history.stopped = why; }
  std::vector<std::string> value_names() const override;

 private:
  using Clock = std::chrono::steady_clock;

  void prepare_model();
  void prepare_folder();
  void begin_anew();
  void note_interrupt();
  void resume();
  void go_on_from(Position saved);
  TrainStep::Parts parts(bool check_layers);
  void prepare_step();
  void let_data_go();  // for its memory

  // Ranks that step by themselves (trainer_alone.cpp).
  bool averages() const;  // their weights, now and then
  bool has_server() const;
  bool is_server() const;
  void prepare_alone();
  void settle_alone(TrainStep& step, std::int64_t samples);  // after a step
  bool serve_epoch(Totals& totals);
  bool finish_work(Totals& totals);  // of an epoch; false: the server has ended it
  std::vector<Variable> state_of_model();
  int sharers() const;        // of a batch
  int place() const;          // among them
  double rate_share() const;  // of an update, where each worker's gradients make one

  bool train_epoch();  // false: interrupted before its end
  bool train_epoch(Totals& totals);
  bool end_interrupted(Totals& totals);
  void call_step_end(Totals& totals);
  data::Loader loader() const;  // of what is left of the present epoch
  bool completes_step() const;  // whether the next batch does
  void train_batch(TrainStep& step, const data::Batch& batch, Totals& totals);
  void check_finite(const Totals& totals);
  void settle(Totals& totals);  // until every loss is back
  void tick();
  void set_rate();
  void join_ranks();
  void place_model();
  bool saves_together() const;  // ranks keep parts of the state: all take part in a checkpoint
  bool saves_now() const;
  void save_best();
  void check_ranks() const;
  data::Batch spare_sample() const;
  data::BatchShare batch_share() const;
  bool stops_now();
  bool ends_now() const;
  void agree();
  bool finish_epoch(Totals& totals);
  void end_epoch(const Totals& totals);
  void validate(Epoch& epoch);
  Score validation_score();
  bool better(double value) const;
  void save(const Totals* totals);  // null: between epochs
  bool save_due() const;
  void write_page(bool last);  // the last one shows the worst predictions as well
  [[noreturn]] void report_not_finite();
  std::string find_layer();

  std::optional<distributed::WholeBatch> whole_batch_;  // parts of the model live on one rank each
  nn::Module& model_;
  data::Dataset train_;
  FitOptions options_;
  std::optional<Objective> objective_;
  std::optional<RunFolder> folder_;
  std::int64_t batches_ = 0;  // of an epoch
  optim::Bound optimizer_;
  std::optional<optim::Average> average_;
  std::unique_ptr<Evaluator> validation_;
  std::vector<Kept> kept_;
  std::vector<Tensor> loaded_;  // of a checkpoint, until all ranks have their parts
  Position at_;
  double loss_ = 0;
  bool higher_is_better_ = false;
  std::optional<optim::RankAverage> rank_average_;
  std::optional<ParameterServer> server_;
  std::optional<ServerWorker> worker_;
  std::vector<double> confusion_;
  std::string summary_, environment_, card_;
  std::unique_ptr<ProgressLine> progress_;
  Clock::time_point ticked_ = Clock::now(), saved_ = ticked_;
  double epoch_seconds_ = 0;
  std::optional<HeldData> held_;  // the training data, where it is worth it
  bool began_ = false;            // a batch was trained
  TrainStep::Wishes wishes_;      // of any rank
  data::Batch first_sample_;      // among ranks
  std::unique_ptr<TrainStep> step_;
};

}  // namespace varve::train
