// Text and bytes in files; what is gzip comes unpacked.
#include <zlib.h>

#include <algorithm>
#include <exception>
#include <span>

#include "base/files.h"
#include "base/text.h"
#include "varve/io.h"

namespace varve {
namespace {

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 3 && bytes[0] == std::byte{0x1F} && bytes[1] == std::byte{0x8B} && bytes[2] == std::byte{8};
}

// Unpacks one member after another, as gzip itself does with files that were joined.
class Gunzip {
 public:
  Gunzip(std::span<const std::byte> packed, std::uint64_t limit, const std::string& source)
      : packed_(packed), limit_(limit), source_(source) {
    constexpr int gzip_only = 16;
    if (inflateInit2(&stream_, gzip_only + MAX_WBITS) != Z_OK) fail("zlib cannot start.");
  }
  Gunzip(const Gunzip&) = delete;
  Gunzip& operator=(const Gunzip&) = delete;
  ~Gunzip() { inflateEnd(&stream_); }

  std::vector<std::uint8_t> run() {
    int status = Z_OK;
    while (status != Z_STREAM_END || at_ < packed_.size()) {
      if (status == Z_STREAM_END) begin_member();
      if (filled_ == out_.size()) grow();
      status = step();
      if (status == Z_BUF_ERROR) fail("the packed data end too early. Is it cut short?");
      if (status != Z_OK && status != Z_STREAM_END) fail("the packed data are damaged.");
    }
    out_.resize(filled_);
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw Error(cat(source_, ": bad gzip file: ", what)); }

  void begin_member() {
    if (!is_gzip(packed_.subspan(at_))) fail(cat(packed_.size() - at_, " bytes after its end are not gzip."));
    inflateReset(&stream_);
  }

  // One byte beyond the limit tells a file that just fits from one that does not.
  void grow() {
    const std::uint64_t first = packed_.size() * 4 + 4096, next = out_.empty() ? first : out_.size() * 2;
    try {
      out_.resize(std::min(next, limit_ + 1));
    } catch (const std::exception&) {
      fail(cat("no memory for ", human_bytes(next), "."));
    }
  }

  // zlib counts in 32 bits, hence the pieces.
  int step() {
    constexpr std::size_t piece = std::size_t{1} << 30;
    const std::size_t in = std::min(packed_.size() - at_, piece), out = std::min(out_.size() - filled_, piece);
    // zlib's old signature: it does not write there.
    stream_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(packed_.data() + at_));
    stream_.next_out = out_.data() + filled_;
    stream_.avail_in = static_cast<uInt>(in);
    stream_.avail_out = static_cast<uInt>(out);
    const int status = inflate(&stream_, Z_NO_FLUSH);
    at_ += in - stream_.avail_in;
    filled_ += out - stream_.avail_out;
    if (filled_ > limit_ && limit_ == most_unpacked(packed_.size())) fail(too_much_unpacked(packed_.size()));
    if (filled_ > limit_) fail(cat("it unpacks to more than ", human_bytes(limit_), ", the most that is expected."));
    return status;
  }

  std::span<const std::byte> packed_;
  std::uint64_t limit_;
  const std::string& source_;
  z_stream stream_{};
  std::size_t at_ = 0, filled_ = 0;
  std::vector<std::uint8_t> out_;
};

}  // namespace

void save_text(const std::string& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

std::string load_text(const std::string& path, std::uint64_t limit) {
  const std::vector<std::byte> bytes = read_file(path, limit);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<std::uint8_t> load_bytes(const std::string& path, std::uint64_t limit) {
  const std::vector<std::byte> bytes = read_file(path, limit);
  const std::string source = cat('"', path, '"');
  if (is_gzip(bytes)) return Gunzip(bytes, std::min(limit, most_unpacked(bytes.size())), source).run();
  const auto* const begin = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return {begin, begin + bytes.size()};
}

}  // namespace varve
