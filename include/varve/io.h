// Tensors, images and text in files. Writers replace a file only when all of it is on the disk; readers check every
// size before they allocate, and answer a damaged file with an Error that names it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "varve/tensor.h"

namespace varve {

// ---- NumPy
void save_npy(const std::string& path, const Tensor& tensor);
Tensor load_npy(const std::string& path);
void save_npz(const std::string& path, const std::map<std::string, Tensor>& tensors);
std::map<std::string, Tensor> load_npz(const std::string& path);

// ---- safetensors
struct Safetensors {
  std::vector<std::pair<std::string, Tensor>> tensors;  // in the order of the file
  // The file's __metadata__. An entry "varve.crc32", whatever it holds, becomes a checksum of the whole file when it is
  // saved; load_safetensors compares it, and takes files without one as they are.
  std::map<std::string, std::string> metadata;

  const Tensor* find(const std::string& name) const;  // null when there is none of that name
};
void save_safetensors(const std::string& path, const Safetensors& content);
Safetensors load_safetensors(const std::string& path);  // f64 f32 f16 bf16 i64 i32 i8 u8 bool
std::map<std::string, std::string> load_safetensors_metadata(const std::string& path);  // reads the header only

// ---- images: 8 bits a channel, rows of pixels, channels last
struct Picture {
  std::int64_t height = 0, width = 0, channels = 0;  // 1: grey, 3: colour
  std::vector<std::uint8_t> pixels;                  // [height, width, channels]
};
// JPEG, PNG, WebP (where libwebp was there to build with), GIF (the first picture) or BMP, by its first bytes; upright
// as EXIF says. channels 0: as it is (transparency dropped), 1 or 3: converted.
Picture load_picture(const std::string& path, int channels = 0);
bool has_picture_name(const std::string& path);  // ends as such files do, in small or capital letters
// The same as resize_to_fill(load_picture(path, channels), height, width) but for details that do not show at that
// size, which a JPEG file need not be decoded for.
Picture load_picture_to_fill(const std::string& path, int channels, std::int64_t height, std::int64_t width);
Picture decode_picture(const void* data, std::size_t bytes, const std::string& name, int channels = 0);
void save_png(const std::string& path, const Picture& picture);
void save_jpeg(const std::string& path, const Picture& picture, int quality = 90);  // 1 to 100
std::vector<std::uint8_t> encode_png(const Picture& picture);                       // the bytes of such a file
Picture resize(const Picture& picture, std::int64_t height, std::int64_t width);  // bilinear, antialiased when smaller
// The same without distortion: what does not fit the proportions is cut off on both sides.
Picture resize_to_fill(const Picture& picture, std::int64_t height, std::int64_t width);
// Which part of a picture that is: the largest about the middle that has the proportions of height × width.
struct FilledPart {
  std::int64_t top = 0, left = 0, height = 0, width = 0;
  std::int64_t of_height = 0, of_width = 0;  // of the whole picture
};
FilledPart filled_part(std::int64_t of_height, std::int64_t of_width, std::int64_t height, std::int64_t width);
// The part at another size, each pixel that of the nearest place: for numbers, which have no mean.
Picture take_nearest(const Picture& picture, const FilledPart& part, std::int64_t height, std::int64_t width);

// A PNG picture whose pixels are numbers of classes: the places in its palette, or its levels of grey. One channel.
Picture load_mask(const std::string& path);
void save_mask(const std::string& path, const Picture& mask);  // with PASCAL VOC's palette

// ---- bytes and text
void save_text(const std::string& path, const std::string& text);
std::string load_text(const std::string& path, std::uint64_t limit = 1 << 30);
std::vector<std::uint8_t> load_bytes(const std::string& path,
                                     std::uint64_t limit = std::uint64_t{1} << 34);  // unpacked when it is gzip

}  // namespace varve
