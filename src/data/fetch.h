// Where the files of the known data sets live, here and in the world, and how they get here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "varve/data.h"

namespace varve::data {

// One file to download: kept as it is, or an archive that unpacks to `holds`. Paths are below root().
struct Remote {
  std::string path;                // "mnist/train-images-idx3-ubyte.gz"
  std::string hash;                // MD5 (32 digits) or SHA-256 (64)
  std::int64_t bytes = 0;          // to download, about
  std::vector<std::string> holds;  // of an archive: files and folders that are there when it was unpacked
};

struct Home {
  std::string name, folder;          // "mnist"; below root()
  std::vector<std::string> mirrors;  // base URLs, tried in turn: a mirror's URL ends where a file's own name begins
  std::vector<Remote> files;
};

const Home& home(const std::string& name);  // of a set in the catalogue
bool present(const Home& home);             // everything is here, or waits here as an archive

// Makes everything present, by download where allowed. VARVE_DATA_MIRROR, a base URL, takes the place of the known
// mirrors; files lie below it under the names they have below root().
void fetch(const Home& home, const FetchOptions& options);

// root() / relative; with ".gz" or without, whichever is there (with it when neither is).
std::string local_path(const std::string& relative);

}  // namespace varve::data
