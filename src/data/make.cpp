// Data sets of made-up files.
#include "data/make.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/text.h"

namespace varve::data {
namespace {

using Maker = void (*)(const std::string& folder, const MakeOptions& options);

const std::vector<std::pair<std::string, Maker>>& makers() {
  static const std::vector<std::pair<std::string, Maker>> all = {{"shapes", make_shapes},
                                                                 {"photos", make_photos},
                                                                 {"sounds", make_sounds},
                                                                 {"speech", make_speech},
                                                                 {"reviews", make_reviews}};
  return all;
}

}  // namespace

std::vector<std::string> make_kinds() {
  std::vector<std::string> names;
  for (const auto& [name, maker] : makers()) names.push_back(name);
  return names;
}

void make_files(const std::string& kind, const std::string& folder, const MakeOptions& options) {
  constexpr std::int64_t kMostSamples = 1'000'000;
  if (options.samples < 4 || options.samples > kMostSamples)
    throw Error(cat("make_files: expected 4 to ", kMostSamples, " samples, got ", options.samples, "."));
  for (const auto& [name, maker] : makers()) {
    if (name != kind) continue;
    std::error_code error;
    if (std::filesystem::exists(folder, error) && !std::filesystem::is_empty(folder, error))
      throw Error(cat("make_files: \"", folder, "\" is there already, and is no empty folder."));
    try {
      std::filesystem::create_directories(folder);
      maker(folder, options);
    } catch (const std::filesystem::filesystem_error& failed) {
      throw Error(cat("make_files: ", failed.what()));
    }
    return;
  }
  throw Error(cat("make_files: unknown kind '", kind, "'.",
                  did_you_mean(kind, make_kinds(), cat(" Known: ", quoted_list(make_kinds()), "."))));
}

}  // namespace varve::data
