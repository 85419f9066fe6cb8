// Runs from their configuration, and their folders.
#include "bindings.h"
#include "fields.h"
#include "interrupt.h"
#include "train.h"

namespace varve::python {
namespace {

using namespace varve::train;

nb::tuple sizes(const Shape& shape) {
  nb::list all;
  for (const std::int64_t size : shape) all.append(size);
  return nb::tuple(all);
}

void bind_config(nb::module_& m) {
  nb::class_<Named>(m, "NamedOptions",
                    "A name and its numbers: an optimiser, a schedule, a transform.\n\n>>> from varve import "
                    "train\n>>> train.load_config('fnn-mnist').optimizer.name\n'adam'")
      .def_rw("name", &Named::name)
      .def_rw("options", &Named::options);
  nb::class_<Config>(
      m, "Config",
      "A run as text: a network, its data and how it is trained.\n\n>>> from varve import train\n>>> config = "
      "train.load_config('fnn-mnist')\n>>> config.epochs = 2\n>>> 'epochs = 2' in config.toml()\nTrue")
      .def_rw("name", &Config::name)
      .def_rw("network", &Config::network)
      .def_rw("layers", &Config::layers)
      .def_rw("sizes", &Config::sizes)
      .def_rw("data", &Config::data)
      .def_rw("data_options", &Config::data_options)
      .def_rw("augment", &Config::augment)
      .def_rw("mean", &Config::mean)
      .def_rw("deviation", &Config::deviation)
      .def_rw("loss", &Config::loss)
      .def_rw("metrics", &Config::metrics)
      .def_rw("output_losses", &Config::output_losses)
      .def_rw("loss_weights", &Config::loss_weights)
      .def_rw("output_metrics", &Config::output_metrics)
      .def_rw("optimizer", &Config::optimizer)
      .def_rw("schedule", &Config::schedule)
      .def_rw("warmup", &Config::warmup)
      .def_rw("clip_norm", &Config::clip_norm)
      .def_rw("clip_value", &Config::clip_value)
      .def_rw("epochs", &Config::epochs)
      .def_rw("batch", &Config::batch)
      .def_rw("validation", &Config::validation)
      .def_rw("seed", &Config::seed)
      .def_rw("accumulate", &Config::accumulate)
      .def_rw("average", &Config::average)
      .def_rw("swa", &Config::swa)
      .def_rw("mixup", &Config::mixup)
      .def_rw("label_smoothing", &Config::label_smoothing)
      .def_rw("class_weights", &Config::class_weights)
      .def_rw("ignore_index", &Config::ignore_index)
      .def_rw("balanced", &Config::balanced)
      .def_rw("buckets", &Config::buckets)
      .def_rw("patience", &Config::patience)
      .def_rw("precision", &Config::precision)
      .def_rw("device", &Config::device)
      .def_rw("threads", &Config::threads)
      .def_rw("deterministic", &Config::deterministic)
      .def_rw("parallel", &Config::parallel)
      .def_rw("workers", &Config::workers)
      .def_rw("tensorboard", &Config::tensorboard)
      .def_rw("save_seconds", &Config::save_seconds)
      .def_rw("save_steps", &Config::save_steps)
      .def_rw("weights", &Config::weights)
      .def_rw("freeze", &Config::freeze)
      .def_rw("reinitialize_mismatched", &Config::reinitialize_mismatched)
      .def_rw("runs", &Config::runs)
      .def("toml", &Config::toml, "All of it as text, with what was left at its standard value too.")
      .def("__repr__", [](const Config& c) { return "<varve config " + c.name + ">"; });
  m.def("_load_config", [](const std::string& name, const std::vector<std::string>& overrides) {
    return unlocked([&] { return load_config(name, overrides); });
  });
  m.def("config_from_toml", &config_from_toml, "text"_a, "name"_a = "network",
        "overrides"_a = std::vector<std::string>{},
        "The configuration that a text describes.\n\n>>> from varve import train\n>>> config = "
        "train.config_from_toml('input = [4]' + chr(10) + '[[layer]]' + chr(10) + 'dense = 3' + chr(10))\n>>> "
        "config.loss\n'cross_entropy'");
  m.def("_config_keys", [] {
    nb::list all;
    for (const ConfigKey& key : config_keys()) all.append(nb::make_tuple(key.name, key.type, key.standard, key.doc));
    return all;
  });
  m.def("make_network", &make_network, "config"_a,
        "The network of a configuration, not built.\n\n>>> from varve import train\n>>> config = "
        "train.config_from_toml('input = [4]' + chr(10) + '[[layer]]' + chr(10) + 'dense = 3' + chr(10))\n>>> "
        "train.make_network(config)\n<varve graph, not built>");
  m.def(
      "network_inputs", [](const Config& config) { return field_list(network_inputs(config)); }, "config"_a,
      "Name, shape and type of each input that a configured network takes.\n\n>>> from varve import train\n>>> config "
      "= "
      "train.load_config('fnn-mnist')\n>>> train.network_inputs(config)[0][1]\n(28, 28, 1)");
  m.def(
      "network_input",
      [](const Config& config) {
        const TensorType type = network_input(config);
        return nb::make_tuple(sizes(type.shape), type.dtype);
      },
      "config"_a,
      "Shape and type of a sample, as the network file or the zoo says.\n\n>>> from varve import train\n>>> config = "
      "train.config_from_toml('input = [4]' + chr(10) + '[[layer]]' + chr(10) + 'dense = 3' + chr(10))\n>>> "
      "train.network_input(config)[0]\n(4,)");
}

}  // namespace

void bind_runs(nb::module_& m) {
  bind_config(m);
  nb::class_<TrainedModel>(
      m, "TrainedModel", nb::dynamic_attr(),
      "A model from its run's folder.\n\n>>> import tempfile\n>>> from varve import train\n>>> few = "
      "(\"data.train=100\", \"data.test=50\")\n>>> result = train.run(\"fnn-mnist\", *few, data=\"digits\", epochs=1, "
      "runs=tempfile.mkdtemp(), verbosity=\"quiet\")\n>>> train.load_run(result.folder).input[0]\n(28, 28, 1)")
      .def_ro("config", &TrainedModel::config)
      .def_ro("model", &TrainedModel::model)
      .def_ro("classes", &TrainedModel::classes)
      .def_prop_ro("vocabulary",
                   [](const TrainedModel& t) -> std::optional<data::Vocabulary> {
                     return t.vocabulary ? std::optional(*t.vocabulary) : std::nullopt;
                   })
      .def_prop_ro("table",
                   [](const TrainedModel& t) -> std::optional<data::TableEncoder> {
                     return t.table ? std::optional(*t.table) : std::nullopt;
                   })
      .def_prop_ro("sound",
                   [](const TrainedModel& t) -> std::optional<data::SoundEncoder> {
                     return t.sound ? std::optional(*t.sound) : std::nullopt;
                   })
      .def_prop_ro("inputs", [](const TrainedModel& t) { return field_list(t.inputs); })
      .def_ro("target_classes", &TrainedModel::target_classes)
      .def_prop_ro("input", [](const TrainedModel& t) { return nb::make_tuple(sizes(t.input), t.dtype); });
  nb::class_<Prepared>(m, "Prepared",
                       "What a configuration comes to: data and a built model.\n\n>>> from varve import train\n>>> "
                       "config = train.load_config(\"fnn-mnist\", \"data.train=100\", \"data.test=20\", "
                       "data=\"digits\")\n>>> len(train.prepare(config).data.test)\n20")
      .def_ro("config", &Prepared::config)
      .def_ro("data", &Prepared::data)
      .def_ro("model", &Prepared::model);
  nb::class_<RunResult>(
      m, "RunResult",
      "What a run of a configuration came to.\n\n>>> import tempfile\n>>> from varve import train\n>>> few = "
      "(\"data.train=100\", \"data.test=50\")\n>>> result = train.run(\"fnn-mnist\", *few, data=\"digits\", epochs=1, "
      "runs=tempfile.mkdtemp(), verbosity=\"quiet\")\n>>> result.tested, result.parameters > 0\n(True, True)")
      .def_ro("config", &RunResult::config)
      .def_ro("history", &RunResult::history)
      .def_ro("tested", &RunResult::tested)
      .def_ro("tested_best", &RunResult::tested_best)
      .def_prop_ro("test", [](const RunResult& r) { return values_of(r.test.values); })
      .def_ro("parameters", &RunResult::parameters)
      .def_ro("folder", &RunResult::folder)
      .def_ro("page", &RunResult::page);
  nb::class_<RunInfo>(
      m, "RunInfo",
      "A run's folder, looked at without its weights.\n\n>>> import tempfile\n>>> from varve import train\n>>> few = "
      "(\"data.train=100\", \"data.test=50\")\n>>> result = train.run(\"fnn-mnist\", *few, data=\"digits\", epochs=1, "
      "runs=tempfile.mkdtemp(), verbosity=\"quiet\")\n>>> len(train.inspect_run(result.folder).history.epochs)\n1")
      .def_ro("folder", &RunInfo::folder)
      .def_prop_ro("state", [](const RunInfo& r) { return name(r.state); })
      .def_ro("holder", &RunInfo::holder, "The process that writes it.")
      .def_ro("config", &RunInfo::config)
      .def_ro("history", &RunInfo::history)
      .def_prop_ro("test", [](const RunInfo& r) { return values_of(r.test); })
      .def("__repr__", [](const RunInfo& r) { return "<varve run " + r.folder + ", " + name(r.state) + ">"; });
  m.def("_load_run",
        [](const std::string& folder, bool last) { return unlocked([&] { return load_run(folder, last); }); });
  m.def("_prepare", [](const Config& config, bool download, bool quiet) {
    return unlocked([&] { return prepare(config, {download, quiet}); });
  });
  m.def(
      "_run",
      [](const Config& config, const std::string& folder, bool resume, Verbosity verbosity, nb::handle progress,
         bool download, std::vector<CallbackPtr> callbacks, const std::vector<data::Dataset>& samples) {
        RunOptions options{.folder = folder, .resume = resume, .verbosity = verbosity, .fetch = {download, false}};
        options.callbacks = std::move(callbacks);
        if (!samples.empty()) options.samples.train = samples[0];
        if (samples.size() > 1) options.samples.validation = samples[1];
        if (!progress.is_none()) options.progress = to_sink(progress);
        Interruptible scope;
        const RunResult result = interruptible(scope, [&] {
          use_machine(config);
          return run(config, options);
        });
        return nb::make_tuple(result, scope.taken());
      },
      "config"_a, "folder"_a, "resume"_a, "verbosity"_a, "progress"_a.none(), "download"_a, "callbacks"_a,
      "samples"_a = std::vector<data::Dataset>{});
  m.def("_choose_network", [](const std::vector<std::string>& overrides, bool download) {
    const Chosen chosen = unlocked([&] { return choose_network(overrides, {download, false}); });
    return nb::make_tuple(chosen.config, chosen.what);
  });
  m.def("_inspect_run", [](const std::string& folder) { return unlocked([&] { return inspect_run(folder); }); });
  m.def("_is_run_folder", &is_run_folder);
  m.def("_run_folders", &run_folders);
  m.def("_new_run_folder", &new_run_folder);
}

}  // namespace varve::python
