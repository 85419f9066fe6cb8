// `varve datasets`: what there is to learn from, and a look at it.
#include <algorithm>
#include <charconv>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/menu.h"
#include "cli/text.h"
#include "varve/compile.h"
#include "varve/data.h"
#include "varve/io.h"
#include "varve/train/config.h"

namespace varve::cli {
namespace {

struct DatasetsOptions {
  std::string name;
  std::vector<std::string> settings;  // options of the data set
  std::string sheet;                  // a PNG of samples
  bool get = false;
  bool json = false;
};

constexpr const char* kDatasetsExamples = R"(Examples:
  varve datasets                           all of them, and which are here
  varve datasets digits --sheet out.png    a sheet of samples to look at
  varve datasets imdb words=10000          sizes with an option set
  varve datasets mnist --get               download it
  varve datasets make shapes FOLDER        made-up files: shapes, photos, sounds, speech or reviews; samples=100 seed=1)";

std::string state_of(const data::CatalogEntry& entry) {
  if (entry.present) return "here";
  return entry.download_bytes > 0 ? cat("to download, ", bytes(entry.download_bytes)) : "to download";
}

void list_all(bool json) {
  const std::vector<data::CatalogEntry> all = data::catalog();
  if (json) {
    auto list = nlohmann::ordered_json::array();
    for (const data::CatalogEntry& entry : all)
      list.push_back({{"name", entry.name},
                      {"doc", entry.doc},
                      {"input", entry.input},
                      {"train", entry.train},
                      {"test", entry.test},
                      {"options", entry.options},
                      {"home", entry.home},
                      {"download_bytes", entry.download_bytes},
                      {"present", entry.present}});
    std::cout << list.dump(1) << '\n';
    return;
  }
  std::vector<std::vector<std::string>> rows = {{"name", "train", "test", "input", "", ""}};
  for (const data::CatalogEntry& entry : all)
    rows.push_back(
        {entry.name, thousands(entry.train), thousands(entry.test), entry.input, state_of(entry), entry.doc});
  std::cout << aligned(rows)
            << "Your own: data=folder:PATH (one folder of pictures a class), text:PATH and audio:PATH (of texts, of "
               "sounds), voc:PATH (boxes or masks), csv:PATH, jsonl:PATH, chars:PATH, npz:PATH, shards:PATTERN (many "
               "files).\n"
            << "Files are kept in " << data::root()
            << " (VARVE_DATA names another folder). To download: varve datasets "
            << "NAME --get\n";
}

// Samples side by side, row by row, with a line between them.
Picture contact_sheet(const data::Dataset& dataset) {
  const Shape shape = dataset.x().shape;
  if (shape.rank() != 3 || dataset.x().dtype != f32 || (shape[2] != 1 && shape[2] != 3))
    throw UsageError(cat("a sheet shows pictures, and the samples are ", dataset.x().str(), "."));
  if (dataset.size() == 0) throw UsageError("a sheet of no samples would be empty.");
  const std::int64_t widest = std::clamp<std::int64_t>(1200 / (shape[1] + 1), 1, 20);
  const std::int64_t columns = std::clamp<std::int64_t>(dataset.size(), 1, widest);
  const std::int64_t rows =
      std::min((dataset.size() + columns - 1) / columns, std::clamp<std::int64_t>(800 / (shape[0] + 1), 1, 12));
  Picture sheet{.height = rows * (shape[0] + 1) - 1, .width = columns * (shape[1] + 1) - 1, .channels = shape[2]};
  sheet.pixels.assign(static_cast<std::size_t>(sheet.height * sheet.width * sheet.channels), 64);
  for (std::int64_t i = 0; i < std::min(rows * columns, dataset.size()); ++i) {
    const std::vector<float> pixels = dataset.at(i).first.to_vector<float>();
    const std::int64_t top = i / columns * (shape[0] + 1), left = i % columns * (shape[1] + 1);
    for (std::int64_t p = 0; p < static_cast<std::int64_t>(pixels.size()); ++p) {
      const std::int64_t row = p / (shape[1] * shape[2]), rest = p % (shape[1] * shape[2]);
      const auto at = static_cast<std::size_t>(((top + row) * sheet.width + left) * shape[2] + rest);
      sheet.pixels[at] =
          static_cast<std::uint8_t>(std::clamp(pixels[static_cast<std::size_t>(p)], 0.f, 1.f) * 255 + 0.5f);
    }
  }
  return sheet;
}

// The settings are options of the data set; a configuration knows how to read them.
train::Config config_of_data(const DatasetsOptions& options) {
  std::vector<std::string> overrides = {"data=" + options.name};
  for (const std::string& setting : options.settings) overrides.push_back("data." + setting);
  try {
    return train::load_config("lenet5", overrides);
  } catch (const Error& e) {
    throw UsageError(e.what());
  }
}

// datasets make KIND FOLDER samples=… seed=…
int make(const std::vector<std::string>& words) {
  std::vector<std::string> names;
  data::MakeOptions options;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) {
      names.push_back(word);
      continue;
    }
    const std::string key = word.substr(0, equals);
    std::int64_t& field = key == "samples" ? options.samples : options.seed;
    const char* end = word.data() + word.size();
    const auto [stop, error] = std::from_chars(word.data() + equals + 1, end, field);
    if ((key != "samples" && key != "seed") || error != std::errc() || stop != end)
      throw UsageError(cat("datasets make: expected samples=NUMBER or seed=NUMBER, got '", word, "'."));
  }
  if (names.size() != 2)
    throw UsageError(
        cat("datasets make: expected a kind and a folder. Kinds: ", joined(data::make_kinds(), ", "), "."));
  data::make_files(names[0], names[1], options);
  std::cout << printable(names[1]) << ": " << options.samples << " samples of " << names[0] << '\n';
  return kOk;
}

