// Data sets, what is done to their samples, and batches of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "varve/io.h"
#include "varve/nn/mask.h"
#include "varve/tensor.h"
#include "varve/tensors.h"

namespace varve::data {

// ---- samples

using FieldMemory = std::span<std::byte* const>;  // memory of each field of a sample, or of each row of a batch

// Where samples come from. Reading is pure and may be done by several threads at once.
class Source {
 public:
  virtual ~Source() = default;
  virtual std::int64_t size() const = 0;
  virtual TensorType x() const = 0;  // of one sample; images are f32 [H, W, C] in 0…1, token ids i32 [T]
  virtual TensorType y() const = 0;  // a class: i32 []
  virtual void read(std::int64_t index, std::byte* x, std::byte* y) const = 0;  // may throw Error
  // Where samples are read best in an order that keeps neighbours together: that of an epoch. Empty: any.
  virtual std::vector<std::int64_t> order(std::uint64_t, std::uint64_t) const { return {}; }
  // Text cut into parallel streams: batches take one window of each in order, and are never shuffled. 0: ordinary data.
  virtual std::int64_t streams() const { return 0; }
  // All that a sample consists of: x and y, but for a FieldSource.
  virtual std::vector<Field> inputs() const { return {{"", x()}}; }
  virtual std::vector<Field> targets() const { return {{"", y()}}; }
  virtual void read_fields(std::int64_t index, FieldMemory inputs, FieldMemory targets) const {
    read(index, inputs[0], targets[0]);
  }
  // Of samples of different lengths: how many steps of x, along its first axis, are data; padding follows them. Targets
  // of as many steps as x end with them.
  virtual bool varies() const { return false; }
  virtual std::int64_t length(std::int64_t /*index*/) const { return x().shape.rank() > 0 ? x().shape[0] : 0; }
};

// Samples of several inputs, or several targets, each with a name where it has one. x and y are the first of them.
class FieldSource : public Source {
 public:
  std::vector<Field> inputs() const override = 0;   // at least one
  std::vector<Field> targets() const override = 0;  // at least one
  void read_fields(std::int64_t index, FieldMemory inputs, FieldMemory targets) const override = 0;
  TensorType x() const final { return inputs().at(0).type; }
  TensorType y() const final { return targets().at(0).type; }
  void read(std::int64_t index, std::byte* x, std::byte* y) const final;  // Error where there are several
};

// Random numbers of one sample in one epoch: the same whichever thread draws them.
class Random {
 public:
  Random(std::uint64_t seed, std::uint64_t epoch, std::uint64_t index);
  double uniform();  // [0, 1)
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  std::int64_t integer(std::int64_t n);  // [0, n)
  double normal();
  bool chance(double probability) { return uniform() < probability; }

