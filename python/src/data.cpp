// Data sets: the library's own, arrays, and objects of Python with __len__ and __getitem__.
#include <cstring>

#include "bindings.h"

namespace varve::python {
namespace {

using data::Dataset;

// Samples of a Python object. Worker threads read them one at a time, with the interpreter's lock.
class PythonSource final : public data::Source {
 public:
  explicit PythonSource(nb::object samples)
      : samples_(std::move(samples)), size_(static_cast<std::int64_t>(nb::len(samples_))) {
    if (size_ == 0) throw Error("dataset: it has no samples.");
    const auto [x, y] = sample(0);
    x_ = delivered(x.type());
    y_ = delivered(y.type());
  }
  ~PythonSource() override {
    const nb::gil_scoped_acquire lock;
    samples_.reset();
  }
  std::int64_t size() const override { return size_; }
  TensorType x() const override { return x_; }
  TensorType y() const override { return y_; }
  void read(std::int64_t index, std::byte* x, std::byte* y) const override {
    std::pair<Tensor, Tensor> both;
    {
      const nb::gil_scoped_acquire lock;
      try {
        both = sample(index);
      } catch (const nb::python_error& error) {
        throw Error("dataset: sample " + std::to_string(index) + ": " + error.what());
      }
    }
    copy(index, "input", both.first, x_, x);
    copy(index, "target", both.second, y_, y);
  }

 private:
  static TensorType delivered(TensorType type) {
    if (type.dtype == f64) type.dtype = f32;
    if (type.dtype == i64 || type.dtype == i8 || type.dtype == boolean) type.dtype = i32;
    if (type.dtype == u8) type.dtype = f32;
    return type;
  }
  std::pair<Tensor, Tensor> sample(std::int64_t index) const {
    const nb::object pair = samples_[nb::int_(index)];
    if (!nb::isinstance<nb::sequence>(pair) || nb::len(pair) != 2)
      throw Error("dataset: sample " + std::to_string(index) + " is not a pair (input, target).");
    return {to_tensor(pair[0]), to_tensor(pair[1])};
  }
  static void copy(std::int64_t index, const char* part, const Tensor& value, const TensorType& type, std::byte* to) {
    if (value.shape() != type.shape)
      throw Error("dataset: the " + std::string(part) + " of sample " + std::to_string(index) + " has shape " +
                  value.shape().str() + ", the first has " + type.shape.str() + ".");
    const Tensor typed = value.dtype() == u8 ? value.to(f32) / 255 : value.to(type.dtype);
    std::memcpy(to, typed.data(), type.bytes());
  }

  nb::object samples_;
  std::int64_t size_;
  TensorType x_, y_;
};

nb::tuple type_tuple(const TensorType& type) {
  nb::list sizes;
  for (const std::int64_t size : type.shape) sizes.append(size);
  return nb::make_tuple(nb::tuple(sizes), type.dtype);
}

// One epoch of batches, as Python iterates.
class Batches {
 public:
  Batches(Dataset dataset, data::LoaderOptions options)
      : loader_(std::make_shared<data::Loader>(std::move(dataset), options)) {}
  std::pair<Tensor, Tensor> next() {
    data::Batch batch;
    if (!unlocked([&] { return loader_->next(batch); })) throw nb::stop_iteration();
    return {batch.x, batch.y};
  }
  ~Batches() {
    unlocked([&] { loader_ = nullptr; });  // waits for workers, who may want the interpreter's lock
  }
  std::int64_t count() const { return loader_->batches(); }

 private:
  std::shared_ptr<data::Loader> loader_;
};

}  // namespace

void bind_data(nb::module_& m) {
  nb::class_<Dataset>(m, "Dataset", "Samples that are read one by one while a network computes.")
      .def("__len__", &Dataset::size)
      .def_prop_ro(
          "x", [](const Dataset& d) { return type_tuple(d.x()); }, "Shape and type of a sample's input.")
      .def_prop_ro(
          "y", [](const Dataset& d) { return type_tuple(d.y()); }, "Shape and type of a sample's target.")
      .def_prop_ro("classes", [](const Dataset& d) { return d.info().classes; })
      .def_prop_ro("name", [](const Dataset& d) { return d.info().name; })
      .def("take", &Dataset::take, "count"_a, "The first samples.")
      .def("range", &Dataset::range, "begin"_a, "end"_a)
      .def("subset", &Dataset::subset, "indices"_a)
      .def("split", &Dataset::split, "share"_a, "seed"_a = 0, "A share chosen by the seed, and the rest.")
      .def("_map",
           [](const Dataset& d, const std::vector<std::pair<std::string, data::TransformOptions>>& named) {
             std::vector<data::Transform> transforms;
             for (const auto& [name, options] : named) transforms.push_back(data::transform_by_name(name, options));
             return d.map(std::move(transforms));
           })
      .def("__getitem__", [](const Dataset& d, std::int64_t index) {
        const std::int64_t at = index < 0 ? index + d.size() : index;
        if (at < 0 || at >= d.size())
          throw nb::index_error(("sample " + std::to_string(index) + " of " + std::to_string(d.size())).c_str());
        return unlocked([&] { return d.at(at); });
      });
  m.def("_whole", [](const Dataset& d) { return unlocked([&] { return *data::whole(d); }); });
  nb::class_<data::Splits>(m, "Splits")
      .def_prop_ro("train", [](const data::Splits& s) { return s.train; })
      .def_prop_ro("test", [](const data::Splits& s) { return s.test; })
      .def_prop_ro("validation", [](const data::Splits& s) -> std::optional<Dataset> {
        return s.validation.defined() ? std::optional(s.validation) : std::nullopt;
      });
  nb::class_<Batches>(m, "_Batches")
      .def("__init__",
           [](Batches* self, const Dataset& d, std::int64_t batch, std::int64_t seed, std::int64_t epoch,
              std::int64_t skip, bool shuffle, bool drop_last, int workers, int prefetch, double mixup) {
             new (self) Batches(d, {.batch = batch,
                                    .seed = seed,
                                    .epoch = epoch,
                                    .skip = skip,
                                    .shuffle = shuffle,
                                    .drop_last = drop_last,
                                    .workers = workers,
                                    .prefetch = prefetch,
                                    .mixup = mixup});
           })
      .def("__iter__", [](nb::handle self) { return self; })
      .def("__next__", &Batches::next)
      .def("__len__", &Batches::count);

  m.def("_dataset_of_arrays",
        [](nb::handle x, nb::handle y, const std::string& name, std::vector<std::string> classes) {
          const Tensor a = share_array(x), b = share_array(y);
          return unlocked([&] { return data::from_tensors(a, b, {name, std::move(classes), nullptr}); });
        });
  m.def("_dataset_of_object", [](nb::object samples, const std::string& name, std::vector<std::string> classes) {
    return Dataset(std::make_shared<PythonSource>(std::move(samples)), {name, std::move(classes), nullptr});
  });
  m.def("_load_data",
        [](const std::string& name, const std::map<std::string, double>& options, bool download, bool quiet) {
          return unlocked([&] { return data::load(name, options, {download, quiet}); });
        });
  m.def("_catalog", [] {
    nb::list all;
    for (const data::CatalogEntry& entry : data::catalog())
      all.append(nb::make_tuple(entry.name, entry.doc, entry.options, entry.present));
    return all;
  });
  m.def("transform_names", &data::transform_names);
}

}  // namespace varve::python
