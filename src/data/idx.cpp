#include "base/text.h"
#include "data/fetch.h"
#include "data/pixels.h"

namespace varve::data {
namespace {

struct Idx {
  Shape shape;
  std::vector<std::uint8_t> values;
};

// Two zero bytes, the type (8: bytes), the rank, each size as 32 bits, most significant first, then the values.
Idx read_idx(const std::string& path) {
  Idx idx = {.values = load_bytes(path)};
  const std::vector<std::uint8_t>& file = idx.values;
  const auto fail = [&](const std::string& what) { return Error(cat('"', path, "\" is not an IDX file: ", what)); };
  if (file.size() < 4 || file[0] != 0 || file[1] != 0) throw fail("it does not begin with two zeros and a type.");
  if (file[2] != 8) throw fail(cat("its values must be bytes (type 8), got type ", file[2], "."));
  const std::size_t rank = file[3], header = 4 + 4 * rank;
  if (rank < 1 || rank > 4) throw fail(cat("its rank must be from 1 to 4, got ", rank, "."));
  if (file.size() < header) throw fail("it ends within its sizes.");
  std::uint64_t count = 1;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::uint8_t* p = file.data() + 4 + 4 * axis;
    const std::uint64_t size = std::uint64_t{p[0]} << 24 | std::uint64_t{p[1]} << 16 | std::uint64_t{p[2]} << 8 | p[3];
    if (size == 0) throw fail(cat("its size along axis ", axis, " is 0."));
    // Bounded by the file, so that no product can overflow.
    if (size > file.size() / count) throw fail(cat("it is too short for the sizes it names."));
    count *= size;
    idx.shape.push_back(static_cast<std::int64_t>(size));
  }
  if (file.size() != header + count) {
    throw fail(cat("sizes ", idx.shape.str(), " need ", header + count, " bytes, it has ", file.size(), "."));
  }
  idx.values.erase(idx.values.begin(), idx.values.begin() + static_cast<std::ptrdiff_t>(header));
  return idx;
}

Splits idx_splits(const std::string& name, std::vector<std::string> classes, const FetchOptions& options) {
  fetch(home(name), options);
  const Info info = {.name = name, .classes = std::move(classes)};
  const auto part = [&](const std::string& prefix) {
    return idx(local_path(name + "/" + prefix + "-images-idx3-ubyte.gz"),
               local_path(name + "/" + prefix + "-labels-idx1-ubyte.gz"), info);
  };
  return {.train = part("train"), .test = part("t10k")};
}

}  // namespace

Dataset idx(const std::string& images_path, const std::string& labels_path, const Info& info) {
  Idx images = read_idx(images_path), labels = read_idx(labels_path);
  if (images.shape.rank() < 3) {
    throw Error(cat('"', images_path, "\": expected images [count, height, width], got ", images.shape.str(), "."));
  }
  if (labels.shape.rank() != 1 || labels.shape[0] != images.shape[0]) {
    throw Error(cat("\"", labels_path, "\": expected a label for each of ", images.shape[0], " images, got ",
                    labels.shape.str(), "."));
  }
  check_labels(labels.values, info, labels_path);
  const std::int64_t channels = images.shape.rank() == 4 ? images.shape[3] : 1;
  return Dataset(std::make_shared<PixelSource>(Shape{images.shape[1], images.shape[2], channels},
                                               std::move(images.values), std::move(labels.values)),
                 info);
}

Splits mnist(const FetchOptions& options) {
  return idx_splits("mnist", {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}, options);
}

Splits fashion_mnist(const FetchOptions& options) {
  return idx_splits("fashion_mnist",
                    {"t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot"},
                    options);
}

}  // namespace varve::data
