#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <random>

#include "io/files_for_tests.h"
#include "varve/io.h"

namespace varve::io {
namespace {

// Made with Pillow 13.0.0 from pictures of 8 rows and 12 columns, quality 90, optimised: grey 20x + y, and colour
// (20x, 30y, 255 - 20x). The pixels to expect are what Pillow reads from them.
constexpr const char* kGreyJpeg =
    "ffd8ffe000104a46494600010100000100010000ffdb0043000302020302020303030304030304050805050404050a070706080c"
    "0a0c0c0b0a0b0b0d0e12100d0e110e0b0b1016101113141515150c0f171816141812141514ffc0000b080008000c01011100ffc4"
    "001500010100000000000000000000000000000809ffc4001e100000040700000000000000000000000000010421070811263451"
    "f0ffda0008010100003f00374a4a6c26d0ad10d935a491ba843fffd9";
constexpr const char* kJpeg =
    "ffd8ffe000104a46494600010100000100010000ffdb0043000302020302020303030304030304050805050404050a070706080c"
    "0a0c0c0b0a0b0b0d0e12100d0e110e0b0b1016101113141515150c0f171816141812141514ffdb00430103040405040509050509"
    "140d0b0d141414141414141414141414141414141414141414141414141414141414141414141414141414141414141414141414"
    "1414ffc00011080008000c03012200021101031101ffc4001500010100000000000000000000000000000007ffc4001b10000104"
    "0300000000000000000000000000020824a2040632ffc4001501010100000000000000000000000000000406ffc4001c11000006"
    "030000000000000000000000000005060714413233f0ffda000c03010002110311003f009f6bad7b989528784d7e3a62540265e3"
    "52194fcec15a8571b43d95d63fffd9";
constexpr const char* kProgressiveJpeg =
    "ffd8ffe000104a46494600010100000100010000ffdb0043000302020302020303030304030304050805050404050a070706080c"
    "0a0c0c0b0a0b0b0d0e12100d0e110e0b0b1016101113141515150c0f171816141812141514ffdb00430103040405040509050509"
    "140d0b0d141414141414141414141414141414141414141414141414141414141414141414141414141414141414141414141414"
    "1414ffc20011080008000c03012200021101031101ffc4001500010100000000000000000000000000000006ffc4001501010100"
    "000000000000000000000000000305ffda000c030100021003100000019ea22617ffc40018100002030000000000000000000000"
    "00000006020422ffda0008010100010502aeae415f3fffc400191100010500000000000000000000000000000405061332ffda00"
    "08010301013f018a3baba747ffc400191100010500000000000000000000000000000405061331ffda0008010201013f0198b929"
    "bf4fffc4001510010100000000000000000000000000000032ffda0008010100063f0294bfffc400171000030100000000000000"
    "0000000000000021c131ffda0008010100013f21ca4424ffda000c0301000200030000001083ffc4001711000301000000000000"
    "00000000000000004181f0ffda0008010301013f1090ccffc4001511010100000000000000000000000000000081ffda00080102"
    "01013f10b37fffc40014100100000000000000000000000000000010ffda0008010100013f101517ffd9";
constexpr const char* kCmykJpeg =  // of Adobe's kind, inverted
    "ffd8ffee000e41646f626500640000000000ffdb0043000302020302020303030304030304050805050404050a070706080c0a0c"
    "0c0b0a0b0b0d0e12100d0e110e0b0b1016101113141515150c0f171816141812141514ffc00014080008000c044311004d110059"
    "11004b1100ffc40017000003010000000000000000000000000000080906ffc40020100001000b01000000000000000000000000"
    "01040708193641446581a2f0ffda000e0443004d0059004b00003f00591d26cb460a1dd8ce0661edaf765532b433694953d44043"
    "bb19c125da4cdab7eaa40fffd9";
// 3 rows and 4 columns of the colours above, with opacity 100.
constexpr const char* kRgbaPng =
    "89504e470d0a1a0a0000000d4948445200000004000000030806000000b4f4aec60000001a49444154789c636460f89f22c2f086"
    "01865918e4185000860000c15804a9de1379030000000049454e44ae426082";
// A palette of four colours, one of them transparent.
constexpr const char* kPalettePng =
    "89504e470d0a1a0a0000000d4948445200000004000000030203000000c99a46550000000c504c5445283cd7281ed7002dff1e00"
    "e1acf458c20000000274524e53ff00e5b7304a0000000e49444154789c63f8cb3483e9350007b60285ab5c90080000000049454e"
    "44ae426082";
// 16 bits: 0, 12000, 24000; 36000, 48000, 60000
constexpr const char* kDeepPng =
    "89504e470d0a1a0a0000000d4948445200000003000000021000000000e88fe5850000001649444154789c636460d07ba0ff80b1"
    "6781fe03fd07001e86056a3da888a50000000049454e44ae426082";
// One bit: a chess board of 3 rows and 5 columns
constexpr const char* kOneBitPng =
    "89504e470d0a1a0a0000000d4948445200000005000000030100000000734df8550000000e49444154789c63086058c110000003"
    "de014977c088e10000000049454e44ae426082";
// Interlaced: the seven passes of the standard written out, of 5 rows and 6 columns of grey 40x + y
constexpr const char* kInterlacedPng =
    "89504e470d0a1a0a0000000d49484452000000060000000508000000013434f2ac000000324944415478da63606058c0c0b28421"
    "802184812968118346c50906adaa530c3a3567181835032b179e6460d60eae5e7c1a00cd370bf5e2d81b710000000049454e44ae"
    "426082";
constexpr const char* kAll[] = {kGreyJpeg,   kJpeg,    kProgressiveJpeg, kCmykJpeg,     kRgbaPng,
                                kPalettePng, kDeepPng, kOneBitPng,       kInterlacedPng};

using Pixels = std::vector<std::uint8_t>;

Picture decode(const std::string& bytes, int channels = 0) {
  return decode_picture(bytes.data(), bytes.size(), "test", channels);
}

Picture ramp(std::int64_t height, std::int64_t width, std::int64_t channels) {
  Picture picture{.height = height, .width = width, .channels = channels, .pixels = {}};
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      const std::int64_t colour[] = {20 * x, 30 * y, 255 - 20 * x};
      for (std::int64_t c = 0; c < channels; ++c)
        picture.pixels.push_back(static_cast<std::uint8_t>(channels == 1 ? 20 * x + y : colour[c]));
    }
  }
  return picture;
}

