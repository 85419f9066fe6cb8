// PNG pictures, by libpng.
#include <png.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/files.h"
#include "base/text.h"
#include "io/picture.h"

namespace varve::io {
namespace {

struct PngDecoder {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::span<const std::byte> left;
  std::jmp_buf out{};
  char message[200] = "no memory";

  PngDecoder() = default;
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;
  ~PngDecoder() { png_destroy_read_struct(&png, &info, nullptr); }
};

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  auto& decoder = *static_cast<PngDecoder*>(png_get_error_ptr(png));
  std::snprintf(decoder.message, sizeof decoder.message, "%s", message);
  std::longjmp(decoder.out, 1);
}

void on_warning(png_structp, png_const_charp) {}  // a bad comment or colour profile does not spoil the pixels

void on_read(png_structp png, png_bytep to, std::size_t bytes) {
  auto& left = static_cast<PngDecoder*>(png_get_io_ptr(png))->left;
  if (bytes > left.size()) png_error(png, "it ends too early");
  std::memcpy(to, left.data(), bytes);
  left = left.subspan(bytes);
}

void read_header(PngDecoder& decoder) {
  decoder.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &decoder, on_error, on_warning);
  if (decoder.png == nullptr) std::longjmp(decoder.out, 1);
  decoder.info = png_create_info_struct(decoder.png);
  if (decoder.info == nullptr) std::longjmp(decoder.out, 1);
  png_set_read_fn(decoder.png, &decoder, on_read);
  png_set_user_limits(decoder.png, 0x7FFFFFFF, 0x7FFFFFFF);  // check_size knows better
  png_set_chunk_malloc_max(decoder.png, png_alloc_size_t{1} << 24);
  png_set_chunk_cache_max(decoder.png, 100);
  png_read_info(decoder.png, decoder.info);
}

void set_pixels(PngDecoder& decoder, Pixels pixels) {
  // Whatever the file has, 8 bits of grey or colour come out; of numbers, which are not scaled, a byte for each.
  if (pixels == Pixels::numbers) {
    png_set_packing(decoder.png);
  } else {
    png_set_palette_to_rgb(decoder.png);
    png_set_expand_gray_1_2_4_to_8(decoder.png);
  }
  png_set_scale_16(decoder.png);
  png_set_strip_alpha(decoder.png);
  png_set_interlace_handling(decoder.png);
  png_read_update_info(decoder.png, decoder.info);
}

void read_rows(PngDecoder& decoder, png_bytepp rows) {
  png_read_image(decoder.png, rows);
  png_read_end(decoder.png, nullptr);
}

}  // namespace

Picture decode_png(std::span<const std::byte> file, const std::string& source, Pixels pixels) {
  PngDecoder decoder;
  decoder.left = file;
  const auto fail = [&](const char* what) { throw Error(cat(source, ": bad PNG picture: ", what, ".")); };
  if (!survives(decoder.out, [&] { read_header(decoder); })) fail(decoder.message);
  Picture picture{.height = png_get_image_height(decoder.png, decoder.info),
                  .width = png_get_image_width(decoder.png, decoder.info),
                  .channels = 0,
                  .pixels = {}};
  // Deflate packs at most 1032 to 1, and a byte holds eight pixels at most.
  check_size(picture.height, picture.width, file.size(), 1032 * 8, source);
  if (!survives(decoder.out, [&] { set_pixels(decoder, pixels); })) fail(decoder.message);  // takes memory for a row
  picture.channels = png_get_channels(decoder.png, decoder.info);
  const std::size_t row_bytes = static_cast<std::size_t>(picture.width * picture.channels);
  if ((picture.channels != 1 && picture.channels != 3) || png_get_rowbytes(decoder.png, decoder.info) != row_bytes)
    fail("its kind of pixels is not supported");
  picture.pixels.resize(static_cast<std::size_t>(picture.height) * row_bytes);
  std::vector<png_bytep> rows(static_cast<std::size_t>(picture.height));
  for (std::size_t y = 0; y < rows.size(); ++y) rows[y] = picture.pixels.data() + y * row_bytes;
  if (!survives(decoder.out, [&] { read_rows(decoder, rows.data()); })) fail(decoder.message);
  return picture;
}

}  // namespace varve::io

namespace varve {

std::vector<std::uint8_t> encode_png(const Picture& picture) {
  io::check_picture(picture, "encode_png");
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.height = static_cast<png_uint_32>(picture.height);
  image.width = static_cast<png_uint_32>(picture.width);
  image.format = picture.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::vector<std::uint8_t> file(bytes);
  if (png_image_write_to_memory(&image, file.data(), &bytes, 0, picture.pixels.data(), 0, nullptr) == 0)
    throw Error(cat("encode_png: ", image.message, "."));
  file.resize(bytes);
  return file;
}

void save_png(const std::string& path, const Picture& picture) {
  io::check_picture(picture, cat("save_png: \"", path, '"'));
  const std::vector<std::uint8_t> file = encode_png(picture);
  AtomicFile out(path);
  out.write(file.data(), file.size());
  out.commit();
}

}  // namespace varve
