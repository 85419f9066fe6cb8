#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>

#include "base/text.h"
#include "data/dataset_target.h"
#include "data/lists.h"
#include "data/random_order.h"
#include "data/sample_memory.h"
#include "varve/data.h"

namespace varve::data {
namespace {

// The classes of a source's targets, found once for all views of it.
struct ClassCount {
  std::mutex guard;
  std::map<std::size_t, std::int64_t> found;  // by target
  std::vector<std::int64_t> labels;           // of all samples, by the first target; empty: not asked for yet
};

bool is_picture(const TensorType& type) { return type.dtype == f32 && type.shape.rank() == 3; }

void check_names(const Info& info, const std::vector<Field>& fields, const char* what) {
  if (fields.empty()) throw Error(cat("data set \"", info.name, "\": its samples have no ", what, "."));
  for (std::size_t i = 0; i < fields.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (!fields[i].name.empty() && fields[i].name == fields[j].name)
        throw Error(cat("data set \"", info.name, "\": two ", what, " are named \"", fields[i].name, "\"."));
}

std::int64_t scan_classes(const Source& source, const std::vector<Field>& inputs, const std::vector<Field>& targets,
                          std::size_t target) {
  SampleMemory x(inputs), y(targets);
  const TensorType& type = targets[target].type;
  const auto count = static_cast<std::size_t>(type.shape.numel());
  std::int64_t largest = -1;
  for (std::int64_t i = 0; i < source.size(); ++i) {
    source.read_fields(i, x.parts(), y.parts());
    for (std::size_t j = 0; j < count; ++j) largest = std::max(largest, integer_at(y.parts()[target], type.dtype, j));
  }
  if (largest == INT64_MAX) throw Error(cat("data: a target is ", largest, ": too large to be a class."));
  return largest + 1;
}

// Targets that are a value, or some, for each pixel of the picture.
bool has_pixel_targets(const TensorType& x, const TensorType& y) {
  return x.shape.rank() == 3 && (y.shape.rank() == 2 || y.shape.rank() == 3) && y.shape[0] == x.shape[0] &&
         y.shape[1] == x.shape[1] && (y.dtype == f32 || y.dtype == i32);
}

// Targets as a picture of floats, which hold class numbers exactly up to 2^24.
class PixelTargets {
 public:
  PixelTargets(const TensorType& type, std::byte* y) : type_(type), y_(y), values_(2 * count()) {
    if (type.dtype == f32) {
      std::memcpy(values_.data(), y, count() * sizeof(float));
      return;
    }
    for (std::size_t i = 0; i < count(); ++i) values_[i] = static_cast<float>(integer_at(y, i32, i));
  }
  Image image() {
    const std::int64_t channels = type_.shape.rank() == 3 ? type_.shape[2] : 1;
    return {{values_.data(), count()}, {values_.data() + count(), count()}, type_.shape[0], type_.shape[1], channels};
  }
  void store() const {
    for (std::size_t i = 0; i < count(); ++i) {
      const auto label = static_cast<std::int32_t>(values_[i]);
      std::memcpy(y_ + i * 4, type_.dtype == f32 ? static_cast<const void*>(&values_[i]) : &label, 4);
    }
  }

 private:
  std::size_t count() const { return static_cast<std::size_t>(type_.shape.numel()); }
  const TensorType& type_;
  std::byte* y_;
  std::vector<float> values_;  // and scratch as large
};

void check_target(const Info& info, const std::vector<Field>& targets, std::size_t target) {
  if (target >= targets.size())
    throw Error(cat("data set \"", info.name, "\": target ", target, " was asked for, there are ", targets.size(), " (",
                    str(targets), ")."));
}

void check_index(const Info& info, std::int64_t index, std::int64_t size) {
  if (index < 0 || index >= size)
    throw Error(cat("data set \"", info.name, "\": sample ", index, " was asked for, there are ", size, "."));
}

}  // namespace

struct Dataset::View {
  std::shared_ptr<const Source> source;
  std::shared_ptr<const Info> info;
  std::vector<Field> inputs, targets;
  std::shared_ptr<ClassCount> classes = std::make_shared<ClassCount>();
  std::shared_ptr<const std::vector<std::int64_t>> indices = nullptr;  // null: all, in order
  struct Mapped {
    Transform transform;
    std::size_t input;  // that it is done to
  };
  std::vector<Mapped> transforms = {};
  std::vector<std::int32_t> relabel = {};  // the source's classes under other numbers; empty: as they are
  std::vector<std::int64_t> parts = {};    // samples of each rank, where they lie apart
  // By the place in the source; null: as the source says, and 1.
  std::shared_ptr<const std::vector<std::int64_t>> lengths = nullptr;
  std::shared_ptr<const std::vector<double>> weights = nullptr;

