// fit, evaluate, predict and the rate finder.
#include <nanobind/trampoline.h>

#include "bindings.h"
#include "fields.h"
#include "interrupt.h"
#include "train.h"

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

// Calls Python. Ctrl-C there ends the run as it does anywhere else; other exceptions come out as they are.
template <class F>
void with_view(Session& session, F call) {
  const nb::gil_scoped_acquire lock;
  const auto view = std::make_shared<SessionView>(session);
  struct Ended {
    SessionView& view;
    ~Ended() { view.end(); }
  } const at_the_end{*view};
  try {
    call(view);
  } catch (nb::python_error& error) {
    if (!Interruptible::ends_work(error)) throw;
    Interruptible::note(std::move(error));
  }
}

class PythonCallback : public Callback {
 public:
  NB_TRAMPOLINE(Callback, 7);
  void begin(Session& s) override { call("begin", s); }
  void step_end(Session& s) override { call("step_end", s); }
  void epoch_end(Session& s) override { call("epoch_end", s); }
  void end(Session& s) override { call("end", s); }
  std::string name() const override { NB_OVERRIDE(name); }
  std::vector<double> state() const override { NB_OVERRIDE(state); }
  void restore(const std::vector<double>& state) override { NB_OVERRIDE(restore, state); }

 private:
  void call(const char* method, Session& session) {
    const nb::gil_scoped_acquire lock;
    const nb::object self = nb::find(static_cast<Callback*>(this));
    if (!self.is_valid()) return;
    with_view(session, [&](const auto& view) { self.attr(method)(view); });
  }
};

std::function<void(Session&)> of_session(std::function<void(std::shared_ptr<SessionView>)> f) {
  return [f](Session& session) { with_view(session, f); };
}

nb::dict epoch_dict(const Epoch& epoch) {
  nb::dict all = values_of(epoch.values);
  all["epoch"] = epoch.epoch;
  all["seconds"] = epoch.seconds;
  all["rate"] = epoch.rate;
  return all;
}

using OfBatch = std::function<Tensor(const Tensor&, const Tensor&)>;

std::string name_of(nb::handle function, const char* otherwise) {
  if (nb::hasattr(function, "name") && nb::isinstance<nb::str>(function.attr("name")))
    return nb::cast<std::string>(function.attr("name"));
  if (nb::hasattr(function, "__name__")) return nb::cast<std::string>(function.attr("__name__"));
  return otherwise;
}

bool flag_of(nb::handle object, const char* name, bool standard) {
  return nb::hasattr(object, name) ? nb::cast<bool>(object.attr(name)) : standard;
}

std::string type_of(nb::handle value) { return nb::cast<std::string>(nb::handle(value.type()).attr("__name__")); }

// A function of (output, target) that gives a tensor.
OfBatch of_batch(nb::handle function, const std::string& what) {
  const auto call = nb::cast<std::function<nb::object(const Tensor&, const Tensor&)>>(function);
  return [call, what](const Tensor& output, const Tensor& target) {
    const nb::gil_scoped_acquire lock;
    const nb::object given = call(output, target);
    Tensor result;
    if (!nb::try_cast<Tensor>(given, result))
      throw nb::type_error((what + " returned a " + type_of(given) + "; expected a Tensor").c_str());
    return result;
  };
}

// An object with sums(output, target), a tensor of a fixed length, and value(sums) of all batches' sums together.
Metric metric_of_sums(nb::handle object) {
  const std::string name = name_of(object, "metric");
  if (!PyCallable_Check(object.attr("sums").ptr()) || !PyCallable_Check(object.attr("value").ptr()))
    throw nb::type_error(("metric " + name + ": sums and value must be functions").c_str());
  return {name, of_batch(object.attr("sums"), "metric " + name + ": sums"),
          nb::cast<std::function<double(const std::vector<double>&)>>(object.attr("value")),
          flag_of(object, "higher_is_better", true)};
}

