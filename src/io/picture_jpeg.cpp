// JPEG pictures, by libjpeg-turbo.
#include <array>
#include <cstdio>  // before jpeglib.h, which uses it and does not include it
#include <cstdlib>
#include <cstring>
#include <utility>

#include <jpeglib.h>

#include <jerror.h>

#include "base/files.h"
#include "base/text.h"
#include "io/picture.h"

namespace varve::io {
namespace {

constexpr int kMostScans = 500;  // a progressive file has some ten; each goes over the whole picture

struct JpegDecoder {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf out{};
  std::array<char, JMSG_LENGTH_MAX> message{};

  JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;
  ~JpegDecoder() { jpeg_destroy_decompress(&info); }
};

[[noreturn]] void jump(j_common_ptr info) {
  auto& decoder = *static_cast<JpegDecoder*>(info->client_data);
  info->err->format_message(info, decoder.message.data());
  std::longjmp(decoder.out, 1);
}

// The library repairs what it can and warns. Missing or undecodable data are no picture; oddities of headers are borne.
void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;  // a trace
  const int code = info->err->msg_code;
  if (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE || code == JWRN_ARITH_BAD_CODE)
    jump(info);
}

void on_progress(j_common_ptr info) {
  const auto* const decompress = reinterpret_cast<j_decompress_ptr>(info);
  if (decompress->input_scan_number <= kMostScans) return;
  info->err->msg_code = JERR_BAD_PROGRESSION;  // too many scans to be honest
  jump(info);
}

JpegDecoder::JpegDecoder() {
  info.err = jpeg_std_error(&errors);
  errors.error_exit = jump;
  errors.emit_message = on_message;
  info.client_data = this;
  progress.progress_monitor = on_progress;
}

// Four channels are printers' inks. Adobe's programs, which write nearly all of these, store them inverted.
void inks_to_colour(const std::uint8_t* inks, std::uint8_t* colour, std::int64_t width, bool inverted) {
  for (std::int64_t x = 0; x < width; ++x) {
    const auto light = [&](int channel) { return inverted ? inks[4 * x + channel] : 255 - inks[4 * x + channel]; };
    for (int c = 0; c < 3; ++c) colour[3 * x + c] = static_cast<std::uint8_t>((light(c) * light(3) + 127) / 255);
  }
}

// How the camera was held, as a block of EXIF says: an entry of the first table of a TIFF file. 1 where it says
// nothing.
int exif_orientation(std::span<const unsigned char> block) {
  constexpr std::size_t kHeader = 6;  // "Exif" and two zeros
  if (block.size() < kHeader + 8 || std::memcmp(block.data(), "Exif\0\0", kHeader) != 0) return 1;
  const std::span<const unsigned char> tiff = block.subspan(kHeader);
  const bool big = tiff[0] == 'M';
  const auto number = [&](std::size_t at, std::size_t bytes) {
    std::uint32_t value = 0;
    if (at > tiff.size() || tiff.size() - at < bytes) return value;
    for (std::size_t i = 0; i < bytes; ++i) value = value << 8 | tiff[at + (big ? i : bytes - 1 - i)];
    return value;
  };
  const std::size_t table = number(4, 4), entries = number(table, 2);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = table + 2 + 12 * i;
    if (entry > tiff.size()) break;
    if (number(entry, 2) == 0x0112) return static_cast<int>(number(entry + 8, 2));
  }
  return 1;
}

int orientation_of(const jpeg_decompress_struct& info) {
  for (const jpeg_marker_struct* marker = info.marker_list; marker != nullptr; marker = marker->next)
    if (const int found = exif_orientation({marker->data, marker->data_length}); found != 1) return found;
  return 1;
}

void read_header(JpegDecoder& decoder, std::span<const std::byte> file) {
  jpeg_decompress_struct& info = decoder.info;
  jpeg_create_decompress(&info);
  info.progress = &decoder.progress;
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_save_markers(&info, JPEG_APP0 + 1, 0xFFFF);  // where EXIF is
  jpeg_read_header(&info, TRUE);
  const bool inks = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
  info.out_color_space = info.num_components == 1 ? JCS_GRAYSCALE : inks ? JCS_CMYK : JCS_RGB;
}

// `line` holds a row of four channels.
void read_rows(jpeg_decompress_struct& info, Picture& picture, std::uint8_t* line) {
  jpeg_start_decompress(&info);
  while (info.output_scanline < info.output_height) {
    std::uint8_t* const row = picture.pixels.data() + info.output_scanline * picture.width * picture.channels;
    JSAMPROW target = info.out_color_space == JCS_CMYK ? line : row;
    jpeg_read_scanlines(&info, &target, 1);
    if (target == line) inks_to_colour(line, row, picture.width, info.saw_Adobe_marker);
  }
  jpeg_finish_decompress(&info);
}