  const TensorType& x() const { return inputs[0].type; }
  const TensorType& y() const { return targets[0].type; }
  std::int64_t size() const { return indices ? static_cast<std::int64_t>(indices->size()) : source->size(); }
  std::int64_t at(std::int64_t i) const { return indices ? (*indices)[static_cast<std::size_t>(i)] : i; }

  void check_unordered() const {
    if (source->streams() > 0)
      throw Error(cat("data set \"", info->name, "\": text in streams has an order, and parts of it are taken by ",
                      "range(begin, end)."));
  }

  void transform(FieldMemory x, FieldMemory y, Random& random, std::vector<float>& scratch) const;

  void check_one_each(const char* what, std::int64_t count) const {
    check_unordered();
    if (count != size())
      throw Error(cat("data set \"", info->name, "\": ", count, " ", what, " for ", size(),
                      " samples; expected one for each."));
  }

  // These samples of the view; the caller has checked them. Where samples lie apart, a rank cannot know which of theirs
  // the others choose, unless all choose by a rule that says how many those are.
  std::shared_ptr<const View> choose(std::vector<std::int64_t> chosen, std::vector<std::int64_t> of_parts = {}) const {
    if (parts.size() != of_parts.size())
      throw Error(cat("data set \"", info->name,
                      "\": it is one rank's part of samples that lie apart. Choose among them before they are made a "
                      "part, or split them by a share."));
    for (std::int64_t& index : chosen) index = at(index);
    auto view = std::make_shared<View>(*this);
    view->indices = std::make_shared<const std::vector<std::int64_t>>(std::move(chosen));
    view->parts = std::move(of_parts);
    return view;
  }
};

Dataset::Dataset(std::shared_ptr<const Source> source, Info info) {
  if (!source) throw Error("data set \"" + info.name + "\": the source is null.");
  std::vector<Field> inputs = source->inputs(), targets = source->targets();
  check_names(info, inputs, "inputs");
  check_names(info, targets, "targets");
  view_ = std::make_shared<const View>(
      View{std::move(source), std::make_shared<const Info>(std::move(info)), std::move(inputs), std::move(targets)});
}

Dataset::Dataset(std::shared_ptr<const View> view) : view_(std::move(view)) {}

const Dataset::View& Dataset::view(const char* asked) const {
  if (!view_) throw Error(cat("data set: ", asked, " was asked of one that was never given."));
  return *view_;
}

std::int64_t Dataset::size() const { return view("size").size(); }
TensorType Dataset::x() const { return view("x").x(); }
TensorType Dataset::y() const { return view("y").y(); }
const std::vector<Field>& Dataset::inputs() const { return view("inputs").inputs; }
const std::vector<Field>& Dataset::targets() const { return view("targets").targets; }
const Info& Dataset::info() const { return *view("info").info; }
const Source& Dataset::source() const { return *view("source").source; }
std::int64_t Dataset::streams() const { return view("streams").source->streams(); }
bool Dataset::fixed() const { return view("fixed").transforms.empty(); }
bool Dataset::varies() const { return view("varies").lengths || view_->source->varies(); }
bool Dataset::has_weights() const { return view("has_weights").weights != nullptr; }

std::int64_t Dataset::length(std::int64_t index) const {
  const View& all = view("length");
  check_index(*all.info, index, all.size());
  const std::int64_t place = all.at(index);
  return all.lengths ? (*all.lengths)[static_cast<std::size_t>(place)] : all.source->length(place);
}

double Dataset::weight(std::int64_t index) const {
  const View& all = view("weight");
  check_index(*all.info, index, all.size());
  return all.weights ? (*all.weights)[static_cast<std::size_t>(all.at(index))] : 1;
}

namespace {

// Values of a view's samples, by their place in the source.
template <class T, class Place>
std::shared_ptr<const std::vector<T>> by_place(const std::vector<T>& values, std::int64_t places, T otherwise,
                                               const Place& place) {
  auto all = std::make_shared<std::vector<T>>(static_cast<std::size_t>(places), otherwise);
  for (std::size_t i = 0; i < values.size(); ++i)
    (*all)[static_cast<std::size_t>(place(static_cast<std::int64_t>(i)))] = values[i];
  return all;
}

}  // namespace

Dataset Dataset::with_lengths(const std::vector<std::int64_t>& lengths) const {
  const View& all = view("with_lengths");
  all.check_one_each("lengths", std::ssize(lengths));
  const TensorType x = all.x();
  if (x.shape.rank() == 0)
    throw Error(cat("data set \"", all.info->name, "\": lengths are of samples [steps, ..], got ", x.str(), "."));
  for (std::size_t i = 0; i < lengths.size(); ++i)
    if (lengths[i] < 0 || lengths[i] > x.shape[0])
      throw Error(cat("data set \"", all.info->name, "\": the length of sample ", i, " is ", lengths[i],
                      "; expected 0 to ", x.shape[0], ", the steps of ", x.str(), "."));
  auto changed = std::make_shared<View>(all);
  changed->lengths = by_place(lengths, all.source->size(), x.shape[0], [&](std::int64_t i) { return all.at(i); });
  return Dataset(std::shared_ptr<const View>(std::move(changed)));
}

Dataset Dataset::with_weights(const std::vector<double>& weights) const {
  const View& all = view("with_weights");
  all.check_one_each("weights", std::ssize(weights));
  for (std::size_t i = 0; i < weights.size(); ++i)
    if (!(weights[i] >= 0) || !std::isfinite(weights[i]))
      throw Error(cat("data set \"", all.info->name, "\": the weight of sample ", i, " is ", weights[i],
                      "; expected 0 or more."));
  auto changed = std::make_shared<View>(all);
  changed->weights = by_place(weights, all.source->size(), 1.0, [&](std::int64_t i) { return all.at(i); });
  return Dataset(std::shared_ptr<const View>(std::move(changed)));
}

std::vector<std::string> Dataset::class_names(std::size_t target) const {
  const View& all = view("class_names");
  check_target(*all.info, all.targets, target);
  if (target == 0 && !all.info->classes.empty()) return all.info->classes;
  const auto found = all.info->target_classes.find(all.targets[target].name);
  return found == all.info->target_classes.end() ? std::vector<std::string>{} : found->second;
}

std::int64_t Dataset::classes(std::size_t target) const {
  const View& all = view("classes");
  check_target(*all.info, all.targets, target);
  const TensorType& y = all.targets[target].type;
  if (!is_integer(y.dtype) && y.dtype != boolean)
    throw Error(cat("data set \"", all.info->name, "\": targets are ", y.str(),
                    ": numbers, not classes. A loss such as mse fits them."));
  if (const auto names = class_names(target); !names.empty()) return static_cast<std::int64_t>(names.size());
  // The targets of a text are its words, of which a part need not have the last.
  if (all.source->streams() > 0 && all.info->vocabulary) return all.info->vocabulary->size();
  const std::lock_guard lock(all.classes->guard);
  const auto known = all.classes->found.find(target);
  if (known != all.classes->found.end()) return known->second;
  return all.classes->found[target] = scan_classes(*all.source, all.inputs, all.targets, target);
}

namespace {

// The input that transforms are done to: the one of that name, or the only picture.
std::size_t picture_of(const Info& info, const std::vector<Field>& inputs, const std::string& input,
                       const std::string& transform) {
  const std::string begin = cat("data set \"", info.name, "\": ", transform, " needs ");
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (input.empty() ? is_picture(inputs[i].type) || inputs.size() == 1 : inputs[i].name == input) found.push_back(i);
  if (found.size() != 1)
    throw Error(cat(begin, input.empty() ? "one picture among the inputs, or its name" : "an input \"" + input + '"',
                    ": they are ", str(inputs), "."));
  if (!is_picture(inputs[found[0]].type))
    throw Error(
        cat(begin, "images, f32 [height, width, channels], but samples are ", inputs[found[0]].type.str(), "."));
  return found[0];
}

}  // namespace

std::vector<std::int64_t> Dataset::labels() const {
  const View& all = view("labels");
  const TensorType y = all.y();
  if (!is_integer(y.dtype) || y.shape.rank() != 0)
    throw Error(cat("data set \"", all.info->name, "\": targets are ", y.str(),
                    "; expected one class number for each sample."));
  const std::lock_guard lock(all.classes->guard);
  std::vector<std::int64_t>& found = all.classes->labels;  // of the whole source
  if (std::ssize(found) != all.source->size()) {
    found.clear();
    SampleMemory inputs(all.inputs), targets(all.targets);
    for (std::int64_t i = 0; i < all.source->size(); ++i) {
      all.source->read_fields(i, inputs.parts(), targets.parts());
      found.push_back(integer_at(targets.parts()[0], y.dtype, 0));
    }
  }
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < all.size(); ++i) {
    const std::int64_t label = found[static_cast<std::size_t>(all.at(i))];
    if (!all.relabel.empty() && (label < 0 || label >= std::ssize(all.relabel)))
      throw Error(cat("data set \"", all.info->name, "\": sample ", i, " is of class ", label, ", of ",
                      all.relabel.size(), "."));
    labels.push_back(all.relabel.empty() ? label : all.relabel[static_cast<std::size_t>(label)]);
  }
  return labels;
}

Dataset Dataset::map(std::vector<Transform> transforms, const std::string& input) const {
  const View& all = view("map");
  auto mapped = std::make_shared<View>(all);
  for (Transform& transform : transforms) {
    const std::size_t picture = picture_of(*all.info, all.inputs, input, transform.name);
    for (const Field& target : all.targets)
      if (has_pixel_targets(all.inputs[picture].type, target.type) && transform.moves && !transform.to_targets)
        throw Error(cat("data set \"", all.info->name, "\": ", transform.name, " moves pixels, and its targets, ",
                        target.type.str(),
                        ", are of each pixel. Give it to_targets, which moves them alike, or moves = false."));
    if (all.info->boxes && transform.moves && !transform.to_boxes)
      throw Error(cat("data set \"", all.info->name, "\": ", transform.name,
                      " moves pixels, and its targets are boxes. ",
                      "Give it to_boxes, which moves them alike, or moves = false."));
    if (!transform.apply) throw Error(cat("data set: transform \"", transform.name, "\" has no function."));
    mapped->transforms.push_back({std::move(transform), picture});
  }
  return Dataset(std::shared_ptr<const View>(std::move(mapped)));
}

Dataset Dataset::take(std::int64_t count) const { return range(0, std::min(count, size())); }

Dataset Dataset::range(std::int64_t begin, std::int64_t end) const {
  const View& all = view("range");
  if (begin < 0 || end < begin || end > all.size())
    throw Error(cat("data set \"", all.info->name, "\": samples ", begin, " to ", end, " were asked for, there are ",
                    all.size(), "."));
  const std::int64_t streams = all.source->streams();
  if (streams > 0 && (begin % streams != 0 || end % streams != 0))
    throw Error(cat("data set \"", all.info->name, "\": its text runs in ", streams, " streams, so a part begins and ",
                    "ends at multiples of ", streams, "; got ", begin, " to ", end, "."));
  std::vector<std::int64_t> indices(static_cast<std::size_t>(end - begin));
  std::iota(indices.begin(), indices.end(), begin);
  return Dataset(all.choose(std::move(indices)));
}

Dataset Dataset::subset(std::vector<std::int64_t> indices) const {
  const View& all = view("subset");
  all.check_unordered();
  for (const std::int64_t index : indices) check_index(*all.info, index, all.size());
  return Dataset(all.choose(std::move(indices)));
}

Dataset Dataset::with_classes(const std::vector<std::string>& classes) const {
  const View& all = view("with_classes");
  const std::vector<std::string>& own = all.info->classes;
  if (all.y() != TensorType{i32, {}} || own.empty())
    throw Error(cat("data set \"", all.info->name, "\": its targets, ", all.y().str(), ", have no names of classes."));
  if (own == classes) return *this;
  std::vector<std::int32_t> numbers;
  for (const std::string& name : own) {
    const auto found = std::find(classes.begin(), classes.end(), name);
    if (found == classes.end())
      throw Error(cat("data set \"", all.info->name, "\" has a class \"", name,
                      "\" that is none of those wanted. It has ", some_quoted(own), "; wanted are ",
                      some_quoted(classes), "."));
    numbers.push_back(static_cast<std::int32_t>(found - classes.begin()));
  }
  auto changed = std::make_shared<View>(all);
  if (!all.relabel.empty())
    for (std::int32_t& number : changed->relabel) number = numbers[static_cast<std::size_t>(number)];
  else
    changed->relabel = std::move(numbers);
  Info info = *all.info;
  info.classes = classes;
  changed->info = std::make_shared<const Info>(std::move(info));
  return Dataset(std::shared_ptr<const View>(std::move(changed)));
}

std::pair<Dataset, Dataset> Dataset::split(double share, std::int64_t seed) const {
  if (!(share >= 0 && share <= 1)) throw Error(cat("split: expected a share from 0 to 1, got ", share, "."));
  const View& all = view("split");
  all.check_unordered();
  const auto held_of = [share](std::int64_t count) { return std::llround(share * static_cast<double>(count)); };
  std::vector<std::int64_t> held_parts, rest_parts;  // each rank holds out the same share of its own
  for (const std::int64_t count : all.parts) {
    held_parts.push_back(held_of(count));
    rest_parts.push_back(count - held_of(count));
  }
  std::vector<std::int64_t> order = permutation(size(), Random(static_cast<std::uint64_t>(seed), 0, kSplitStream));
  const auto middle = order.begin() + static_cast<std::ptrdiff_t>(held_of(size()));
  // In the order of the source: neighbours in a file are then read one after another.
  std::sort(order.begin(), middle);
  std::sort(middle, order.end());
  return {Dataset(all.choose({order.begin(), middle}, std::move(held_parts))),
          Dataset(all.choose({middle, order.end()}, std::move(rest_parts)))};
}

Dataset Dataset::as_part(std::vector<std::int64_t> sizes, std::int64_t classes) const {
  const View& all = view("as_part");
  if (all.source->streams() > 0)
    throw Error(cat("data set \"", all.info->name, "\": text in streams has an order, and cannot lie apart on ranks."));
  if (std::any_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size < 0; }) ||
      std::find(sizes.begin(), sizes.end(), all.size()) == sizes.end())
    throw Error(cat("data set \"", all.info->name,
                    "\": the sizes of all ranks' parts are given, but none is that of "
                    "this one, ",
                    all.size(), " samples."));
  auto changed = std::make_shared<View>(all);
  changed->parts = std::move(sizes);
  if (classes > 0) {
    changed->classes = std::make_shared<ClassCount>();
    changed->classes->found[0] = classes;
  }
  return Dataset(std::shared_ptr<const View>(std::move(changed)));
}

