// Pictures whose pixels are numbers of classes, and parts of pictures.
#include <png.h>

#include <algorithm>
#include <array>

#include "base/files.h"
#include "base/text.h"
#include "io/picture.h"

namespace varve {
namespace {

// The colours of PASCAL VOC: the bits of a number, from the lowest, turn by turn to red, green and blue, highest first.
std::array<std::uint8_t, 3> colour_of(int number) {
  std::array<std::uint8_t, 3> colour{};
  for (int bit = 7; bit >= 0; --bit, number >>= 3)
    for (std::size_t c = 0; c < 3; ++c) colour[c] |= static_cast<std::uint8_t>((number >> c & 1) << bit);
  return colour;
}

}  // namespace

Picture load_mask(const std::string& path) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 32;
  const std::vector<std::byte> file = read_file(path, kMostBytes);
  const std::string source = cat('"', path, '"');
  constexpr std::array<unsigned char, 4> kPng = {0x89, 'P', 'N', 'G'};
  const bool png = file.size() >= kPng.size() && std::equal(kPng.begin(), kPng.end(), file.begin(), [](auto a, auto b) {
                     return a == std::to_integer<unsigned char>(b);
                   });
  if (!png) throw Error(cat(source, ": a mask is a PNG picture."));
  Picture mask = io::decode_png(file, source, io::Pixels::numbers);
  if (mask.channels != 1)
    throw Error(cat(source, ": the mask has colours that are no numbers: expected a palette, or grey."));
  return mask;
}

void save_mask(const std::string& path, const Picture& mask) {
  io::check_picture(mask, cat("save_mask: \"", path, '"'));
  if (mask.channels != 1) throw Error(cat("save_mask: expected one channel of numbers, got ", mask.channels, "."));
  std::array<std::uint8_t, 3 * 256> palette{};
  for (int number = 0; number < 256; ++number)
    std::copy_n(colour_of(number).begin(), 3, palette.begin() + std::ptrdiff_t{3} * number);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.height = static_cast<png_uint_32>(mask.height);
  image.width = static_cast<png_uint_32>(mask.width);
  image.format = PNG_FORMAT_RGB_COLORMAP;
  image.colormap_entries = 256;
  png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::vector<std::uint8_t> file(bytes);
  if (png_image_write_to_memory(&image, file.data(), &bytes, 0, mask.pixels.data(), 0, palette.data()) == 0)
    throw Error(cat("save_mask: ", image.message, "."));
  AtomicFile out(path);
  out.write(file.data(), bytes);
  out.commit();
}

FilledPart filled_part(std::int64_t of_height, std::int64_t of_width, std::int64_t height, std::int64_t width) {
  for (const std::int64_t side : {of_height, of_width, height, width})
    if (side < 1 || side > io::kMostPixels)
      throw Error(cat("filled_part: expected sides of 1 to ", io::kMostPixels, " pixels, got ", side, "."));
  const auto share = [](std::int64_t a, std::int64_t b, std::int64_t c) {
    return std::max<std::int64_t>(1, (a * b + c / 2) / c);
  };
  const std::int64_t rows = std::min(of_height, share(of_width, height, width));
  const std::int64_t columns = std::min(of_width, share(of_height, width, height));
  return {(of_height - rows) / 2, (of_width - columns) / 2, rows, columns, of_height, of_width};
}

Picture take_nearest(const Picture& picture, const FilledPart& part, std::int64_t height, std::int64_t width) {
  io::check_picture(picture, "take_nearest");
  const auto inside = [](std::int64_t begin, std::int64_t size, std::int64_t of) {
    return begin >= 0 && size >= 1 && begin <= of - size;
  };
  if (!inside(part.top, part.height, picture.height) || !inside(part.left, part.width, picture.width))
    throw Error("take_nearest: the part is not inside the picture.");
  io::check_size(height, width, 0, INT64_MAX, "take_nearest: the new size");
  Picture result = {.height = height, .width = width, .channels = picture.channels, .pixels = {}};
  result.pixels.reserve(static_cast<std::size_t>(height * width * picture.channels));
  for (std::int64_t row = 0; row < height; ++row) {
    const std::int64_t from_row = part.top + (2 * row + 1) * part.height / (2 * height);
    for (std::int64_t column = 0; column < width; ++column) {
      const std::int64_t from = part.left + (2 * column + 1) * part.width / (2 * width);
      const auto at = picture.pixels.begin() + (from_row * picture.width + from) * picture.channels;
      result.pixels.insert(result.pixels.end(), at, at + picture.channels);
    }
  }
  return result;
}

}  // namespace varve
