#include "data/tar_index.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string_view>

#include "base/text.h"

namespace varve::data {
namespace {

constexpr std::size_t kTarBlock = 512;
using Header = std::array<char, kTarBlock>;

std::string_view part_of(const Header& header, std::size_t begin, std::size_t size) {
  const std::string_view text(header.data() + begin, size);
  return text.substr(0, text.find('\0'));
}

class TarIndexer {
 public:
  explicit TarIndexer(const std::string& archive) : archive_(archive), file_(archive, std::ios::binary) {
    std::error_code error;
    bytes_ = std::filesystem::file_size(archive, error);
    if (error || !file_) throw Error(cat('"', archive, "\": could not be opened."));
  }

  std::vector<TarPlace> run() {
    constexpr std::size_t kMostFiles = 50'000'000;
    std::vector<TarPlace> places;
    Header header;
    while (at_ + kTarBlock <= bytes_) {
      file_.seekg(static_cast<std::streamoff>(at_));
      if (!file_.read(header.data(), kTarBlock)) fail("it cannot be read");
      if (std::all_of(header.begin(), header.end(), [](char c) { return c == 0; })) return places;
      at_ += kTarBlock;
      check(header);
      const std::uint64_t size = octal(part_of(header, 124, 12));
      if (size > bytes_ - at_) fail("it ends too early");
      const char kind = header[156];
      if (kind == 'L' || kind == 'K') fail("it holds names that are too long for plain headers");
      if (kind == '0' || kind == '\0') places.push_back({name(header), at_, size});
      at_ += (size + kTarBlock - 1) / kTarBlock * kTarBlock;
      if (places.size() > kMostFiles) fail("it holds too many files");
    }
    if (at_ != bytes_) fail("it ends too early");
    return places;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(cat('"', archive_, "\": bad archive at byte ", at_, ": ", what, "."));
  }
  std::uint64_t octal(std::string_view text) const {
    std::uint64_t value = 0;
    text = text.substr(std::min(text.find_first_not_of(' '), text.size()));
    for (const char c : text.substr(0, text.find(' '))) {
      if (c < '0' || c > '7') fail("a number is not octal");
      value = value * 8 + static_cast<std::uint64_t>(c - '0');
    }
    return value;
  }
  // All bytes of a header, those of the sum itself as spaces.
  void check(const Header& header) const {
    std::uint64_t sum = 8 * ' ';
    for (std::size_t i = 0; i < kTarBlock; ++i)
      if (i < 148 || i >= 156) sum += static_cast<unsigned char>(header[i]);
    if (sum != octal(part_of(header, 148, 8)))
      fail("the checksum of a header is wrong (is it packed? unpack it first)");
  }
  static std::string name(const Header& header) {
    const std::string name(part_of(header, 0, 100)), prefix(part_of(header, 345, 155));
    const bool posix = part_of(header, 257, 5) == "ustar";
    return posix && !prefix.empty() ? prefix + "/" + name : name;
  }

  const std::string& archive_;
  std::ifstream file_;
  std::uint64_t bytes_ = 0, at_ = 0;
};

}  // namespace

std::vector<TarPlace> tar_index(const std::string& archive) { return TarIndexer(archive).run(); }

std::string read_place(const std::string& archive, const TarPlace& place) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 32;
  if (place.size > kMostBytes) throw Error(cat('"', archive, "\": \"", place.name, "\" is too large."));
  std::ifstream file(archive, std::ios::binary);
  std::string bytes(place.size, '\0');
  if (!file.seekg(static_cast<std::streamoff>(place.offset)) ||
      !file.read(bytes.data(), static_cast<std::streamsize>(place.size)))
    throw Error(cat('"', archive, "\": \"", place.name, "\" could not be read."));
  return bytes;
}

}  // namespace varve::data
