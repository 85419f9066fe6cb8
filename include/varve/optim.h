// Optimisers, schedules of the rate, and averages of weights.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "varve/distributed.h"
#include "varve/ops.h"
#include "varve/tensor.h"

namespace varve::optim {

// A rule of its own for the parameters it matches; the first group that matches holds.
struct Group {
  std::function<bool(const Variable&)> match;
  double rate = 1;                     // a factor of the optimiser's
  std::optional<double> weight_decay;  // in place of the optimiser's
};

// `lazy`: of a table whose rows are read by embedding or gather, a step updates the rows that it read; the others keep
// their moments as they are, and do not decay. Where that is no choice (sgd and adagrad without momentum and decay: a
// gradient of zero changes nothing) large tables are updated so anyway.
struct SgdOptions {
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
  bool lazy = false;
};
struct AdamOptions {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  bool lazy = false;
};
struct RmspropOptions {
  double decay = 0.9, epsilon = 1e-8, momentum = 0, weight_decay = 0;
  bool lazy = false;
};
struct AdagradOptions {
  double epsilon = 1e-10, weight_decay = 0;
  bool lazy = false;
};
struct AdadeltaOptions {
  double decay = 0.9, epsilon = 1e-6, weight_decay = 0;
  bool lazy = false;
};
struct LambOptions {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6, weight_decay = 0.01;
};
struct LionOptions {
  double beta1 = 0.9, beta2 = 0.99, weight_decay = 0;
};
struct AdafactorOptions {
  double decay = 0.8;     // of the squares: at step t they are kept by 1 - t^-decay
  double epsilon = 1e-3;  // the rate is relative to the parameter's root mean square, at least this
  double clip = 1;        // of the step's root mean square
  double weight_decay = 0;
};
struct MuonOptions {
  double momentum = 0.95;
  bool nesterov = true;
  int iterations = 5;  // of Newton and Schulz
  double weight_decay = 0.1;
  double adam_rate = 3e-4;  // of the parameters that are not made orthogonal, which AdamW learns
  // Which are. Empty: those of two axes or more, but for embeddings (by their name).
  std::function<bool(const Variable&)> orthogonal = {};
};
struct LbfgsOptions {
  int history = 10;  // steps that are remembered
  double weight_decay = 0;
};

class Bound;

// How to learn, not yet of any parameters: a recipe that can be passed about and changed.
class Optimizer {
 public:
  // One parameter's new value and new state from its gradient.
  struct Slot {
    Tensor parameter, gradient;
    std::vector<Tensor> state;  // of the parameter's shape, or the rule's
    Tensor rate, step;          // f32 scalars; step counts from 1
    double weight_decay = 0;
  };
  struct Rule {
    std::string name;                // "adam"
    std::vector<std::string> state;  // names of what is kept for each parameter, starting at zero: "m", "v"
    std::function<Updated(const Slot&)> update;
    bool elementwise = false;    // each entry by itself, so that ranks may each update their part
    bool still_at_zero = false;  // without weight decay a gradient of zero changes nothing: rows may be left out
    bool lazy = false;           // rows of a table that were not read are left as they are
    // Of what is kept, where it is not the parameter's.
    std::function<Shape(const std::string& state, const Variable& parameter)> shape = {};
    // All parameters at once, in place of `update`.
    std::function<std::vector<Updated>(const std::vector<Slot>&)> update_all = {};
  };

  Optimizer(Rule rule, double rate, double weight_decay);

  Optimizer& clip_norm(double norm);    // gradients scaled so that their global norm is at most this
  Optimizer& clip_value(double value);  // each entry into ±value
  Optimizer& group(Group group);
  // No weight decay for parameters of less than two axes, unless a group says otherwise: matrices and kernels decay,
  // biases and the scales of norms do not.
  Optimizer& decay_weights_only();

  // Among ranks, gradients are averaged; `parallel` says how, and where state is kept.
  Bound over(const std::vector<Variable>& parameters, const distributed::Parallel& parallel = {}) const;

  const std::string& name() const { return rule_.name; }
  double rate() const { return rate_; }
  double weight_decay() const { return weight_decay_; }
  double clips_norm() const { return clip_norm_; }    // 0: no
  double clips_value() const { return clip_value_; }  // 0: no