// A function of (output, target): a number, or one for each sample; their mean is the metric.
Metric metric_of_function(nb::handle function) {
  return {
      name_of(function, "metric"),
      [each = of_batch(function, "metric " + name_of(function, "metric"))](const Tensor& output, const Tensor& target) {
        const Tensor scores = each(output, target).to(f32);
        const double samples = scores.rank() == 0 ? static_cast<double>(output.dim(0)) : scores.numel();
        return stack({scores.rank() == 0 ? scores * samples : sum(scores), full({}, samples)});
      },
      [](const std::vector<double>& sums) { return sums[1] ? sums[0] / sums[1] : 0; },
      flag_of(function, "higher_is_better", !nb::hasattr(function, "lower_is_better"))};
}

Metric to_metric(nb::handle value) {
  std::string name;
  if (nb::try_cast<std::string>(value, name)) return metric_by_name(name);
  if (nb::isinstance<Metric>(value)) return nb::cast<Metric>(value);
  if (nb::hasattr(value, "sums") && nb::hasattr(value, "value")) return metric_of_sums(value);
  if (PyCallable_Check(value.ptr())) return metric_of_function(value);
  throw nb::type_error(
      "metrics: expected names, metrics of varve.train, functions of (output, target), or objects with "
      "sums(output, target) and value(sums)");
}

std::vector<Metric> to_metrics(nb::handle values) {
  std::vector<Metric> metrics;
  if (values.is_none()) return metrics;
  if (nb::isinstance<nb::dict>(values)) {  // of several outputs
    for (const auto& [output, own] : nb::borrow<nb::dict>(values))
      for (const Metric& metric : to_metrics(own)) metrics.push_back(of(nb::cast<std::string>(output), metric));
    return metrics;
  }
  if (nb::isinstance<nb::str>(values)) return {to_metric(values)};
  if (!nb::isinstance<nb::sequence>(values)) return {to_metric(values)};
  for (const nb::handle value : nb::borrow<nb::sequence>(values)) metrics.push_back(to_metric(value));
  return metrics;
}

// A schedule, or a function of (step, steps, epoch, epochs) that gives a factor of the rate.
optim::Schedule to_schedule(nb::handle value) {
  if (nb::isinstance<optim::Schedule>(value)) return nb::cast<optim::Schedule>(value);
  if (!PyCallable_Check(value.ptr()))
    throw nb::type_error("schedule: expected a name, a schedule of varve.optim, or a function of train.Progress");
  using Factor = std::function<double(std::int64_t, std::int64_t, double, double)>;
  return {name_of(value, "own"),
          [f = nb::cast<Factor>(value), last = std::make_shared<double>(1)](const optim::Progress& p) {
            try {
              *last = f(p.step, p.steps, p.epoch, p.epochs);
            } catch (nb::python_error& error) {
              // Called between steps: the one to come may be done before the run ends.
              if (!Interruptible::ends_work(error)) throw;
              Interruptible::note(std::move(error));
            }
            return *last;
          }};
}

FitOptions fit_options(const nb::dict& given) {
  FitOptions o;
  const auto take = [&](const char* name, auto& field) {
    if (!given.contains(name)) return;
    try {
      field = nb::cast<std::decay_t<decltype(field)>>(given[name]);
    } catch (const nb::cast_error&) {
      const nb::object value = given[name];
      throw nb::type_error(("fit: " + std::string(name) + " cannot be " + nb::cast<std::string>(nb::repr(value)) +
                            " (" + nb::cast<std::string>(nb::handle(value.type()).attr("__name__")) + ")")
                               .c_str());
    }
  };
  if (given.contains("loss")) o.loss = to_loss(given["loss"]);
  if (given.contains("schedule")) o.schedule = to_schedule(given["schedule"]);
  if (given.contains("metrics")) o.metrics = to_metrics(given["metrics"]);
  std::string precision = "f32";
  take("precision", precision);
  o.precision = parse_precision(precision);
  if (given.contains("progress")) o.progress = to_sink(given["progress"]);
  take("optimizer", o.optimizer);
  take("epochs", o.epochs);
  take("batch", o.batch);
  take("validation", o.validation);
  take("validation_share", o.validation_share);
  take("monitor", o.monitor);
  take("run", o.run);
  take("seed", o.seed);
  take("resume", o.resume);
  take("overwrite", o.overwrite);
  take("save_seconds", o.save_seconds);
  take("save_steps", o.save_steps);
  take("accumulate", o.accumulate);
  take("average", o.average);
  take("swa", o.swa);
  take("mixup", o.mixup);
  take("drop_last", o.drop_last);
  take("buckets", o.buckets);
  take("balanced", o.balanced);
  take("sampling", o.sampling);
  take("workers", o.workers);
  take("check_layers", o.check_layers);
  take("callbacks", o.callbacks);
  take("verbosity", o.verbosity);
  take("config", o.config);
  take("parallel", o.parallel);
  return o;
}

