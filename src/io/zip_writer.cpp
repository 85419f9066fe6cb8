// Writing zip archives of stored entries.
#include <zlib.h>

#include <algorithm>

#include "base/text.h"
#include "io/zip.h"
#include "varve/error.h"

namespace varve::io {
namespace {

constexpr std::uint64_t kUtf8Names = 1 << 11;
constexpr std::uint64_t kStored = 0;
constexpr std::uint64_t kMidnight = 0;
constexpr std::uint64_t kFirstDate = 1 << 5 | 1;  // 1 January 1980, the earliest there is

std::string little_endian(std::uint64_t value, int width) {
  std::string bytes;
  for (int i = 0; i < width; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFF);
  return bytes;
}
std::string u16(std::uint64_t value) { return little_endian(value, 2); }
std::string u32(std::uint64_t value) { return little_endian(value, 4); }
std::string u64(std::uint64_t value) { return little_endian(value, 8); }

// The 64-bit values that did not fit their 32-bit fields; none, no field.
std::string extra_field(const std::string& values) {
  return values.empty() ? "" : u16(1) + u16(values.size()) + values;
}

}  // namespace

void ZipWriter::put(const std::string& bytes) {
  sink_(bytes.data(), bytes.size());
  position_ += bytes.size();
}

void ZipWriter::add(std::string_view name, std::span<const std::span<const std::byte>> parts) {
  if (name.size() > 0xFFFF) throw Error(cat("write zip: a name of ", name.size(), " bytes; at most 65535 fit."));
  std::uint64_t size = 0, crc = crc32_z(0, nullptr, 0);
  for (const std::span<const std::byte> part : parts) {
    size += part.size();
    // zlib takes null for "start again", which the data of an empty part may be.
    if (!part.empty()) crc = crc32_z(crc, reinterpret_cast<const Bytef*>(part.data()), part.size());
  }
  const std::uint64_t start = position_;
  const bool large = size > largest_, far = start > largest_;
  const std::uint64_t size32 = large ? kIn64 : size, version = large || far ? 45 : 20;

  // What a local header and the directory's record have in common, up to the length of the name.
  const std::string common = u16(version) + u16(kUtf8Names) + u16(kStored) + u16(kMidnight) + u16(kFirstDate) +
                             u32(crc) + u32(size32) + u32(size32) + u16(name.size());
  const std::string sizes64 = large ? u64(size) + u64(size) : "";
  const std::string local_extra = extra_field(sizes64);
  put(u32(0x04034B50) + common + u16(local_extra.size()) + std::string(name) + local_extra);
  for (const std::span<const std::byte> part : parts) {
    sink_(part.data(), part.size());
    position_ += part.size();
  }

  const std::string extra = extra_field(sizes64 + (far ? u64(start) : ""));
  const std::string no_comment = u16(0), first_disk = u16(0), attributes = u16(0) + u32(0);
  directory_ += u32(0x02014B50) + u16(version) + common + u16(extra.size()) + no_comment + first_disk + attributes +
                u32(far ? kIn64 : start) + std::string(name) + extra;
  ++entries_;
}

void ZipWriter::finish() {
  const std::uint64_t start = position_, size = directory_.size();
  put(directory_);
  const bool large = start > largest_ || size > largest_ || entries_ > std::min<std::uint64_t>(largest_, 0xFFFE);
  if (large) {
    const std::uint64_t end = position_;
    put(u32(0x06064B50) + u64(44) + u16(45) + u16(45) + u32(0) + u32(0) + u64(entries_) + u64(entries_) + u64(size) +
        u64(start));
    put(u32(0x07064B50) + u32(0) + u64(end) + u32(1));  // where to find it
  }
  const std::uint64_t count = large ? 0xFFFF : entries_;
  put(u32(0x06054B50) + u16(0) + u16(0) + u16(count) + u16(count) + u32(large ? kIn64 : size) +
      u32(large ? kIn64 : start) + u16(0));
}

}  // namespace varve::io
