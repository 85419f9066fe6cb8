#include "data/class_folders.h"

#include <algorithm>

#include "base/text.h"
#include "data/lists.h"

namespace varve::data {
namespace {

namespace fs = std::filesystem;

bool hidden(const fs::path& path) { return path.filename().string().starts_with("."); }

std::vector<std::string> folders_in(const fs::path& path) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
    if (entry.is_directory() && !hidden(entry.path())) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string asides(const ClassFiles& files) {
  return files.skipped.empty() ? "" : cat(" Skipped: ", some_quoted(files.skipped), ".");
}

ClassFiles list_part(const fs::path& path, const std::vector<std::string>& classes, const FileKind& kind) {
  ClassFiles all;
  for (const std::string& name : folders_in(path)) {
    const auto found = std::find(classes.begin(), classes.end(), name);
    if (found == classes.end())
      throw Error(cat('"', (path / name).string(), "\": the training part has no class \"", name, "\"."));
    const auto begin = std::ssize(all.files);
    for (const fs::directory_entry& entry : fs::directory_iterator(path / name)) {
      if (hidden(entry.path())) continue;
      const bool read = entry.is_regular_file() && kind.accepts(entry.path().string());
      (read ? all.files : all.skipped).push_back(entry.path().string());
    }
    std::sort(all.files.begin() + begin, all.files.end());
    all.labels.resize(all.files.size(), static_cast<std::int32_t>(found - classes.begin()));
  }
  std::sort(all.skipped.begin(), all.skipped.end());
  if (all.files.empty())
    throw Error(cat('"', path.string(), "\": no ", kind.what, " that can be read in its folders.", asides(all)));
  return all;
}

// A class that nothing can be learnt of would be an output for nothing.
void check_classes(const fs::path& path, const std::vector<std::string>& classes, const ClassFiles& train,
                   const FileKind& kind) {
  for (std::size_t i = 0; i < classes.size(); ++i)
    if (std::find(train.labels.begin(), train.labels.end(), static_cast<std::int32_t>(i)) == train.labels.end())
      throw Error(cat('"', (path / classes[i]).string(), "\": the class has no ", kind.what, " that can be read.",
                      asides(train)));
}

ClassFolders list_all(const fs::path& path, const FileKind& kind) {
  if (!fs::is_directory(path)) throw Error(cat('"', path.string(), "\" is not a folder of ", kind.what, "."));
  const bool parted = fs::is_directory(path / "train");
  const fs::path train = parted ? path / "train" : path;
  ClassFolders all;
  all.name = fs::absolute(path).lexically_normal().filename().string();
  all.classes = folders_in(train);
  if (all.classes.empty())
    throw Error(
        cat('"', train.string(), "\" has no folders: expected one for each class, with ", kind.what, " in it."));
  all.train = list_part(train, all.classes, kind);
  check_classes(train, all.classes, all.train, kind);
  if (!parted) return all;
  if (fs::is_directory(path / "test")) all.test = list_part(path / "test", all.classes, kind);
  const fs::path validation = fs::is_directory(path / "val") ? path / "val" : path / "validation";
  if (fs::is_directory(validation))
    (all.test.empty() ? all.test : all.validation) = list_part(validation, all.classes, kind);
  return all;
}

}  // namespace

ClassFolders list_class_folders(const std::string& path, const FileKind& kind) {
  try {
    return list_all(path, kind);
  } catch (const fs::filesystem_error& error) {
    throw Error(cat(kind.who, ": ", error.what()));
  }
}

}  // namespace varve::data
