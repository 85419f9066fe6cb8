// Callbacks: stopping early, a table of results, and functions of one's own.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "train/report.h"
#include "varve/error.h"
#include "varve/io.h"
#include "varve/train.h"

namespace varve::train {
namespace {

// By its name alone, as a value that the run does not monitor says no more about itself.
bool rises(const std::string& value) {
  const std::string metric = value.starts_with("val_") ? value.substr(4) : value;
  for (const char* falling : {"loss", "error", "perplexity"})
    if (metric.find(falling) != std::string::npos) return false;
  return true;
}

class EarlyStopper : public Callback {
 public:
  explicit EarlyStopper(const EarlyStopping& options) : options_(options) {
    if (options.patience < 1)
      throw Error("early_stopping: the patience must be at least 1 epoch, got " + std::to_string(options.patience) +
                  ".");
    if (!(options.least_gain >= 0))
      throw Error("early_stopping: least_gain must not be negative, got " + std::to_string(options.least_gain) + ".");
  }

  void begin(Session& session) override {
    const std::vector<std::string> known = session.value_names();
    if (!options_.monitor.empty() && !known.empty()) check_value_name("early_stopping", options_.monitor, known);
  }
  void epoch_end(Session& session) override {
    const History& history = session.history();
    const std::string& name = options_.monitor.empty() ? history.monitor : options_.monitor;
    if (better(history, name)) {
      waited_ = 0;
    } else if (++waited_ >= options_.patience) {
      session.stop("no better " + name + " for " + std::to_string(waited_) + (waited_ == 1 ? " epoch" : " epochs"));
    }
  }

  std::string name() const override { return "early_stopping"; }
  std::vector<double> state() const override { return {best_, static_cast<double>(waited_)}; }
  void restore(const std::vector<double>& state) override {
    if (state.size() != 2) throw Error("early_stopping: a saved state has 2 numbers, got another run's.");
    best_ = state[0];
    waited_ = static_cast<int>(state[1]);
  }

 private:
  bool better(const History& history, const std::string& name) {
    if (history.epochs.empty()) return false;
    const Epoch& epoch = history.epochs.back();
    check_known(epoch, name);
    const double value = epoch.value(name);
    if (std::isnan(value)) return false;
    // The run knows which way its own value is better; the best so far moves that way only.
    bool gained = std::isnan(best_);
    if (!gained && name == history.monitor)
      gained = history.best_epoch == epoch.epoch && std::abs(value - best_) > options_.least_gain;
    else if (!gained)
      gained = (rises(name) ? value - best_ : best_ - value) > options_.least_gain;
    if (gained) best_ = value;
    return gained;
  }

  static void check_known(const Epoch& epoch, const std::string& name) {
    std::vector<std::string> names;
    for (const auto& [each, value] : epoch.values) names.push_back(each);
    check_value_name("early_stopping", name, names);
  }

  EarlyStopping options_;
  double best_ = std::numeric_limits<double>::quiet_NaN();
  int waited_ = 0;
};

class CsvLog : public Callback {
 public:
  explicit CsvLog(std::string path) : path_(std::move(path)) {
    if (path_.empty()) throw Error("csv_log: needs the path of a file.");
  }
  // The whole table each time: a reader never sees half of it, and a resumed run goes on with it.
  void epoch_end(Session& session) override { save_text(path_, results_csv(session.history())); }

 private:
  std::string path_;
};

enum class When : std::uint8_t { step, epoch };

class Each : public Callback {
 public:
  Each(When when, std::function<void(Session&)> f) : when_(when), f_(std::move(f)) {
    if (!f_) throw Error("each_epoch, each_step: the function is empty.");
  }
  void step_end(Session& session) override {
    if (when_ == When::step) f_(session);
  }
  void epoch_end(Session& session) override {
    if (when_ == When::epoch) f_(session);
  }

 private:
  When when_;
  std::function<void(Session&)> f_;
};

}  // namespace

void check_value_name(const std::string& who, const std::string& name, const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), name) != known.end()) return;
  std::string all;
  for (const std::string& each : known) all += (all.empty() ? "" : ", ") + each;
  throw Error(who + ": no value is named '" + name + "'." + did_you_mean(name, known) + " Known: " + all + ".");
}

CallbackPtr early_stopping(const EarlyStopping& options) { return std::make_shared<EarlyStopper>(options); }
CallbackPtr csv_log(const std::string& path) { return std::make_shared<CsvLog>(path); }
CallbackPtr each_epoch(std::function<void(Session&)> f) { return std::make_shared<Each>(When::epoch, std::move(f)); }
CallbackPtr each_step(std::function<void(Session&)> f) { return std::make_shared<Each>(When::step, std::move(f)); }

}  // namespace varve::train
