// What an archive holds and where, without unpacking it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace varve::data {

struct TarPlace {
  std::string name;
  std::uint64_t offset = 0, size = 0;
};
// The plain files of an unpacked .tar. Error that names the archive when it is damaged or holds names that are too long
// for its plain headers.
std::vector<TarPlace> tar_index(const std::string& archive);
std::string read_place(const std::string& archive, const TarPlace& place);

}  // namespace varve::data
