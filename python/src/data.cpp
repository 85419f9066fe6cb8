// Data sets: the library's own, arrays, and what Python reads (source.cpp).
#include <algorithm>
#include <cstring>

#include "bindings.h"
#include "fields.h"
#include "interrupt.h"
#include "source.h"

namespace varve::python {
namespace {

using data::Dataset;

nb::tuple sizes(const Shape& shape) {
  nb::list all;
  for (const std::int64_t size : shape) all.append(size);
  return nb::tuple(all);
}
nb::tuple type_tuple(const TensorType& type) { return nb::make_tuple(sizes(type.shape), type.dtype); }

// Random numbers of a sample, as long as its transform runs.
class RandomView {
 public:
  explicit RandomView(data::Random& random) : random_(&random) {}
  void end() { random_ = nullptr; }
  data::Random& get() const {
    if (!random_) throw Error("a transform's random numbers can be drawn while it runs, not later.");
    return *random_;
  }

 private:
  data::Random* random_;
};

// A function of (image, random): the image is an array [H, W, C] to change in place, or a new one is returned.
data::Transform python_transform(nb::handle function, bool moves) {
  std::string name = nb::hasattr(function, "__name__") ? nb::cast<std::string>(function.attr("__name__")) : "transform";
  const auto call = nb::cast<std::function<nb::object(nb::object, std::shared_ptr<RandomView>)>>(function);
  const auto apply = [call, name](data::Image& image, data::Random& random) {
    const nb::gil_scoped_acquire lock;
    const auto view = std::make_shared<RandomView>(random);
    struct Ended {
      RandomView& view;
      ~Ended() { view.end(); }
    } const at_the_end{*view};
    const std::size_t shape[] = {static_cast<std::size_t>(image.height), static_cast<std::size_t>(image.width),
                                 static_cast<std::size_t>(image.channels)};
    auto* pixels = new float[image.pixels.size()];
    const nb::capsule owner(pixels, [](void* held) noexcept { delete[] static_cast<float*>(held); });
    std::memcpy(pixels, image.pixels.data(), image.pixels.size_bytes());
    const nb::object array = nb::cast(nb::ndarray<nb::numpy, float>(pixels, 3, shape, owner));
    const nb::object answer = call(array, view);
    const nb::object result =
        nb::module_::import_("numpy").attr("ascontiguousarray")(answer.is_none() ? array : answer, "float32");
    const auto out = nb::cast<nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>>(result);
    if (out.ndim() != 3 || out.shape(0) != shape[0] || out.shape(1) != shape[1] || out.shape(2) != shape[2])
      throw Error("transform " + name + ": it gave an image of shape " +
                  nb::cast<std::string>(nb::repr(result.attr("shape"))) + ", the sample's is " +
                  nb::cast<std::string>(nb::repr(array.attr("shape"))) + ". map_samples may change shapes.");
    std::memcpy(image.pixels.data(), out.data(), image.pixels.size_bytes());
  };
  return {name, apply, {}, moves};
}

// A transform by name with its numbers, or a function.
std::vector<data::Transform> to_transforms(const nb::list& wanted) {
  std::vector<data::Transform> all;
  for (const nb::handle each : wanted) {
    if (nb::isinstance<data::Transform>(each)) {
      all.push_back(nb::cast<data::Transform>(each));
    } else if (nb::isinstance<nb::tuple>(each)) {
      const auto [name, options] = nb::cast<std::pair<std::string, data::TransformOptions>>(each);
      all.push_back(data::transform_by_name(name, options));
    } else {
      const bool moves = !nb::hasattr(each, "moves") || nb::cast<bool>(each.attr("moves"));
      all.push_back(python_transform(each, moves));
    }
  }
  return all;
}

// One epoch of batches, as Python iterates.
class Batches {
 public:
  Batches(Dataset dataset, data::LoaderOptions options)
      : loader_(unlocked([&] { return std::make_unique<data::Loader>(std::move(dataset), options); })) {}
  // (x, y), then the mask of samples that have lengths of their own, then the weights of samples that have some.
  nb::tuple next() {
    if (!loader_) throw nb::stop_iteration();  // it was interrupted
    data::Batch batch;
    Interruptible scope;
    const bool more = interruptible(scope, [&] {
      try {
        return loader_->next(batch);
      } catch (const Interrupted&) {
        loader_ = nullptr;  // now, as long as threads that wait for processes are told to give up
        throw;
      }
    });
    scope.raise_if_asked();
    if (!more) throw nb::stop_iteration();
    nb::list parts;
    parts.append(tensors_object(batch.inputs()));
    parts.append(tensors_object(batch.targets()));
    if (batch.lengths.defined()) parts.append(unlocked([&] { return batch.mask(); }));
    if (batch.weight.defined()) parts.append(batch.weight);
    return nb::tuple(parts);
  }
  ~Batches() {
    unlocked([&] { loader_ = nullptr; });  // waits for workers, who may want the interpreter's lock
  }
  std::int64_t count() const { return loader_ ? loader_->batches() : 0; }
  double waited() const { return loader_ ? loader_->waited_seconds() : 0; }