void expect_pixel(const Picture& picture, std::int64_t y, std::int64_t x, const std::vector<int>& colour,
                  int tolerance) {
  ASSERT_EQ(picture.channels, static_cast<std::int64_t>(colour.size()));
  for (std::size_t c = 0; c < colour.size(); ++c)
    EXPECT_NEAR(picture.pixels[static_cast<std::size_t>((y * picture.width + x) * picture.channels) + c], colour[c],
                tolerance)
        << y << ' ' << x << ' ' << c;
}

TEST(PictureJpeg, GreyColourAndInks) {
  const Picture grey = decode(from_hex(kGreyJpeg));
  EXPECT_EQ(grey.height, 8);
  EXPECT_EQ(grey.width, 12);
  expect_pixel(grey, 0, 0, {0}, 0);
  expect_pixel(grey, 7, 11, {228}, 0);
  expect_pixel(grey, 3, 5, {103}, 0);
  for (const char* hex : {kJpeg, kProgressiveJpeg}) {
    const Picture colour = decode(from_hex(hex));
    expect_pixel(colour, 0, 0, {0, 5, 229}, 1);
    expect_pixel(colour, 7, 11, {217, 204, 63}, 1);
    expect_pixel(colour, 3, 5, {100, 90, 153}, 1);
  }
  const Picture inks = decode(from_hex(kCmykJpeg));
  expect_pixel(inks, 0, 0, {0, 1, 255}, 2);
  expect_pixel(inks, 7, 11, {221, 210, 34}, 2);
  expect_pixel(inks, 3, 5, {99, 90, 156}, 2);
}

TEST(PictureJpeg, ChannelsAreConverted) {
  const Picture grey = decode(from_hex(kJpeg), 1);
  expect_pixel(grey, 0, 0, {29}, 1);
  expect_pixel(grey, 7, 11, {192}, 1);
  expect_pixel(grey, 3, 5, {100}, 1);
  expect_pixel(decode(from_hex(kGreyJpeg), 3), 3, 5, {103, 103, 103}, 0);
  expect_error([] { decode(from_hex(kJpeg), 2); }, "2 channels asked for");
}