void bind_losses_and_metrics(nb::module_& m) {
  nb::class_<Loss>(
      m, "Loss",
      "A loss of the library: a function of (output, target), the mean over a batch.\n\n>>> import varve as vv\n>>> "
      "from varve import train\n>>> train.mse.name, train.mse(vv.ones(2), vv.zeros(2)).item()\n('mse', 1.0)")
      .def_ro("name", &Loss::name)
      .def_ro("of_input", &Loss::of_input)
      .def(
          "__call__",
          [](const Loss& loss, nb::handle output, nb::handle target, nb::handle weights) {
            if (loss.of_all) {
              const Tensors all = tensors_of(output), targets = tensors_of(target);
              return unlocked([&] { return loss.of_all(all, targets); });
            }
            if (!loss.parts.empty()) throw Error(loss.name + ": is of several outputs: call its parts.");
            const Tensor o = to_tensor(output), t = to_tensor(target);
            const Tensor w = weights.is_none() ? Tensor() : to_tensor(weights);
            return unlocked([&] { return loss(o, t, w); });
          },
          "output"_a, "target"_a, "weights"_a.none() = nb::none(),
          "The mean over a batch; with weights of samples or steps, Σ w·loss / Σ w.")
      .def_ro("ignore_index", &Loss::ignore_index)
      .def_ro("of_output", &Loss::of_output, "Of a part: which output, by its name or its place.")
      .def_ro("weight", &Loss::weight, "Of a part, in the sum.")
      .def_ro("parts", &Loss::parts, "The losses of several outputs; empty: it is of one.")
      .def("__repr__", [](const Loss& loss) { return "<varve loss " + loss.name + ">"; });
  m.def(
      "losses",
      [](const nb::dict& of_outputs, const std::map<std::string, double>& weights) {
        std::vector<std::pair<std::string, Loss>> parts;
        for (const auto& [output, loss] : of_outputs) parts.emplace_back(nb::cast<std::string>(output), to_loss(loss));
        return losses(parts, weights);
      },
      "of_outputs"_a, "weights"_a = std::map<std::string, double>{},
      "The sum of a loss for each of several outputs, by their names or, \"0\", their places. Weights that are left "
      "out "
      "are 1.\n\n>>> from varve import train\n>>> train.losses({\"digit\": \"cross_entropy\", \"size\": "
      "\"mse\"}, {\"size\": 0.1}).name\n'digit: cross_entropy + size: mse × 0.1'");
  m.def(
      "joint_loss",
      [](const std::string& name, std::function<Tensor(nb::object, nb::object)> f) {
        return joint_loss(name, [f](const Tensors& outputs, const Tensors& targets) {
          const nb::gil_scoped_acquire lock;
          return f(tensors_object(outputs), tensors_object(targets));
        });
      },
      "name"_a, "function"_a,
      "A loss of all outputs and targets at once.\n\n>>> import varve as vv\n>>> from varve import train\n>>> both = "
      "train.joint_loss(\"both\", lambda outputs, targets: train.mse(outputs[\"a\"], targets[\"a\"]))\n>>> "
      "both({\"a\": vv.ones(2)}, {\"a\": vv.zeros(2)}).item()\n1.0");
  m.def(
      "of", [](const std::string& output, nb::handle metric) { return of(output, to_metric(metric)); }, "output"_a,
      "metric"_a,
      "A metric of one of several outputs.\n\n>>> from varve import train\n>>> train.of(\"digit\", "
      "train.accuracy).of_output\n'digit'");
  m.def("smoothed_cross_entropy", &smoothed_cross_entropy, "smoothing"_a,
        "Cross-entropy with a share of each target spread over all classes.\n\n>>> from varve import train\n>>> "
        "train.smoothed_cross_entropy(0.1).name\n'smoothed_cross_entropy'");
  m.def(
      "cross_entropy_with",
      [](std::vector<double> class_weights, std::optional<std::int64_t> ignore_index, double smoothing) {
        return cross_entropy_with(
            {.class_weights = std::move(class_weights), .ignore_index = ignore_index, .smoothing = smoothing});
      },
      "class_weights"_a = std::vector<double>{}, "ignore_index"_a.none() = nb::none(), "smoothing"_a = 0.0,
      "Cross-entropy in which classes count differently, or a label counts for nothing.\n\n>>> import varve as "
      "vv\n>>> from varve import train\n>>> loss = train.cross_entropy_with(class_weights=[1, 3], "
      "ignore_index=-1)\n>>> round(loss(vv.zeros((2, 2)), vv.tensor([1, -1])).item(), 4)\n0.6931");
  m.def("balanced_class_weights", &balanced_class_weights, "dataset"_a,
        "What makes each class of the data count as much as any other.\n\n>>> import numpy\n>>> from varve import "
        "data, train\n>>> train.balanced_class_weights(data.dataset(numpy.zeros((4, 1), 'float32'), numpy.array([0, 0, "
        "0, 1])))\n[0.6666666666666666, 2.0]");
  m.def(
      "find_boxes",
      [](nb::handle output, double score, double overlap, std::int64_t most) {
        const Tensor o = to_tensor(output);
        const auto found = unlocked([&] { return find_boxes(o, {score, overlap, most}); });
        nb::list pictures;
        for (const auto& boxes : found) {
          nb::list all;
          for (const FoundBox& box : boxes) {
            nb::dict one;
            one["kind"] = box.kind;
            one["score"] = box.score;
            one["box"] = nb::make_tuple(box.left, box.top, box.right, box.bottom);
            all.append(one);
          }
          pictures.append(all);
        }
        return pictures;
      },
      "output"_a, "score"_a = 0.3, "overlap"_a = 0.5, "most"_a = 100,
      "The boxes of each picture in the output of a network that was trained with the loss detection, the surest "
      "first: dicts of kind (the class), score and box (left, top, right, bottom, in shares of the picture).\n\n>>> "
      "import numpy\n>>> from varve import train\n>>> output = numpy.full((1, 2, 2, 6), -5, 'float32')\n>>> output[0, "
      "1, 1] = [5, 0, 0, 0, 0, 1]\n>>> [len(boxes) for boxes in train.find_boxes(output)]\n[1]");
  m.def("loss_by_name", &loss_by_name, "name"_a,
        "A loss of the library.\n\n>>> from varve import train\n>>> train.loss_by_name('huber')\n<varve loss huber>");
  nb::class_<Metric>(m, "Metric",
                     "What is measured beside the loss: sums of each batch, and the value of all of them.\n\n>>> from "
                     "varve import train\n>>> train.accuracy.name, train.accuracy.higher_is_better\n('accuracy', True)")
      .def_ro("name", &Metric::name)
      .def_ro("higher_is_better", &Metric::higher_is_better)
      .def_ro("of_output", &Metric::of_output, "Of several outputs: which, by its name or its place.")
      .def(
          "sums",
          [](const Metric& metric, nb::handle output, nb::handle target, nb::handle weights) {
            const Tensor o = to_tensor(output), t = to_tensor(target);
            if (weights.is_none()) return unlocked([&] { return metric.sums(o, t); });
            const Tensor w = to_tensor(weights);
            if (!metric.weighted) throw Error("metric \"" + metric.name + "\": takes no weights.");
            return unlocked([&] { return metric.weighted(o, t, w); });
          },
          "output"_a, "target"_a, "weights"_a.none() = nb::none(),
          "What a batch adds to the metric.\n\n>>> train.accuracy.sums(vv.tensor([[0.1, 0.9]]), "
          "vv.tensor([1])).tolist()"
          "\n[1.0, 1.0]")
      .def(
          "value", [](const Metric& metric, const std::vector<double>& sums) { return metric.value(sums); }, "sums"_a,
          "The metric, of the sums of all batches.\n\n>>> train.accuracy.value([3.0, 4.0])\n0.75")
      .def("__repr__", [](const Metric& metric) { return "<varve metric " + metric.name + ">"; });
  m.def("metric_by_name", &metric_by_name, "name"_a,
        "A metric of the library.\n\n>>> from varve import train\n>>> train.metric_by_name('f1')\n<varve metric f1>");
  m.def("top_k_accuracy", &top_k_accuracy, "k"_a = 5,
        "Whether the true class is among the k likeliest.\n\n>>> from varve import train\n>>> "
        "train.top_k_accuracy(3).name\n'top3'");
  m.def("confusion", &confusion, "classes"_a,
        "The matrix of true and predicted classes; its value is the accuracy.\n\n>>> from varve import train\n>>> "
        "train.confusion(10).name\n'confusion'");
  m.def(
      "area_under_curve",
      [](const std::vector<double>& scores, const std::vector<int>& labels) { return auc(scores, labels); }, "scores"_a,
      "labels"_a,
      "Area under the ROC curve of all predictions at once, exact.\n\n>>> from varve import train\n>>> "
      "train.area_under_curve([0.1, 0.4, 0.9], [0, 0, 1])\n1.0");
  m.def("_class_scores", [](const std::vector<double>& counts, std::int64_t classes) {
    nb::list all;
    for (const ClassScores& each : class_scores(counts, classes))
      all.append(nb::make_tuple(each.precision, each.recall, each.f1, each.support));
    return all;
  });
}

