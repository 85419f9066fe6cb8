// What the readers of picture formats share.
#pragma once

#include <array>
#include <csetjmp>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "varve/io.h"

namespace varve::io {

inline constexpr std::array kPictureEndings = std::to_array<std::string_view>({
    "jpg",
    "jpeg",
    "png",
    "bmp",
    "gif",
#ifdef VARVE_HAS_WEBP
    "webp",
#endif
});
inline constexpr std::int64_t kMostPixels = std::int64_t{1} << 28;

// The size that a picture is to be brought to: a reader may leave out detail that is not seen there. 0: all of it.
struct Wanted {
  std::int64_t height = 0, width = 0;
};
enum class Pixels : std::uint8_t { colours, numbers };  // of a picture with a palette: its colours, or their numbers

// Grey or colour, 8 bits, as the file has it. Throw Error that begins with `source`.
Picture decode_jpeg(std::span<const std::byte> file, const std::string& source, const Wanted& wanted);
Picture decode_png(std::span<const std::byte> file, const std::string& source, Pixels pixels = Pixels::colours);
Picture decode_bmp(std::span<const std::byte> file, const std::string& source);
Picture decode_gif(std::span<const std::byte> file, const std::string& source);
Picture decode_webp(std::span<const std::byte> file, const std::string& source);

// As EXIF numbers the ways to hold a camera, 1 to 8; 1: upright, and whatever else a file may say.
Picture upright(Picture picture, int orientation);

// Throws when there are no pixels or too many, or more than `bytes` of file could hold at `pixels_a_byte`.
void check_size(std::int64_t height, std::int64_t width, std::size_t bytes, std::int64_t pixels_a_byte,
                const std::string& source);

// Throws when the picture has other than 1 or 3 channels, no pixels, too many, or not as many as its sizes say.
void check_picture(const Picture& picture, const std::string& source);

// A C library that reports errors by jumping out. `call` and what it calls may own nothing that needs a destructor:
// the jump skips them. False after a jump.
template <class Call>
bool survives(std::jmp_buf& out, Call call) {
  if (setjmp(out) != 0) return false;
  call();
  return true;
}

}  // namespace varve::io