 private:
  std::uint32_t next();
  std::array<std::uint32_t, 4> counter_, block_{};
  std::array<std::uint32_t, 2> key_;
  int used_ = 4;
};

// One sample's picture, changed in place; `scratch` has the same size.
struct Image {
  std::span<float> pixels, scratch;
  std::int64_t height, width, channels;
  float& at(std::int64_t row, std::int64_t column, std::int64_t channel) const {
    return pixels[static_cast<std::size_t>((row * width + column) * channels + channel)];
  }
};
// Boxes of a picture: rows of (class, left, top, right, bottom), in shares of the picture's sides; class -1: no box.
struct Boxes {
  std::span<float> rows;
  std::int64_t height, width;  // of the picture
};
struct Transform {
  std::string name;
  std::function<void(Image&, Random&)> apply;
  // The same to targets that are a value for each pixel, [H, W] or [H, W, C], with the same random numbers: values
  // move, and are never mixed.
  std::function<void(Image&, Random&)> to_targets = {};
  bool moves = true;  // pixels to other places: then targets of each pixel need to_targets, and boxes to_boxes
  std::function<void(Boxes&, Random&)> to_boxes = {};  // the same to boxes; what hardly shows afterwards is no box
};
Transform random_crop(std::int64_t padding);      // shifted within zero padding
Transform random_flip();                          // left to right, every second time
Transform random_rotate(double degrees);          // about the middle, by at most so many to either side
Transform random_scale(double low, double high);  // about the middle
Transform cutout(std::int64_t size);              // a square of zeros, cut off at the edges
// Pixels times 1 ± brightness, their distance from the mean times 1 ± contrast, kept within 0…1.
Transform jitter(double brightness, double contrast);
Transform noise(double deviation);                                             // normal
Transform normalize(std::vector<double> mean, std::vector<double> deviation);  // a number for each channel, or one

// What is done to a target as it is read: numbers in, numbers out.
struct TargetTransform {
  std::string name;
  std::function<TensorType(const TensorType& from)> type;  // what becomes of a target of that type: f32 or i32
  std::function<void(std::span<const double> from, std::span<double> to)> apply;  // `to` begins as zeros
};
TargetTransform scale_targets(double factor, double offset = 0);  // factor · y + offset
TargetTransform log_targets();                                    // the logarithm of 1 + y
TargetTransform one_hot_targets(std::int64_t classes);            // a class as f32 [classes]

// By name, as network files write them: crop{padding}, flip, rotate{degrees}, scale{low, high}, cutout{size},
// jitter{brightness, contrast}, noise{deviation}. Options left out have the defaults that transform_options_of lists.
using TransformOptions = std::vector<std::pair<std::string, double>>;
Transform transform_by_name(const std::string& name, const TransformOptions& options = {});
std::vector<std::string> transform_names();
TransformOptions transform_options_of(const std::string& name);

// ---- words

class Vocabulary {  // ids: 0 padding, 1 unknown, then words by falling frequency
 public:
  Vocabulary() = default;
  explicit Vocabulary(std::vector<std::string> words);  // by id: the first two stand for padding and unknown
  std::int32_t id(const std::string& word) const;       // 1 when unknown
  const std::string& word(std::int32_t id) const;
  std::int64_t size() const { return static_cast<std::int64_t>(words_.size()); }
  const std::vector<std::string>& words() const { return words_; }
  // Lower-cased words and numbers of a text, as ids; the last `length` of them, padded with 0 on the left.
  std::vector<std::int32_t> encode(const std::string& text, std::int64_t length) const;
  static std::vector<std::string> split(const std::string& text);  // HTML breaks are spaces

 private:
  std::vector<std::string> words_;
  std::map<std::string, std::int32_t, std::less<>> ids_;
};

// ---- tables

// What a missing value becomes: an error; of numbers the mean, the median or the most frequent of the training part; of
// text the most frequent. `category`: text has a category of its own for it, numbers are the mean and have one more
// input, 1 where the value was missing.
enum class Missing : std::uint8_t { error, mean, median, frequent, category };

// A column of a table. Text is delivered as one number for each category, 1 for the one it is and 0 for the others;
// numbers, and dates as days since 1970, as (value - mean) / deviation.
struct TableColumn {
  std::string name;
  std::vector<std::string> categories;  // empty: numbers or dates
  double mean = 0, deviation = 1;
  bool date = false;
  Missing missing = Missing::error;
  double fill = 0;                 // what a missing number or date is taken as
  std::string fill_category = {};  // what a missing text is taken as
  std::int64_t missing_count = 0;  // values that were missing when this was fitted

  std::int64_t width() const;                  // inputs that the column makes
  bool marks_missing() const;                  // the last of them says whether the value was missing
  std::string value_text(double value) const;  // a number, or the day
  std::string missing_text() const;            // what was missing and what it became; "" when nothing was
};
// How the rows of a table become samples. It is fitted to training data and belongs to what was trained with them:
// other rows go through the same columns, categories and scaling.
struct TableEncoder {
  std::vector<TableColumn> inputs;
  TableColumn target;             // its categories are the classes; empty: a regression
  std::int64_t target_place = 0;  // among the columns of the file
  bool named = false;             // the file had a header: columns are found by their names
  char separator = ',';