// The smallest of 1/8, 1/4 and 1/2 that leaves as many pixels as are wanted. The transform of blocks to fewer pixels,
// which costs less the fewer they are, is a mean of neighbours; other fractions would have no vector code.
unsigned eighths(const jpeg_decompress_struct& info, int orientation, const Wanted& wanted) {
  if (wanted.height < 1 || wanted.width < 1) return 8;
  std::int64_t height = info.image_height, width = info.image_width;
  if (orientation >= 5 && orientation <= 8) std::swap(height, width);
  const FilledPart part = filled_part(height, width, wanted.height, wanted.width);
  for (const unsigned eighth : {1U, 2U, 4U})
    if (part.height * eighth / 8 >= wanted.height && part.width * eighth / 8 >= wanted.width) return eighth;
  return 8;
}

}  // namespace

Picture decode_jpeg(std::span<const std::byte> file, const std::string& source, const Wanted& wanted) {
  JpegDecoder decoder;
  const auto fail = [&] { throw Error(cat(source, ": bad JPEG picture: ", decoder.message.data(), ".")); };
  if (!survives(decoder.out, [&] { read_header(decoder, file); })) fail();
  jpeg_decompress_struct& info = decoder.info;
  // A block of 64 pixels takes a bit at least; eightfold margin, for arithmetic coding can do with less.
  check_size(info.image_height, info.image_width, file.size(), 64 * 8 * 8, source);
  const int orientation = orientation_of(info);
  info.scale_num = eighths(info, orientation, wanted);
  info.scale_denom = 8;
  if (!survives(decoder.out, [&] { jpeg_calc_output_dimensions(&decoder.info); })) fail();
  Picture picture{.height = info.output_height,
                  .width = info.output_width,
                  .channels = info.out_color_space == JCS_GRAYSCALE ? 1 : 3,
                  .pixels = {}};
  picture.pixels.resize(static_cast<std::size_t>(picture.height * picture.width * picture.channels));
  std::vector<std::uint8_t> line(static_cast<std::size_t>(picture.width) * 4);
  if (!survives(decoder.out, [&] { read_rows(decoder.info, picture, line.data()); })) fail();
  return upright(std::move(picture), orientation);
}

}  // namespace varve::io

namespace varve {
namespace io {
namespace {

struct JpegEncoder {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  std::jmp_buf out{};
  std::array<char, JMSG_LENGTH_MAX> message{};
  unsigned char* file = nullptr;
  unsigned long bytes = 0;

  JpegEncoder() = default;
  JpegEncoder(const JpegEncoder&) = delete;
  JpegEncoder& operator=(const JpegEncoder&) = delete;
  ~JpegEncoder() {
    jpeg_destroy_compress(&info);
    std::free(file);
  }
};

[[noreturn]] void jump_out(j_common_ptr info) {
  auto& encoder = *static_cast<JpegEncoder*>(info->client_data);
  info->err->format_message(info, encoder.message.data());
  std::longjmp(encoder.out, 1);
}

void write_rows(JpegEncoder& encoder, const Picture& picture, int quality) {
  jpeg_compress_struct& info = encoder.info;
  jpeg_create_compress(&info);
  jpeg_mem_dest(&info, &encoder.file, &encoder.bytes);
  info.image_height = static_cast<JDIMENSION>(picture.height);
  info.image_width = static_cast<JDIMENSION>(picture.width);
  info.input_components = static_cast<int>(picture.channels);
  info.in_color_space = picture.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    auto* row =
        const_cast<std::uint8_t*>(picture.pixels.data()) + info.next_scanline * picture.width * picture.channels;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
}

}  // namespace

}  // namespace io

void save_jpeg(const std::string& path, const Picture& picture, int quality) {
  constexpr std::int64_t kMostSide = 65500;  // of the format
  const std::string source = cat("save_jpeg: \"", path, '"');
  io::check_picture(picture, source);
  if (picture.height > kMostSide || picture.width > kMostSide)
    throw Error(cat(source, ": a JPEG picture has at most ", kMostSide, " pixels to a side."));
  if (quality < 1 || quality > 100) throw Error(cat(source, ": expected a quality of 1 to 100, got ", quality, "."));
  io::JpegEncoder encoder;
  encoder.info.err = jpeg_std_error(&encoder.errors);
  encoder.errors.error_exit = io::jump_out;
  encoder.info.client_data = &encoder;
  if (!io::survives(encoder.out, [&] { io::write_rows(encoder, picture, quality); }))
    throw Error(cat(source, ": ", encoder.message.data(), "."));
  AtomicFile out(path);
  out.write(encoder.file, encoder.bytes);
  out.commit();
}

}  // namespace varve