TEST(PicturePng, EveryKindOfPixel) {
  EXPECT_EQ(decode(from_hex(kRgbaPng)).pixels, ramp(3, 4, 3).pixels);  // the colours, whatever their opacity
  EXPECT_EQ(decode(from_hex(kPalettePng)).pixels,
            (Pixels{30, 0,  225, 30, 0,  225, 30, 0,  225, 40, 30, 215, 0,  45, 255, 40, 30, 215,
                    40, 30, 215, 40, 30, 215, 0,  45, 255, 40, 60, 215, 40, 60, 215, 40, 60, 215}));
  EXPECT_EQ(decode(from_hex(kDeepPng)).pixels, (Pixels{0, 47, 93, 140, 187, 233}));
  EXPECT_EQ(decode(from_hex(kOneBitPng)).pixels, (Pixels{0, 255, 0, 255, 0, 255, 0, 255, 0, 255, 0, 255, 0, 255, 0}));
  EXPECT_EQ(decode(from_hex(kDeepPng), 3).channels, 3);
  const Picture interlaced = decode(from_hex(kInterlacedPng));
  ASSERT_EQ(interlaced.pixels.size(), 30u);
  for (std::size_t i = 0; i < 30; ++i) EXPECT_EQ(interlaced.pixels[i], 40 * (i % 6) + i / 6) << i;
}

using PictureFile = FilesTest;

TEST_F(PictureFile, PngComesBack) {
  for (const std::int64_t channels : {1, 3}) {
    const Picture picture = ramp(8, 12, channels);
    save_png(path("p.png"), picture);
    const Picture back = load_picture(path("p.png"));
    EXPECT_EQ(back.height, 8);
    EXPECT_EQ(back.width, 12);
    EXPECT_EQ(back.channels, channels);
    EXPECT_EQ(back.pixels, picture.pixels);
  }
  expect_error([&] { save_png(path("p.png"), {.height = 2, .width = 2, .channels = 1, .pixels = Pixels(3)}); },
               "3 bytes of pixels do not fill 2×2×1");
  expect_error([&] { save_png(path("p.png"), {.height = 1, .width = 1, .channels = 2, .pixels = Pixels(2)}); },
               "2 channels");
  expect_error([&] { save_png(path("p.png"), {}); }, "channels");
  expect_error([&] { load_picture(path("none.png")); }, "none.png");
  expect_error([&] { load_picture(write("t.png", "text")); },
               "none of the pictures that can be read: JPEG, PNG, WebP, GIF, BMP");
}

TEST(PictureFiles, TruncationIsRefusedAtEveryByte) {
  for (const char* hex : kAll) {
    const std::string good = from_hex(hex);
    for (std::size_t length = 0; length < good.size(); ++length)
      EXPECT_NE(message_of([&] { decode(good.substr(0, length)); }), "no error") << hex << ' ' << length;
  }
}

TEST(PictureFiles, DamageNeverCrashes) {
  std::mt19937 random(1);
  for (const char* hex : kAll) {
    const std::string good = from_hex(hex);
    for (int trial = 0; trial < 400; ++trial) {
      std::string bad = good;
      for (int i = 0; i < 1 + trial % 4; ++i) bad[random() % bad.size()] = static_cast<char>(random());
      message_of([&] { decode(bad); });  // an Error or other pixels: nothing else comes out
    }
    for (int trial = 0; trial < 100; ++trial) {
      std::string noise = good.substr(0, 8 + random() % 40);
      for (int i = 0; i < 200; ++i) noise += static_cast<char>(random());
      EXPECT_NE(message_of([&] { decode(noise); }), "no error");
    }
  }
}

TEST(PictureFiles, SizesThatLieAreRefusedBeforeMemoryIsTaken) {
  std::string jpeg = from_hex(kJpeg);
  const std::size_t frame = jpeg.find("\xFF\xC0");
  jpeg.replace(frame + 5, 4, "\xEA\x60\xEA\x60");
  expect_error([&] { decode(jpeg); }, "60000×60000 pixels; at most");
  jpeg.replace(frame + 5, 4, std::string("\x20\0\x20\0", 4));
  expect_error([&] { decode(jpeg); }, "8192×8192 pixels cannot be in a file of 327 bytes");
  // Checksums by zlib.crc32: 2147483647 × 2147483647 pixels of one grey bit.
  const auto peak = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;  // KiB
  };
  const long before = peak();
  expect_error(
      [&] {
        decode(
            from_hex("89504e470d0a1a0a0000000d494844527fffffff7fffffff01000000003cb236cb"
                     "000000004944415435af061e0000000049454e44ae426082"));
      },
      "at most");
  EXPECT_LT(peak() - before, 1 << 16);
}