void bind_callbacks(nb::module_& m) {
  nb::class_<SessionView>(
      m, "Session",
      "The run, as callbacks see it while they are called.\n\n>>> import numpy\n>>> from varve import nn, train\n>>> "
      "x, y = numpy.eye(8, dtype=\"float32\"), numpy.arange(8) % 2\n>>> model = nn.Sequential(nn.Dense(2))\n>>> _ = "
      "model.fit(x, y, callbacks=[lambda session: print(session.epoch, session.step)], verbosity=\"quiet\")\n1 1")
      .def_prop_ro("model", [](const SessionView& s) { return nb::find(s.get().model()); })
      .def_prop_ro("optimizer", [](const SessionView& s) { return s.get().optimizer(); })
      .def_prop_ro("history", [](const SessionView& s) { return s.get().history(); })
      .def_prop_ro(
          "epoch", [](const SessionView& s) { return s.get().epoch(); }, "From 1.")
      .def_prop_ro(
          "step", [](const SessionView& s) { return s.get().step(); }, "In the whole run, from 1.")
      .def_prop_ro(
          "loss", [](const SessionView& s) { return s.get().loss(); }, "Of the last step.")
      .def_prop_ro(
          "run", [](const SessionView& s) { return s.get().run(); }, "The folder; empty when there is none.")
      .def_prop_ro(
          "value_names", [](const SessionView& s) { return s.get().value_names(); }, "What every epoch will have.")
      .def(
          "stop", [](const SessionView& s, const std::string& why) { s.get().stop(why); },
          "why"_a = "a callback asked for it",
          "Ends the run after this step.\n\n>>> import numpy\n>>> stop = train.each_epoch(lambda session: "
          "session.stop('enough'))\n>>> nn.Sequential(nn.Dense(2)).fit(numpy.eye(4, dtype='float32'), numpy.arange(4) "
          "% 2, "
          "epochs=9, callbacks=[stop], verbosity='quiet').stopped\n'enough'");
  nb::class_<Callback, PythonCallback>(
      m, "Callback",
      "Subclasses override begin, step_end, epoch_end and end, which are called with the session. With a name(), what "
      "state() gives (numbers) is kept in checkpoints, and restore(state) gets it back when a run is resumed.\n\n>>> "
      "import numpy\n>>> from varve import nn, train\n>>> x, y = numpy.eye(8, dtype=\"float32\"), numpy.arange(8) % "
      "2\n>>> model = nn.Sequential(nn.Dense(2))\n>>> class Stop(train.Callback):\n...     def epoch_end(self, "
      "session):\n...         session.stop(\"enough\")\n>>> model.fit(x, y, epochs=9, callbacks=[Stop()], "
      "verbosity=\"quiet\").stopped\n'enough'")
      .def(nb::init<>())
      .def(
          "begin", [](Callback&, const SessionView&) {}, "session"_a)
      .def(
          "step_end", [](Callback&, const SessionView&) {}, "session"_a)
      .def(
          "epoch_end", [](Callback&, const SessionView&) {}, "session"_a)
      .def(
          "end", [](Callback&, const SessionView&) {}, "session"_a)
      .def("name", [](const Callback& c) { return c.Callback::name(); })
      .def("state", [](const Callback& c) { return c.Callback::state(); })
      .def(
          "restore", [](Callback& c, const std::vector<double>& state) { c.Callback::restore(state); }, "state"_a);
  m.def(
      "early_stopping",
      [](int patience, double least_gain, const std::string& monitor) {
        return early_stopping({patience, least_gain, monitor});
      },
      "patience"_a = 5, "least_gain"_a = 0.0, "monitor"_a = "",
      "Ends a run after so many epochs without a better value.\n\n>>> import numpy\n>>> from varve import nn, "
      "train\n>>> x, y = numpy.eye(8, dtype=\"float32\"), numpy.arange(8) % 2\n>>> model = "
      "nn.Sequential(nn.Dense(2))\n>>> _ = model.fit(x, y, epochs=3, callbacks=[train.early_stopping(patience=2)], "
      "verbosity=\"quiet\")");
  m.def("csv_log", &csv_log, "path"_a,
        "Writes the table of epochs to a file, anew after each.\n\n>>> import tempfile\n>>> import numpy\n>>> from "
        "varve import nn, train\n>>> x, y = numpy.eye(8, dtype=\"float32\"), numpy.arange(8) % 2\n>>> model = "
        "nn.Sequential(nn.Dense(2))\n>>> path = tempfile.mkdtemp() + \"/log.csv\"\n>>> _ = model.fit(x, y, "
        "callbacks=[train.csv_log(path)], verbosity=\"quiet\")\n>>> open(path).readline().split(\",\")[0]\n'epoch'");
  m.def("tensorboard", &tensorboard, "folder"_a = "",
        "Writes event files; unless named, into the run's folder.\n\n>>> import os, tempfile\n>>> import numpy\n>>> "
        "from varve import nn, train\n>>> x, y = numpy.eye(8, dtype=\"float32\"), numpy.arange(8) % 2\n>>> model = "
        "nn.Sequential(nn.Dense(2))\n>>> folder = tempfile.mkdtemp()\n>>> _ = model.fit(x, y, "
        "callbacks=[train.tensorboard(folder)], verbosity=\"quiet\")\n>>> len(os.listdir(folder))\n1");
  m.def(
      "each_epoch",
      [](std::function<void(std::shared_ptr<SessionView>)> f) { return each_epoch(of_session(std::move(f))); },
      "function"_a,
      "Calls a function with the session after each epoch.\n\n>>> import numpy\n>>> from varve import nn, train\n>>> "
      "x, y = numpy.eye(8, dtype=\"float32\"), numpy.arange(8) % 2\n>>> model = nn.Sequential(nn.Dense(2))\n>>> seen = "
      "[]\n>>> _ = model.fit(x, y, epochs=2, callbacks=[train.each_epoch(lambda s: seen.append(s.epoch))], "
      "verbosity=\"quiet\")\n>>> seen\n[1, 2]");
  m.def(
      "each_step",
      [](std::function<void(std::shared_ptr<SessionView>)> f) { return each_step(of_session(std::move(f))); },
      "function"_a,
      "Calls a function with the session after each step.\n\n>>> import numpy\n>>> from varve import nn, train\n>>> x, "
      "y = numpy.eye(8, dtype=\"float32\"), numpy.arange(8) % 2\n>>> model = nn.Sequential(nn.Dense(2))\n>>> seen = "
      "[]\n>>> _ = model.fit(x, y, batch=4, callbacks=[train.each_step(lambda s: seen.append(s.step))], "
      "verbosity=\"quiet\")\n>>> seen\n[1, 2]");
}

}  // namespace