 private:
  friend class Bound;
  Rule rule_;
  double rate_, weight_decay_;
  double clip_norm_ = 0, clip_value_ = 0;
  bool decay_weights_only_ = false;
  std::vector<Group> groups_;
};

Optimizer sgd(double rate = 0.01, SgdOptions options = {});
Optimizer adam(double rate = 1e-3, AdamOptions options = {});                       // weight decay added to gradients
Optimizer adamw(double rate = 1e-3, AdamOptions options = {.weight_decay = 0.01});  // weight decay apart
Optimizer rmsprop(double rate = 1e-3, RmspropOptions options = {});
Optimizer adagrad(double rate = 0.01, AdagradOptions options = {});
Optimizer adadelta(double rate = 1.0, AdadeltaOptions options = {});
Optimizer lamb(double rate = 1e-3, LambOptions options = {});
Optimizer lion(double rate = 1e-4, LionOptions options = {});
Optimizer adafactor(double rate = 0.01, AdafactorOptions options = {});  // moments by row and column
Optimizer muon(double rate = 0.02, MuonOptions options = {});            // steps of matrices are orthogonal
// Its steps have no line search: for gradients of all samples, or of large batches.
Optimizer lbfgs(double rate = 1, LbfgsOptions options = {});
// "adam" and named numbers, as configuration files give them; an unknown name or number gets the nearest known one.
Optimizer by_name(const std::string& name, const std::vector<std::pair<std::string, double>>& options);
std::vector<std::string> names();
std::vector<std::string> options_of(const std::string& name);  // "rate", "beta1", …

// An optimiser at work on parameters: owns their moments, the rate and the step count, all of them variables, so that a
// compiled step updates them in place and a checkpoint holds them. Copies share them.
class Bound {
 public:
  void apply(const std::vector<Tensor>& gradients);  // assigns parameters and state; inside compile it is recorded
  // The same, and the global norm of the gradients before clipping.
  Tensor apply_with_norm(const std::vector<Tensor>& gradients);
  // Of gradients that are the same on every rank: they are not averaged.
  void apply_whole(const std::vector<Tensor>& gradients);

  const std::vector<Variable>& parameters() const;
  std::vector<Variable> state() const;  // everything to keep: "m.fc1.weight", …, "step", "rate"
  // state() as a safetensors file, and back: all or nothing. Error that names what the file lacks, has besides, or has
  // in another shape.
  void save(const std::string& path) const;
  void load(const std::string& path);
  Variable rate() const;  // f32 scalar
  double current_rate() const;
  void set_rate(double rate);
  std::int64_t steps() const;  // taken so far

 private:
  friend class Optimizer;
  struct State;
  std::shared_ptr<State> state_;
};

// ---- schedules

struct Progress {
  std::int64_t step = 0, steps = 1;  // of the whole run
  double epoch = 0, epochs = 1;      // with fractions
};

// A factor of the optimiser's rate, pure in the progress, so that a resumed run goes on where it was; the plateau rule
// alone remembers, and what it remembers is state().
class Schedule {
 public:
  using Factor = std::function<double(const Progress&)>;
  Schedule();  // constant
  Schedule(std::string name, Factor factor);

  double factor(const Progress& progress) const;
  const std::string& name() const { return name_; }
  Schedule after_warmup(double epochs) const;  // rises linearly from 0 during these, then this schedule

  void observe(double metric);  // at the end of an epoch: lower is better
  std::vector<double> state() const;
  void restore(const std::vector<double>& state);

 private:
  friend Schedule plateau(struct PlateauOptions);
  struct Plateau;
  std::string name_;
  Factor factor_;
  std::shared_ptr<Plateau> plateau_;
};

struct StepOptions {
  double every = 10;  // epochs
  double factor = 0.1;
  double after = 0;  // epochs before the first drop is counted from
};
struct CosineOptions {
  double final = 0;  // the factor at the end
};
struct OneCycleOptions {
  double rise = 0.3;        // share of the run
  double start = 1.0 / 25;  // factors
  double end = 1.0 / 250000;
};
struct PlateauOptions {
  int patience = 3;  // epochs without progress
  double factor = 0.1;
  double threshold = 1e-4;  // relative
  double least = 1e-4;      // the factor never falls below
};
Schedule constant();
Schedule step_decay(StepOptions options = {});
Schedule exponential(double factor_an_epoch);
Schedule milestones(std::vector<double> epochs, double factor = 0.1);
Schedule cosine(CosineOptions options = {});
Schedule one_cycle(OneCycleOptions options = {});  // the optimiser's rate is the peak
Schedule polynomial(double power = 1);
Schedule plateau(PlateauOptions options = {});
Schedule schedule_by_name(const std::string& name, const std::vector<std::pair<std::string, double>>& options);
std::vector<std::string> schedule_names();
std::vector<std::string> schedule_options_of(const std::string& name);

// ---- averages

// A moving average of parameters: update() after each step (inside compile it is recorded), swap() to evaluate with it
// and swap() back.
class Average {
 public:
  Average(const std::vector<Variable>& parameters, double decay = 0.999);  // exponential
  // The mean of what they were at each update(): stochastic weight averaging.
  static Average equal(const std::vector<Variable>& parameters);
  void update();
  void swap();
  std::vector<Variable> state() const;

 private:
  std::vector<Variable> parameters_, averages_;
  Variable count_;  // of updates, where all weigh the same
  double decay_;
};

// Of ranks that step by themselves (distributed::Parallel::average_every): the mean of their weights, on all of them.
// With block momentum (CNTK's blockwise model update filtering) an average goes on in the direction of those before.
class RankAverage {
 public:
  RankAverage(const std::vector<Variable>& variables, double block_momentum = 0);
  void operator()();                    // all ranks together, between steps; nothing in a world of one
  std::vector<Variable> state() const;  // to be saved, where there is momentum

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace varve::optim
