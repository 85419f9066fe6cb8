// BMP pictures of 1, 4, 8, 16, 24 and 32 bits without compression, read by ourselves: rows of pixels behind a header.
#include <array>

#include "base/text.h"
#include "io/picture.h"

namespace varve::io {
namespace {

constexpr std::size_t kFileHeader = 14;

class Bmp {
 public:
  Bmp(std::span<const std::byte> file, const std::string& source) : file_(file), source_(source) {}

  Picture read() {
    read_header();
    Picture picture{.height = height_, .width = width_, .channels = 3, .pixels = {}};
    const std::size_t row_bytes = (static_cast<std::size_t>(width_) * bits_ + 31) / 32 * 4;
    check_size(height_, width_, file_.size(), 8, source_);  // of one bit at least
    if (pixels_at_ > file_.size() || (file_.size() - pixels_at_) / row_bytes < static_cast<std::size_t>(height_))
      fail("it ends too early");
    if (bits_ <= 8) read_palette();
    picture.pixels.resize(static_cast<std::size_t>(height_ * width_ * 3));
    std::uint8_t* to = picture.pixels.data();
    for (std::int64_t y = 0; y < height_; ++y) {
      const std::size_t row = static_cast<std::size_t>(from_top_ ? y : height_ - 1 - y);
      read_row(pixels_at_ + row * row_bytes, to + y * width_ * 3);
    }
    return picture;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw Error(cat(source_, ": bad BMP picture: ", what, ".")); }

  std::uint32_t number(std::size_t at, std::size_t bytes) const {
    if (at + bytes > file_.size()) fail("it ends too early");
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) value |= std::to_integer<std::uint32_t>(file_[at + i]) << (8 * i);
    return value;
  }

  void read_header() {
    pixels_at_ = number(10, 4);
    header_ = number(kFileHeader, 4);
    const bool old = header_ == 12;
    if (!old && (header_ < 40 || header_ > 256)) fail(cat("a header of ", header_, " bytes is none that is known"));
    entry_ = old ? 3 : 4;
    if (old) {
      width_ = number(18, 2);
      height_ = number(20, 2);
    } else {
      width_ = static_cast<std::int32_t>(number(18, 4));
      height_ = static_cast<std::int32_t>(number(22, 4));
      from_top_ = height_ < 0;
      if (from_top_) height_ = -height_;
      const std::uint32_t compression = number(30, 4);
      if (compression != 0 && compression != 3) fail("compressed ones are not supported");
      masked_ = compression == 3;
    }
    bits_ = number(old ? 24 : 28, 2);
    if (bits_ != 1 && bits_ != 4 && bits_ != 8 && bits_ != 16 && bits_ != 24 && bits_ != 32)
      fail(cat(bits_, " bits a pixel are not supported"));
    if (masked_ && bits_ != 16 && bits_ != 32) fail("masks go with 16 or 32 bits a pixel");
    if (bits_ == 16 || bits_ == 32) read_masks();
  }

  void read_masks() {
    masks_ = bits_ == 16 ? std::array<std::uint32_t, 3>{0x7C00, 0x03E0, 0x001F}
                         : std::array<std::uint32_t, 3>{0xFF0000, 0xFF00, 0xFF};
    for (std::size_t c = 0; masked_ && c < 3; ++c) masks_[c] = number(kFileHeader + 40 + 4 * c, 4);
    for (const std::uint32_t mask : masks_)
      if (mask == 0) fail("a mask of its colours is empty");
  }

  void read_palette() {
    std::uint32_t colours = header_ == 12 ? 0 : number(46, 4);
    const std::uint32_t most = 1U << bits_;
    if (colours == 0 || colours > most) colours = most;
    for (std::uint32_t i = 0; i < colours; ++i) {
      const std::size_t at = kFileHeader + header_ + std::size_t{i} * entry_;
      if (at + 3 > pixels_at_) break;  // shorter than it says: what lies beyond is black
      for (std::size_t c = 0; c < 3; ++c) palette_[i][c] = static_cast<std::uint8_t>(number(at + 2 - c, 1));
    }
  }

  // The bits under the mask as a share of all that fit under it.
  static std::uint8_t masked(std::uint32_t value, std::uint32_t mask) {
    const std::uint32_t lowest = mask & (~mask + 1);
    const std::uint64_t all = mask / lowest, found = (value & mask) / lowest;
    return static_cast<std::uint8_t>((found * 255 + all / 2) / all);
  }

  void read_row(std::size_t at, std::uint8_t* to) const {
    for (std::int64_t x = 0; x < width_; ++x, to += 3) {
      const std::size_t bit = static_cast<std::size_t>(x) * bits_, byte = at + bit / 8;
      if (bits_ == 24) {
        for (std::size_t c = 0; c < 3; ++c) to[c] = static_cast<std::uint8_t>(number(byte + 2 - c, 1));
      } else if (bits_ > 8) {
        const std::uint32_t value = number(byte, bits_ / 8);
        for (std::size_t c = 0; c < 3; ++c) to[c] = masked(value, masks_[c]);
      } else {
        const std::uint32_t index = number(byte, 1) >> (8 - bits_ - bit % 8) & ((1U << bits_) - 1);
        std::copy(palette_[index].begin(), palette_[index].end(), to);
      }
    }
  }

  std::span<const std::byte> file_;
  const std::string& source_;
  std::size_t pixels_at_ = 0, header_ = 0, entry_ = 4;
  std::int64_t width_ = 0, height_ = 0;
  std::uint32_t bits_ = 0;
  bool from_top_ = false, masked_ = false;
  std::array<std::uint32_t, 3> masks_{};
  std::array<std::array<std::uint8_t, 3>, 256> palette_{};
};

}  // namespace

Picture decode_bmp(std::span<const std::byte> file, const std::string& source) { return Bmp(file, source).read(); }

}  // namespace varve::io