TEST(Resize, AgreesWithPillow) {
  // Image.fromarray(colour).resize((5, 3), Image.BILINEAR), which also averages over all that falls into a pixel
  const Picture small = resize(ramp(8, 12, 3), 3, 5);
  const Pixels expected = {18, 33,  237, 62, 33,  193, 110, 33,  145, 158, 33,  97, 202, 33,  53,
                           18, 105, 237, 62, 105, 193, 110, 105, 145, 158, 105, 97, 202, 105, 53,
                           18, 177, 237, 62, 177, 193, 110, 177, 145, 158, 177, 97, 202, 177, 53};
  ASSERT_EQ(small.pixels.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(small.pixels[i], expected[i], 1) << i;
  // Row 5 of Image.fromarray(grey).resize((20, 11), Image.BILINEAR)
  const Picture large = resize(ramp(8, 12, 1), 11, 20);
  const Pixels row = {4, 12, 24, 36, 48, 60, 72, 84, 96, 108, 120, 132, 144, 156, 168, 180, 192, 204, 216, 224};
  for (std::size_t x = 0; x < row.size(); ++x) EXPECT_NEAR(large.pixels[5 * 20 + x], row[x], 1) << x;
  EXPECT_EQ(resize(ramp(8, 12, 3), 8, 12).pixels, ramp(8, 12, 3).pixels);
  const Picture point = resize({.height = 1, .width = 1, .channels = 1, .pixels = {77}}, 3, 3);
  EXPECT_EQ(point.pixels, Pixels(9, 77));
}

TEST(Resize, BadSizesAreRefused) {
  expect_error([] { resize(ramp(2, 2, 1), 0, 5); }, "0×5: it has no pixels");
  expect_error([] { resize(ramp(2, 2, 1), -1, 5); }, "no pixels");
  expect_error([] { resize(ramp(2, 2, 1), 1 << 20, 1 << 20); }, "at most");
  expect_error([] { resize({}, 1, 1); }, "0 channels");
}

TEST(ResizeToFill, CutsTheSidesThatDoNotFit) {
  const Picture wide{.height = 1, .width = 4, .channels = 1, .pixels = {10, 20, 30, 40}};
  EXPECT_EQ(resize_to_fill(wide, 1, 2).pixels, (std::vector<std::uint8_t>{20, 30}));
  EXPECT_EQ(resize_to_fill(wide, 1, 1).pixels.size(), 1u);
  const Picture tall{.height = 3, .width = 1, .channels = 3, .pixels = {0, 0, 0, 7, 8, 9, 0, 0, 0}};
  EXPECT_EQ(resize_to_fill(tall, 1, 1).pixels, (std::vector<std::uint8_t>{7, 8, 9}));  // the middle, not a mean
  EXPECT_THROW(resize_to_fill(tall, 0, 1), Error);
  EXPECT_THROW(resize_to_fill({.height = 2, .width = 2, .channels = 1, .pixels = {1}}, 1, 1), Error);
}

// Waves of colour, which are neither flat nor finer than half the pixels.
Picture waves(std::int64_t height, std::int64_t width) {
  Picture picture{.height = height, .width = width, .channels = 3, .pixels = {}};
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x)
      for (std::int64_t c = 0; c < 3; ++c)
        picture.pixels.push_back(static_cast<std::uint8_t>(128 + 100 * std::sin(double(y) / 40 + double(c)) *
                                                                     std::cos(double(x) / 50 - double(c))));
  return picture;
}

class JpegFile : public FilesTest {};

