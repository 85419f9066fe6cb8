// What kind of data a path is, so that nobody has to say.
#include <array>
#include <filesystem>
#include <utility>

#include "varve/data.h"

namespace varve::data {
namespace {

namespace fs = std::filesystem;

std::string kind_of_file(const std::string& path) {
  constexpr std::array<std::pair<const char*, const char*>, 5> kEndings = {
      {{".csv", "csv"}, {".tsv", "csv"}, {".npz", "npz"}, {".jsonl", "jsonl"}, {".txt", "chars"}}};
  for (const auto& [ending, kind] : kEndings)
    if (path.ends_with(ending)) return kind;
  return "";
}

// By the first file in it that is of a known kind.
std::string kind_of_folder(const fs::path& path) {
  constexpr int kMostLookedAt = 10'000;
  std::error_code error;
  if (fs::is_directory(path / "JPEGImages", error)) return "voc";
  int looked_at = 0;
  for (fs::recursive_directory_iterator at(path, error), end; !error && at != end && looked_at < kMostLookedAt;
       at.increment(error), ++looked_at) {
    const std::string file = at->path().string();
    if (has_picture_name(file)) return "folder";
    if (has_sound_name(file)) return "audio";
    // A text among others is in the folder of its class; one beside the classes says something about them.
    if (file.ends_with(".txt") && at.depth() > 0) return "text";
  }
  return "folder";
}

}  // namespace

std::string kind_of_path(const std::string& path) {
  std::error_code ignored;
  if (path.find('*') != std::string::npos) return "shards";
  return fs::is_directory(path, ignored) ? kind_of_folder(path) : kind_of_file(path);
}

}  // namespace varve::data
