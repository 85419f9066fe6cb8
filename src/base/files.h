// Files, read whole within a limit and written atomically. Every error names the file and what the system said.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace varve {

// The whole file; throws Error when it is missing, not readable, or larger than `limit` bytes.
std::vector<std::byte> read_file(const std::filesystem::path& path, std::uint64_t limit);

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
