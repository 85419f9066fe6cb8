// BMP, GIF and WebP pictures, and JPEG pictures of a camera that was turned.
#include <gtest/gtest.h>

#include <random>

#include "io/files_for_tests.h"
#include "io/picture.h"
#include "varve/io.h"

namespace varve::io {
namespace {

// Written by giflib 5.2.1: 10 rows and 12 columns of colour (x + y) mod 16 of a palette (16i, 255 - 16i, i).
constexpr const char* kGif =
    "4749463837610c000a00f3000000ff0010ef0120df0230cf0340bf0450af05609f06708f07807f08906f09a05f0ab04f0bc03f0c"
    "d02f0de01f0ef00f0f2c000000000c000a0000042e10043148310725b566bdd9b6309485691cd37ca7a83a669836ce03a223fd00"
    "ed5c4bb2dc6f827bed3c2e9da41401003b";
constexpr const char* kInterlacedGif =
    "4749463837610c000a00f3000000ff0010ef0120df0230cf0340bf0450af05609f06708f07807f08906f09a05f0ab04f0bc03f0c"
    "d02f0de01f0ef00f0f2c000000000c000a0040042d10043148310725b534678df3489485790b289657b6a5cdf9aa6330552dcae0"
    "f217e6b3d0c8e5139182c61b2102003b";
// Written by libwebp 1.2.4, lossless: 3 rows and 4 columns of (20x, 30y, 255 - 20x).
constexpr const char* kWebp =
    "524946463e000000574542505650384c310000002f038000005f20102094f8efb2626228040249feac3b3cff5dc085604260be00"
    "820012a70c32186f830d668de87fe48e0200";
// The same of 8 rows and 12 columns, quality 90.
constexpr const char* kLossyWebp =
    "52494646720000005745425056503820660000005003009d012a0c00080000c01225b00274ba01f8014a035c0340032400166e14"
    "a81a8000fefeeb1b69a506b1e87a5145b3cdb76dffbeaffe0d5aaeeac5eca2b0e19597aff01d5947fd58b30afff371ff7ffe0789"
    "be2fe26dfe19716fcf07fde2e39a9741e000";

Picture decoded(const std::string& bytes) { return decode_picture(bytes.data(), bytes.size(), "test"); }

std::string little(std::uint32_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

struct BmpHeader {
  std::int32_t width = 3, height = 2;
  std::uint32_t bits = 24, compression = 0;
  std::string between = "";  // palette or masks
};
std::string bmp(const BmpHeader& h, const std::string& rows) {
  const auto at = static_cast<std::uint32_t>(54 + h.between.size());
  return "BM" + little(at + static_cast<std::uint32_t>(rows.size()), 4) + little(0, 4) + little(at, 4) + little(40, 4) +
         little(static_cast<std::uint32_t>(h.width), 4) + little(static_cast<std::uint32_t>(h.height), 4) +
         little(1, 2) + little(h.bits, 2) + little(h.compression, 4) + std::string(20, '\0') + h.between + rows;
}

const std::vector<std::uint8_t> kSix = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18};
// Rows of blue, green, red, filled up to four bytes; the lower row first.
const std::string kUpper("\3\2\1\6\5\4\11\10\7\0\0\0", 12), kLower("\14\13\12\17\16\15\22\21\20\0\0\0", 12);

TEST(PictureBmp, EveryNumberOfBits) {
  const Picture colour = decoded(bmp({}, kLower + kUpper));
  EXPECT_EQ(colour.height, 2);
  EXPECT_EQ(colour.width, 3);
  EXPECT_EQ(colour.pixels, kSix);
  EXPECT_EQ(decoded(bmp({.height = -2}, kUpper + kLower)).pixels, kSix);  // the upper row first
  // A palette of 256 entries, blue, green, red and nothing: entry i is (3i, 2i, i).
  std::string palette;
  for (int i = 0; i < 256; ++i)
    palette += little(static_cast<std::uint32_t>(i | 2 * i % 256 << 8 | 3 * i % 256 << 16), 4);
  const Picture eight = decoded(bmp({.bits = 8, .between = palette}, std::string("\1\2\3\0\4\5\6\0", 8)));
  EXPECT_EQ(eight.pixels, (std::vector<std::uint8_t>{12, 8, 4, 15, 10, 5, 18, 12, 6, 3, 2, 1, 6, 4, 2, 9, 6, 3}));
  // Four bits and one bit: the first pixel is in the upper bits.
  EXPECT_EQ(
      decoded(bmp({.height = 1, .bits = 4, .between = palette.substr(0, 64)}, std::string("\x12\x30\0\0", 4))).pixels,
      (std::vector<std::uint8_t>{3, 2, 1, 6, 4, 2, 9, 6, 3}));
  EXPECT_EQ(
      decoded(bmp({.height = 1, .bits = 1, .between = palette.substr(0, 8)}, std::string("\xA0\0\0\0", 4))).pixels,
      (std::vector<std::uint8_t>{3, 2, 1, 0, 0, 0, 3, 2, 1}));
  // Five bits each, and masks of one's own.
  EXPECT_EQ(decoded(bmp({.width = 1, .height = 1, .bits = 16}, std::string("\xE0\x03\0\0", 4))).pixels,
            (std::vector<std::uint8_t>{0, 255, 0}));
  const std::string masks = little(0xFF, 4) + little(0xFF00, 4) + little(0xFF0000, 4);
  EXPECT_EQ(decoded(bmp({.width = 1, .height = 1, .bits = 32, .compression = 3, .between = masks}, "\1\2\3\4")).pixels,
            (std::vector<std::uint8_t>{1, 2, 3}));
}

TEST(PictureBmp, SaysWhatIsWrong) {
  expect_error([] { decoded(bmp({}, kLower)); }, "\"test\": bad BMP picture: it ends too early");
  expect_error([] { decoded(bmp({.bits = 7}, kLower + kUpper)); }, "7 bits a pixel are not supported");
  expect_error([] { decoded(bmp({.compression = 1}, kLower + kUpper)); }, "compressed ones are not supported");
  expect_error([] { decoded(bmp({.width = 0}, kUpper)); }, "no pixels");
  expect_error([] { decoded(bmp({.width = 60000, .height = 60000}, kUpper)); }, "at most");
  expect_error([] { decoded(bmp({.height = INT32_MIN}, kUpper)); }, "at most");
  expect_error([] { decoded(bmp({.bits = 32, .compression = 3, .between = std::string(12, '\0')}, kLower)); }, "");
  expect_error([] { decoded("BM"); }, "it ends too early");
}

TEST(PictureGif, TheFirstPicture) {
  for (const char* hex : {kGif, kInterlacedGif}) {
    const Picture picture = decoded(from_hex(hex));
    ASSERT_EQ(picture.height, 10);
    ASSERT_EQ(picture.width, 12);
    ASSERT_EQ(picture.channels, 3);
    for (std::size_t y = 0; y < 10; ++y)
      for (std::size_t x = 0; x < 12; ++x) {
        const std::size_t i = (x + y) % 16, at = 3 * (12 * y + x);
        EXPECT_EQ(picture.pixels[at], 16 * i) << y << ' ' << x;
        EXPECT_EQ(picture.pixels[at + 1], 255 - 16 * i);
        EXPECT_EQ(picture.pixels[at + 2], i);
      }
  }
  expect_error([] { decoded("GIF8"); }, "\"test\": bad GIF picture: it ends too early");
  std::string lying = from_hex(kGif);
  lying[6] = lying[7] = lying[8] = lying[9] = '\x7F';
  expect_error([&] { decoded(lying); }, "pixels");
}

TEST(PictureWebp, LosslessAndNot) {
  if (!has_picture_name("a.webp")) {
    expect_error([] { decoded(from_hex(kWebp)); }, "this build is without libwebp");
    return;
  }
  const Picture exact = decoded(from_hex(kWebp));
  ASSERT_EQ(exact.height, 3);
  ASSERT_EQ(exact.width, 4);
  for (std::size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(exact.pixels[3 * i], 20 * (i % 4));
    EXPECT_EQ(exact.pixels[3 * i + 1], 30 * (i / 4));
  }
  EXPECT_EQ(decoded(from_hex(kLossyWebp)).width, 12);
  expect_error([] { decoded(from_hex(kWebp).substr(0, 40)); }, "\"test\": bad WebP picture");
}

// Cut short or altered: an Error or other pixels, and nothing else.
TEST(PictureFormats, DamageNeverCrashes) {
  std::mt19937 random(7);
  for (const std::string& good :
       {from_hex(kGif), from_hex(kInterlacedGif), from_hex(kWebp), from_hex(kLossyWebp), bmp({}, kLower + kUpper),
        bmp({.bits = 8, .between = std::string(64, '\5')}, kUpper)}) {
    for (std::size_t length = 0; length < good.size(); ++length) {
      const std::string message = message_of([&] { decoded(good.substr(0, length)); });
      if (length < good.size() * 3 / 4) {
        EXPECT_NE(message, "no error") << length;
      }
    }
    for (int trial = 0; trial < 2000; ++trial) {
      std::string bad = good;
      for (int i = 0; i < 1 + trial % 4; ++i) bad[random() % bad.size()] = static_cast<char>(random());
      message_of([&] { decoded(bad); });
    }
    for (int trial = 0; trial < 300; ++trial) {
      std::string noise = good.substr(0, 8 + random() % 60);
      for (int i = 0; i < 200; ++i) noise += static_cast<char>(random());
      message_of([&] { decoded(noise); });
    }
  }
}

// A picture of 2 rows and 3 columns, 1 2 3 / 4 5 6, as each of the eight ways stores it.
TEST(Orientation, EveryWayToHoldACamera) {
  const auto held = [](int orientation, std::int64_t height, std::int64_t width, std::vector<std::uint8_t> pixels) {
    const Picture seen =
        upright({.height = height, .width = width, .channels = 1, .pixels = std::move(pixels)}, orientation);
    EXPECT_EQ(seen.height, 2) << orientation;
    EXPECT_EQ(seen.pixels, (std::vector<std::uint8_t>{1, 2, 3, 4, 5, 6})) << orientation;
  };
  held(1, 2, 3, {1, 2, 3, 4, 5, 6});
  held(2, 2, 3, {3, 2, 1, 6, 5, 4});
  held(3, 2, 3, {6, 5, 4, 3, 2, 1});
  held(4, 2, 3, {4, 5, 6, 1, 2, 3});
  held(5, 3, 2, {1, 4, 2, 5, 3, 6});
  held(6, 3, 2, {3, 6, 2, 5, 1, 4});
  held(7, 3, 2, {6, 3, 5, 2, 4, 1});
  held(8, 3, 2, {4, 1, 5, 2, 6, 3});
  held(9, 2, 3, {1, 2, 3, 4, 5, 6});
}

// The grey picture of 8 rows and 12 columns, with a block of EXIF behind the first marker.
TEST(Orientation, JpegPicturesAreTurned) {
  const std::string plain = from_hex(
      "ffd8ffe000104a46494600010100000100010000ffdb0043000302020302020303030304030304050805050404050a070706080c"
      "0a0c0c0b0a0b0b0d0e12100d0e110e0b0b1016101113141515150c0f171816141812141514ffc0000b080008000c01011100ffc4"
      "001500010100000000000000000000000000000809ffc4001e100000040700000000000000000000000000010421070811263451"
      "f0ffda0008010100003f00374a4a6c26d0ad10d935a491ba843fffd9");
  const auto with = [&](const std::string& exif) {
    const std::size_t size = exif.size() + 2;
    std::string file = plain;
    return file.insert(2, std::string("\xFF\xE1") + static_cast<char>(size >> 8) + static_cast<char>(size) + exif);
  };
  const std::string head("Exif\0\0", 6);
  // Little and big endian: one entry, tag 0x0112, a number of 2 bytes, one of them, its value.
  const std::string little_end("II*\0\10\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0\0\0\0\0", 26);
  const std::string big_end("MM\0*\0\0\0\10\0\1\1\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0", 26);
  const Picture upright_one = decoded(plain);
  for (const std::string& tiff : {little_end, big_end}) {
    const Picture turned = decoded(with(head + tiff));  // 6: the top of the picture is the file's right side
    ASSERT_EQ(turned.height, 12);
    ASSERT_EQ(turned.width, 8);
    for (std::size_t y = 0; y < 12; ++y)
      for (std::size_t x = 0; x < 8; ++x)
        EXPECT_EQ(turned.pixels[8 * y + x], upright_one.pixels[12 * (7 - x) + y]) << y << ' ' << x;
  }
  std::mt19937 random(3);
  for (int trial = 0; trial < 500; ++trial) {
    std::string bad = little_end.substr(0, 8 + random() % 19);
    bad[random() % bad.size()] = static_cast<char>(random());
    EXPECT_EQ(decoded(with(head + bad)).pixels.size(), upright_one.pixels.size());
  }
}

}  // namespace
}  // namespace varve::io
