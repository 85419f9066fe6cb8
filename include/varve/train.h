// Training, evaluation and prediction.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "varve/data.h"
#include "varve/distributed.h"
#include "varve/nn.h"
#include "varve/optim.h"
#include "varve/precision.h"
#include "varve/train/config.h"
#include "varve/train/metrics.h"

namespace varve::train {

// ---- losses

struct Loss {
  std::string name;
  std::function<Tensor(const Tensor& output, const Tensor& target)> function;  // mean over the batch
  bool of_input = false;  // the target is the input itself: an autoencoder's
  // Of a network of several outputs: the losses of each, which losses() makes, or one of all of them at once.
  std::string of_output = {};  // of a part: which output, by its name or its place, "0"
  double weight = 1;           // of a part, in their sum
  std::vector<Loss> parts = {};
  std::function<Tensor(const Tensors& outputs, const Tensors& targets)> of_all = {};
  // Of each row, before the mean, [N] or [N, T]: what weights of samples or steps are applied to. Empty: it takes none.
  std::function<Tensor(const Tensor& output, const Tensor& target)> each = {};
  // What each row counts by its target, as class weights say. Empty: 1.
  std::function<Tensor(const Tensor& output, const Tensor& target)> counts = {};
  std::optional<std::int64_t> ignore_index = {};  // a class number of targets that count for nothing, in metrics too

