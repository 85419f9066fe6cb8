#include "data/fetch_tar.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "varve/error.h"

namespace varve::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBlock = 512;
constexpr std::uint64_t kMostName = 1 << 16;  // of extended headers, which are read into memory

using TarBlock = std::array<char, kBlock>;

struct TarEntry {
  std::string path;
  char kind = '0';
  std::uint64_t size = 0;
};

std::string_view field(const TarBlock& block, std::size_t begin, std::size_t size) {
  const std::string_view text(block.data() + begin, size);
  return text.substr(0, text.find('\0'));
}

class TarReader {
 public:
  explicit TarReader(const std::string& archive) : archive_(archive), file_(gzopen(archive.c_str(), "rb"), gzclose) {
    if (!file_) throw Error("\"" + archive + "\" could not be opened.");
    gzbuffer(file_.get(), 1 << 18);
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error("\"" + archive_ + "\" could not be unpacked: " + what);
  }

  // Reads to the last byte, or fails.
  void read(char* data, std::size_t bytes) {
    while (bytes > 0) {
      const std::size_t got = read_some(data, bytes);
      if (got == 0) fail("it ends too early.");
      data += got;
      bytes -= got;
    }
  }

  // What follows the end mark is padding; at its end zlib compares the checksum of all that was unpacked.
  void finish() {
    constexpr int kMostBlocks = 1 << 16;
    TarBlock block;
    for (int i = 0; i < kMostBlocks; ++i) {
      if (read_some(block.data(), kBlock) == 0) return;
    }
    fail("too much follows its end.");
  }

  // The next file or folder, its long name applied; false at the end.
  bool next(TarEntry& entry) {
    std::string long_name;
    TarBlock block;
    while (true) {
      read(block.data(), kBlock);
      if (std::all_of(block.begin(), block.end(), [](char c) { return c == 0; })) return false;
      check(block);
      entry = {.path = name(block), .kind = block[156], .size = number(field(block, 124, 12))};
      if (entry.kind == 'L') {
        long_name = extended(entry);
        long_name = long_name.substr(0, long_name.find('\0'));
      } else if (entry.kind == 'x') {
        const std::string records = extended(entry);
        if (const std::string path = pax_path(records); !path.empty()) long_name = path;
      } else if (entry.kind == 'g') {
        extended(entry);
      } else {
        if (!long_name.empty()) entry.path = long_name;
        return true;
      }
    }
  }

  void skip_padding(std::uint64_t size) {
    TarBlock rest;
    read(rest.data(), static_cast<std::size_t>((kBlock - size % kBlock) % kBlock));
  }

 private:
  std::size_t read_some(char* data, std::size_t bytes) {
    const int got = gzread(file_.get(), data, static_cast<unsigned>(std::min<std::size_t>(bytes, 1 << 30)));
    int code = Z_OK;
    const char* const words = gzerror(file_.get(), &code);
    // A stream that is cut within its last bytes ends like a whole one but for this code.
    if (got < 0 || (got == 0 && code == Z_BUF_ERROR)) fail(std::string("it is damaged (") + words + ").");
    return static_cast<std::size_t>(got);
  }

  std::uint64_t number(std::string_view octal) const {
    std::uint64_t value = 0;
    for (const char c : octal) {
      if (c == ' ') continue;
      if (c < '0' || c > '7' || value >> 60 != 0) fail("an entry's size is not a number.");
      value = value * 8 + static_cast<std::uint64_t>(c - '0');
    }
    return value;
  }

  void check(const TarBlock& block) const {
    std::uint64_t sum = 8 * std::uint64_t{' '};  // the checksum's own field counts as spaces
    for (std::size_t i = 0; i < kBlock; ++i) {
      if (i < 148 || i >= 156) sum += static_cast<unsigned char>(block[i]);
    }
    if (number(field(block, 148, 8)) != sum)
      fail("it is not a tar archive, or is damaged (a header's checksum is wrong).");
  }

