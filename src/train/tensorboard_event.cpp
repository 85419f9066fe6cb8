#include "train/tensorboard_event.h"

#include <array>
#include <bit>

namespace varve::train {
namespace {

constexpr std::array<std::uint32_t, 256> kCrcTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0u);
    table[i] = crc;
  }
  return table;
}();

template <class T>
std::string little_endian(T value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof value; ++i) bytes += static_cast<char>(static_cast<unsigned char>(value >> 8 * i));
  return bytes;
}

// A checksum of data that itself contains checksums would be weak: the format stores it turned and shifted.
std::uint32_t masked(std::uint32_t crc) { return std::rotr(crc, 15) + 0xa282ead8u; }

// ---- protocol buffers: a field is its number and wire type, then its content

enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(static_cast<unsigned char>(value | 0x80));
  return bytes + static_cast<char>(static_cast<unsigned char>(value));
}

std::string key(int field, Wire wire) {
  return varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(wire));
}
std::string integer_field(int field, std::int64_t value) {
  return key(field, Wire::varint) + varint(static_cast<std::uint64_t>(value));
}
std::string double_field(int field, double value) {
  return key(field, Wire::fixed64) + little_endian(std::bit_cast<std::uint64_t>(value));
}
std::string float_field(int field, float value) {
  return key(field, Wire::fixed32) + little_endian(std::bit_cast<std::uint32_t>(value));
}
std::string bytes_field(int field, const std::string& content) {
  return key(field, Wire::bytes) + varint(content.size()) + content;
}

// Fields of tensorflow.Event, Summary, Summary.Value and SessionLog.
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
constexpr int kValue = 1, kTag = 1, kSimpleValue = 2;
constexpr int kStatus = 1, kStart = 1;

}  // namespace

std::uint32_t crc32c(const std::string& bytes) {
  std::uint32_t crc = ~0u;
  for (const char c : bytes) crc = kCrcTable[(crc ^ static_cast<unsigned char>(c)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

std::string framed_record(const std::string& data) {
  const std::string length = little_endian(static_cast<std::uint64_t>(data.size()));
  return length + little_endian(masked(crc32c(length))) + data + little_endian(masked(crc32c(data)));
}

std::string scalar_event(const ScalarEvent& event) {
  std::string summary;
  for (const auto& [tag, value] : event.values)
    summary += bytes_field(kValue, bytes_field(kTag, tag) + float_field(kSimpleValue, static_cast<float>(value)));
  return double_field(kWallTime, event.wall_time) + integer_field(kStep, event.step) + bytes_field(kSummary, summary);
}

std::string version_event(double wall_time) {
  return double_field(kWallTime, wall_time) + bytes_field(kFileVersion, "brain.Event:2");
}

std::string restart_event(double wall_time, std::int64_t step) {
  return double_field(kWallTime, wall_time) + integer_field(kStep, step) +
         bytes_field(kSessionLog, integer_field(kStatus, kStart));
}

}  // namespace varve::train