int run_datasets(const DatasetsOptions& options) {
  if (options.name == "make") return make(options.settings);
  if (options.name.empty()) {
    if (!options.sheet.empty() || options.get)
      throw UsageError("name a data set: varve datasets digits --sheet out.png");
    list_all(options.json);
    return kOk;
  }
  const train::Config config = config_of_data(options);
  for (const data::CatalogEntry& entry : data::catalog())
    if (entry.name == options.name && !entry.present && !options.get)
      throw Error(
          cat("'", options.name, "' is not on this machine. To download it: varve datasets ", options.name, " --get"));
  const data::Splits splits = data::load(config.data, config.data_options);
  const data::Dataset& train = splits.train;
  std::vector<std::vector<std::string>> rows = {{"samples", thousands(train.size())}};
  if (splits.validation.defined()) rows.push_back({"validation", thousands(splits.validation.size())});
  if (splits.test.defined()) rows.push_back({"test", thousands(splits.test.size())});
  rows.push_back({"input", train.x().str()});
  rows.push_back({"target", train.y().str()});
  std::string classes;
  for (const std::string& word : train.info().classes) classes += (classes.empty() ? "" : ", ") + word;
  if (!classes.empty()) rows.push_back({"classes", classes});
  if (train.info().vocabulary) rows.push_back({"words", thousands(train.info().vocabulary->size())});
  std::cout << aligned(rows);
  if (!options.sheet.empty()) {
    save_png(options.sheet, contact_sheet(train));
    std::cout << options.sheet << '\n';
  }
  return kOk;
}

}  // namespace

void add_datasets(Menu& menu) {
  auto options = std::make_shared<DatasetsOptions>();
  menu.settings_command({.name = "datasets",
                         .what = "List the data sets, get one, or look at its samples",
                         .examples = kDatasetsExamples},
                        [options] { return run_datasets(*options); })
      .option("name", options->name, "one of them")
      .option("settings", options->settings, "its options, key=value")
      .option("--sheet", options->sheet, "write samples as one PNG")
      .flag("--get", options->get, "download it when it is not here")
      .flag("--json", options->json, "the list as one JSON array");
}

}  // namespace varve::cli
