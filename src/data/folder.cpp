#include <algorithm>
#include <filesystem>
#include <tuple>

#include "base/text.h"
#include "data/pixels.h"

namespace varve::data {
namespace {

namespace fs = std::filesystem;

bool is_picture(const fs::path& path) {
  std::string extension = path.extension().string();
  for (char& c : extension) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png";
}

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
        if (!is_picture(entry.path()) || hidden(entry.path())) continue;
        // Reading a pipe would wait for ever.
        if (!entry.is_regular_file())
          throw Error(cat('"', entry.path().string(),
                          "\" is not a file but a pipe, a device, a folder or a link that leads nowhere: remove it."));
        files_.push_back(entry.path().string());
      }
      std::sort(files_.begin() + begin, files_.end());
      labels_.resize(files_.size(), static_cast<std::int32_t>(found - classes.begin()));
    }
    if (files_.empty()) throw Error(cat('"', path.string(), "\": no .jpg, .jpeg or .png files in its folders."));
  }

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
  FolderOptions options_;
  std::vector<std::string> files_;
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
  const Info info = {.name = fs::absolute(path).lexically_normal().filename().string(), .classes = folders_in(train)};
  if (info.classes.empty()) {
    throw Error(cat('"', train.string(), "\" has no folders: expected one for each class, with pictures in it."));
  }
  const auto part = [&](const fs::path& from) {
    return Dataset(std::make_shared<FolderSource>(options, from, info.classes), info);
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