nb::dict values_of(const std::vector<std::pair<std::string, double>>& values) {
  nb::dict all;
  for (const auto& [name, value] : values) all[name.c_str()] = value;
  return all;
}

// A name, a loss of the library, or a function of output and target: a number, or one for each sample.
Loss to_loss(nb::handle value) {
  std::string name;
  if (nb::try_cast<std::string>(value, name)) return loss_by_name(name);
  if (nb::isinstance<Loss>(value)) return nb::cast<Loss>(value);
  if (nb::isinstance<nb::dict>(value)) {  // of several outputs, alone or with its weight
    std::vector<std::pair<std::string, Loss>> parts;
    std::map<std::string, double> weights;
    for (const auto& [key, own] : nb::borrow<nb::dict>(value)) {
      const auto output = nb::cast<std::string>(key);
      const bool weighted = nb::isinstance<nb::tuple>(own) && nb::len(own) == 2;
      parts.emplace_back(output, to_loss(weighted ? nb::object(own[0]) : nb::borrow(own)));
      if (weighted) weights[output] = nb::cast<double>(own[1]);
    }
    return losses(parts, weights);
  }
  if (!PyCallable_Check(value.ptr()))
    throw nb::type_error("loss: expected a name, a loss of varve.train, or a function of (output, target)");
  const std::string name_given = name_of(value, "loss");
  const auto f = of_batch(value, "loss " + name_given);
  Loss loss{name_given,
            [f](const Tensor& output, const Tensor& target) {
              const Tensor each = f(output, target);
              return each.rank() == 0 ? each : mean(each);
            },
            flag_of(value, "of_input", false)};
  loss.each = [f, name_given](const Tensor& output, const Tensor& target) {
    const Tensor each = f(output, target);
    if (each.rank() == 0)
      throw Error("loss \"" + name_given +
                  "\": takes no weights, as it gives one mean for all. Return the loss of each row.");
    return each;
  };
  return loss;
}