std::vector<std::int64_t> Dataset::order(std::uint64_t seed, std::uint64_t epoch) const {
  const View& all = view("order");
  std::vector<std::int64_t> places = all.source->order(seed, epoch);
  if (places.empty()) return permutation(size(), Random(seed, epoch, kOrderStream));
  if (!all.indices) return places;
  // Of the source's order what is in this view; a sample that it has several times comes several times.
  std::vector<std::vector<std::int64_t>> mine(static_cast<std::size_t>(all.source->size()));
  for (std::size_t i = 0; i < all.indices->size(); ++i)
    mine[static_cast<std::size_t>((*all.indices)[i])].push_back(static_cast<std::int64_t>(i));
  std::vector<std::int64_t> chosen;
  for (const std::int64_t place : places)
    for (const std::int64_t index : mine[static_cast<std::size_t>(place)]) chosen.push_back(index);
  return chosen;
}

const std::vector<std::int64_t>& Dataset::parts() const { return view("parts").parts; }

std::int64_t Dataset::total() const {
  const std::vector<std::int64_t>& sizes = parts();
  return sizes.empty() ? size() : std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
}

std::pair<Tensors, Tensors> Dataset::sample(std::int64_t index) const {
  const View& all = view("a sample");
  SampleMemory x(all.inputs), y(all.targets);
  std::vector<float> scratch;
  read(index, 0, 0, x.parts(), y.parts(), scratch);
  return {x.tensors(), y.tensors()};
}