  Tensor operator()(const Tensor& output, const Tensor& target) const { return (*this)(output, target, {}); }
  // Σ w·loss / Σ w, with weights [N] of samples or [N, T] of steps; undefined: all count the same.
  Tensor operator()(const Tensor& output, const Tensor& target, const Tensor& weights) const;
  // What the rows count, of the shape of `each`; undefined where all count 1.
  Tensor weights_of(const Tensor& output, const Tensor& target, const Tensor& weights) const;
};
extern const Loss cross_entropy;  // integer targets, or f32 probabilities of the output's shape
extern const Loss binary_cross_entropy, mse, mae, huber;
extern const Loss reconstruction;  // mse against the input
// The same as a figure alone: what is learnt is what modules add (nn::add_loss), a Boltzmann machine's divergence.
extern const Loss contrastive_divergence;
Loss smoothed_cross_entropy(double smoothing);
struct CrossEntropyLoss {
  std::vector<double> class_weights = {};  // what each class counts, of integer targets; empty: all the same
  std::optional<std::int64_t> ignore_index = {};
  double smoothing = 0;
};
Loss cross_entropy_with(const CrossEntropyLoss& options);
// What makes each class of the data count as much as any other: samples / (classes · samples of it). Reads all targets.
std::vector<double> balanced_class_weights(const data::Dataset& dataset);
Loss loss_by_name(const std::string& name);
// The sum of a loss for each output: losses({{"digit", cross_entropy}, {"size", mse}}, {{"size", 0.1}}). Weights that
// are left out are 1. Outputs meet targets by name where both have names, else by place; one without a loss is not
// trained.
Loss losses(const std::vector<std::pair<std::string, Loss>>& of_outputs,
            const std::map<std::string, double>& weights = {});
// Of all outputs and targets at once.
Loss joint_loss(const std::string& name, std::function<Tensor(const Tensors& outputs, const Tensors& targets)> f);

// ---- what a run has done

struct Epoch {
  int epoch = 0;  // from 1
  double seconds = 0, rate = 0;
  std::vector<std::pair<std::string, double>> values;  // "loss", "accuracy", "val_loss", "val_accuracy", …
  double value(const std::string& name) const;         // NaN when there is none
};

struct History {
  std::vector<Epoch> epochs;
  std::string monitor;          // the value that decides which epoch was best
  int best_epoch = 0;           // 0: none yet
  double best = 0;              // its value there
  double seconds = 0;           // of training, validation included, all sittings together
  std::int64_t peak_bytes = 0;  // of a training step, planned
  bool interrupted = false;     // by a signal, saved before
  int signal = 0;               // which: SIGINT (Ctrl-C), SIGTERM or SIGHUP
  std::string stopped;          // why it ended before the last epoch; empty when it did not
  std::string run;              // the folder
  std::int64_t most_ahead = 0;  // steps that a rank was before the slowest (Parallel::staleness)
};

// ---- callbacks

// The run as callbacks see it.
class Session {
 public:
  virtual ~Session() = default;
  virtual nn::Module& model() = 0;
  virtual optim::Bound& optimizer() = 0;
  virtual const History& history() const = 0;  // the epoch that just ended is the last
  virtual int epoch() const = 0;               // from 1
  virtual std::int64_t step() const = 0;       // in the whole run, from 1
  virtual double loss() const = 0;             // of the last step
  virtual const std::string& run() const = 0;  // the folder; "" when there is none
  virtual void stop(const std::string& why) = 0;
  virtual std::vector<std::string> value_names() const { return {}; }  // that every epoch will have; none: not known
};

class Callback {
 public:
  virtual ~Callback() = default;
  virtual void begin(Session&) {}
  virtual void step_end(Session&) {}
  virtual void epoch_end(Session&) {}
  virtual void end(Session&) {}
  // What must survive a restart, by a name of its own.
  virtual std::string name() const { return ""; }
  virtual std::vector<double> state() const { return {}; }
  virtual void restore(const std::vector<double>&) {}
};
using CallbackPtr = std::shared_ptr<Callback>;

struct EarlyStopping {
  int patience = 5;          // epochs without a better value
  double least_gain = 0;     // what counts as better
  std::string monitor = "";  // "": what the run monitors
};
CallbackPtr early_stopping(const EarlyStopping& = {});
CallbackPtr tensorboard(const std::string& folder = "");  // event files; "": in the run's folder
CallbackPtr csv_log(const std::string& path);
CallbackPtr each_epoch(std::function<void(Session&)> f);
CallbackPtr each_step(std::function<void(Session&)> f);

// ---- fit

enum class Verbosity : std::uint8_t { automatic, bar, lines, quiet };  // automatic: a bar on a terminal, else lines
// Where a run's progress goes instead of standard error. A line that is not `kept` is replaced by the next one.
using ProgressSink = std::function<void(const std::string& line, bool kept)>;

struct FitOptions {
  Loss loss = cross_entropy;
  optim::Optimizer optimizer = optim::adam();
  optim::Schedule schedule = {};
  int epochs = 1;
  std::int64_t batch = 32;
  data::Dataset validation = {};
  double validation_share = 0;       // held out of the training data when no validation data is given
  std::vector<Metric> metrics = {};  // empty: what fits the loss. Of scaled targets they are in the targets' own unit
  std::string monitor = "";          // "": val_accuracy, val_perplexity or val_loss, what there is
  std::string run = "";              // the run's folder; "": nothing is written
  std::int64_t seed = 0;
  bool resume = false;          // go on from the run's last checkpoint, when there is one
  bool overwrite = false;       // start over in a folder that holds a run; Error without one of the two
  double save_seconds = 60;     // within an epoch, a checkpoint at least this often; always at its end
  std::int64_t save_steps = 0;  // and after so many steps, when not 0
  std::int64_t accumulate = 1;  // batches whose gradients make one step
  double average = 0;           // decay of an average of the weights, used to evaluate and saved as best; 0: none
  // The last epochs, at whose ends the weights are averaged, each the same (stochastic weight averaging, statistics of
  // batch norms with them): the mean is evaluated, and saved when it is best. 0: none.
  int swa = 0;
  ProductType precision = f32;  // tf32: products on a GPU in TF32; bf16: products in bf16, master weights in f32
  double mixup = 0;
  bool drop_last = false;
  // As data::LoaderOptions says: batches of similar lengths, classes drawn alike, samples drawn by weight.
  std::int64_t buckets = 0;
  bool balanced = false;
  std::vector<double> sampling = {};
  int workers = 1;
  bool check_layers = false;  // look at every layer's output: a NaN is then named at once
  std::vector<CallbackPtr> callbacks = {};
  Verbosity verbosity = Verbosity::automatic;
  ProgressSink progress = {};  // empty: standard error
  std::string config = "";     // kept as config.toml in the run's folder
  distributed::Parallel parallel = {};
};
// Leaves the model with the last weights; best.safetensors in the run's folder has the best ones.
History fit(nn::Module& model, const data::Dataset& train, const FitOptions& options = {});

struct Score {
  double loss = 0;
  double accuracy = 0;                                 // NaN when the loss has none
  std::vector<std::pair<std::string, double>> values;  // all, loss first
  std::vector<double> confusion;  // [classes × classes], rows: true class; empty when not asked for
  double seconds = 0;
};
struct EvaluateOptions {
  Loss loss = cross_entropy;
  std::vector<Metric> metrics = {};
  std::int64_t batch = 256;
  bool confusion = false;
  ProductType precision = f32;
  int workers = 1;
  // Parts that a batch is cut into, as in training (Parallel::shards): the same bits for any number of ranks.
  std::int64_t shards = 0;
  std::int64_t buckets = 0;  // of samples of different lengths
};
Score evaluate(nn::Module& model, const data::Dataset& dataset, const EvaluateOptions& = {});

struct PredictOptions {
  std::int64_t batch = 256;
  ProductType precision = f32;
  int workers = 1;  // of a data set
};
Tensor predict(nn::Module& model, const data::Dataset& dataset, const PredictOptions& = {});  // outputs, in order
Tensor predict(nn::Module& model, const Tensor& x, const PredictOptions& = {});               // rows of x
// Of several inputs or outputs.
Tensors predict_all(nn::Module& model, const data::Dataset& dataset, const PredictOptions& = {});
Tensors predict_all(nn::Module& model, const Tensors& x, const PredictOptions& = {});

// ---- the rate finder

struct RateFinder {
  std::vector<double> rates, losses;  // smoothed
  double suggestion = 0;              // where the loss falls fastest; 0: there is no clear descent
  std::string svg;
};
struct RateFinderOptions {
  Loss loss = cross_entropy;
  optim::Optimizer optimizer = optim::adam();
  std::int64_t batch = 32;
  double from = 1e-7, to = 10;
  std::int64_t steps = 100;
  std::int64_t seed = 0;
  ProductType precision = f32;
  int workers = 1;
};
RateFinder find_rate(nn::Module& model, const data::Dataset& train,
                     const RateFinderOptions& = {});  // weights as before

// ---- what people look at

std::vector<std::string> curves_svg(const History& history);  // one for each value of the epochs, and the rate's
// "" when there are more than 100 classes. Counts: a Score's confusion.
std::string confusion_svg(const std::vector<double>& counts, const std::vector<std::string>& classes);

// A sample that the network understands least.
struct WorstSample {
  double loss = 0;
  std::string truth, predicted;  // class and probability, or numbers
  std::string png = "";          // the sample as a picture, base64
  std::string text = "";         // or as words or numbers
  std::int64_t index = 0;        // in the data set
};
// Those with the highest loss, the worst first: of classes or numbers, one target a sample; others give none.
std::vector<WorstSample> worst_samples(nn::Module& model, const data::Dataset& dataset, const Loss& loss);

// ---- run folders

// A trained model from its run's folder: the network its config.toml describes, with the best (or last) weights.
struct TrainedModel {
  Config config;
  nn::Layer model;
  std::vector<std::string> classes;
  std::shared_ptr<const data::Vocabulary> vocabulary;
  std::shared_ptr<const data::TableEncoder> table;  // of a network that takes rows of a table
  std::shared_ptr<const data::SoundEncoder> sound;  // of one that takes sounds
  Shape input;                                      // of several inputs: the first
  DType dtype = f32;
  std::vector<Field> inputs = {};                                       // all of them; a single one has no name
  std::map<std::string, std::vector<std::string>> target_classes = {};  // of several outputs, by name
  data::Info info() const;  // what other data must be like: data::load(name, {}, {}, run.info())
};
TrainedModel load_run(const std::string& folder, bool last = false);
std::string new_run_folder(const std::string& base, const std::string& name);  // base/name-1, -2, …: made, empty

}  // namespace varve::train