ProgressSink to_sink(nb::handle value) {
  return [f = nb::cast<std::function<void(const std::string&, bool)>>(value)](const std::string& line, bool kept) {
    try {
      f(line, kept);
    } catch (nb::python_error& error) {
      Interruptible::note(std::move(error));  // what is shown must not cost what is trained
    }
  };
}

void bind_train(nb::module_& m) {
  install_interrupts();
  nb::enum_<Verbosity>(m, "Verbosity")
      .value("automatic", Verbosity::automatic)
      .value("bar", Verbosity::bar)
      .value("lines", Verbosity::lines)
      .value("quiet", Verbosity::quiet);
  nb::class_<History>(
      m, "History",
      "What a run has done.\n\n>>> import numpy\n>>> from varve import nn, train\n>>> x, y = numpy.eye(8, "
      "dtype=\"float32\"), numpy.arange(8) % 2\n>>> model = nn.Sequential(nn.Dense(2))\n>>> history = model.fit(x, y, "
      "epochs=2, verbosity=\"quiet\")\n>>> len(history.epochs), history.monitor, sorted(history.epochs[0])\n(2, "
      "'accuracy', ['accuracy', 'epoch', 'loss', 'rate', 'seconds'])")
      .def_prop_ro(
          "epochs",
          [](const History& h) {
            nb::list all;
            for (const Epoch& epoch : h.epochs) all.append(epoch_dict(epoch));
            return all;
          },
          "A dict for each epoch: loss, accuracy, val_loss …")
      .def_ro("monitor", &History::monitor, "The value that decides which epoch was best.")
      .def_ro("best_epoch", &History::best_epoch, "From 1; 0: none yet.")
      .def_ro("most_ahead", &History::most_ahead,
              "Steps that a worker was before the slowest, with a parameter server.")
      .def_ro("best", &History::best)
      .def_ro("seconds", &History::seconds)
      .def_ro("peak_bytes", &History::peak_bytes, "Of a training step, planned.")
      .def_ro("interrupted", &History::interrupted)
      .def_ro("signal", &History::signal)
      .def_ro("stopped", &History::stopped, "Why it ended before the last epoch; empty when it did not.")
      .def_ro("run", &History::run, "The run's folder.")
      .def("curves", &curves_svg,
           "A chart of each value as SVG, and the rate's.\n\n>>> import numpy\n>>> history = "
           "nn.Sequential(nn.Dense(2)).fit(numpy.eye(4, dtype='float32'), numpy.arange(4) % 2, epochs=2, "
           "verbosity='quiet')\n>>> all('<svg' in chart for chart in history.curves())\nTrue");
  bind_losses_and_metrics(m);
  bind_callbacks(m);
  bind_runs(m);
  m.def("_fit", [](nn::Module& model, const data::Dataset& dataset, const nb::dict& options) {
    const FitOptions fit_with = fit_options(options);
    Interruptible scope;
    const History history = interruptible(scope, [&] { return fit(model, dataset, fit_with); });
    return nb::make_tuple(history, scope.taken());
  });
  m.def("_fit_options", [] {
    // Every field of the struct: the test that compares Python's keywords with this fails when one is added.
    const auto [loss, optimizer, schedule, epochs, batch, validation, validation_share, metrics, monitor, run, seed,
                resume, overwrite, save_seconds, save_steps, accumulate, average, swa, precision, mixup, drop_last,
                buckets, balanced, sampling, workers, check_layers, callbacks, verbosity, progress, config, parallel] =
        FitOptions{};
    nb::dict all;
    all["epochs"] = epochs;
    all["batch"] = batch;
    all["validation_share"] = validation_share;
    all["monitor"] = monitor;
    all["run"] = run;
    all["seed"] = seed;
    all["resume"] = resume;
    all["overwrite"] = overwrite;
    all["save_seconds"] = save_seconds;
    all["save_steps"] = save_steps;
    all["accumulate"] = accumulate;
    all["average"] = average;
    all["swa"] = swa;
    all["mixup"] = mixup;
    all["drop_last"] = drop_last;
    all["buckets"] = buckets;
    all["balanced"] = balanced;
    all["workers"] = workers;
    all["check_layers"] = check_layers;
    all["config"] = config;
    return all;
  });
  m.def(
      "_evaluate",
      [](nn::Module& model, const data::Dataset& dataset, nb::handle loss, nb::handle metrics, std::int64_t batch,
         bool confusion, const std::string& precision, int workers, std::int64_t shards, std::int64_t buckets) {
        EvaluateOptions options;
        options.loss = to_loss(loss);
        options.metrics = to_metrics(metrics);
        options.batch = batch;
        options.confusion = confusion;
        options.precision = parse_precision(precision);
        options.workers = workers;
        options.shards = shards;
        options.buckets = buckets;
        const Score score = interruptible([&] { return evaluate(model, dataset, options); });
        return nb::make_tuple(values_of(score.values), score.confusion, score.seconds);
      },
      "model"_a, "dataset"_a, "loss"_a, "metrics"_a.none(), "batch"_a, "confusion"_a, "precision"_a, "workers"_a,
      "shards"_a, "buckets"_a);
  m.def("_predict", [](nn::Module& model, const data::Dataset& dataset, std::int64_t batch,
                       const std::string& precision, int workers) {
    const PredictOptions options{batch, parse_precision(precision), workers};
    return tensors_object(interruptible([&] { return predict_all(model, dataset, options); }));
  });
  m.def("_predict_rows", [](nn::Module& model, nb::handle x, std::int64_t batch, const std::string& precision) {
    const Tensors rows = tensors_of(x);
    const PredictOptions options{batch, parse_precision(precision)};
    return tensors_object(interruptible([&] { return predict_all(model, rows, options); }));
  });
  m.def("_find_rate", [](nn::Module& model, const data::Dataset& dataset, nb::handle loss,
                         const optim::Optimizer& optimizer, std::int64_t batch, double from, double to,
                         std::int64_t steps, std::int64_t seed, const std::string& precision, int workers) {
    const RateFinderOptions options{.loss = to_loss(loss),
                                    .optimizer = optimizer,
                                    .batch = batch,
                                    .from = from,
                                    .to = to,
                                    .steps = steps,
                                    .seed = seed,
                                    .precision = parse_precision(precision),
                                    .workers = workers};
    const RateFinder found = interruptible([&] { return find_rate(model, dataset, options); });
    return nb::make_tuple(found.suggestion, found.rates, found.losses, found.svg);
  });
  m.def("_worst_samples", [](nn::Module& model, const data::Dataset& dataset, nb::handle loss) {
    const Loss of = to_loss(loss);
    const std::vector<WorstSample> worst = interruptible([&] { return worst_samples(model, dataset, of); });
    nb::list all;
    for (const WorstSample& w : worst) all.append(nb::make_tuple(w.index, w.loss, w.truth, w.predicted, w.text, w.png));
    return all;
  });
  m.def("_confusion_svg", &confusion_svg);
}

}  // namespace varve::python
