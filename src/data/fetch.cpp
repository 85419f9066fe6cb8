#include "data/fetch.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "data/fetch_curl.h"
#include "data/fetch_hash.h"
#include "data/fetch_progress.h"
#include "data/fetch_tar.h"

namespace varve::data {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// A name beside `path` that is removed again when it was not renamed away.
class Temporary {
 public:
  explicit Temporary(const fs::path& path) : path_(path.string() + ".part-" + std::to_string(getpid())) {}
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

bool here(const Remote& file) {
  const auto exists = [](const std::string& relative) { return fs::exists(local_path(relative)); };
  return file.holds.empty() ? exists(file.path) : std::all_of(file.holds.begin(), file.holds.end(), exists);
}

bool archive_waits(const Remote& file) { return !file.holds.empty() && fs::exists(fs::path(root()) / file.path); }

std::string file_name(const Remote& file) { return fs::path(file.path).filename().string(); }

std::string by_hand(const Home& home) {
  std::string names;
  for (const Remote& file : home.files) names += (names.empty() ? "" : ", ") + file.path;
  std::string urls;
  for (const std::string& mirror : home.mirrors) urls += "\n    " + mirror;
  return "\n  To place them by hand, put " + names + "\n  below " + root() +
         " (or set VARVE_DATA to the folder that holds them). They are found at" + urls +
         "\n  or on a server of yours that VARVE_DATA_MIRROR names.";
}

std::vector<std::string> urls(const Home& home, const Remote& file) {
  std::string own = environment("VARVE_DATA_MIRROR");
  if (!own.empty()) return {own + (own.ends_with('/') ? "" : "/") + file.path};
  std::vector<std::string> found;
  for (const std::string& mirror : home.mirrors) found.push_back(mirror + file_name(file));
  return found;
}

void check_hash(const Remote& file, const fs::path& path) {
  const std::string found = file_hash(path.string(), file.hash);
  if (found == file.hash) return;
  throw Error("its checksum is " + found + ", not " + file.hash + ": it is damaged or another version.");
}

void download(const Home& home, const Remote& file, const fs::path& target, const FetchOptions& options) {
  std::string failures;
  for (const std::string& url : urls(home, file)) {
    const Temporary temporary(target);
    try {
      Progress progress(file_name(file), {.unit = Progress::Unit::bytes, .quiet = options.quiet});
      transfer(url, temporary.path().string(),
               [&](std::int64_t done, std::int64_t total) { progress.update(done, total); });
      check_hash(file, temporary.path());
      fs::rename(temporary.path(), target);
      return;
    } catch (const Error& error) {
      failures += "\n    " + url + ": " + error.what();
    }
  }
  throw Error(home.name + ": " + file.path + " is missing and could not be downloaded:" + failures + by_hand(home));
}

// Unpacked beside its final place: folders appear whole or not at all, unless a part of them was there before.
void unpack(const Home& home, const Remote& file, const FetchOptions& options) {
  const fs::path archive = fs::path(root()) / file.path;
  const Temporary folder(archive);
  Progress progress("unpacking " + file_name(file),
                    {.unit = Progress::Unit::bytes, .quiet = options.quiet, .after = 1});
  fs::create_directories(folder.path());
  unpack_tar(archive.string(), folder.path().string(),
             {.progress = [&](std::uint64_t bytes) { progress.update(static_cast<std::int64_t>(bytes), 0); }});
  for (const fs::directory_entry& top : fs::directory_iterator(folder.path())) {
    const fs::path target = fs::path(root()) / top.path().filename();
    std::error_code error;
    fs::rename(top.path(), target, error);
    if (error) fs::copy(top.path(), target, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  }
  if (!here(file)) throw Error(home.name + ": " + archive.string() + " does not hold what it should." + by_hand(home));
}

}  // namespace

std::string root() {
  if (const std::string set = environment("VARVE_DATA"); !set.empty()) return set;
  if (const std::string cache = environment("XDG_CACHE_HOME"); !cache.empty()) return cache + "/varve/datasets";
  if (const std::string user = environment("HOME"); !user.empty()) return user + "/.cache/varve/datasets";
  return ".varve/datasets";
}

std::string local_path(const std::string& relative) {
  const fs::path path = fs::path(root()) / relative;
  if (path.extension() == ".gz" && !fs::exists(path)) {
    if (fs::path plain = path; fs::exists(plain.replace_extension())) return plain.string();
  }
  return path.string();
}

bool present(const Home& home) {
  return std::all_of(home.files.begin(), home.files.end(),
                     [](const Remote& file) { return here(file) || archive_waits(file); });
}

void fetch(const Home& home, const FetchOptions& options) {
  try {
    for (const Remote& file : home.files) {
      if (here(file)) continue;
      const fs::path target = fs::path(root()) / file.path;
      const bool placed = archive_waits(file);  // by the user, who may want to keep it
      if (!placed && !options.download) {
        throw Error(home.name + ": " + target.string() + " is missing, and downloading was not allowed." +
                    by_hand(home));
      }
      fs::create_directories(target.parent_path());
      if (!placed) download(home, file, target, options);
      if (!file.holds.empty()) unpack(home, file, options);
      if (!file.holds.empty() && !placed) fs::remove(target);
    }
  } catch (const fs::filesystem_error& error) {
    throw Error(home.name + ": " + error.what());
  }
}

}  // namespace varve::data