std::pair<Tensor, Tensor> Dataset::at(std::int64_t index) const {
  const auto [inputs, targets] = sample(index);
  return {inputs[0], targets[0]};
}

void Dataset::read(std::int64_t index, std::uint64_t seed, std::uint64_t epoch, std::byte* x, std::byte* y,
                   std::vector<float>& scratch) const {
  const View& all = view("a sample");
  if (all.inputs.size() != 1 || all.targets.size() != 1)
    throw Error(cat("data set \"", all.info->name, "\": a sample is ", str(all.inputs), " with ", str(all.targets),
                    ": read it into memory for each of them."));
  read(index, seed, epoch, FieldMemory(&x, 1), FieldMemory(&y, 1), scratch);
}

void Dataset::read(std::int64_t index, std::uint64_t seed, std::uint64_t epoch, FieldMemory x, FieldMemory y,
                   std::vector<float>& scratch) const {
  const View& all = view("a sample");
  check_index(*all.info, index, all.size());
  const std::int64_t place = all.at(index);
  all.source->read_fields(place, x, y);
  if (!all.relabel.empty()) {
    const std::int64_t label = integer_at(y[0], i32, 0);
    if (label < 0 || label >= std::ssize(all.relabel))
      throw Error(cat("data set \"", all.info->name, "\": sample ", index, " is of class ", label, ", of ",
                      all.relabel.size(), "."));
    std::memcpy(y[0], &all.relabel[static_cast<std::size_t>(label)], sizeof(std::int32_t));
  }
  if (all.transforms.empty()) return;
  // Keyed by the place in the source, so that a sample changes alike in every subset it is in.
  Random random(seed, epoch, static_cast<std::uint64_t>(place));
  all.transform(x, y, random, scratch);
}

