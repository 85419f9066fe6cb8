// Zip archives, as .npz files use them: whole in memory when read, streamed out when written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace varve::io {

inline constexpr std::uint64_t kIn64 = 0xFFFFFFFF;  // a 32-bit field whose value stands in the 64-bit record

struct ZipEntry {
  std::string name;
  std::vector<std::byte> data;
};

// All entries, stored or deflated, with 32- or 64-bit sizes. Throws Error, which begins with `source`, for anything
// that does not add up: sizes, positions, checksums, overlapping or repeated entries.
std::vector<ZipEntry> read_zip(std::span<const std::byte> file, std::string_view source);

// Writes stored entries through `sink`. 64-bit records are used only where 32 bits do not do, since simple readers know
// nothing else. Dates are fixed, so that equal contents give equal files.
class ZipWriter {
 public:
  using Sink = std::function<void(const void* data, std::size_t bytes)>;
  // `largest`: what still goes into a 32-bit record; tests lower it.
  explicit ZipWriter(Sink sink, std::uint64_t largest = 0xFFFFFFFE) : sink_(std::move(sink)), largest_(largest) {}

  void add(std::string_view name, std::span<const std::span<const std::byte>> parts);  // the parts, one after another
  void finish();                                                                       // once, after the last entry

 private:
  void put(const std::string& bytes);

  Sink sink_;
  std::uint64_t largest_;
  std::uint64_t position_ = 0, entries_ = 0;
  std::string directory_;
};

}  // namespace varve::io
