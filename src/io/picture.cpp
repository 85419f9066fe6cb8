// Pictures of any known format, their channels and sizes.
#include "io/picture.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

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

// The pixels that one new pixel is a mean of, and how much each counts.
struct Window {
  std::int64_t begin = 0;
  std::vector<float> weights;
};

// A triangle as wide as the pixels are apart, in whichever picture that is more.
std::vector<Window> windows(std::int64_t from, std::int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), support = std::max(scale, 1.0);
  std::vector<Window> result(static_cast<std::size_t>(to));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const auto begin = std::max<std::int64_t>(0, static_cast<std::int64_t>(std::floor(centre - support)));
    const auto end = std::min<std::int64_t>(from, static_cast<std::int64_t>(std::ceil(centre + support)));
    std::vector<double> weights;
    double sum = 0;
    for (std::int64_t at = begin; at < end; ++at) {
      weights.push_back(std::max(0.0, 1 - std::abs(static_cast<double>(at) + 0.5 - centre) / support));
      sum += weights.back();
    }
    result[i].begin = begin;
    for (const double weight : weights) result[i].weights.push_back(static_cast<float>(weight / sum));
  }
  return result;
}

// One row of the new height, still of the old width.
void mix_rows(const Picture& picture, const Window& window, std::vector<float>& row) {
  std::fill(row.begin(), row.end(), 0.f);
  for (std::size_t k = 0; k < window.weights.size(); ++k) {
    const std::uint8_t* from = picture.pixels.data() + (static_cast<std::size_t>(window.begin) + k) * row.size();
    for (std::size_t i = 0; i < row.size(); ++i) row[i] += window.weights[k] * static_cast<float>(from[i]);
  }
}

void mix_columns(const std::vector<float>& row, const std::vector<Window>& columns, std::size_t channels,
                 std::uint8_t* to) {
  for (const Window& window : columns) {
    for (std::size_t c = 0; c < channels; ++c) {
      const float* from = row.data() + static_cast<std::size_t>(window.begin) * channels + c;
      float sum = 0;
      for (const float weight : window.weights) {
        sum += weight * *from;
        from += channels;
      }
      *to++ = static_cast<std::uint8_t>(std::clamp(sum + 0.5f, 0.f, 255.f));
    }
  }
}

}  // namespace

Picture decode_picture(const void* data, std::size_t bytes, const std::string& name, int channels) {
  const std::string source = cat('"', name, '"');
  if (channels != 0 && channels != 1 && channels != 3)
    throw Error(cat(source, ": ", channels, " channels asked for: expected 0 (as it is), 1 (grey) or 3 (colour)."));
  const std::span<const std::byte> file(static_cast<const std::byte*>(data), bytes);
  const auto begins = [&](std::initializer_list<int> magic) {
    return file.size() >= magic.size() && std::equal(magic.begin(), magic.end(), file.begin(),
                                                     [](int a, std::byte b) { return a == std::to_integer<int>(b); });
  };
  if (begins({0xFF, 0xD8, 0xFF})) return with_channels(io::decode_jpeg(file, source), channels);
  if (begins({0x89, 'P', 'N', 'G'})) return with_channels(io::decode_png(file, source), channels);
  if (begins({'G', 'I', 'F', '8'})) return with_channels(io::decode_gif(file, source), channels);
  if (begins({'B', 'M'})) return with_channels(io::decode_bmp(file, source), channels);
  if (begins({'R', 'I', 'F', 'F'}) && bytes > 12 && std::memcmp(file.data() + 8, "WEBP", 4) == 0) {
#ifdef VARVE_HAS_WEBP
    return with_channels(io::decode_webp(file, source), channels);
#else
    throw Error(cat(source, ": WebP pictures cannot be read: this build is without libwebp."));
#endif
  }
  throw Error(cat(source, ": none of the pictures that can be read: JPEG, PNG, WebP, GIF, BMP."));
}

bool has_picture_name(const std::string& path) {
  const std::size_t dot = path.find_last_of("./");
  if (dot == std::string::npos || path[dot] != '.') return false;
  std::string ending = path.substr(dot + 1);
  for (char& c : ending) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return std::find(io::kPictureEndings.begin(), io::kPictureEndings.end(), ending) != io::kPictureEndings.end();
}

Picture load_picture(const std::string& path, int channels) {
  constexpr std::uint64_t limit = std::uint64_t{1} << 32;  // eight bytes for each of the most pixels, and more
  const std::vector<std::byte> file = read_file(path, limit);
  return decode_picture(file.data(), file.size(), path, channels);
}

Picture resize(const Picture& picture, std::int64_t height, std::int64_t width) {
  io::check_picture(picture, "resize");
  Picture result{.height = height, .width = width, .channels = picture.channels, .pixels = {}};
  io::check_size(height, width, 0, std::numeric_limits<std::int64_t>::max(), "resize: the new size");
  const std::size_t channels = static_cast<std::size_t>(picture.channels);
  const std::size_t new_row = static_cast<std::size_t>(width) * channels;
  result.pixels.resize(static_cast<std::size_t>(height) * new_row);
  const std::vector<Window> rows = windows(picture.height, height), columns = windows(picture.width, width);
  std::vector<float> row(static_cast<std::size_t>(picture.width) * channels);
  for (std::size_t y = 0; y < rows.size(); ++y) {
    mix_rows(picture, rows[y], row);
    mix_columns(row, columns, channels, result.pixels.data() + y * new_row);
  }
  return result;
}

namespace {

// The largest part about the middle that has the proportions of height × width.
Picture middle(const Picture& picture, std::int64_t height, std::int64_t width) {
  const auto share = [](std::int64_t a, std::int64_t b, std::int64_t c) {
    return std::max<std::int64_t>(1, (a * b + c / 2) / c);
  };
  const std::int64_t rows = std::min(picture.height, share(picture.width, height, width));
  const std::int64_t columns = std::min(picture.width, share(picture.height, width, height));
  if (rows == picture.height && columns == picture.width) return picture;
  Picture part = {.height = rows, .width = columns, .channels = picture.channels};
  part.pixels.reserve(static_cast<std::size_t>(rows * columns * picture.channels));
  const std::int64_t top = (picture.height - rows) / 2, left = (picture.width - columns) / 2;
  for (std::int64_t row = top; row < top + rows; ++row) {
    const auto begin = picture.pixels.begin() + (row * picture.width + left) * picture.channels;
    part.pixels.insert(part.pixels.end(), begin, begin + columns * picture.channels);
  }
  return part;
}

}  // namespace

Picture resize_to_fill(const Picture& picture, std::int64_t height, std::int64_t width) {
  io::check_picture(picture, "resize_to_fill");
  io::check_size(height, width, 0, std::numeric_limits<std::int64_t>::max(), "resize_to_fill: the new size");
  return resize(middle(picture, height, width), height, width);
}

}  // namespace varve
