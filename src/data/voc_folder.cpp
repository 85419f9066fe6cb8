// PASCAL VOC's layout: JPEGImages/, Annotations/ (boxes), SegmentationClass/ (masks), ImageSets/ (which pictures
// train).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>
#include <sstream>

#include "base/text.h"
#include "data/boxes.h"
#include "data/lists.h"
#include "data/parts.h"
#include "data/pixels.h"
#include "data/voc.h"

namespace varve::data {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostText = 1 << 24, kMostAnnotation = 1 << 20;
constexpr const char* kBackground = "background";
constexpr std::uint8_t kBorder = 255;

struct VocSample {
  std::string picture, target;  // files
};

// Lines of text that are not empty.
std::vector<std::string> lines_of(const fs::path& file) {
  std::vector<std::string> lines;
  std::istringstream text(load_text(file.string(), kMostText));
  for (std::string line; std::getline(text, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

class VocFolder {
 public:
  VocFolder(const std::string& path, const VocOptions& options) : root_(path), options_(options) {
    if (!fs::is_directory(root_ / "JPEGImages"))
      throw Error(cat('"', path, "\" is not laid out as PASCAL VOC: it has no folder JPEGImages."));
    masks_ = options.task == VocTask::segmentation ||
             (options.task == VocTask::found && fs::is_directory(root_ / "SegmentationClass"));
    targets_ = root_ / (masks_ ? "SegmentationClass" : "Annotations");
    if (!fs::is_directory(targets_))
      throw Error(cat('"', path, "\" has no folder ", targets_.filename().string(), ", where its ",
                      masks_ ? "masks" : "boxes", " are expected."));
    if (fs::exists(root_ / "classes.txt")) named_ = lines_of(root_ / "classes.txt");
  }
  bool masks() const { return masks_; }
  std::string name() const { return fs::absolute(root_).lexically_normal().filename().string(); }

  // The pictures that a list of ImageSets names.
  std::vector<VocSample> listed(const std::string& set) const {
    const fs::path file = sets() / (set + ".txt");
    std::vector<VocSample> samples;
    if (!fs::exists(file)) return samples;
    std::int64_t line = 0;
    for (const std::string& text : lines_of(file)) {
      ++line;
      // Lists of one class have a number behind the name; all names are in each.
      const std::string id = text.substr(0, text.find(' '));
      samples.push_back(sample(id, cat('"', file.string(), "\", line ", line)));
    }
    if (samples.empty()) throw Error(cat('"', file.string(), "\" names no pictures."));
    return samples;
  }
  bool has_lists() const { return fs::exists(sets() / "train.txt"); }

  // All that have a target.
  std::vector<VocSample> all() const {
    std::vector<std::string> ids;
    const char* ending = masks_ ? ".png" : ".xml";
    for (const fs::directory_entry& entry : fs::directory_iterator(targets_))
      if (entry.is_regular_file() && entry.path().extension() == ending) ids.push_back(entry.path().stem().string());
    std::sort(ids.begin(), ids.end());
    std::vector<VocSample> samples;
    for (const std::string& id : ids) samples.push_back(sample(id, cat('"', targets_.string(), '"')));
    if (samples.empty()) throw Error(cat('"', targets_.string(), "\" holds no ", ending, " files."));
    return samples;
  }

  // Of classes.txt, or the twenty of VOC; of boxes otherwise the names in the annotations.
  std::vector<std::string> classes(const std::vector<VocSample>& train) const {
    std::vector<std::string> names = named_.empty() ? voc_classes() : named_;
    if (masks_) {
      if (names.front() != kBackground) names.insert(names.begin(), kBackground);
      return names;
    }
    if (!named_.empty()) {
      if (names.front() == kBackground) names.erase(names.begin());
      return names;
    }
    std::set<std::string> found;
    for (const VocSample& one : train)
      for (const VocBox& box :
           parse_annotation(load_text(one.target, kMostAnnotation), cat('"', one.target, '"')).boxes)
        found.insert(box.name);
    const std::set<std::string> known(names.begin(), names.end());
    if (std::includes(known.begin(), known.end(), found.begin(), found.end())) return names;
    return {found.begin(), found.end()};
  }

 private:
  fs::path sets() const { return root_ / "ImageSets" / (masks_ ? "Segmentation" : "Main"); }

  VocSample sample(const std::string& id, const std::string& where) const {
    if (id.empty() || id.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos || id.starts_with("."))
      throw Error(cat(where, ": \"", id, "\" is not the name of a picture."));
    for (const char* ending : {".jpg", ".jpeg", ".png", ".JPG", ".JPEG"}) {
      const fs::path picture = root_ / "JPEGImages" / (id + ending);
      if (fs::exists(picture)) return {picture.string(), (targets_ / (id + (masks_ ? ".png" : ".xml"))).string()};
    }
    throw Error(cat(where, ": there is no picture \"", id, ".jpg\" in JPEGImages."));
  }

  fs::path root_, targets_;
  VocOptions options_;
  bool masks_ = false;
  std::vector<std::string> named_;
};

class VocSource : public Source {
 public:
  VocSource(const VocOptions& options, std::vector<VocSample> samples, std::vector<std::string> classes)
      : options_(options), samples_(std::move(samples)), classes_(std::move(classes)) {}
  std::int64_t size() const override { return std::ssize(samples_); }
  TensorType x() const override { return {f32, {options_.height, options_.width, options_.channels}}; }

 protected:
  // The picture, and the part of it that the sample is.
  FilledPart read_picture(const VocSample& sample, std::byte* x) const {
    const Picture picture = load_picture(sample.picture, options_.channels);
    const Picture fitted = resize_to_fill(picture, options_.height, options_.width);
    deliver_pixels(fitted.pixels.data(), std::ssize(fitted.pixels), x);
    return filled_part(picture.height, picture.width, options_.height, options_.width);
  }

  VocOptions options_;
  std::vector<VocSample> samples_;
  std::vector<std::string> classes_;
};

class MaskSource : public VocSource {
 public:
  using VocSource::VocSource;
  TensorType y() const override { return {i32, {options_.height, options_.width}}; }
  void read(std::int64_t index, std::byte* x, std::byte* y) const override {
    const VocSample& sample = samples_[static_cast<std::size_t>(index)];
    const FilledPart part = read_picture(sample, x);
    const Picture mask = load_mask(sample.target);
    if (mask.height != part.of_height || mask.width != part.of_width)
      throw Error(cat('"', sample.target, "\": the mask is ", mask.height, "×", mask.width, ", its picture ",
                      part.of_height, "×", part.of_width, "."));
    const Picture fitted = take_nearest(mask, part, options_.height, options_.width);
    for (const std::uint8_t value : fitted.pixels) {
      const auto label = static_cast<std::int32_t>(value == kBorder ? options_.border : value);
      if (label != options_.border && label >= std::ssize(classes_))
        throw Error(cat('"', sample.target, "\": a pixel is of class ", label, ", and there are ", classes_.size(),
                        ". A file classes.txt beside JPEGImages names them, one on each line."));
      std::memcpy(y, &label, sizeof label);
      y += sizeof label;
    }
  }
};

class BoxSource : public VocSource {
 public:
  using VocSource::VocSource;
  TensorType y() const override { return {f32, {options_.boxes, kBoxNumbers}}; }
  void read(std::int64_t index, std::byte* x, std::byte* y) const override {
    const VocSample& sample = samples_[static_cast<std::size_t>(index)];
    const std::string source = cat('"', sample.target, '"');
    const VocAnnotation annotation = parse_annotation(load_text(sample.target, kMostAnnotation), source);
    const FilledPart part = read_picture(sample, x);
    std::vector<float> rows;
    for (const VocBox& box : annotation.boxes) {
      if (box.difficult && !options_.difficult) continue;
      const auto found = std::find(classes_.begin(), classes_.end(), box.name);
      if (found == classes_.end())
        throw Error(cat(source, ", line ", box.line, ": \"", box.name,
                        "\" is none of the classes: ", some_quoted(classes_), "."));
      const auto share = [](double at, std::int64_t begin, std::int64_t size) {
        return static_cast<float>((at - static_cast<double>(begin)) / static_cast<double>(size));
      };
      BoxRow row = {static_cast<float>(found - classes_.begin()), share(box.left, part.left, part.width),
                    share(box.top, part.top, part.height), share(box.right, part.left, part.width),
                    share(box.bottom, part.top, part.height)};
      if (cut_box(row)) rows.insert(rows.end(), row.begin(), row.end());
    }
    const std::int64_t count = std::ssize(rows) / kBoxNumbers;
    if (count > options_.boxes)
      throw Error(cat(source, " has ", count, " boxes, and a sample takes ", options_.boxes,
                      ": give more (boxes=", count, ")."));
    rows.resize(static_cast<std::size_t>(options_.boxes * kBoxNumbers), 0);
    for (std::int64_t i = count; i < options_.boxes; ++i) rows[static_cast<std::size_t>(i * kBoxNumbers)] = kNoBox;
    std::memcpy(y, rows.data(), rows.size() * sizeof(float));
  }
};

void check(const VocOptions& options) {
  constexpr std::int64_t kMostSide = 8192, kMostBoxes = 10'000;
  for (const std::int64_t side : {options.height, options.width})
    if (side < 1 || side > kMostSide)
      throw Error(cat("voc: height and width must be from 1 to ", kMostSide, ", got ", side, "."));
  if (options.channels != 1 && options.channels != 3)
    throw Error(cat("voc: channels must be 1 or 3, got ", options.channels, "."));
  if (options.boxes < 1 || options.boxes > kMostBoxes)
    throw Error(cat("voc: boxes must be from 1 to ", kMostBoxes, ", got ", options.boxes, "."));
  check_test_share("voc", options.test_share);
}

Splits read_voc(const std::string& path, const VocOptions& options) {
  const VocFolder folder(path, options);
  const bool lists = folder.has_lists();
  std::vector<VocSample> train = lists ? folder.listed("train") : folder.all(), validation, test;
  if (lists) {
    validation = folder.listed("val");
    test = folder.listed("test");
    if (test.empty()) std::swap(validation, test);
  }
  const std::vector<std::string> classes = options.classes.empty() ? folder.classes(train) : options.classes;
  const Info info = {.name = folder.name(), .classes = classes, .boxes = !folder.masks()};
  const auto part = [&](std::vector<VocSample> samples) -> Dataset {
    if (samples.empty()) return {};
    if (folder.masks()) return Dataset(std::make_shared<MaskSource>(options, std::move(samples), classes), info);
    return Dataset(std::make_shared<BoxSource>(options, std::move(samples), classes), info);
  };
  Parts parts = parts_of(std::ssize(train), test.empty() ? options.test_share : 0, folder.name());
  Splits splits = {
      .train = part(std::move(train)), .validation = part(std::move(validation)), .test = part(std::move(test))};
  if (parts.test.empty()) return splits;
  splits.test = splits.train.subset(std::move(parts.test));
  splits.train = splits.train.subset(std::move(parts.train));
  return splits;
}

}  // namespace

bool cut_box(BoxRow& row) {
  constexpr float kSeen = 0.25f;  // of a box, at least
  const float area = (row[3] - row[1]) * (row[4] - row[2]);
  for (std::size_t i = 1; i < row.size(); ++i) row[i] = std::clamp(row[i], 0.f, 1.f);
  return (row[3] - row[1]) * (row[4] - row[2]) >= kSeen * area && area > 0;
}

Splits voc(const std::string& path, const VocOptions& options) {
  check(options);
  try {
    return read_voc(path, options);
  } catch (const fs::filesystem_error& error) {
    throw Error(cat("voc: ", error.what()));
  }
}

}  // namespace varve::data
