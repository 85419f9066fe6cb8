// The first picture of a GIF file, read by ourselves: a palette, and numbers in it packed by LZW.
#include <array>

#include "base/text.h"
#include "io/picture.h"

namespace varve::io {
namespace {

using Palette = std::array<std::array<std::uint8_t, 3>, 256>;

class Gif {
 public:
  Gif(std::span<const std::byte> file, const std::string& source) : file_(file), source_(source) {}

  Picture read() {
    skip(6);  // what kind of file it is
    const std::int64_t screen_width = number(2), screen_height = number(2);
    const std::uint32_t flags = number(1);
    const std::uint32_t background = number(1);
    number(1);  // the shape of a pixel
    Palette palette{};
    if (flags & 0x80) read_palette(flags, palette);
    // LZW packs a row of 4,096 pixels into 12 bits, and a picture may be smaller than the screen.
    check_size(screen_height, screen_width, file_.size(), 4096, source_);
    Picture picture{.height = screen_height, .width = screen_width, .channels = 3, .pixels = {}};
    picture.pixels.resize(static_cast<std::size_t>(screen_height * screen_width * 3));
    for (std::size_t i = 0; i < picture.pixels.size(); ++i) picture.pixels[i] = palette[background][i % 3];
    for (;;) {
      const std::uint32_t block = number(1);
      if (block == 0x2C) break;
      if (block != 0x21) fail("it has no picture");
      number(1);  // what kind of extension
      for (std::uint32_t size = number(1); size > 0; size = number(1)) skip(size);
    }
    read_image(picture, palette);
    return picture;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw Error(cat(source_, ": bad GIF picture: ", what, ".")); }

  void skip(std::size_t bytes) {
    if (bytes > file_.size() - at_) fail("it ends too early");
    at_ += bytes;
  }
  std::uint32_t number(std::size_t bytes) {
    skip(bytes);
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) value |= std::to_integer<std::uint32_t>(file_[at_ - bytes + i]) << (8 * i);
    return value;
  }
  void read_palette(std::uint32_t flags, Palette& palette) {
    const std::size_t colours = std::size_t{2} << (flags & 7);
    for (std::size_t i = 0; i < colours; ++i)
      for (std::uint8_t& colour : palette[i]) colour = static_cast<std::uint8_t>(number(1));
  }

  void read_image(Picture& picture, Palette& palette) {
    const std::int64_t left = number(2), top = number(2), width = number(2), height = number(2);
    if (width < 1 || height < 1 || left + width > picture.width || top + height > picture.height)
      fail("its picture does not fit into it");
    const std::uint32_t flags = number(1);
    if (flags & 0x80) read_palette(flags, palette);
    const std::vector<std::uint8_t> indices = unpacked(static_cast<std::size_t>(width * height));
    const bool interlaced = flags & 0x40;
    std::int64_t from = 0;
    const auto put_row = [&](std::int64_t y) {
      std::uint8_t* to = picture.pixels.data() + ((top + y) * picture.width + left) * 3;
      for (std::int64_t x = 0; x < width; ++x, to += 3) {
        const auto& colour = palette[indices[static_cast<std::size_t>(from++)]];
        std::copy(colour.begin(), colour.end(), to);
      }
    };
    struct Pass {
      std::int64_t first, step;
    };
    for (const Pass& pass : interlaced ? std::vector<Pass>{{0, 8}, {4, 8}, {2, 4}, {1, 2}} : std::vector<Pass>{{0, 1}})
      for (std::int64_t y = pass.first; y < height; y += pass.step) put_row(y);
  }

  // Bits come in blocks of at most 255 bytes.
  bool next_code(std::uint32_t bits, std::uint32_t& code) {
    while (held_ < bits) {
      if (left_in_block_ == 0) left_in_block_ = number(1);
      if (left_in_block_ == 0) return false;
      window_ |= number(1) << held_;
      held_ += 8;
      --left_in_block_;
    }
    code = window_ & ((1U << bits) - 1);
    window_ >>= bits;
    held_ -= bits;
    return true;
  }

  std::vector<std::uint8_t> unpacked(std::size_t count) {
    constexpr std::uint32_t kMostCodes = 4096;
    const std::uint32_t least = number(1);
    if (least < 2 || least > 8) fail(cat("codes of ", least, " bits are not of this format"));
    const std::uint32_t clear = 1U << least, end = clear + 1;
    std::array<std::uint16_t, kMostCodes> before{};  // a code is another one and a last byte
    std::array<std::uint8_t, kMostCodes> last{}, reversed{};
    for (std::uint32_t i = 0; i < clear; ++i) last[i] = static_cast<std::uint8_t>(i);
    std::vector<std::uint8_t> out;
    out.reserve(count);
    std::uint32_t bits = least + 1, codes = end + 1, code = 0, previous = clear;
    while (out.size() < count) {
      if (!next_code(bits, code) || code == end) fail("it ends too early");
      if (code == clear) {
        bits = least + 1;
        codes = end + 1;
        previous = clear;
        continue;
      }
      if (code > codes || (code == codes && previous == clear) || (previous == clear && code > clear))
        fail("a code stands for nothing");
      // Walks from the end of the code's bytes to their beginning; each link leads to a smaller code.
      std::size_t length = 0;
      std::uint32_t walk = code == codes ? previous : code;
      if (code == codes) reversed[length++] = 0;  // the first byte once more: filled in below
      while (walk > end) {
        reversed[length++] = last[walk];
        walk = before[walk];
      }
      const std::uint8_t first = last[walk];
      reversed[length++] = first;
      if (code == codes) reversed[0] = first;
      if (previous != clear && codes < kMostCodes) {
        before[codes] = static_cast<std::uint16_t>(previous);
        last[codes] = first;
        ++codes;
        if (codes == 1U << bits && bits < 12) ++bits;
      }
      previous = code;
      for (std::size_t i = length; i-- > 0 && out.size() < count;) out.push_back(reversed[i]);
    }
    return out;
  }

  std::span<const std::byte> file_;
  const std::string& source_;
  std::size_t at_ = 0;
  std::uint32_t window_ = 0, held_ = 0, left_in_block_ = 0;
};

}  // namespace

Picture decode_gif(std::span<const std::byte> file, const std::string& source) { return Gif(file, source).read(); }

}  // namespace varve::io
