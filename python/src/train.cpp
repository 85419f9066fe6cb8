// Fit, evaluate, predict.
#include <nanobind/trampoline.h>

#include "bindings.h"

namespace varve::python {
namespace {

using namespace varve::train;

// The run, as long as a callback is being called; kept longer, it says that it has ended.
class SessionView {
 public:
  explicit SessionView(Session& session) : session_(&session) {}
  void end() { session_ = nullptr; }
  Session& get() const {
    if (!session_) throw Error("a session can be used while its callback runs, not later. Keep the values instead.");
    return *session_;
  }

 private:
  Session* session_;
};

class PythonCallback : public Callback {
 public:
  NB_TRAMPOLINE(Callback, 1);
  void begin(Session& s) override { call("begin", s); }
  void step_end(Session& s) override { call("step_end", s); }
  void epoch_end(Session& s) override { call("epoch_end", s); }
  void end(Session& s) override { call("end", s); }

 private:
  void call(const char* method, Session& session) {
    const nb::gil_scoped_acquire lock;
    const nb::object self = nb::find(static_cast<Callback*>(this));
    if (!self.is_valid()) return;
    const auto view = std::make_shared<SessionView>(session);
    struct Ended {
      SessionView& view;
      ~Ended() { view.end(); }
    } const at_the_end{*view};
    self.attr(method)(view);
  }
};

nb::dict values_of(const std::vector<std::pair<std::string, double>>& values) {
  nb::dict all;
  for (const auto& [name, value] : values) all[name.c_str()] = value;
  return all;
}

nb::dict epoch_dict(const Epoch& epoch) {
  nb::dict all = values_of(epoch.values);
  all["epoch"] = epoch.epoch;
  all["seconds"] = epoch.seconds;
  all["rate"] = epoch.rate;
  return all;
}

// A name, or a function of output and target.
Loss to_loss(nb::handle value) {
  std::string name;
  if (nb::try_cast<std::string>(value, name)) return loss_by_name(name);
  if (!PyCallable_Check(value.ptr())) throw nb::type_error("loss: expected a name or a function of (output, target)");
  return {nb::hasattr(value, "__name__") ? nb::cast<std::string>(value.attr("__name__")) : "loss",
          nb::cast<std::function<Tensor(const Tensor&, const Tensor&)>>(value)};
}

// Names, or (name, function of output and target that gives a number for each sample).
std::vector<Metric> to_metrics(nb::handle values) {
  std::vector<Metric> metrics;
  if (values.is_none()) return metrics;
  for (const nb::handle value : nb::cast<nb::sequence>(values)) {
    std::string name;
    if (nb::try_cast<std::string>(value, name)) {
      metrics.push_back(metric_by_name(name));
      continue;
    }
    if (!PyCallable_Check(value.ptr()))
      throw nb::type_error("metrics: expected names, or functions of (output, target)");
    name = nb::cast<std::string>(value.attr("__name__"));
    auto each = nb::cast<std::function<Tensor(const Tensor&, const Tensor&)>>(value);
    metrics.push_back({name,
                       [each](const Tensor& output, const Tensor& target) {
                         const Tensor scores = each(output, target).to(f32);
                         return stack({sum(scores), full({}, static_cast<double>(scores.numel()))});
                       },
                       [](const std::vector<double>& sums) { return sums[1] ? sums[0] / sums[1] : 0; },
                       !nb::hasattr(value, "lower_is_better")});
  }
  return metrics;
}

ProductType to_precision(const std::string& name) { return parse_precision(name); }

FitOptions fit_options(const nb::dict& given) {
  FitOptions o;
  for (const auto& [key, value] : given) {
    const std::string name = nb::cast<std::string>(key);
    if (name == "loss")
      o.loss = to_loss(value);
    else if (name == "optimizer")
      o.optimizer = nb::cast<optim::Optimizer>(value);
    else if (name == "schedule")
      o.schedule = nb::cast<optim::Schedule>(value);
    else if (name == "epochs")
      o.epochs = nb::cast<int>(value);
    else if (name == "batch")
      o.batch = nb::cast<std::int64_t>(value);
    else if (name == "validation")
      o.validation = nb::cast<data::Dataset>(value);
    else if (name == "validation_share")
      o.validation_share = nb::cast<double>(value);
    else if (name == "metrics")
      o.metrics = to_metrics(value);
    else if (name == "monitor")
      o.monitor = nb::cast<std::string>(value);
    else if (name == "run")
      o.run = nb::cast<std::string>(value);
    else if (name == "seed")
      o.seed = nb::cast<std::int64_t>(value);
    else if (name == "resume")
      o.resume = nb::cast<bool>(value);
    else if (name == "save_seconds")
      o.save_seconds = nb::cast<double>(value);
    else if (name == "save_steps")
      o.save_steps = nb::cast<std::int64_t>(value);
    else if (name == "accumulate")
      o.accumulate = nb::cast<std::int64_t>(value);
    else if (name == "average")
      o.average = nb::cast<double>(value);
    else if (name == "precision")
      o.precision = to_precision(nb::cast<std::string>(value));
    else if (name == "mixup")
      o.mixup = nb::cast<double>(value);
    else if (name == "drop_last")
      o.drop_last = nb::cast<bool>(value);
    else if (name == "workers")
      o.workers = nb::cast<int>(value);
    else if (name == "check_layers")
      o.check_layers = nb::cast<bool>(value);
    else if (name == "callbacks")
      o.callbacks = nb::cast<std::vector<CallbackPtr>>(value);
    else if (name == "verbosity")
      o.verbosity = nb::cast<Verbosity>(value);
    else
      throw nb::type_error(("fit() got an unexpected keyword argument '" + name + "'").c_str());
  }
  return o;
}

}  // namespace

void bind_train(nb::module_& m) {
  nb::enum_<Verbosity>(m, "Verbosity")
      .value("automatic", Verbosity::automatic)
      .value("bar", Verbosity::bar)
      .value("lines", Verbosity::lines)
      .value("quiet", Verbosity::quiet);
  nb::class_<History>(m, "History", "What a run has done.")
      .def_prop_ro(
          "epochs",
          [](const History& h) {
            nb::list all;
            for (const Epoch& epoch : h.epochs) all.append(epoch_dict(epoch));
            return all;
          },
          "A dict for each epoch: loss, accuracy, val_loss …")
      .def_ro("monitor", &History::monitor)
      .def_ro("best_epoch", &History::best_epoch)
      .def_ro("best", &History::best)
      .def_ro("seconds", &History::seconds)
      .def_ro("peak_bytes", &History::peak_bytes)
      .def_ro("interrupted", &History::interrupted)
      .def_ro("stopped", &History::stopped)
      .def_ro("run", &History::run);
  nb::class_<SessionView>(m, "Session", "The run, as callbacks see it.")
      .def_prop_ro("optimizer", [](const SessionView& s) { return s.get().optimizer(); })
      .def_prop_ro("history", [](const SessionView& s) { return s.get().history(); })
      .def_prop_ro("epoch", [](const SessionView& s) { return s.get().epoch(); })
      .def_prop_ro("step", [](const SessionView& s) { return s.get().step(); })
      .def_prop_ro("loss", [](const SessionView& s) { return s.get().loss(); })
      .def_prop_ro("run", [](const SessionView& s) { return s.get().run(); })
      .def(
          "stop", [](const SessionView& s, const std::string& why) { s.get().stop(why); },
          "why"_a = "a callback asked for it");
  nb::class_<Callback, PythonCallback>(m, "Callback",
                                       "Methods begin, step_end, epoch_end and end are called with the session.")
      .def(nb::init<>())
      .def("begin", [](Callback&, const SessionView&) {})
      .def("step_end", [](Callback&, const SessionView&) {})
      .def("epoch_end", [](Callback&, const SessionView&) {})
      .def("end", [](Callback&, const SessionView&) {});
  m.def(
      "early_stopping",
      [](int patience, double least_gain, const std::string& monitor) {
        return early_stopping({patience, least_gain, monitor});
      },
      "patience"_a = 5, "least_gain"_a = 0.0, "monitor"_a = "");
  m.def("csv_log", &csv_log, "path"_a);
  m.def("tensorboard", &tensorboard, "folder"_a = "");
  m.def("_fit", [](nn::Module& model, const data::Dataset& dataset, const nb::dict& options) {
    const FitOptions fit_with = fit_options(options);
    return unlocked([&] { return fit(model, dataset, fit_with); });
  });
  m.def(
      "_evaluate",
      [](nn::Module& model, const data::Dataset& dataset, nb::handle loss, nb::handle metrics, std::int64_t batch,
         const std::string& precision, int workers) {
        EvaluateOptions options;
        options.loss = to_loss(loss);
        options.metrics = to_metrics(metrics);
        options.batch = batch;
        options.precision = to_precision(precision);
        options.workers = workers;
        const Score score = unlocked([&] { return evaluate(model, dataset, options); });
        return values_of(score.values);
      },
      "model"_a, "dataset"_a, "loss"_a, "metrics"_a.none(), "batch"_a, "precision"_a, "workers"_a);
  m.def("_predict",
        [](nn::Module& model, const data::Dataset& dataset, std::int64_t batch, const std::string& precision) {
          return unlocked([&] { return predict(model, dataset, {batch, to_precision(precision)}); });
        });
  m.def("_predict_rows", [](nn::Module& model, nb::handle x, std::int64_t batch, const std::string& precision) {
    const Tensor rows = to_tensor(x);
    return unlocked([&] { return predict(model, rows, {batch, to_precision(precision)}); });
  });
  m.def("_find_rate",
        [](nn::Module& model, const data::Dataset& dataset, nb::handle loss, const optim::Optimizer& optimizer,
           std::int64_t batch, double from, double to, std::int64_t steps, std::int64_t seed) {
          RateFinderOptions options;
          options.loss = to_loss(loss);
          options.optimizer = optimizer;
          options.batch = batch;
          options.from = from;
          options.to = to;
          options.steps = steps;
          options.seed = seed;
          const RateFinder found = unlocked([&] { return find_rate(model, dataset, options); });
          return nb::make_tuple(found.suggestion, found.rates, found.losses, found.svg);
        });
  m.def("_load_run", [](const std::string& folder, bool last) {
    TrainedModel trained = unlocked([&] { return load_run(folder, last); });
    return nb::make_tuple(trained.model, trained.classes);
  });
}

}  // namespace varve::python