  struct Rows {
    Tensor x;                         // [rows, width()]
    Tensor y;                         // i32 [rows] or f32 [rows, 1]; undefined when the rows have no target
    std::vector<std::int64_t> lines;  // where each row begins in the text, from 1
  };
  std::int64_t width() const;  // of a sample
  bool regression() const { return target.categories.empty(); }
  // Rows of a file, with a header or without, with the target or without. Error that names the line and the column of
  // what does not fit.
  Rows encode(const std::string& text, const std::string& source) const;
  Rows encode_json(const std::string& text, const std::string& source) const;  // of JSON lines
  Tensor unscaled(const Tensor& values) const;  // outputs or targets of a regression, in the unit of the file
};

// ---- data sets

struct SoundEncoder;  // varve/data/files.h

struct Info {
  std::string name;
  std::vector<std::string> classes = {};  // of integer targets; empty when unknown
  std::shared_ptr<const Vocabulary> vocabulary = nullptr;
  std::shared_ptr<const TableEncoder> table = nullptr;  // of samples that were rows of a table
  std::vector<std::string> skipped = {};                // files of a folder that are of another kind
  std::shared_ptr<const SoundEncoder> sound = nullptr;  // of samples that were sounds
  // Of several targets: the classes of each, by its name. `classes` are those of the first.
  std::map<std::string, std::vector<std::string>> target_classes = {};
  bool boxes = false;  // the first target is rows of Boxes
};

class Dataset {  // a cheap handle
 public:
  Dataset() = default;  // empty: not given
  Dataset(std::shared_ptr<const Source> source, Info info);
  bool defined() const { return view_ != nullptr; }
  std::int64_t size() const;
  TensorType x() const;  // the first input of a sample
  TensorType y() const;  // the first target
  const std::vector<Field>& inputs() const;
  const std::vector<Field>& targets() const;
  const Info& info() const;
  const Source& source() const;  // below what was chosen and mapped
  // Of an integer target: how many there are, from info, or one more than the largest of them; and their names.
  std::int64_t classes(std::size_t target = 0) const;
  std::vector<std::string> class_names(std::size_t target = 0) const;  // empty when unknown
  // The class of each sample, where the first target is one class number; Error otherwise. Reads all samples, once.
  std::vector<std::int64_t> labels() const;
  std::int64_t streams() const;
  bool fixed() const;                             // every epoch sees the same samples: there are no transforms
  bool varies() const;                            // samples have lengths of their own, and padding behind
  std::int64_t length(std::int64_t index) const;  // steps of this sample
  bool has_weights() const;
  double weight(std::int64_t index) const;  // what this sample counts in losses and metrics: 1 unless given

  // Done to every sample that is read, anew in each epoch: to its picture, or the input of that name.
  Dataset map(std::vector<Transform> transforms, const std::string& input = "") const;
  Dataset map_targets(TargetTransform transform) const;  // done to every target, before any map of pictures
  Dataset take(std::int64_t count) const;                // the first
  Dataset range(std::int64_t begin, std::int64_t end) const;
  Dataset subset(std::vector<std::int64_t> indices) const;
  // Samples whose steps end at these lengths; what is behind is padding. A number for each sample.
  Dataset with_lengths(const std::vector<std::int64_t>& lengths) const;
  // What each sample counts in losses and metrics: 0 or more for each.
  Dataset with_weights(const std::vector<double>& weights) const;
  // Numbered as these classes, matched by name; Error with both lists when one of its own is not among them.
  Dataset with_classes(const std::vector<std::string>& classes) const;
  // A share chosen by the seed, and the rest: auto [held_out, rest] = train.split(0.2, seed).
  std::pair<Dataset, Dataset> split(double share, std::int64_t seed = 0) const;
  // Samples that lie apart: these are one rank's alone, and rank r has sizes[r] others. An epoch reads all of them: of
  // each batch a rank reads what it has of the whole, in an order of its own. `part` asks the others for their sizes.
  // `classes`: how many they are in all parts, where targets are classes without names.
  Dataset as_part(std::vector<std::int64_t> sizes, std::int64_t classes = 0) const;
  const std::vector<std::int64_t>& parts() const;  // of all ranks; empty: every rank can read every sample
  std::int64_t total() const;                      // of all ranks' parts; size() where there are none
  // All samples once, in the order of an epoch: shuffled as the source likes it.
  std::vector<std::int64_t> order(std::uint64_t seed, std::uint64_t epoch) const;

