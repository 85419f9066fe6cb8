// Reading zip archives (APPNOTE.TXT of PKWARE, sections 4.3 to 4.5).
#include "io/zip.h"

#include <zlib.h>

#include <algorithm>
#include <exception>
#include <set>

#include "base/files.h"
#include "base/text.h"
#include "varve/error.h"

namespace varve::io {
namespace {

constexpr std::uint32_t kEntrySignature = 0x02014B50, kLocalSignature = 0x04034B50, kEndSignature = 0x06054B50;
constexpr std::uint32_t kEnd64Signature = 0x06064B50, kLocator64Signature = 0x07064B50;

// Bytes of the archive, read only within bounds.
class View {
 public:
  View(std::span<const std::byte> bytes, std::string_view source) : bytes_(bytes), source_(source) {}

  void check(std::uint64_t at, std::uint64_t count) const {
    if (at > bytes_.size() || count > bytes_.size() - at) {
      fail(cat(count, " bytes at position ", at, " are past its end, at ", bytes_.size(), ". Is it cut short?"));
    }
  }
  std::span<const std::byte> bytes(std::uint64_t at, std::uint64_t count) const {
    check(at, count);
    return bytes_.subspan(at, count);
  }
  std::uint64_t number(std::uint64_t at, std::size_t width) const {
    std::uint64_t value = 0;
    const std::span<const std::byte> from = bytes(at, width);
    for (std::size_t i = width; i-- > 0;) value = value << 8 | std::to_integer<std::uint64_t>(from[i]);
    return value;
  }
  std::uint64_t u16(std::uint64_t at) const { return number(at, 2); }
  std::uint64_t u32(std::uint64_t at) const { return number(at, 4); }
  std::uint64_t u64(std::uint64_t at) const { return number(at, 8); }
  std::string text(std::uint64_t at, std::uint64_t count) const {
    const std::span<const std::byte> from = bytes(at, count);
    return {reinterpret_cast<const char*>(from.data()), from.size()};
  }
  std::uint64_t size() const { return bytes_.size(); }
  [[noreturn]] void fail(const std::string& what) const { throw Error(cat(source_, ": bad zip archive: ", what)); }

 private:
  std::span<const std::byte> bytes_;
  std::string_view source_;
};

struct Directory {
  std::uint64_t at = 0, size = 0, entries = 0;
};

// The end record stands last, followed by a comment of up to 65535 bytes.
std::uint64_t find_end(const View& file) {
  constexpr std::uint64_t record = 22;
  if (file.size() < record) file.fail(cat("it has only ", file.size(), " bytes."));
  const std::uint64_t last = file.size() - record;
  for (std::uint64_t back = 0; back <= std::min<std::uint64_t>(last, 0xFFFF); ++back) {
    if (file.u32(last - back) == kEndSignature && file.u16(last - back + 20) == back) return last - back;
  }
  file.fail("it has no end record. Is it a zip file, and complete?");
}

Directory find_directory(const View& file) {
  const std::uint64_t end = find_end(file);
  Directory directory{.at = file.u32(end + 16), .size = file.u32(end + 12), .entries = file.u16(end + 10)};
  const std::uint64_t on_this_disk = file.u16(end + 8);
  if (file.u16(end + 4) != file.u16(end + 6) || on_this_disk != directory.entries) {
    file.fail("it is one part of several.");
  }
  const bool in_64 = directory.at == kIn64 || directory.size == kIn64 || directory.entries == 0xFFFF;
  if (in_64 && end >= 20 && file.u32(end - 20) == kLocator64Signature) {
    const std::uint64_t end64 = file.u64(end - 12);
    file.check(end64, 56);
    if (file.u32(end64) != kEnd64Signature) file.fail("its 64-bit end record is missing.");
    directory = {.at = file.u64(end64 + 48), .size = file.u64(end64 + 40), .entries = file.u64(end64 + 32)};
  }
  file.check(directory.at, directory.size);  // within the file
  if (directory.entries > directory.size / 46) file.fail(cat(directory.entries, " entries do not fit its directory."));
  return directory;
}

struct Record {
  std::string name;
  std::uint64_t flags = 0, method = 0, crc = 0, packed = 0, size = 0, local = 0;
};

// Fields that did not fit 32 bits follow in extra field 1, in this order, and only those.
void read_sizes64(const View& file, std::uint64_t at, std::uint64_t length, Record& record) {
  std::uint64_t* const fields[] = {&record.size, &record.packed, &record.local};
  if (std::none_of(std::begin(fields), std::end(fields), [](auto* f) { return *f == kIn64; })) return;
  const std::uint64_t end = at + length;
  while (at + 4 <= end) {
    const std::uint64_t id = file.u16(at), size = file.u16(at + 2);
    at += 4;
    if (size > end - at) break;
    if (id == 1) {
      std::uint64_t next = at;
      for (std::uint64_t* field : fields) {
        if (*field != kIn64) continue;
        if (next + 8 > at + size) file.fail(cat("entry \"", record.name, "\": its 64-bit sizes are cut short."));
        *field = file.u64(next);
        next += 8;
      }
      return;
    }
    at += size;
  }
}

// Reads the record at `at`, and moves `at` to the next one.
Record read_record(const View& file, std::uint64_t& at) {
  file.check(at, 46);
  if (file.u32(at) != kEntrySignature) file.fail("its directory is damaged.");
  Record r{.name = {},
           .flags = file.u16(at + 8),
           .method = file.u16(at + 10),
           .crc = file.u32(at + 16),
           .packed = file.u32(at + 20),
           .size = file.u32(at + 24),
           .local = file.u32(at + 42)};
  const std::uint64_t name = file.u16(at + 28), extra = file.u16(at + 30), comment = file.u16(at + 32);
  r.name = file.text(at + 46, name);
  file.check(at + 46 + name, extra + comment);
  read_sizes64(file, at + 46 + name, extra, r);
  at += 46 + name + extra + comment;
  return r;
}

// Where the entry's bytes begin. The local header repeats the record; only its length counts, but its name must agree.
std::uint64_t data_position(const View& file, const Record& record) {
  file.check(record.local, 30);
  const std::uint64_t name = file.u16(record.local + 26), extra = file.u16(record.local + 28);
  if (file.u32(record.local) != kLocalSignature || file.text(record.local + 30, name) != record.name) {
    file.fail(cat("entry \"", record.name, "\" is not where the directory says."));
  }
  return record.local + 30 + name + extra;
}

class Inflater {
 public:
  explicit Inflater(const View& file) {
    if (inflateInit2(&stream_, -MAX_WBITS) != Z_OK) file.fail("zlib cannot start.");  // negative: no zlib header
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream_); }

