// Pictures of any known format, their channels and sizes.
#include "io/picture.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>

#include "base/files.h"
#include "base/text.h"

namespace varve {
namespace io {

void check_size(std::int64_t height, std::int64_t width, std::size_t bytes, std::int64_t pixels_a_byte,
                const std::string& source) {
  if (height < 1 || width < 1) throw Error(cat(source, ": the picture is ", height, "×", width, ": it has no pixels."));
  if (height > kMostPixels / width)
    throw Error(
        cat(source, ": the picture is ", height, "×", width, " pixels; at most ", kMostPixels, " are allowed."));
  if (static_cast<std::uint64_t>(height * width / pixels_a_byte) > bytes)
    throw Error(cat(source, ": ", height, "×", width, " pixels cannot be in a file of ", bytes, " bytes."));
}

Picture upright(Picture picture, int orientation) {
  if (orientation < 2 || orientation > 8) return picture;
  const bool turned = orientation >= 5;  // rows become columns
  const std::int64_t height = turned ? picture.width : picture.height, width = turned ? picture.height : picture.width;
  Picture result{.height = height, .width = width, .channels = picture.channels, .pixels = {}};
  result.pixels.resize(picture.pixels.size());
  // Which ends of the file's rows and columns are the top and the left.
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  std::uint8_t* to = result.pixels.data();
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x, to += picture.channels) {
      std::int64_t row = turned ? x : y, column = turned ? y : x;
      if (from_bottom) row = picture.height - 1 - row;
      if (from_right) column = picture.width - 1 - column;
      std::copy_n(picture.pixels.data() + (row * picture.width + column) * picture.channels, picture.channels, to);
    }
  return result;
}

void check_picture(const Picture& picture, const std::string& source) {
  if (picture.channels != 1 && picture.channels != 3)
    throw Error(cat(source, ": the picture has ", picture.channels, " channels: expected 1 (grey) or 3 (colour)."));
  check_size(picture.height, picture.width, 0, std::numeric_limits<std::int64_t>::max(), source);
  if (picture.pixels.size() != static_cast<std::size_t>(picture.height * picture.width * picture.channels))
    throw Error(cat(source, ": ", picture.pixels.size(), " bytes of pixels do not fill ", picture.height, "×",
                    picture.width, "×", picture.channels, "."));
}

}  // namespace io

namespace {

Picture with_channels(Picture picture, int channels) {
  if (channels == 0 || channels == picture.channels) return picture;
  Picture result{.height = picture.height, .width = picture.width, .channels = channels, .pixels = {}};
  const std::size_t count = static_cast<std::size_t>(picture.height * picture.width);
  result.pixels.resize(count * static_cast<std::size_t>(channels));
  const std::uint8_t* from = picture.pixels.data();
  std::uint8_t* to = result.pixels.data();
  if (channels == 3) {
    for (std::size_t i = 0; i < count; ++i) std::fill_n(to + 3 * i, 3, from[i]);
  } else {
    // Luma of ITU-R BT.601, in 1/65536.
    for (std::size_t i = 0; i < count; ++i, from += 3)
      to[i] = static_cast<std::uint8_t>((19595 * from[0] + 38470 * from[1] + 7471 * from[2] + 32768) >> 16);
  }
  return result;
}

}  // namespace

namespace {

Picture decode(std::span<const std::byte> file, const std::string& name, int channels, const io::Wanted& wanted) {
  const std::string source = cat('"', name, '"');
  if (channels != 0 && channels != 1 && channels != 3)
    throw Error(cat(source, ": ", channels, " channels asked for: expected 0 (as it is), 1 (grey) or 3 (colour)."));
  const auto begins = [&](std::initializer_list<int> magic) {
    return file.size() >= magic.size() && std::equal(magic.begin(), magic.end(), file.begin(),
                                                     [](int a, std::byte b) { return a == std::to_integer<int>(b); });
  };
  if (begins({0xFF, 0xD8, 0xFF})) return with_channels(io::decode_jpeg(file, source, wanted), channels);
  if (begins({0x89, 'P', 'N', 'G'})) return with_channels(io::decode_png(file, source), channels);
  if (begins({'G', 'I', 'F', '8'})) return with_channels(io::decode_gif(file, source), channels);
  if (begins({'B', 'M'})) return with_channels(io::decode_bmp(file, source), channels);
  if (begins({'R', 'I', 'F', 'F'}) && file.size() > 12 && std::memcmp(file.data() + 8, "WEBP", 4) == 0) {
#ifdef VARVE_HAS_WEBP
    return with_channels(io::decode_webp(file, source), channels);
#else
    throw Error(cat(source, ": WebP pictures cannot be read: this build is without libwebp."));
#endif
  }
  throw Error(cat(source, ": none of the pictures that can be read: JPEG, PNG, WebP, GIF, BMP."));
}

std::vector<std::byte> read_picture_file(const std::string& path) {
  constexpr std::uint64_t limit = std::uint64_t{1} << 32;  // eight bytes for each of the most pixels, and more
  return read_file(path, limit);
}

}  // namespace

Picture decode_picture(const void* data, std::size_t bytes, const std::string& name, int channels) {
  return decode({static_cast<const std::byte*>(data), bytes}, name, channels, {});
}

bool has_picture_name(const std::string& path) {
  const std::size_t dot = path.find_last_of("./");
  if (dot == std::string::npos || path[dot] != '.') return false;
  std::string ending = path.substr(dot + 1);
  for (char& c : ending) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return std::find(io::kPictureEndings.begin(), io::kPictureEndings.end(), ending) != io::kPictureEndings.end();
}

Picture load_picture(const std::string& path, int channels) {
  return decode(read_picture_file(path), path, channels, {});
}

Picture load_picture_to_fill(const std::string& path, int channels, std::int64_t height, std::int64_t width) {
  return resize_to_fill(decode(read_picture_file(path), path, channels, {.height = height, .width = width}), height,
                        width);
}

}  // namespace varve