  // One sample, transformed as in epoch 0 with seed 0: its first input and target, or all of them.
  std::pair<Tensor, Tensor> at(std::int64_t index) const;
  std::pair<Tensors, Tensors> sample(std::int64_t index) const;
  // For loaders: into memory of each input and target.
  void read(std::int64_t index, std::uint64_t seed, std::uint64_t epoch, FieldMemory inputs, FieldMemory targets,
            std::vector<float>& scratch) const;
  // Of one input and one target.
  void read(std::int64_t index, std::uint64_t seed, std::uint64_t epoch, std::byte* x, std::byte* y,
            std::vector<float>& scratch) const;

 private:
  struct View;
  explicit Dataset(std::shared_ptr<const View> view);
  const View& view(const char* asked) const;
  std::shared_ptr<const View> view_;
};

// This rank's part of samples that no rank has all of. All ranks call it, each with its own.
Dataset part(const Dataset& own);

// All samples as in epoch 0 with seed 0, read by all threads: x [N, …], y [N, …]. `go_on` is asked now and then; when
// it says no, there is nothing.
std::optional<std::pair<Tensor, Tensor>> whole(
    const Dataset& dataset, const std::function<bool()>& go_on = [] { return true; });
// The same with all inputs and all targets.
std::optional<std::pair<Tensors, Tensors>> whole_fields(
    const Dataset& dataset, const std::function<bool()>& go_on = [] { return true; });

struct Splits {
  Dataset train, validation, test;  // validation only where the set has one of its own
};

// Where files are looked for: VARVE_DATA, or the user's cache (~/.cache/varve/datasets).
std::string root();

struct FetchOptions {
  bool download = true;  // what is missing; otherwise an Error says where to put it
  bool quiet = false;    // no progress bar
};

struct DigitsOptions {
  std::int64_t train = 60000, test = 10000;
  std::int64_t seed = 1;
};
Splits digits(const DigitsOptions& = {});  // drawn by the program itself; f32 [28, 28, 1], 10 classes
// Two of them: inputs left and right; targets their sum, 19 classes, and their difference, a number.
Splits digit_pairs(const DigitsOptions& = {});
Splits mnist(const FetchOptions& = {});
Splits fashion_mnist(const FetchOptions& = {});
Splits cifar10(const FetchOptions& = {});
Splits cifar100(const FetchOptions& = {});
struct ImdbOptions {
  std::int64_t words = 5000, length = 500;
  FetchOptions fetch = {};
  bool lengths = false;  // reviews have their own, and padding is on the right; false: all have `length`, padded left
};
Splits imdb(const ImdbOptions& = {});  // i32 [length], 2 classes
struct TextOptions {
  std::int64_t steps = 20, streams = 20;
  FetchOptions fetch = {};
  std::shared_ptr<const Vocabulary> vocabulary = nullptr;  // null: that of the training part
};
Splits ptb(const TextOptions& = {});  // i32 [steps] and the same one word later; id 0 is the end of a line
Splits characters(const std::string& path,
                  const TextOptions& = {});  // a text file, by characters; the last tenth tests
struct FolderOptions {
  std::int64_t height = 224, width = 224;
  int channels = 3;
  double test_share = 0.1;  // when there are no train/ and test/ (or val/) folders
};
// path/class/*.jpg, png, webp, gif, bmp. Other files are listed in info().skipped; Error when a class has none that can
// be read.
Splits image_folder(const std::string& path, const FolderOptions& = {});
struct CsvOptions {
  std::string target = "";  // a column's name; "": the last
  char separator = '\0';    // '\0': the one that the first line has most of: comma, semicolon, tab or |
  double test_share = 0.1;
  bool standardize = true;   // columns to mean 0 and deviation 1 of the training part
  bool classes = true;       // few different whole numbers are classes; false: they are numbers, however few
  bool scale_target = true;  // numbers as targets likewise; metrics are in the unit of the file all the same
  std::shared_ptr<const TableEncoder> encoder = nullptr;  // of other data, in place of one fitted to this file
  Missing missing = Missing::error;                       // what empty fields, NA, N/A, NaN, null, None and ? become
};
// Targets that are text, or a few different whole numbers, are classes; others are f32 [1]. Columns of text are
// categories, unless all of it are dates. A first line without any number or date names the columns, which are
// otherwise called 1, 2, 3 …. How the file was read is kept in info().table.
Splits csv(const std::string& path, const CsvOptions& = {});
Dataset numpy(const std::string& x_path, const std::string& y_path);  // .npy
// Rows. Inputs: u8 is delivered as f32 over 255 ([N, H, W] as [H, W, 1]), other integers as i32, the rest as f32.
// Targets: integers [N] or [N, 1] are classes, the rest is f32.
Dataset from_tensors(const Tensor& x, const Tensor& y, const Info& info = {});
// Of several inputs or targets, each as many rows: {{"image", images}, {"question", questions}}.
Dataset from_tensors(const Tensors& inputs, const Tensors& targets, const Info& info = {});
Dataset idx(const std::string& images_path, const std::string& labels_path, const Info& info = {});  // .gz or not

// By name, as the command line and network files do: "mnist", "digits", "folder:path", "csv:path#column",
// "chars:path", "npz:path" (arrays x_train, y_train, x_test, y_test). Options are the named numbers of the loaders
// above. `like`: of the data that a network was trained with, whose columns and scaling, classes and vocabulary these
// samples are to have; Error when they cannot.
Splits load(const std::string& name, const std::map<std::string, double>& options = {}, const FetchOptions& = {},
            const Info& like = {});
struct CatalogEntry {
  std::string name, doc, input, home;  // home: where it is downloaded from
  std::int64_t train = 0, test = 0, download_bytes = 0;
  std::vector<std::string> options;  // that load() accepts
  bool present = false;              // on this machine, or built in
};
std::vector<CatalogEntry> catalog();
std::vector<std::string> options_of(const std::string& name);  // that load() accepts; none when the name is unknown
// The words that stand for 0, 1, 2 … as an option's value, such as "mean" for csv's `missing`; none when it is a
// number.
std::vector<std::string> option_words(const std::string& name, const std::string& option);
bool present(const std::string& name);  // a set of the catalogue that is on this machine

// ---- batches

// Some samples. `auto& [x, y] = batch` gives the first input and the first target, which are all there is of most data.
struct Batch {
  Batch() = default;
  Batch(Tensor x_, Tensor y_) : x(std::move(x_)), y(std::move(y_)) {}
  Batch(Tensors inputs, Tensors targets);

