#include <algorithm>
#include <filesystem>
#include <tuple>

#include "base/text.h"
#include "data/lists.h"
#include "data/pixels.h"

namespace varve::data {
namespace {

namespace fs = std::filesystem;

bool hidden(const fs::path& path) { return path.filename().string().starts_with("."); }

std::vector<std::string> folders_in(const fs::path& path) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
    if (entry.is_directory() && !hidden(entry.path())) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class FolderSource : public Source {
 public:
  FolderSource(const FolderOptions& options, const fs::path& path, const std::vector<std::string>& classes)
      : options_(options) {
    for (const std::string& name : folders_in(path)) {
      const auto found = std::find(classes.begin(), classes.end(), name);
      if (found == classes.end()) {
        throw Error(cat('"', (path / name).string(), "\": the training part has no class \"", name, "\"."));
      }
      const auto begin = std::ssize(files_);
      for (const fs::directory_entry& entry : fs::directory_iterator(path / name)) {
        if (hidden(entry.path())) continue;
        const bool read = entry.is_regular_file() && has_picture_name(entry.path().string());
        (read ? files_ : skipped_).push_back(entry.path().string());
      }
      std::sort(files_.begin() + begin, files_.end());
      labels_.resize(files_.size(), static_cast<std::int32_t>(found - classes.begin()));
    }
    std::sort(skipped_.begin(), skipped_.end());
    if (files_.empty())
      throw Error(cat('"', path.string(), "\": no pictures that can be read in its folders.", asides()));
  }

  // A class that nothing can be learnt of would be an output for nothing.
  void check_classes(const fs::path& path, const std::vector<std::string>& classes) const {
    for (std::size_t i = 0; i < classes.size(); ++i)
      if (std::find(labels_.begin(), labels_.end(), static_cast<std::int32_t>(i)) == labels_.end())
        throw Error(
            cat('"', (path / classes[i]).string(), "\": the class has no pictures that can be read.", asides()));
  }
  const std::vector<std::string>& skipped() const { return skipped_; }

  std::int64_t size() const override { return std::ssize(files_); }
  TensorType x() const override { return {f32, {options_.height, options_.width, options_.channels}}; }
  TensorType y() const override { return {i32, {}}; }
  void read(std::int64_t index, std::byte* x, std::byte* y) const override {
    const auto at = static_cast<std::size_t>(index);
    const Picture fitted = resize_to_fill(load_picture(files_[at], options_.channels), options_.height, options_.width);
    deliver_pixels(fitted.pixels.data(), std::ssize(fitted.pixels), x);
    deliver_class(labels_[at], y);
  }

 private:
  std::string asides() const { return skipped_.empty() ? "" : cat(" Skipped: ", some_quoted(skipped_), "."); }

  FolderOptions options_;
  std::vector<std::string> files_, skipped_;
  std::vector<std::int32_t> labels_;
};

void check(const FolderOptions& options) {
  constexpr std::int64_t kMostSide = 8192;
  for (const std::int64_t side : {options.height, options.width}) {
    if (side < 1 || side > kMostSide) {
      throw Error(cat("image_folder: height and width must be from 1 to ", kMostSide, ", got ", side, "."));
    }
  }
  if (options.channels != 1 && options.channels != 3) {
    throw Error(cat("image_folder: channels must be 1 or 3, got ", options.channels, "."));
  }
  if (!(options.test_share >= 0 && options.test_share < 1)) {
    throw Error(cat("image_folder: test_share must be from 0 to less than 1, got ", options.test_share, "."));
  }
}

Splits read_folder(const fs::path& path, const FolderOptions& options) {
  if (!fs::is_directory(path)) throw Error(cat('"', path.string(), "\" is not a folder of pictures."));
  const bool parted = fs::is_directory(path / "train");
  const fs::path train = parted ? path / "train" : path;
  Info info = {.name = fs::absolute(path).lexically_normal().filename().string(), .classes = folders_in(train)};
  if (info.classes.empty()) {
    throw Error(cat('"', train.string(), "\" has no folders: expected one for each class, with pictures in it."));
  }
  const auto part = [&](const fs::path& from) {
    const auto source = std::make_shared<FolderSource>(options, from, info.classes);
    if (from == train) source->check_classes(from, info.classes);
    info.skipped = source->skipped();
    return Dataset(source, info);
  };
  Splits splits = {.train = part(train)};
  const fs::path validation = fs::is_directory(path / "val") ? path / "val" : path / "validation";
  if (parted && fs::is_directory(path / "test")) splits.test = part(path / "test");
  if (parted && fs::is_directory(validation))
    (splits.test.defined() ? splits.validation : splits.test) = part(validation);
  if (!splits.test.defined() && options.test_share > 0) {
    std::tie(splits.test, splits.train) = splits.train.split(options.test_share);
  }
  return splits;
}

}  // namespace

Splits image_folder(const std::string& path, const FolderOptions& options) {
  check(options);
  try {
    return read_folder(path, options);
  } catch (const fs::filesystem_error& error) {
    throw Error(cat("image_folder: ", error.what()));
  }
}

}  // namespace varve::data