TEST_F(JpegFile, IsSavedAndReadAtTheSizeThatIsWanted) {
  const Picture picture = waves(480, 640);
  save_jpeg(path("p.jpg"), picture);
  const Picture whole = load_picture(path("p.jpg"));
  ASSERT_EQ(whole.pixels.size(), picture.pixels.size());
  for (std::size_t i = 0; i < whole.pixels.size(); i += 97) ASSERT_NEAR(whole.pixels[i], picture.pixels[i], 8) << i;
  for (const std::int64_t side : {32, 100, 224, 400}) {  // decoded to an eighth, a quarter, half and all of the pixels
    const Picture quick = load_picture_to_fill(path("p.jpg"), 3, side, side);
    const Picture exact = resize_to_fill(whole, side, side);
    ASSERT_EQ(quick.pixels.size(), exact.pixels.size());
    double apart = 0;
    for (std::size_t i = 0; i < exact.pixels.size(); ++i) {
      ASSERT_NEAR(quick.pixels[i], exact.pixels[i], 12) << side << " " << i;
      apart += std::abs(double(quick.pixels[i]) - exact.pixels[i]);
    }
    EXPECT_LT(apart / double(exact.pixels.size()), 1.5) << side;
  }
  EXPECT_EQ(load_picture_to_fill(path("p.jpg"), 1, 9, 5).channels, 1);
  expect_error([&] { save_jpeg(path("q.jpg"), picture, 0); }, "a quality of 1 to 100");
  expect_error([&] { load_picture_to_fill(path("p.jpg"), 3, 0, 5); }, "no pixels");
}

TEST(Resize, IsTheSameOfAnyNumberOfRows) {
  const Picture picture = waves(61, 43);
  const Picture all = resize(picture, 29, 17);
  // Each row by itself, as the weights say.
  for (std::int64_t y = 0; y < 29; ++y) {
    const double scale = 61.0 / 29, centre = (double(y) + 0.5) * scale;
    std::vector<double> row(43 * 3);
    double sum = 0;
    for (std::int64_t from = 0; from < 61; ++from) {
      const double weight = std::max(0.0, 1 - std::abs(double(from) + 0.5 - centre) / scale);
      sum += weight;
      for (std::size_t i = 0; i < row.size(); ++i)
        row[i] += weight * picture.pixels[static_cast<std::size_t>(from) * row.size() + i];
    }
    for (std::int64_t x = 0; x < 17; ++x) {
      const double wide = 43.0 / 17, middle = (double(x) + 0.5) * wide;
      double value = 0, weights = 0;
      for (std::int64_t from = 0; from < 43; ++from) {
        const double weight = std::max(0.0, 1 - std::abs(double(from) + 0.5 - middle) / wide);
        weights += weight;
        value += weight * row[static_cast<std::size_t>(3 * from)] / sum;
      }
      ASSERT_NEAR(all.pixels[static_cast<std::size_t>(3 * (17 * y + x))], value / weights, 0.51) << y << " " << x;
    }
  }
}

class MaskFile : public FilesTest {};

TEST_F(MaskFile, KeepsItsNumbers) {
  Picture mask{.height = 16, .width = 16, .channels = 1, .pixels = {}};
  for (int i = 0; i < 256; ++i) mask.pixels.push_back(static_cast<std::uint8_t>(i));
  save_mask(path("m.png"), mask);
  EXPECT_EQ(load_mask(path("m.png")).pixels, mask.pixels);
  const Picture colours = load_picture(path("m.png"));  // as VOC's development kit draws them
  EXPECT_EQ(std::vector<std::uint8_t>(colours.pixels.begin() + 3, colours.pixels.begin() + 12),
            (std::vector<std::uint8_t>{128, 0, 0, 0, 128, 0, 128, 128, 0}));
  EXPECT_EQ(colours.pixels[3 * 255], 224);
  const FilledPart part = filled_part(4, 8, 2, 2);
  EXPECT_EQ(part.left, 2);
  EXPECT_EQ(part.width, 4);
  EXPECT_EQ(take_nearest(mask, {0, 0, 16, 16, 16, 16}, 2, 2).pixels, (std::vector<std::uint8_t>{68, 76, 196, 204}));
  expect_error([&] { take_nearest(mask, {8, 0, 9, 1, 16, 16}, 1, 1); }, "not inside the picture");
  write("t.png", "no picture");
  expect_error([&] { load_mask(path("t.png")); }, "a mask is a PNG picture");
}

}  // namespace
}  // namespace varve::io