  Tensor x, y;             // the first input and the first target
  Tensor lengths;          // i32 [N]: steps of each sample's first input; undefined: all are data
  Tensor weight;           // f32 [N]: what each sample counts; undefined: 1
  nn::Mask mask() const {  // of the first input: model(batch.x, mode, batch.mask())
    return lengths.defined() ? nn::Mask::of_lengths(lengths, x.dim(1)) : nn::Mask{};
  }
  Tensors inputs() const;   // all of them, x first
  Tensors targets() const;  // y first
  std::int64_t samples() const { return x.defined() ? x.dim(0) : 0; }
  Batch rows(std::int64_t begin, std::int64_t end) const;
  // f of each tensor.
  template <class F>
  Batch map(F&& f) const {
    Batch mapped(inputs().map(f), targets().map(f));
    if (lengths.defined()) mapped.lengths = f(lengths);
    if (weight.defined()) mapped.weight = f(weight);
    return mapped;
  }

  template <std::size_t I>
  Tensor& get() {
    return I == 0 ? x : y;
  }
  template <std::size_t I>
  const Tensor& get() const {
    return I == 0 ? x : y;
  }

 private:
  Tensors inputs_, targets_;  // the first of each is x and y
};

struct LoaderOptions {
  std::int64_t batch = 32;
  std::int64_t seed = 0;
  std::int64_t epoch = 0;
  std::int64_t skip = 0;    // batches already done in this epoch
  bool shuffle = true;      // an order of its own for each seed and epoch
  bool drop_last = false;   // leave out a last partial batch
  int workers = 1;          // threads that read ahead
  int prefetch = 4;         // batches ready at most
  double mixup = 0;         // α; targets become f32 [B, classes]
  std::int64_t shards = 0;  // mixup mixes within these parts of a batch, not within a process's share of it; 0: it does
  int rank = 0, ranks = 0;  // this process's share of each batch; 0 ranks: its place in the job (distributed.h)
  // Of samples of different lengths: batches of similar ones, each padded to one of so many lengths, which are chosen
  // so that little is padded. 0: in the epoch's order, all padded to the longest there may be.
  std::int64_t buckets = 0;
  bool balanced = false;              // each class as often as any other; within one, in turn
  std::vector<double> sampling = {};  // how likely each sample is drawn, again and again; empty: each comes once
};

// One epoch of batches, read ahead by worker threads; an Error of a worker is thrown by the loop that takes the batch.
class Loader {
 public:
  Loader(Dataset dataset, LoaderOptions options);
  ~Loader();
  Loader(Loader&&) noexcept;

