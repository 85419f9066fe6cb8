#include "train/run_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "train/run_folder.h"
#include "varve/error.h"

namespace varve::train {
namespace {

namespace fs = std::filesystem;

std::string lock_path(const std::string& folder) { return folder + "/.lock"; }

// What the holder wrote there. It may be about to: then nobody is named.
std::string read_holder(int file) {
  std::array<char, 300> text{};
  const ssize_t count = ::pread(file, text.data(), text.size(), 0);
  std::string holder(text.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  holder = holder.substr(0, holder.find('\n'));
  return holder.empty() ? "another process" : holder;
}

// Locks of this kind belong to the open file, not to the process: two runs in one process exclude each other as well,
// and one can ask for the holder without taking the lock.
struct flock whole_file() {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

std::string this_process() {
  std::array<char, 256> host{};
  const bool known = ::gethostname(host.data(), host.size() - 1) == 0;
  return "process " + std::to_string(::getpid()) + (known ? std::string(" on ") + host.data() : "");
}

// The holder removes the file when it is done, so a lock may be of a file that is no longer there.
bool still_there(int file, const std::string& path) {
  struct stat open {
  }, now{};
  return ::fstat(file, &open) == 0 && ::stat(path.c_str(), &now) == 0 && open.st_ino == now.st_ino &&
         open.st_dev == now.st_dev;
}

// AtomicFile writes beside a file, under its name and six letters or digits.
bool is_leftover(const std::string& name) {
  const auto mark = name.size() > 7 ? name.size() - 7 : std::string::npos;
  if (mark == std::string::npos || name[mark] != '.') return false;
  const auto plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  if (!std::all_of(name.begin() + static_cast<std::ptrdiff_t>(mark) + 1, name.end(), plain)) return false;
  const auto& files = run_files();
  return std::find(files.begin(), files.end(), name.substr(0, mark)) != files.end();
}

void remove_leftovers(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (is_leftover(at->path().filename().string()) && at->is_regular_file(error)) found.push_back(at->path());
  for (const fs::path& path : found) fs::remove(path, error);
}

const std::string& made(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw Error("\"" + folder + "\": cannot make this folder: " + error.message() + ".");
  return folder;
}

}  // namespace

RunLock::RunLock(const std::string& folder) : path_(lock_path(folder)) {
  do {
    if (file_ >= 0) ::close(file_);
    file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file_ < 0) throw Error("\"" + folder + "\": cannot write in this folder: " + std::strerror(errno) + ".");
    // Where a file system knows no locks, two writers are as they would be without this.
    struct flock lock = whole_file();
    if (::fcntl(file_, F_OFD_SETLK, &lock) != 0 && (errno == EAGAIN || errno == EACCES)) {
      const std::string holder = read_holder(file_);
      ::close(std::exchange(file_, -1));
      throw Error(
          "\"" + folder + "\" is being written by " + holder +
          ": two runs in one folder would spoil each other. Wait until it ends, stop it, or name another folder.");
    }
  } while (!still_there(file_, path_));
  const std::string holder = this_process() + '\n';
  if (::ftruncate(file_, 0) == 0) static_cast<void>(!::pwrite(file_, holder.data(), holder.size(), 0));
}

RunLock::~RunLock() {
  if (file_ < 0) return;
  if (still_there(file_, path_)) ::unlink(path_.c_str());
  ::close(file_);
}

std::string holder_of(const std::string& folder) {
  const int file = ::open(lock_path(folder).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return "";
  struct flock lock = whole_file();
  const bool held = ::fcntl(file, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  const std::string holder = held ? read_holder(file) : "";
  ::close(file);
  return holder;
}

RunFolder::RunFolder(const std::string& folder) : folder_(folder), lock_(made(folder)) {
  remove_leftovers(folder_);
  std::error_code error;
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error))
    kept_ = kept_ || at->path() != fs::path(lock_path(folder_));
}

RunFolder::~RunFolder() {
  std::error_code ignored;
  if (!kept_) fs::remove_all(folder_, ignored);
}

}  // namespace varve::train