  static std::string name(const TarBlock& block) {
    const std::string last(field(block, 0, 100));
    const std::string_view prefix = field(block, 345, 155);
    const bool posix = field(block, 257, 5) == "ustar" && block[262] == '\0';
    return posix && !prefix.empty() ? std::string(prefix) + "/" + last : last;
  }

  std::string extended(const TarEntry& entry) {
    if (entry.size > kMostName) fail("an extended header is " + std::to_string(entry.size) + " bytes long.");
    std::string text(static_cast<std::size_t>(entry.size), '\0');
    read(text.data(), text.size());
    skip_padding(entry.size);
    return text;
  }

  // Records are "<length> <key>=<value>\n".
  std::string pax_path(std::string_view records) const {
    while (!records.empty()) {
      const std::size_t space = records.find(' ');
      std::size_t length = 0;
      for (const char c : records.substr(0, std::min<std::size_t>(space, 9))) {
        if (c < '0' || c > '9') fail("an extended header is malformed.");
        length = length * 10 + static_cast<std::size_t>(c - '0');
      }
      if (space > 9 || length <= space + 1 || length > records.size()) fail("an extended header is malformed.");
      const std::string_view record = records.substr(space + 1, length - space - 2);
      if (record.starts_with("path=")) return std::string(record.substr(5));
      if (record.starts_with("size=")) fail("an entry is larger than this reader takes.");
      records.remove_prefix(length);
    }
    return "";
  }

  std::string archive_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
};

// Below `folder` whatever the archive says.
fs::path inside(const TarReader& tar, const fs::path& folder, const std::string& name) {
  const fs::path path(name);
  const bool climbs = std::any_of(path.begin(), path.end(), [](const fs::path& part) { return part == ".."; });
  if (name.empty() || path.is_absolute() || climbs) tar.fail("the entry \"" + name + "\" would leave the folder.");
  return folder / path;
}

void write_entry(TarReader& tar, const TarEntry& entry, const fs::path& path) {
  fs::create_directories(path.parent_path());
  std::ofstream out(path, std::ios::binary);
  std::vector<char> buffer(static_cast<std::size_t>(std::min<std::uint64_t>(entry.size, 1 << 20)));
  for (std::uint64_t left = entry.size; left > 0 && out;) {
    const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(left, buffer.size()));
    tar.read(buffer.data(), part);
    out.write(buffer.data(), static_cast<std::streamsize>(part));
    left -= part;
  }
  out.close();
  if (!out) tar.fail("\"" + path.string() + "\" could not be written: is the disk full?");
  tar.skip_padding(entry.size);
}

}  // namespace

void unpack_tar(const std::string& archive, const std::string& folder, const TarOptions& options) {
  TarReader tar(archive);
  TarEntry entry;
  std::uint64_t bytes = 0, entries = 0;
  std::error_code unknown;
  const std::uint64_t size = fs::file_size(archive, unknown), packed = unknown ? 0 : size, most = most_unpacked(packed);
  try {
    while (tar.next(entry)) {
      if (++entries > options.most_entries)
        tar.fail("it has more than " + std::to_string(options.most_entries) + " entries.");
      const fs::path path = inside(tar, folder, entry.path);
      if (entry.kind == '5') {
        fs::create_directories(path);
      } else if (entry.kind == '0' || entry.kind == '\0') {
        if (entry.size > options.most_bytes - std::min(bytes, options.most_bytes))
          tar.fail("its files are larger than " + std::to_string(options.most_bytes) + " bytes.");
        if (entry.size > most - std::min(bytes, most)) tar.fail(too_much_unpacked(packed));
        write_entry(tar, entry, path);
        bytes += entry.size;
      } else {
        tar.fail("the entry \"" + entry.path + "\" is neither a file nor a folder.");
      }
      if (options.progress) options.progress(bytes);
    }
    tar.finish();
  } catch (const fs::filesystem_error& error) {
    tar.fail(error.what());
  }
  if (entries == 0) tar.fail("it is empty.");
}

}  // namespace varve::data
