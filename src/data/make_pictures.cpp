// Pictures: shapes with boxes and masks, and photographs of nothing.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/text.h"
#include "data/make.h"

namespace varve::data {
namespace {

namespace fs = std::filesystem;

using Colour = std::array<double, 3>;

Colour any_colour(Random& random) { return {random.uniform(0, 255), random.uniform(0, 255), random.uniform(0, 255)}; }

std::uint8_t level(double value) { return static_cast<std::uint8_t>(std::clamp(value, 0.0, 255.0)); }

// Two colours that run into each other.
Picture ground(std::int64_t height, std::int64_t width, Random& random) {
  Picture picture = {.height = height, .width = width, .channels = 3, .pixels = {}};
  picture.pixels.reserve(static_cast<std::size_t>(height * width * 3));
  const Colour from = any_colour(random), to = any_colour(random);
  const double slant = random.uniform(0, 1);
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x) {
      const double share = slant * static_cast<double>(y) / static_cast<double>(height) +
                           (1 - slant) * static_cast<double>(x) / static_cast<double>(width);
      for (std::size_t c = 0; c < 3; ++c) picture.pixels.push_back(level(from[c] + share * (to[c] - from[c])));
    }
  return picture;
}

void add_noise(Picture& picture, double deviation, Random& random) {
  for (std::uint8_t& pixel : picture.pixels) pixel = level(pixel + random.normal() * deviation);
}

enum class Shapes : std::uint8_t { disc, square, triangle };
constexpr std::array kShapeNames = {"disc", "square", "triangle"};

// Whether a place, from -1 to 1 in the box of a shape, is in it.
bool inside(Shapes shape, double y, double x) {
  if (shape == Shapes::disc) return y * y + x * x <= 1;
  return shape == Shapes::square || std::abs(x) <= (y + 1) / 2;
}

struct Placed {
  Shapes shape;
  std::int64_t left, top, size;
  bool touches(const Placed& other) const {
    return std::max(left, other.left) < std::min(left + size, other.left + other.size) + 2 &&
           std::max(top, other.top) < std::min(top + size, other.top + other.size) + 2;
  }
};

// One to three shapes apart from each other.
std::vector<Placed> place_shapes(std::int64_t side, Random& random) {
  std::vector<Placed> placed;
  const std::int64_t wanted = 1 + random.integer(3);
  for (int attempt = 0; attempt < 50 && std::ssize(placed) < wanted; ++attempt) {
    const std::int64_t size = side / 5 + random.integer(side / 4);
    const Placed one = {static_cast<Shapes>(random.integer(3)), random.integer(side - size),
                        random.integer(side - size), size};
    if (std::none_of(placed.begin(), placed.end(), [&](const Placed& other) { return one.touches(other); }))
      placed.push_back(one);
  }
  return placed;
}

void draw(const Placed& placed, Picture& picture, Picture& mask, Random& random) {
  // Far from the colours around it.
  const Colour colour = {random.chance(0.5) ? 255. : 0., random.chance(0.5) ? 255. : 0., random.uniform(0, 255)};
  const double radius = static_cast<double>(placed.size) / 2;
  for (std::int64_t y = placed.top; y < placed.top + placed.size; ++y)
    for (std::int64_t x = placed.left; x < placed.left + placed.size; ++x) {
      const double down = (static_cast<double>(y - placed.top) + 0.5) / radius - 1;
      const double right = (static_cast<double>(x - placed.left) + 0.5) / radius - 1;
      if (!inside(placed.shape, down, right)) continue;
      const auto at = static_cast<std::size_t>(y * picture.width + x);
      mask.pixels[at] = static_cast<std::uint8_t>(1 + static_cast<int>(placed.shape));
      for (std::size_t c = 0; c < 3; ++c) picture.pixels[3 * at + c] = level(colour[c]);
    }
}

std::string annotation(const std::string& id, const std::vector<Placed>& placed, std::int64_t side) {
  std::string text = cat("<annotation>\n  <filename>", id, ".jpg</filename>\n  <size><width>", side, "</width><height>",
                         side, "</height><depth>3</depth></size>\n");
  for (const Placed& one : placed)
    text += cat("  <object>\n    <name>", kShapeNames[static_cast<std::size_t>(one.shape)],
                "</name>\n    <bndbox><xmin>", one.left + 1, "</xmin><ymin>", one.top + 1, "</ymin><xmax>",
                one.left + one.size, "</xmax><ymax>", one.top + one.size, "</ymax></bndbox>\n  </object>\n");
  return text + "</annotation>\n";
}

}  // namespace

