#include <array>
#include <limits>

#include "base/files.h"
#include "base/text.h"
#include "io/npy.h"
#include "io/zip.h"
#include "varve/error.h"

namespace varve::io {

constexpr std::string_view kSuffix = ".npy";

std::map<std::string, NpyArray> parse_npz(std::span<const std::byte> file, std::string_view source) {
  std::map<std::string, NpyArray> arrays;
  for (ZipEntry& entry : read_zip(file, source)) {
    if (!std::string_view(entry.name).ends_with(kSuffix)) {
      throw Error(cat(source, ": entry \"", entry.name, "\" is not an array: the names in a .npz file end in .npy."));
    }
    arrays[entry.name.substr(0, entry.name.size() - kSuffix.size())] =
        parse_npy(entry.data, cat(source, ", entry \"", entry.name, "\""));
    entry.data = {};  // large archives: at most one array is held twice
  }
  return arrays;
}

std::map<std::string, NpyArray> read_npz(const std::filesystem::path& path) {
  const std::vector<std::byte> file = read_file(path, std::numeric_limits<std::int64_t>::max());
  return parse_npz(file, cat("\"", path.string(), "\""));
}

void write_npz(const std::filesystem::path& path, const std::map<std::string, NpyArray>& arrays) {
  AtomicFile file(path);
  ZipWriter zip([&](const void* data, std::size_t bytes) { file.write(data, bytes); });
  for (const auto& [name, array] : arrays) {
    const std::string header = npy_header(array);
    const std::array<std::span<const std::byte>, 2> parts = {std::as_bytes(std::span(header)), array.data};
    zip.add(name + std::string(kSuffix), parts);
  }
  zip.finish();
  file.commit();
}

}  // namespace varve::io