  std::int64_t batches() const;   // in the whole epoch
  bool next(Batch& batch);        // false at the end
  double waited_seconds() const;  // that next() had to wait for the workers

  class Iterator {
   public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    Iterator() = default;
    explicit Iterator(Loader* loader) : loader_(loader) { ++*this; }
    Batch& operator*() { return batch_; }
    Iterator& operator++() {
      if (!loader_->next(batch_)) loader_ = nullptr;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return loader_ != other.loader_; }

   private:
    Loader* loader_ = nullptr;
    Batch batch_;
  };
  Iterator begin() { return Iterator(this); }
  Iterator end() { return {}; }

 private:
  struct State;
  std::unique_ptr<State> state_;
};
inline Loader batches(const Dataset& dataset, LoaderOptions options = {}) { return Loader(dataset, options); }
std::int64_t batch_count(std::int64_t samples, std::int64_t batch, bool drop_last);
// How many of a batch's `count` samples this process reads: they differ by one at most, and may be none.
std::int64_t share_of(std::int64_t count, int rank, int ranks);
// What a process reads of batch `index`, as places in its order of the epoch, and the samples of the whole batch.
struct BatchShare {
  std::int64_t begin = 0, end = 0, of = 0;
};
BatchShare batch_share(const Dataset& dataset, std::int64_t index, std::int64_t batch, int rank, int ranks);

}  // namespace varve::data

template <>
struct std::tuple_size<varve::data::Batch> : std::integral_constant<std::size_t, 2> {};
template <std::size_t I>
struct std::tuple_element<I, varve::data::Batch> {
  using type = varve::Tensor;
};

#include "varve/data/files.h"  // more kinds of files