// PASCAL VOC's layout. The last fifth of the pictures tests.
void make_shapes(const std::string& folder, const MakeOptions& options) {
  constexpr std::int64_t kShapeSide = 64;
  for (const char* part :
       {"JPEGImages", "SegmentationClass", "Annotations", "ImageSets/Main", "ImageSets/Segmentation"})
    fs::create_directories(fs::path(folder) / part);
  std::string train, val;
  for (std::int64_t i = 0; i < options.samples; ++i) {
    Random random(static_cast<std::uint64_t>(options.seed), 0, static_cast<std::uint64_t>(i));
    const std::string id = cat("shapes_", i);
    Picture picture = ground(kShapeSide, kShapeSide, random);
    Picture mask = {.height = kShapeSide, .width = kShapeSide, .channels = 1, .pixels = {}};
    mask.pixels.resize(static_cast<std::size_t>(kShapeSide * kShapeSide));
    const std::vector<Placed> placed = place_shapes(kShapeSide, random);
    for (const Placed& one : placed) draw(one, picture, mask, random);
    add_noise(picture, 8, random);
    save_jpeg(cat(folder, "/JPEGImages/", id, ".jpg"), picture);
    save_mask(cat(folder, "/SegmentationClass/", id, ".png"), mask);
    save_text(cat(folder, "/Annotations/", id, ".xml"), annotation(id, placed, kShapeSide));
    (i < options.samples - options.samples / 5 ? train : val) += id + "\n";
  }
  for (const char* set : {"Main", "Segmentation"}) {
    save_text(cat(folder, "/ImageSets/", set, "/train.txt"), train);
    save_text(cat(folder, "/ImageSets/", set, "/val.txt"), val);
  }
  save_text(folder + "/classes.txt", "disc\nsquare\ntriangle\n");
}

// ImageNet's layout, and the sizes of its pictures and files: some 110 kB.
void make_photos(const std::string& folder, const MakeOptions& options) {
  constexpr std::array kFolders = {"n01440764", "n01443537", "n01484850", "n01491361"};
  constexpr std::int64_t kPhotoHeight = 375, kPhotoWidth = 500, kBlobs = 60;
  for (std::int64_t i = 0; i < options.samples; ++i) {
    Random random(static_cast<std::uint64_t>(options.seed), 1, static_cast<std::uint64_t>(i));
    const auto kind = static_cast<std::size_t>(i) % kFolders.size();
    const bool upright = random.chance(0.25);
    const std::int64_t height = upright ? kPhotoWidth : kPhotoHeight, width = upright ? kPhotoHeight : kPhotoWidth;
    Picture picture = ground(height, width, random);
    Picture mask = {.height = height, .width = width, .channels = 1, .pixels = {}};
    mask.pixels.resize(static_cast<std::size_t>(height * width));
    for (std::int64_t blob = 0; blob < kBlobs; ++blob) {
      const std::int64_t size = 10 + random.integer(80);
      const auto shape =
          static_cast<Shapes>(random.chance(0.2) ? random.integer(3) : static_cast<std::int64_t>(kind % 3));
      draw({shape, random.integer(width - size), random.integer(height - size), size}, picture, mask, random);
    }
    add_noise(picture, 9, random);
    const std::string part = cat(folder, i % 5 == 4 ? "/val/" : "/train/", kFolders[kind]);
    fs::create_directories(part);
    save_jpeg(cat(part, "/", kFolders[kind], "_", i, ".JPEG"), picture, 96);
  }
}

}  // namespace varve::data
