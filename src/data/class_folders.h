// Files in a folder for each class: path/class/file, or path/train/class/file beside test/ and val/.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "varve/data.h"

namespace varve::data {

struct ClassFiles {
  std::vector<std::string> files;    // by class, and in it by name
  std::vector<std::int32_t> labels;  // of each
  std::vector<std::string> skipped;  // files of another kind
  bool empty() const { return files.empty(); }
};

// Which files are read, and how messages call them: "pictures".
struct FileKind {
  const char* who;
  const char* what;
  std::function<bool(const std::string& path)> accepts;
};

struct ClassFolders {
  std::string name;  // of the folder
  std::vector<std::string> classes;
  ClassFiles train, validation, test;  // empty where there is no such folder
};
// Error when there is no folder, when it has no classes, and when a class has no files that are read.
ClassFolders list_class_folders(const std::string& path, const FileKind& kind);

}  // namespace varve::data
