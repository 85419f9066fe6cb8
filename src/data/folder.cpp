#include <tuple>

#include "base/text.h"
#include "data/class_folders.h"
#include "data/parts.h"
#include "data/pixels.h"

namespace varve::data {
namespace {

class FolderSource : public Source {
 public:
  FolderSource(const FolderOptions& options, const ClassFiles& found)
      : options_(options), files_(found.files), labels_(found.labels) {}
  std::int64_t size() const override { return std::ssize(files_); }
  TensorType x() const override { return {f32, {options_.height, options_.width, options_.channels}}; }
  TensorType y() const override { return {i32, {}}; }
  void read(std::int64_t index, std::byte* x, std::byte* y) const override {
    const auto at = static_cast<std::size_t>(index);
    const Picture fitted = load_picture_to_fill(files_[at], options_.channels, options_.height, options_.width);
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
  check_test_share("image_folder", options.test_share);
}

}  // namespace

Splits image_folder(const std::string& path, const FolderOptions& options) {
  check(options);
  const ClassFolders found =
      list_class_folders(path, {.who = "image_folder", .what = "pictures", .accepts = has_picture_name});
  const auto part = [&](const ClassFiles& files) {
    if (files.empty()) return Dataset();
    const Info info = {.name = found.name, .classes = found.classes, .skipped = files.skipped};
    return Dataset(std::make_shared<FolderSource>(options, files), info);
  };
  Splits splits = {.train = part(found.train), .validation = part(found.validation), .test = part(found.test)};
  if (!splits.test.defined() && options.test_share > 0)
    std::tie(splits.test, splits.train) = splits.train.split(options.test_share);
  return splits;
}

}  // namespace varve::data
