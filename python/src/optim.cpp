// Optimisers, schedules of the rate, and averages of weights.
#include "arguments.h"

namespace varve::python {
namespace {

using Numbers = std::vector<std::pair<std::string, double>>;
using optim::Bound, optim::Optimizer, optim::Schedule;

std::vector<Variable> to_variables(nb::handle values, const Where& where) {
  if (!nb::isinstance<nb::list>(values) && !nb::isinstance<nb::tuple>(values))
    wrong_kind(where, "a list of variables", values);
  std::vector<Variable> all;
  for (const nb::handle value : values) {
    Variable variable;
    if (!nb::try_cast<Variable>(value, variable)) wrong_kind(where, "a list of variables", value);
    all.push_back(variable);
  }
  return all;
}

// A changed copy: recipes are passed about, and nobody else's changes.
template <class F>
Optimizer changed(const Optimizer& from, F change) {
  Optimizer copy = from;
  change(copy);
  return copy;
}

void bind_optimizers(nb::module_& m) {
  nb::class_<Optimizer>(m, "Optimizer", R"(How to learn, not yet of any parameters: a recipe that can be passed about.

Methods that change something return another recipe. over(parameters) binds it.

>>> optim.Adam(1e-3).clip_norm(1.0).name
'adam')")
      .def(
          "clip_norm",
          [](const Optimizer& self, nb::handle norm) {
            const double value = to_number(norm, {"clip_norm", "norm", false});
            return changed(self, [&](Optimizer& o) { o.clip_norm(value); });
          },
          "norm"_a.none(), nb::sig("def clip_norm(self, norm: float) -> Optimizer"),
          "Gradients scaled so that their global norm is at most this.\n\n"
          ">>> optim.SGD(0.1).clip_norm(1.0).clips_norm\n1.0")
      .def(
          "clip_value",
          [](const Optimizer& self, nb::handle value) {
            const double most = to_number(value, {"clip_value", "value", false});
            return changed(self, [&](Optimizer& o) { o.clip_value(most); });
          },
          "value"_a.none(), nb::sig("def clip_value(self, value: float) -> Optimizer"),
          "Each entry of the gradients put into ±value.\n\n>>> optim.SGD(0.1).clip_value(0.5).clips_value\n0.5")
      .def(
          "decay_weights_only",
          [](const Optimizer& self) { return changed(self, [](Optimizer& o) { o.decay_weights_only(); }); },
          "No weight decay for parameters of less than two axes: biases and the scales of norms.\n\n"
          ">>> optim.AdamW(1e-3).decay_weights_only().name\n'adamw'")
      .def(
          "group",
          [](const Optimizer& self, std::function<bool(const Variable&)> match, nb::handle rate, nb::handle decay) {
            optim::Group group{std::move(match), to_number(rate, {"group", "rate", false}), {}};
            if (!decay.is_none()) group.weight_decay = to_number(decay, {"group", "weight_decay", false});
            return changed(self, [&](Optimizer& o) { o.group(group); });
          },
          "match"_a, "rate"_a = 1.0, "weight_decay"_a = nb::none(),
          nb::sig("def group(self, match: Callable[[Variable], bool], rate: float = 1.0, weight_decay: float | None = "
                  "None) -> Optimizer"),
          R"(A rule of its own for the parameters that match: a factor of the rate, and a weight decay. The first group holds.

>>> slow = optim.SGD(1.0).group(lambda v: v.name == "b", rate=0.5)
>>> w, b = vv.Variable([1.0], "w"), vv.Variable([1.0], "b")
>>> slow.over([w, b]).apply([vv.ones(1), vv.ones(1)])
>>> w.tolist(), b.tolist()
([0.0], [0.5]))")
      .def(
          "over",
          [](const Optimizer& self, nb::handle parameters, const distributed::Parallel& parallel) {
            const std::vector<Variable> all = to_variables(parameters, {"over", "parameters", false});
            return unlocked([&] { return self.over(all, parallel); });
          },
          "parameters"_a.none(), "parallel"_a = distributed::Parallel{},
          nb::sig("def over(self, parameters: Sequence[Variable], parallel: Parallel = ...) -> BoundOptimizer"),
          "The optimiser at work on these parameters.\n\n>>> optim.Adam(1e-3).over([vv.Variable([1.0])]).steps()\n0")
      .def_prop_ro("name", &Optimizer::name, "\"adam\", say.")
      .def_prop_ro("rate", &Optimizer::rate, "The rate, before any schedule.")
      .def_prop_ro("weight_decay", &Optimizer::weight_decay, "The weight decay.")
      .def_prop_ro("clips_norm", &Optimizer::clips_norm, "The most that the gradients' norm can be; 0: no limit.")
      .def_prop_ro("clips_value", &Optimizer::clips_value, "The most that an entry can be; 0: no limit.")
      .def("__repr__", [](const Optimizer& o) {
        return "<varve optimizer " + o.name() + ", rate " + nb::repr(nb::float_(o.rate())).c_str() + ">";
      });
  nb::class_<Bound>(m, "BoundOptimizer",
                    R"(An optimiser at work on parameters: owns their moments, the rate and the step count.

>>> w = vv.Variable([1.0])
>>> sgd = optim.SGD(0.5).over([w])
>>> sgd.apply([vv.tensor([1.0])])
>>> w.tolist(), sgd.steps()
([0.5], 1))")
      .def(
          "apply",
          [](Bound& self, nb::handle gradients) {
            const std::vector<Tensor> all = to_tensors(gradients, {"apply", "gradients", false});
            unlocked([&] { self.apply(all); });
          },
          "gradients"_a.none(), nb::sig("def apply(self, gradients: Sequence[TensorLike]) -> None"),
          "One step: assigns parameters and state. Inside a compiled function it is recorded.\n\n"
          ">>> w = vv.Variable([1.0])\n>>> optim.SGD(0.25).over([w]).apply([vv.ones(1)])\n>>> w.tolist()\n[0.75]")
      .def(
          "apply_with_norm",
          [](Bound& self, nb::handle gradients) {
            const std::vector<Tensor> all = to_tensors(gradients, {"apply_with_norm", "gradients", false});
            return unlocked([&] { return self.apply_with_norm(all); });
          },
          "gradients"_a.none(), nb::sig("def apply_with_norm(self, gradients: Sequence[TensorLike]) -> Tensor"),
          "The same, and the global norm of the gradients before clipping.\n\n"
          ">>> optim.SGD(0.1).over([vv.Variable([0.0, 0.0])]).apply_with_norm([vv.tensor([3.0, 4.0])]).item()\n5.0")
      .def(
          "apply_whole",
          [](Bound& self, nb::handle gradients) {
            const std::vector<Tensor> all = to_tensors(gradients, {"apply_whole", "gradients", false});
            unlocked([&] { self.apply_whole(all); });
          },
          "gradients"_a.none(), nb::sig("def apply_whole(self, gradients: Sequence[TensorLike]) -> None"),
          "One step by gradients that are the same on every rank already: they are not averaged.\n\n"
          ">>> w = vv.Variable([1.0])\n>>> optim.SGD(0.25).over([w]).apply_whole([vv.ones(1)])\n>>> w.tolist()\n[0.75]")
      .def("parameters", &Bound::parameters, nb::sig("def parameters(self) -> list[Variable]"),
           "What it learns.\n\n>>> len(optim.SGD(0.1).over([vv.Variable([0.0])]).parameters())\n1")
      .def("state", &Bound::state, nb::sig("def state(self) -> list[Variable]"),
           "Everything to keep: moments, the step count, the rate.\n\n"
           ">>> sorted(v.name for v in optim.Adam(1e-3).over([vv.Variable([0.0], \"w\")]).state())\n"
           "['m.w', 'rate', 'step', 'v.w']")
      .def(
          "save",
          [](const Bound& self, nb::handle path) {
            const std::string file = to_path(path, {"save", "path", false});
            unlocked([&] { self.save(file); });
          },
          "path"_a.none(), nb::sig("def save(self, path: str | os.PathLike[str]) -> None"),
          "state() as a safetensors file.\n\n"
          ">>> optim.Adam(1e-3).over([vv.Variable([0.0], \"w\")]).save(\"adam.safetensors\")")
      .def(
          "load",
          [](Bound& self, nb::handle path) {
            const std::string file = to_path(path, {"load", "path", false});
            unlocked([&] { self.load(file); });
          },
          "path"_a.none(), nb::sig("def load(self, path: str | os.PathLike[str]) -> None"),
          "Takes all of a file that save() wrote, or nothing.\n\n"
          ">>> w = vv.Variable([1.0], \"w\")\n>>> adam = optim.Adam(1e-3).over([w]); adam.apply([vv.ones(1)])\n"
          ">>> adam.save(\"adam.safetensors\")\n"
          ">>> again = optim.Adam(1e-3).over([w]); again.load(\"adam.safetensors\"); again.steps()\n1")
      .def_prop_rw("rate", &Bound::current_rate, &Bound::set_rate, "The rate now; assign to change it.")
      .def(
          "rate_variable", [](const Bound& self) { return self.rate(); },
          "The rate as the variable that compiled steps read.\n\n"
          ">>> optim.SGD(0.5).over([vv.Variable([0.0])]).rate_variable().value().item()\n0.5")
      .def("steps", &Bound::steps, "Steps taken so far.\n\n>>> optim.SGD(0.1).over([vv.Variable([0.0])]).steps()\n0");
}

void bind_schedules(nb::module_& m) {
  nb::class_<Schedule>(m, "Schedule",
                       R"(A factor of the optimiser's rate over the run: `Schedule("name", factor)` is one of your own.

factor(step, steps, epoch, epochs) returns the factor; epochs have fractions.

>>> halves = optim.Schedule("halves", lambda step, steps, epoch, epochs: 0.5 ** int(epoch))
>>> halves.factor(0, 10, 2.5, 4.0)
0.25)")
      .def(
          "__init__",
          [](Schedule* self, nb::handle name,
             std::function<double(std::int64_t, std::int64_t, double, double)> factor) {
            new (self) Schedule(to_text(name, {"Schedule", "name", false}), [factor](const optim::Progress& p) {
              return factor(p.step, p.steps, p.epoch, p.epochs);
            });
          },
          "name"_a.none(), "factor"_a,
          nb::sig("def __init__(self, name: str, factor: Callable[[int, int, float, float], float]) -> None"))
      .def(
          "factor",
          [](const Schedule& s, nb::handle step, nb::handle steps, nb::handle epoch, nb::handle epochs) {
            const optim::Progress at{
                to_integer(step, {"factor", "step", false}), to_integer(steps, {"factor", "steps", false}),
                to_number(epoch, {"factor", "epoch", false}), to_number(epochs, {"factor", "epochs", false})};
            return unlocked([&] { return s.factor(at); });
          },
          "step"_a.none(), "steps"_a.none(), "epoch"_a.none() = 0.0, "epochs"_a.none() = 1.0,
          nb::sig("def factor(self, step: int, steps: int, epoch: float = 0.0, epochs: float = 1.0) -> float"),
          "The factor at a point of the run; schedules by epochs need those too.\n\n>>> optim.cosine().factor(0, "
          "10)\n1.0")
      .def(
          "after_warmup",
          [](const Schedule& s, nb::handle epochs) {
            return s.after_warmup(to_number(epochs, {"after_warmup", "epochs", false}));
          },
          "epochs"_a.none(), nb::sig("def after_warmup(self, epochs: float) -> Schedule"),
          "Rises linearly from 0 during these epochs, then this schedule.\n\n"
          ">>> optim.constant().after_warmup(2.0).factor(0, 10, 1.0, 10.0)\n0.5")
      .def(
          "observe",
          [](Schedule& s, nb::handle metric) {
            s.observe(to_number(metric, {"observe", "metric", false}));
          },
          "metric"_a.none(), nb::sig("def observe(self, metric: float) -> None"),
          "At the end of an epoch: lower is better. The plateau rule alone remembers it.\n\n"
          ">>> optim.plateau().observe(0.5)")
      .def("state", &Schedule::state, "What it remembers, for a checkpoint.\n\n>>> optim.constant().state()\n[]")
      .def("restore", &Schedule::restore, "state"_a, "Takes what it remembered.\n\n>>> optim.constant().restore([])")
      .def_prop_ro("name", &Schedule::name, "\"cosine\", say.")
      .def("__repr__", [](const Schedule& s) { return "<varve schedule " + s.name() + ">"; });
  m.def(
      "_milestones", [](const std::vector<double>& epochs, double factor) { return optim::milestones(epochs, factor); },
      "epochs"_a, "factor"_a);
}

}  // namespace

void bind_optim(nb::module_& m) {
  bind_optimizers(m);
  bind_schedules(m);
  nb::class_<optim::Average>(m, "Average", R"(A moving average of parameters, to evaluate with.

>>> w = vv.Variable([0.0])
>>> average = optim.Average([w], decay=0.5)
>>> w.assign([1.0]); average.update(); average.swap()
>>> w.tolist()
[0.5])")
      .def(
          "__init__",
          [](optim::Average* self, nb::handle parameters, nb::handle decay) {
            const std::vector<Variable> all = to_variables(parameters, {"Average", "parameters", false});
            const double share = to_number(decay, {"Average", "decay", false});
            const Unlocked meanwhile;
            new (self) optim::Average(all, share);
          },
          "parameters"_a.none(), "decay"_a = 0.999,
          nb::sig("def __init__(self, parameters: Sequence[Variable], decay: float = 0.999) -> None"))
      .def_static(
          "equal",
          [](nb::handle parameters) {
            const std::vector<Variable> all = to_variables(parameters, {"Average.equal", "parameters", false});
            return unlocked([&] { return optim::Average::equal(all); });
          },
          "parameters"_a.none(), nb::sig("def equal(parameters: Sequence[Variable]) -> Average"),
          "The mean of what they were at each update(): stochastic weight averaging.\n\n"
          ">>> w = vv.Variable([0.0])\n>>> mean = optim.Average.equal([w])\n"
          ">>> w.assign([1.0]); mean.update(); w.assign([3.0]); mean.update(); mean.swap()\n>>> w.tolist()\n[2.0]")
      .def(
          "update", [](optim::Average& a) { unlocked([&] { a.update(); }); },
          "After each step; inside a compiled function it is recorded.\n\n>>> "
          "optim.Average([vv.Variable([0.0])]).update()")
      .def(
          "swap", [](optim::Average& a) { unlocked([&] { a.swap(); }); },
          "Exchanges parameters and averages; again to go back.\n\n>>> optim.Average([vv.Variable([0.0])]).swap()")
      .def("state", &optim::Average::state, nb::sig("def state(self) -> list[Variable]"),
           "The averages, to keep.\n\n>>> len(optim.Average([vv.Variable([0.0])]).state())\n1");
  nb::class_<optim::RankAverage>(m, "RankAverage", R"(The mean of the weights of ranks that step by themselves.

>>> w = vv.Variable([1.0])
>>> average = optim.RankAverage([w]); average()
>>> w.tolist()
[1.0])")
      .def(
          "__init__",
          [](optim::RankAverage* self, nb::handle variables, double block_momentum) {
            const std::vector<Variable> all = to_variables(variables, {"RankAverage", "variables", false});
            const Unlocked meanwhile;
            new (self) optim::RankAverage(all, block_momentum);
          },
          "variables"_a.none(), "block_momentum"_a = 0.0,
          nb::sig("def __init__(self, variables: Sequence[Variable], block_momentum: float = 0.0) -> None"))
      .def(
          "__call__", [](optim::RankAverage& a) { unlocked([&] { a(); }); },
          "All ranks together, between steps.\n\n>>> optim.RankAverage([vv.Variable([0.0])])()")
      .def("state", &optim::RankAverage::state, nb::sig("def state(self) -> list[Variable]"),
           "What block momentum keeps.\n\n>>> optim.RankAverage([vv.Variable([0.0])]).state()\n[]");
  m.def("_own_optimizer", [](const std::string& name, std::vector<std::string> state,
                             std::function<std::vector<Tensor>(const Tensor&, const Tensor&, const std::vector<Tensor>&,
                                                               const Tensor&, const Tensor&)>
                                 update,
                             double rate, double weight_decay) {
    return Optimizer(
        {name, std::move(state),
         [update](const Optimizer::Slot& slot) {
           std::vector<Tensor> all = update(slot.parameter, slot.gradient, slot.state, slot.rate, slot.step);
           if (all.empty())
             throw Error("optimizer: the update returned nothing; expected the new parameter and its state.");
           return Updated{all[0], {all.begin() + 1, all.end()}};
         }},
        rate, weight_decay);
  });
  m.def("_optimizer", [](const std::string& name, const Numbers& options) { return optim::by_name(name, options); });
  m.def("_optimizers", [] {
    nb::list all;
    for (const std::string& name : optim::names()) all.append(nb::make_tuple(name, optim::options_of(name)));
    return all;
  });
  m.def("_schedule",
        [](const std::string& name, const Numbers& options) { return optim::schedule_by_name(name, options); });
  m.def("_schedules", [] {
    nb::list all;
    for (const std::string& name : optim::schedule_names())
      all.append(nb::make_tuple(name, optim::schedule_options_of(name)));
    return all;
  });
}

}  // namespace varve::python
