// Files, read whole within a limit and written atomically. Every error names the file and what the system said.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace varve {

// The whole file; throws Error when it is missing, not readable, or larger than `limit` bytes.
std::vector<std::byte> read_file(const std::filesystem::path& path, std::uint64_t limit);

// How much packed data of so many bytes may unpack to: a gigabyte, or 32 times their size where that is more. A small
// file that grows a thousandfold fills memory or disk, and is hardly ever what it says. VARVE_UNPACK_GB=16 allows more.
std::uint64_t most_unpacked(std::uint64_t packed);
// The end of the message about more: what the limit is, and how it is raised.
std::string too_much_unpacked(std::uint64_t packed);

// A file that appears whole or not at all: written beside its final name, and renamed over it by commit(). Until then
// an older file of that name stays as it was; without commit() the destructor removes what was written.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);  // the folder must exist
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void write(std::span<const std::byte> data) { write(data.data(), data.size()); }
  void commit();  // to the disk, under the final name; nothing may be written after

 private:
  void discard() noexcept;
  std::filesystem::path path_, temporary_;
  int file_ = -1;
};

}  // namespace varve
