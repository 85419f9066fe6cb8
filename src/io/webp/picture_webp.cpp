// WebP pictures, by libwebp. Of an animation the first picture.
#include <webp/decode.h>

#include "base/text.h"
#include "io/picture.h"

namespace varve::io {

Picture decode_webp(std::span<const std::byte> file, const std::string& source) {
  const auto* data = reinterpret_cast<const std::uint8_t*>(file.data());
  WebPBitstreamFeatures features{};
  const auto fail = [&](const char* what) { throw Error(cat(source, ": bad WebP picture: ", what, ".")); };
  if (WebPGetFeatures(data, file.size(), &features) != VP8_STATUS_OK) fail("its header is damaged");
  if (features.has_animation) fail("animations are not supported");
  // A picture of one colour takes a few bytes; a file of 4 kB may be as large as the format allows.
  check_size(features.height, features.width, file.size(), std::int64_t{1} << 16, source);
  Picture picture{.height = features.height, .width = features.width, .channels = 3, .pixels = {}};
  picture.pixels.resize(static_cast<std::size_t>(picture.height * picture.width * 3));
  if (WebPDecodeRGBInto(data, file.size(), picture.pixels.data(), picture.pixels.size(),
                        static_cast<int>(picture.width * 3)) == nullptr)
    fail("its pixels are damaged, or it ends too early");
  return picture;
}

}  // namespace varve::io
