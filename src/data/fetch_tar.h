// Archives, unpacked without trusting them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace varve::data {

struct TarOptions {
  std::uint64_t most_bytes = std::uint64_t{1} << 33;  // of all files together
  std::uint64_t most_entries = 1'000'000;
  std::function<void(std::uint64_t bytes)> progress = {};  // unpacked so far
};

// Folders and plain files of a .tar.gz (or .tar) go below `folder`, which exists. Absolute paths, "..", links, devices,
// wrong checksums and short files are Errors that name the archive and the entry.
void unpack_tar(const std::string& archive, const std::string& folder, const TarOptions& options = {});

}  // namespace varve::data