// Targets of each pixel are moved with the picture they belong to.
void Dataset::View::transform(FieldMemory x, FieldMemory y, Random& random, std::vector<float>& scratch) const {
  std::vector<std::pair<std::size_t, PixelTargets>> moved;  // by target
  for (const Mapped& each : transforms) {
    if (!each.transform.to_targets) continue;
    for (std::size_t t = 0; t < targets.size(); ++t) {
      const bool known = std::any_of(moved.begin(), moved.end(), [t](const auto& one) { return one.first == t; });
      if (!known && has_pixel_targets(inputs[each.input].type, targets[t].type))
        moved.emplace_back(t, PixelTargets(targets[t].type, y[t]));
    }
  }
  for (const Mapped& each : transforms) {
    const Shape& shape = inputs[each.input].type.shape;
    const auto count = static_cast<std::size_t>(shape.numel());
    if (scratch.size() < count) scratch.resize(count);
    Image image{
        {reinterpret_cast<float*>(x[each.input]), count}, {scratch.data(), count}, shape[0], shape[1], shape[2]};
    const Random before = random;
    each.transform.apply(image, random);
    if (info->boxes && each.transform.to_boxes) {
      Random same = before;
      Boxes boxes = {{reinterpret_cast<float*>(y[0]), static_cast<std::size_t>(targets[0].type.shape.numel())},
                     shape[0],
                     shape[1]};
      each.transform.to_boxes(boxes, same);
    }
    if (!each.transform.to_targets) continue;
    for (auto& [t, pixels] : moved) {
      if (!has_pixel_targets(inputs[each.input].type, targets[t].type)) continue;
      Random same = before;
      Image target = pixels.image();
      each.transform.to_targets(target, same);
    }
  }
  for (const auto& [t, pixels] : moved) pixels.store();
}

void FieldSource::read(std::int64_t index, std::byte* x, std::byte* y) const {
  std::vector<std::byte*> to_inputs(inputs().size(), x), to_targets(targets().size(), y);
  if (to_inputs.size() != 1 || to_targets.size() != 1)
    throw Error(
        cat("source: a sample is ", str(inputs()), " with ", str(targets()), ": read_fields() reads all of them."));
  read_fields(index, to_inputs, to_targets);
}

}  // namespace varve::data
