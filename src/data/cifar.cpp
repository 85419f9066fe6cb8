#include "base/text.h"
#include "data/fetch.h"
#include "data/pixels.h"

namespace varve::data {
namespace {

constexpr std::size_t kSide = 32, kPlane = kSide * kSide, kPicture = 3 * kPlane;

struct Pictures {
  std::vector<std::uint8_t> pixels, labels;
};

// Records of `label_bytes` labels, of which the last is kept, and three planes of colour.
void append(Pictures& all, const std::string& path, std::size_t label_bytes) {
  const std::size_t record = label_bytes + kPicture;
  const std::vector<std::uint8_t> file = load_bytes(path);
  if (file.empty() || file.size() % record != 0) {
    throw Error(cat('"', path, "\" is not a CIFAR file: expected records of ", record, " bytes, got ", file.size(),
                    " bytes, ", file.size() % record, " of them left over. Is it cut short?"));
  }
  const std::size_t count = file.size() / record, begin = all.pixels.size();
  all.pixels.resize(begin + count * kPicture);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint8_t* planes = file.data() + i * record + label_bytes;
    all.labels.push_back(planes[-1]);
    std::uint8_t* out = all.pixels.data() + begin + i * kPicture;
    for (std::size_t pixel = 0; pixel < kPlane; ++pixel) {
      for (std::size_t colour = 0; colour < 3; ++colour) *out++ = planes[colour * kPlane + pixel];
    }
  }
}

Dataset cifar(const std::vector<std::string>& files, std::size_t label_bytes, const Info& info) {
  Pictures all;
  for (const std::string& file : files) {
    append(all, local_path(file), label_bytes);
    check_labels(all.labels, info, file);
  }
  return Dataset(std::make_shared<PixelSource>(Shape{kSide, kSide, 3}, std::move(all.pixels), std::move(all.labels)),
                 info);
}

}  // namespace

Splits cifar10(const FetchOptions& options) {
  fetch(home("cifar10"), options);
  const Info info = {
      .name = "cifar10",
      .classes = {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"}};
  std::vector<std::string> train = home("cifar10").files[0].holds;  // the batches of training, then that of the test
  const std::string test = train.back();
  train.pop_back();
  return {.train = cifar(train, 1, info), .test = cifar({test}, 1, info)};
}

Splits cifar100(const FetchOptions& options) {
  fetch(home("cifar100"), options);
  const Info info = {
      .name = "cifar100",
      .classes = {
          "apple",      "aquarium_fish", "baby",         "bear",       "beaver",      "bed",         "bee",
          "beetle",     "bicycle",       "bottle",       "bowl",       "boy",         "bridge",      "bus",
          "butterfly",  "camel",         "can",          "castle",     "caterpillar", "cattle",      "chair",
          "chimpanzee", "clock",         "cloud",        "cockroach",  "couch",       "crab",        "crocodile",
          "cup",        "dinosaur",      "dolphin",      "elephant",   "flatfish",    "forest",      "fox",
          "girl",       "hamster",       "house",        "kangaroo",   "keyboard",    "lamp",        "lawn_mower",
          "leopard",    "lion",          "lizard",       "lobster",    "man",         "maple_tree",  "motorcycle",
          "mountain",   "mouse",         "mushroom",     "oak_tree",   "orange",      "orchid",      "otter",
          "palm_tree",  "pear",          "pickup_truck", "pine_tree",  "plain",       "plate",       "poppy",
          "porcupine",  "possum",        "rabbit",       "raccoon",    "ray",         "road",        "rocket",
          "rose",       "sea",           "seal",         "shark",      "shrew",       "skunk",       "skyscraper",
          "snail",      "snake",         "spider",       "squirrel",   "streetcar",   "sunflower",   "sweet_pepper",
          "table",      "tank",          "telephone",    "television", "tiger",       "tractor",     "train",
          "trout",      "tulip",         "turtle",       "wardrobe",   "whale",       "willow_tree", "wolf",
          "woman",      "worm"}};
  return {.train = cifar({"cifar-100-binary/train.bin"}, 2, info),
          .test = cifar({"cifar-100-binary/test.bin"}, 2, info)};
}

}  // namespace varve::data