 private:
  std::unique_ptr<data::Loader> loader_;
};

data::Info info_like(nb::handle like) {
  if (like.is_none()) return {};
  if (nb::isinstance<Dataset>(like)) return nb::cast<const Dataset&>(like).info();
  if (!nb::isinstance<train::TrainedModel>(like))
    throw nb::type_error("like: expected a data set, or a model from a run's folder");
  return nb::cast<const train::TrainedModel&>(like).info();
}

void bind_dataset(nb::module_& m) {
  nb::class_<Dataset>(m, "Dataset", nb::is_weak_referenceable(),
                      "Samples that are read one by one while a network computes.\n\n>>> from varve import data\n>>> "
                      "train = data.digits(train=100, test=10).train\n>>> len(train), train.x[0], len(train.take(5)), "
                      "len(train.range(10, 30)), len(train.subset([4, 2]))\n(100, (28, 28, 1), 5, 20, 2)\n>>> "
                      "held_out, rest = train.split(0.2, seed=1)\n>>> len(held_out), len(rest)\n(20, 80)")
      .def("__len__", &Dataset::size)
      .def_prop_ro(
          "x", [](const Dataset& d) { return type_tuple(d.x()); }, "Shape and type of a sample's input.")
      .def_prop_ro(
          "y", [](const Dataset& d) { return type_tuple(d.y()); }, "Shape and type of a sample's target.")
      .def_prop_ro(
          "classes", [](const Dataset& d) { return d.info().classes; },
          "Names of the classes; empty when they have none.")
      .def(
          "class_count",
          [](const Dataset& d, std::size_t target) { return unlocked([&] { return d.classes(target); }); },
          "target"_a = 0,
          "How many classes there are: named ones, or one more than the largest target.\n\n>>> "
          "data.digits(train=10, test=1).train.class_count()\n10")
      .def("class_names", &Dataset::class_names, "target"_a = 0,
           "Names of the classes of one of several targets; empty when they have none.\n\n>>> len(data.load("
           "'digit_pairs', train=10, test=1).train.class_names())\n19")
      .def_prop_ro(
          "inputs", [](const Dataset& d) { return field_list(d.inputs()); },
          "Name, shape and type of each input of a sample.")
      .def_prop_ro(
          "targets", [](const Dataset& d) { return field_list(d.targets()); },
          "Name, shape and type of each target of a sample.")
      .def_prop_ro(
          "name", [](const Dataset& d) { return d.info().name; }, "What it is called in messages.")
      .def_prop_ro(
          "skipped", [](const Dataset& d) { return d.info().skipped; },
          "Files of a folder that are no pictures that can be read.")
      .def_prop_ro(
          "vocabulary",
          [](const Dataset& d) -> std::optional<data::Vocabulary> {
            return d.info().vocabulary ? std::optional(*d.info().vocabulary) : std::nullopt;
          },
          "The words of its token ids; None when there are none.")
      .def_prop_ro(
          "table",
          [](const Dataset& d) -> std::optional<data::TableEncoder> {
            return d.info().table ? std::optional(*d.info().table) : std::nullopt;
          },
          "How rows of a table became samples; None when they did not.")
      .def_prop_ro(
          "boxes", [](const Dataset& d) { return d.info().boxes; },
          "Whether its targets are rows of (class, left, top, right, bottom).")
      .def(
          "order", [](const Dataset& d, std::uint64_t seed, std::uint64_t epoch) { return d.order(seed, epoch); },
          "seed"_a, "epoch"_a,
          "All samples once, in the order of an epoch.\n\n>>> sorted(data.digits(train=4, test=1).train.order(1, "
          "0))\n[0, 1, 2, 3]")
      .def_prop_ro(
          "sound",
          [](const Dataset& d) -> std::optional<data::SoundEncoder> {
            return d.info().sound ? std::optional(*d.info().sound) : std::nullopt;
          },
          "How sounds became samples; None when they did not.")
      .def_prop_ro("streams", &Dataset::streams, "Of text cut into parallel streams; 0: ordinary data.")
      .def_prop_ro("fixed", &Dataset::fixed, "Whether every epoch sees the same samples: there are no transforms.")
      .def("take", &Dataset::take, "count"_a, "The first samples.")
      .def("range", &Dataset::range, "begin"_a, "end"_a, "Samples from begin to before end.")
      .def("subset", &Dataset::subset, "indices"_a, "These samples, in this order.")
      .def_prop_ro("varies", &Dataset::varies, "Whether samples have lengths of their own, and padding behind.")
      .def("length", &Dataset::length, "index"_a,
           "Steps of this sample.\n\n>>> import numpy\n>>> data.dataset(numpy.ones((2, 5), 'int32'), numpy.array([0, "
           "1])).with_lengths([2, 5]).length(0)\n2")
      .def_prop_ro("has_weights", &Dataset::has_weights, "Whether samples do not all count the same.")
      .def("weight", &Dataset::weight, "index"_a,
           "What this sample counts in losses and metrics.\n\n>>> data.digits(train=10, test=1).train.weight(0)\n1.0")
      .def(
          "labels", [](const Dataset& d) { return unlocked([&] { return d.labels(); }); },
          "The class of each sample, of one class number each.\n\n>>> import numpy\n>>> "
          "data.dataset(numpy.zeros((3, 2), 'float32'), numpy.array([2, 0, 1])).labels()\n[2, 0, 1]")
      .def("with_lengths", &Dataset::with_lengths, "lengths"_a,
           "Samples whose steps end at these lengths; what is behind is padding.\n\n>>> import numpy\n>>> texts = "
           "data.dataset(numpy.ones((2, 5), 'int32'), numpy.array([0, 1])).with_lengths([2, 5])\n>>> texts.varies, "
           "texts.length(0)\n(True, 2)")
      .def("with_weights", &Dataset::with_weights, "weights"_a,
           "What each sample counts in losses and metrics.\n\n>>> import numpy\n>>> "
           "data.dataset(numpy.ones((2, 5), 'float32'), numpy.array([0, 1])).with_weights([1, 0.5]).weight(1)\n0.5")
      .def("with_classes", &Dataset::with_classes, "classes"_a,
           "Numbered as these classes, matched by name.\n\n>>> digits = data.digits(train=10, test=1).train\n>>> "
           "digits.with_classes([str(n) for n in range(10)]).classes[-1]\n'9'")
      .def("split", &Dataset::split, "share"_a, "seed"_a = 0, "A share chosen by the seed, and the rest.")
      .def("as_part", &Dataset::as_part, "sizes"_a, "classes"_a = 0,
           "Samples that lie apart: these are one rank's alone, and rank r has sizes[r] others.\n\n>>> data.digits("
           "train=10, test=1).train.as_part([10, 7]).total\n17")
      .def_prop_ro("parts", &Dataset::parts, "How many samples each rank has; empty: every rank can read all.")
      .def_prop_ro("total", &Dataset::total,
                   "The samples of all ranks' parts; as many as there are, where there are none.")
      .def("_map_targets",
           [](const Dataset& d, const std::string& name, const std::vector<double>& v) {
             if (name == "log") return d.map_targets(data::log_targets());
             if (name == "one_hot") return d.map_targets(data::one_hot_targets(static_cast<std::int64_t>(v.at(0))));
             if (name == "scale") return d.map_targets(data::scale_targets(v.at(0), v.at(1)));
             throw Error("unknown transform of targets '" + name + "'." +
                         did_you_mean(name, {"log", "one_hot", "scale"}) + " Known: log, one_hot, scale.");
           })
      .def("_map", [](const Dataset& d, const nb::list& wanted,
                      const std::string& input) { return d.map(to_transforms(wanted), input); })
      .def("_whole",
           [](const Dataset& d) {
             const auto [x, y] = interruptible([&] {
               auto all = data::whole_fields(d, [] { return !interrupt_asked(); });
               if (!all) throw Interrupted("interrupted.");
               return *all;
             });
             return nb::make_tuple(tensors_object(x), tensors_object(y));
           })
      .def(
          "at",
          [](const Dataset& d, std::int64_t index) {
            const std::int64_t at = index < 0 ? index + d.size() : index;
            if (at < 0 || at >= d.size())
              throw nb::index_error(("sample " + std::to_string(index) + " of " + std::to_string(d.size())).c_str());
            const auto [x, y] = unlocked([&] { return d.sample(at); });
            return nb::make_tuple(tensors_object(x), tensors_object(y));
          },
          "index"_a,
          "One sample, transformed as in epoch 0 with seed 0.\n\n>>> x, y = data.digits(train=10, "
          "test=1).train.at(-1)\n>>> "
          "x.shape, y.shape\n((28, 28, 1), ())");
  nb::class_<data::Splits>(m, "Splits",
                           "The parts of a data set.\n\n>>> from varve import data\n>>> parts = data.digits(train=100, "
                           "test=10)\n>>> len(parts.train), len(parts.test), parts.validation\n(100, 10, None)")
      .def_prop_ro("train", [](const data::Splits& s) { return s.train; })
      .def_prop_ro("test",
                   [](const data::Splits& s) -> std::optional<Dataset> {
                     return s.test.defined() ? std::optional(s.test) : std::nullopt;
                   })
      .def_prop_ro("validation", [](const data::Splits& s) -> std::optional<Dataset> {
        return s.validation.defined() ? std::optional(s.validation) : std::nullopt;
      });
  nb::class_<RandomView>(m, "SampleRandom",
                         "Random numbers of one sample in one epoch, whichever thread draws them.\n\n>>> from varve "
                         "import data\n>>> def darker(image, random):\n...     image *= random.uniform(0.5, 1.0)\n>>> "
                         "len(data.digits(train=10, test=10).train.map(darker))\n10")
      .def(
          "uniform", [](const RandomView& r, double low, double high) { return r.get().uniform(low, high); },
          "low"_a = 0.0, "high"_a = 1.0)
      .def(
          "integer", [](const RandomView& r, std::int64_t n) { return r.get().integer(n); }, "n"_a,
          "From 0 to n - 1.\n\n>>> def changed(image, random):\n...     image *= 1 + random.integer(3)\n>>> "
          "data.digits(train=10, test=1).train.map(changed).at(0)[0].shape\n(28, 28, 1)")
      .def(
          "normal", [](const RandomView& r) { return r.get().normal(); },
          "Normal, with mean 0 and deviation 1.\n\n>>> def changed(image, random):\n...     image *= 1 + 0.1 * "
          "random.normal()\n>>> "
          "data.digits(train=10, test=1).train.map(changed).at(0)[0].shape\n(28, 28, 1)")
      .def(
          "chance", [](const RandomView& r, double p) { return r.get().chance(p); }, "probability"_a,
          "True so often.\n\n>>> def changed(image, random):\n...     image *= 2 if random.chance(0.5) else 1\n>>> "
          "data.digits(train=10, test=1).train.map(changed).at(0)[0].shape\n(28, 28, 1)");
  nb::class_<Batches>(m, "_Batches")
      .def("__init__",
           [](Batches* self, const Dataset& d, std::int64_t batch, std::int64_t seed, std::int64_t epoch,
              std::int64_t skip, bool shuffle, bool drop_last, int workers, int prefetch, double mixup,
              std::int64_t shards, int rank, int ranks, std::int64_t buckets, bool balanced,
              std::vector<double> sampling) {
             new (self) Batches(d, {.batch = batch,
                                    .seed = seed,
                                    .epoch = epoch,
                                    .skip = skip,
                                    .shuffle = shuffle,
                                    .drop_last = drop_last,
                                    .workers = workers,
                                    .prefetch = prefetch,
                                    .mixup = mixup,
                                    .shards = shards,
                                    .rank = rank,
                                    .ranks = ranks,
                                    .buckets = buckets,
                                    .balanced = balanced,
                                    .sampling = std::move(sampling)});
           })
      .def("__iter__", [](nb::handle self) { return self; })
      .def("__next__", &Batches::next)
      .def("__len__", &Batches::count)
      .def("waited_seconds", &Batches::waited);
}

std::vector<std::string> missing_words() { return data::option_words("csv:", "missing"); }

data::Missing to_missing(const std::string& word) {
  const std::vector<std::string> words = missing_words();
  const auto found = std::find(words.begin(), words.end(), word);
  if (found == words.end())
    throw Error("missing: expected error, mean, median, frequent or category, got '" + word + "'." +
                did_you_mean(word, words));
  return static_cast<data::Missing>(found - words.begin());
}

void bind_words_and_tables(nb::module_& m) {
  nb::class_<data::Vocabulary>(m, "Vocabulary",
                               "Words by id: 0 padding, 1 unknown, then by falling frequency.\n\n>>> from varve import "
                               "data\n>>> words = data.Vocabulary(['', '?', 'good', 'bad'])\n>>> words.encode('Good or "
                               "bad', 4), words.word(3)\n([0, 2, 1, 3], 'bad')")
      .def(nb::init<std::vector<std::string>>(), "words"_a)
      .def("id", &data::Vocabulary::id, "word"_a,
           "The word's id; 1 when it is unknown.\n\n>>> data.Vocabulary(['', '?', 'good']).id('good')\n2")
      .def("word", &data::Vocabulary::word, "id"_a)
      .def("__len__", &data::Vocabulary::size)
      .def_prop_ro("words", &data::Vocabulary::words)
      .def("encode", &data::Vocabulary::encode, "text"_a, "length"_a,
           "The last words of a text as ids, padded with 0 on the left.")
      .def_static(
          "split", &data::Vocabulary::split, "text"_a,
          "Lower-cased words and numbers of a text.\n\n>>> data.Vocabulary.split('Good, 7 times')\n['good', '7', "
          "'times']");
  nb::class_<data::TableColumn>(
      m, "TableColumn",
      "A column of a table: categories, or numbers and their scale.\n\n>>> from varve import data\n>>> table = "
      "data.dataset({'wall': ['brick', 'wood'], 'price': [1.5, 2.5]}, 'price').table\n>>> table.inputs[0].name, "
      "table.inputs[0].categories\n('wall', ['brick', 'wood'])")
      .def(
          "__init__",
          [](data::TableColumn* self, std::string name, std::vector<std::string> categories, double mean,
             double deviation, bool date, const std::string& missing, double fill, std::string fill_category) {
            new (self) data::TableColumn{
                std::move(name),         std::move(categories), mean, deviation, date, to_missing(missing), fill,
                std::move(fill_category)};
          },
          "name"_a, "categories"_a = std::vector<std::string>{}, "mean"_a = 0.0, "deviation"_a = 1.0, "date"_a = false,
          "missing"_a = "error", "fill"_a = 0.0, "fill_category"_a = "")
      .def_ro("name", &data::TableColumn::name)
      .def_ro("categories", &data::TableColumn::categories)
      .def_ro("mean", &data::TableColumn::mean)
      .def_ro("deviation", &data::TableColumn::deviation)
      .def_ro("date", &data::TableColumn::date, "Whether its numbers are days since the beginning of 1970.")
      .def_prop_ro(
          "missing", [](const data::TableColumn& c) { return missing_words().at(static_cast<std::size_t>(c.missing)); },
          "What missing values become: error, mean, median, frequent or category.")
      .def_ro("fill", &data::TableColumn::fill, "What a missing number or date is taken as.")
      .def_ro("fill_category", &data::TableColumn::fill_category, "What a missing text is taken as.")
      .def_ro("missing_count", &data::TableColumn::missing_count, "Values that were missing when this was fitted.")
      .def_prop_ro("width", &data::TableColumn::width, "Inputs that the column makes.")
      .def_prop_ro("marks_missing", &data::TableColumn::marks_missing,
                   "Whether the last of them says that the value was missing.")
      .def("value_text", &data::TableColumn::value_text, "value"_a,
           "A number, or the day.\n\n>>> data.TableColumn('when', date=True).value_text(19783.0)\n'2024-03-01'")
      .def("missing_text", &data::TableColumn::missing_text,
           "What was missing and what it became; empty when nothing was.\n\n>>> "
           "data.TableColumn('age').missing_text()\n''");
  nb::class_<data::TableEncoder>(
      m, "TableEncoder",
      "How the rows of a table become samples.\n\n>>> from varve import data\n>>> table = data.dataset({'wall': "
      "['brick', 'wood'], 'price': [1.5, 2.5]}, 'price').table\n>>> x, y = table.encode('wall,price' + chr(10) + "
      "'wood,2.5' + chr(10))\n>>> x.tolist(), table.width\n([[0.0, 1.0]], 2)")
      .def(
          "__init__",
          [](data::TableEncoder* self, std::vector<data::TableColumn> inputs, data::TableColumn target) {
            const auto last = static_cast<std::int64_t>(inputs.size());
            new (self) data::TableEncoder{std::move(inputs), std::move(target), last, true, ','};
          },
          "inputs"_a, "target"_a)
      .def_ro("inputs", &data::TableEncoder::inputs)
      .def_ro("target", &data::TableEncoder::target)
      .def_prop_ro("width", &data::TableEncoder::width)
      .def_prop_ro("regression", &data::TableEncoder::regression)
      .def(
          "encode",
          [](const data::TableEncoder& e, const std::string& text, const std::string& source) {
            const data::TableEncoder::Rows rows = unlocked([&] { return e.encode(text, source); });
            return nb::make_tuple(rows.x, rows.y.defined() ? nb::cast(rows.y) : nb::none());
          },
          "text"_a, "source"_a = "table", "Rows of CSV text as samples; without targets where they have none.")
      .def(
          "encode_json",
          [](const data::TableEncoder& e, const std::string& text, const std::string& source) {
            const data::TableEncoder::Rows rows = unlocked([&] { return e.encode_json(text, source); });
            return nb::make_tuple(rows.x, rows.y.defined() ? nb::cast(rows.y) : nb::none());
          },
          "text"_a, "source"_a = "table",
          "The same of JSON lines.\n\n>>> table = data.dataset({'wall': ['brick', 'wood'], 'price': [1.5, 2.5]}, "
          "'price').table\n>>> table.encode_json('{\"wall\": \"wood\"}')[0].tolist()\n[[0.0, 1.0]]")
      .def(
          "unscaled", [](const data::TableEncoder& e, const Tensor& v) { return e.unscaled(v); }, "values"_a,
          "Outputs of a regression in the unit of the file.\n\n>>> table = data.dataset({'wall': ['brick', 'wood'], "
          "'price': [1.5, 2.5]}, 'price').table\n>>> table.unscaled(vv.tensor([[2.0]])).tolist()      # this one was "
          "not scaled\n[[2.0]]");
}

Picture to_picture(nb::handle array) {
  const nb::object bytes = nb::module_::import_("numpy").attr("ascontiguousarray")(array, "uint8");
  const auto pixels = nb::cast<nb::ndarray<const std::uint8_t, nb::c_contig, nb::device::cpu>>(bytes);
  if (pixels.ndim() != 3) throw Error("picture: expected an array [height, width, channels] of bytes.");
  Picture picture{static_cast<std::int64_t>(pixels.shape(0)),
                  static_cast<std::int64_t>(pixels.shape(1)),
                  static_cast<std::int64_t>(pixels.shape(2)),
                  {}};
  picture.pixels.assign(pixels.data(), pixels.data() + pixels.size());
  return picture;
}

Tensor from_picture(const Picture& picture) {
  return detail::from_bytes(picture.pixels.data(), {u8, {picture.height, picture.width, picture.channels}});
}

void bind_pictures(nb::module_& m) {
  m.def("_load_picture", [](const std::string& path, int channels) {
    return unlocked([&] { return from_picture(load_picture(path, channels)); });
  });
  m.def("_encode_png", [](nb::handle array) {
    const std::vector<std::uint8_t> png = encode_png(to_picture(array));
    return nb::bytes(png.data(), png.size());
  });
  m.def("_resize", [](nb::handle array, std::int64_t height, std::int64_t width, bool fill) {
    const Picture picture = to_picture(array);
    return unlocked(
        [&] { return from_picture(fill ? resize_to_fill(picture, height, width) : resize(picture, height, width)); });
  });
}

}  // namespace

void bind_data(nb::module_& m) {
  bind_words_and_tables(m);
  bind_dataset(m);
  bind_sources(m);
  bind_pictures(m);
  m.def(
      "_dataset_of_arrays",
      [](nb::handle x, nb::handle y, const std::string& name, std::vector<std::string> classes,
         const data::TableEncoder* table) {
        const Tensor a = share_array(x), b = share_array(y);
        data::Info info{name, std::move(classes), nullptr};
        if (table) info.table = std::make_shared<data::TableEncoder>(*table);
        return unlocked([&] { return data::from_tensors(a, b, info); });
      },
      "x"_a, "y"_a, "name"_a, "classes"_a, "table"_a.none() = nb::none());
  m.def("_dataset_of_fields", [](nb::handle inputs, nb::handle targets, const std::string& name) {
    const auto all = [](nb::handle pairs) {
      Tensors fields;
      for (const nb::handle pair : nb::borrow<nb::sequence>(pairs))
        fields.add(nb::cast<std::string>(pair[0]), share_array(pair[1]));
      return fields;
    };
    const Tensors x = all(inputs), y = all(targets);
    return unlocked([&] { return data::from_tensors(x, y, {.name = name}); });
  });
  m.def("_part", [](const Dataset& own) { return unlocked([&] { return data::part(own); }); });
  m.def(
      "_load_data",
      [](const std::string& name, const std::map<std::string, double>& options, bool download, bool quiet,
         nb::handle like) {
        const data::Info info = info_like(like);
        return unlocked([&] { return data::load(name, options, {download, quiet}, info); });
      },
      "name"_a, "options"_a, "download"_a, "quiet"_a, "like"_a.none());
  m.def(
      "_csv",
      [](const std::string& path, const std::string& target, const std::string& separator, double test_share,
         bool standardize, bool classes, bool scale_target, const data::TableEncoder* encoder,
         const std::string& missing) {
        if (separator.size() > 1) throw Error("csv: the separator is one character, got '" + separator + "'.");
        data::CsvOptions options{target,     separator.empty() ? '\0' : separator[0],
                                 test_share, standardize,
                                 classes,    scale_target,
                                 nullptr,    to_missing(missing)};
        if (encoder) options.encoder = std::make_shared<data::TableEncoder>(*encoder);
        return unlocked([&] { return data::csv(path, options); });
      },
      "path"_a, "target"_a, "separator"_a, "test_share"_a, "standardize"_a, "classes"_a, "scale_target"_a,
      "encoder"_a.none(), "missing"_a);
  m.def("_image_folder",
        [](const std::string& path, std::int64_t height, std::int64_t width, int channels, double test_share) {
          return unlocked([&] { return data::image_folder(path, {height, width, channels, test_share}); });
        });
  m.def(
      "_characters",
      [](const std::string& path, std::int64_t steps, std::int64_t streams, const data::Vocabulary* vocabulary) {
        data::TextOptions options{steps, streams, {}, nullptr};
        if (vocabulary) options.vocabulary = std::make_shared<data::Vocabulary>(*vocabulary);
        return unlocked([&] { return data::characters(path, options); });
      },
      "path"_a, "steps"_a, "streams"_a, "vocabulary"_a.none());
  m.def("_numpy_files",
        [](const std::string& x, const std::string& y) { return unlocked([&] { return data::numpy(x, y); }); });
  m.def("_idx_files", [](const std::string& images, const std::string& labels, std::vector<std::string> classes) {
    return unlocked([&] { return data::idx(images, labels, {images, std::move(classes), nullptr}); });
  });
  m.def("_catalog", [] {
    nb::list all;
    for (const data::CatalogEntry& e : data::catalog())
      all.append(
          nb::make_tuple(e.name, e.doc, e.options, e.present, e.input, e.home, e.train, e.test, e.download_bytes));
    return all;
  });
  m.def("_data_root", &data::root);
  m.def("_data_options", &data::options_of);
  m.def("_option_words", &data::option_words);
  m.def("_data_present", &data::present);
  m.def("transform_names", &data::transform_names,
        "The transforms that map() knows by name.\n\n>>> from varve import data\n>>> 'flip' in "
        "data.transform_names()\nTrue");
  m.def("_transform_options", &data::transform_options_of);
  nb::class_<data::Transform>(m, "Transform",
                              "What is done to every picture that is read.\n\n>>> from varve import data\n>>> "
                              "data.normalize(0.5, 0.25).name\n'normalize'")
      .def_ro("name", &data::Transform::name);
  m.def("_normalize", [](std::vector<double> mean, std::vector<double> deviation) {
    return data::normalize(std::move(mean), std::move(deviation));
  });
}

}  // namespace varve::python
