#include "base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <utility>

#include "base/text.h"
#include "varve/error.h"

namespace varve {
namespace {

[[noreturn]] void fail(const char* doing, const std::filesystem::path& path, int error) {
  throw Error(cat("cannot ", doing, " \"", path.string(), "\": ", std::strerror(error), "."));
}

class Descriptor {
 public:
  explicit Descriptor(int file) : file_(file) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (file_ >= 0) ::close(file_);
  }
  int get() const { return file_; }

 private:
  int file_;
};

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

// The rename is on the disk only once its folder is.
void sync_folder(const std::filesystem::path& folder) {
  const Descriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0) fail("open the folder", folder, errno);
  // Some network file systems cannot sync a folder and say EINVAL: there is nothing more to be done there.
  if (::fsync(directory.get()) != 0 && errno != EINVAL) fail("flush the folder", folder, errno);
}

}  // namespace

std::vector<std::byte> read_file(const std::filesystem::path& path, std::uint64_t limit) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) fail("open", path, errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail("examine", path, errno);
  if (S_ISDIR(status.st_mode)) throw Error(cat("cannot read \"", path.string(), "\": it is a folder, not a file."));
  const auto too_large = [&](std::uint64_t size) {
    return Error(cat("\"", path.string(), "\" is too large: ", human_bytes(size), ", and at most ", human_bytes(limit),
                     " are expected."));
  };
  const std::uint64_t expected = static_cast<std::uint64_t>(status.st_size);
  if (expected > limit) throw too_large(expected);

  // The size is only a hint (pipes say 0, a file may be growing): read until the end, in space for one byte more.
  std::vector<std::byte> data;
  const auto grow = [&](std::uint64_t size) {
    try {
      data.resize(size);
    } catch (const std::exception&) {
      throw Error(cat("cannot read \"", path.string(), "\": no memory for its ", human_bytes(size), "."));
    }
  };
  grow(expected + 1);
  std::size_t filled = 0;
  for (;;) {
    const ssize_t got = ::read(file.get(), data.data() + filled, data.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read", path, errno);
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
    if (filled > limit) throw too_large(filled);
    if (filled == data.size()) grow(data.size() * 2);
  }
  data.resize(filled);
  return data;
}

std::uint64_t most_unpacked(std::uint64_t packed) {
  constexpr std::uint64_t kTimes = 32;
  double gigabytes = 1;
  if (const char* text = std::getenv("VARVE_UNPACK_GB")) {
    const std::string_view view(text);
    const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), gigabytes);
    if (error != std::errc() || end != view.data() + view.size() || !(gigabytes >= 0 && gigabytes <= 1e6))
      throw Error(cat("VARVE_UNPACK_GB: expected a number of gigabytes from 0 to 1000000, got \"", view, "\"."));
  }
  return std::max(static_cast<std::uint64_t>(gigabytes * 1e9),
                  packed > (std::uint64_t{1} << 56) ? packed : packed * kTimes);
}

std::string too_much_unpacked(std::uint64_t packed) {
  return cat("it unpacks to more than ", human_bytes(most_unpacked(packed)), ", from ", human_bytes(packed),
             ". If that is right, allow it: VARVE_UNPACK_GB=16 (gigabytes) in the environment.");
}

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  if (std::filesystem::is_directory(path_)) {
    throw Error(cat("cannot write \"", path_.string(), "\": it is a folder, not a file."));
  }
  // In the same folder, because a rename is atomic only within one file system.
  std::string pattern = path_.string() + ".XXXXXX";
  file_ = ::mkostemp(pattern.data(), O_CLOEXEC);
  if (file_ < 0) fail("create a file beside", path_, errno);
  temporary_ = pattern;
  // mkostemp makes it private; a finished file should follow the umask like any other.
  const mode_t mask = ::umask(0);
  ::umask(mask);
  static_cast<void>(::fchmod(file_, 0666 & ~mask));
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() noexcept {
  if (file_ < 0) return;
  ::close(std::exchange(file_, -1));
  ::unlink(temporary_.c_str());
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  if (file_ < 0) throw Error(cat("\"", path_.string(), "\" is already committed: nothing may be written after."));
  const char* p = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t put = ::write(file_, p, bytes);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail("write", path_, errno);
    p += put;
    bytes -= static_cast<std::size_t>(put);
  }
}

void AtomicFile::commit() {
  if (file_ < 0) throw Error(cat("\"", path_.string(), "\" is already committed."));
  if (::fsync(file_) != 0) fail("flush", path_, errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("rename a finished file to", path_, errno);
  ::close(std::exchange(file_, -1));
  sync_folder(folder_of(path_));
}

}  // namespace varve