  // True when `from` unpacks to exactly `to`. zlib counts in 32 bits, hence the pieces.
  bool run(std::span<const std::byte> from, std::span<std::byte> to) {
    constexpr std::size_t piece = std::size_t{1} << 30;
    stream_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(from.data()));  // zlib's old signature
    stream_.next_out = reinterpret_cast<Bytef*>(to.data());
    std::size_t in_left = from.size(), out_left = to.size();
    Bytef nothing = 0;
    if (to.empty()) stream_.next_out = &nothing;
    int status = Z_OK;
    while (status == Z_OK) {
      const std::size_t in = std::min(in_left, piece), out = std::min(out_left, piece);
      stream_.avail_in = static_cast<uInt>(in);
      stream_.avail_out = static_cast<uInt>(out);
      status = inflate(&stream_, Z_NO_FLUSH);
      in_left -= in - stream_.avail_in;
      out_left -= out - stream_.avail_out;
    }
    return status == Z_STREAM_END && in_left == 0 && out_left == 0;
  }

 private:
  z_stream stream_{};
};

std::vector<std::byte> unpack(const View& file, const Record& record, std::uint64_t most) {
  const std::string entry = cat("entry \"", record.name, "\"");
  if ((record.flags & 1) != 0) file.fail(cat(entry, " is encrypted. Write it again without a password."));
  const std::span<const std::byte> packed = file.bytes(data_position(file, record), record.packed);
  std::vector<std::byte> data;
  if (record.method == 0) {
    if (record.size != record.packed) file.fail(cat(entry, " is stored, with two different sizes."));
    data.assign(packed.begin(), packed.end());
  } else if (record.method == 8) {
    // Deflate packs at most 1032 to 1, so a larger claim is a lie, and not worth the memory.
    if (record.size / 1032 > record.packed) {
      file.fail(cat(entry, " cannot hold ", record.size, " bytes in ", record.packed, " packed ones."));
    }
    if (record.size > most) file.fail(cat(entry, ": ", too_much_unpacked(file.size())));
    try {
      data.resize(record.size);
    } catch (const std::exception&) {
      file.fail(cat(entry, ": no memory for its ", human_bytes(record.size), "."));
    }
    if (!Inflater(file).run(packed, data)) file.fail(cat(entry, ": its packed data are damaged."));
  } else {
    file.fail(
        cat(entry, ": compression method ", record.method, " is not supported: expected 0 (stored) or 8 (deflated)."));
  }
  const std::uint64_t crc = crc32_z(0, reinterpret_cast<const Bytef*>(data.data()), data.size());
  if (crc != record.crc) file.fail(cat(entry, ": the checksum of its data is wrong. The file is damaged."));
  return data;
}

}  // namespace

std::vector<ZipEntry> read_zip(std::span<const std::byte> bytes, std::string_view source) {
  const View file(bytes, source);
  const Directory directory = find_directory(file);
  std::vector<ZipEntry> entries;
  std::set<std::string> names;
  std::uint64_t at = directory.at, packed = 0, left = most_unpacked(bytes.size());
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    const Record record = read_record(file, at);
    if (!names.insert(record.name).second) file.fail(cat("entry \"", record.name, "\" is there twice."));
    // Entries that share their bytes would multiply a small file into a huge one.
    if (record.packed > file.size() - packed) file.fail("its entries overlap.");
    packed += record.packed;
    entries.push_back({record.name, unpack(file, record, left)});
    left -= record.size;
  }
  if (at - directory.at != directory.size) file.fail("its directory has another size than the end record says.");
  return entries;
}

}  // namespace varve::io
