// `varve schema`: what network files and settings may say, from the tables that read them.
#include <algorithm>
#include <iostream>

#include "base/text.h"
#include "cli/menu.h"
#include "cli/text.h"
#include "varve/nn/text.h"
#include "varve/train/config.h"

namespace varve::cli {
namespace {

struct SchemaOptions {
  std::vector<std::string> filters;
  bool markdown = false;
};

constexpr const char* kSchemaExamples =
    "Examples: varve schema conv     layers and keys with \"conv\" in their names\n"
    "          varve schema batch    what batch= means, and its standard value";

std::string standard_text(const std::string& standard) { return standard.empty() ? "required" : standard; }

void print_markdown() {
  std::cout << "## Layers\n\nThe first key of each is its short form: `dense = 10` is `dense = {out = 10}`.\n";
  for (const nn::LayerSchema& layer : nn::layer_schemas()) {
    std::cout << "\n### `" << layer.name << "`\n\n" << layer.doc << ".\n";
    if (layer.keys.empty()) {
      std::cout << "\nIt takes no settings: `" << layer.name << " = {}`.\n";
      continue;
    }
    std::cout << "\n| key | type | standard | |\n|---|---|---|---|\n";
    for (const nn::LayerKey& key : layer.keys)
      std::cout << "| `" << key.name << "` | " << in_cell(key.type) << " | "
                << (key.standard.empty() ? "required" : "`" + in_cell(key.standard) + "`") << " | " << in_cell(key.doc)
                << " |\n";
  }
  std::cout
      << "\n## The `[train]` table\n\nEach is also a setting of the command line: `varve train net.toml epochs=3`.\n"
         "\n| key | type | standard | |\n|---|---|---|---|\n";
  for (const train::ConfigKey& key : train::config_keys())
    std::cout << "| `" << key.name << "` | " << in_cell(key.type) << " | `" << in_cell(key.standard) << "` | "
              << in_cell(key.doc) << " |\n";
}

bool wanted(const std::string& name, const std::vector<std::string>& filters) {
  return filters.empty() || std::any_of(filters.begin(), filters.end(),
                                        [&](const std::string& word) { return name.find(word) != std::string::npos; });
}

void print_text(const std::vector<std::string>& filters) {
  std::vector<std::string> names;
  bool found = false;
  for (const nn::LayerSchema& layer : nn::layer_schemas()) {
    names.push_back(layer.name);
    if (!wanted(layer.name, filters)) continue;
    found = true;
    std::vector<std::vector<std::string>> rows;
    for (const nn::LayerKey& key : layer.keys)
      rows.push_back({key.name, standard_text(key.standard), key.type, key.doc});
    std::cout << layer.name << ": " << layer.doc << '\n' << aligned(rows, "  ");
  }
  std::vector<std::vector<std::string>> rows;
  for (const train::ConfigKey& key : train::config_keys()) {
    names.push_back(key.name);
    if (wanted(key.name, filters)) rows.push_back({key.name, key.standard, key.type, key.doc});
  }
  if (!rows.empty()) std::cout << "[train], and settings of the command line\n" << aligned(rows, "  ");
  if (found || !rows.empty()) return;
  throw UsageError(
      cat("no layer or key has '", filters.front(), "' in its name.", did_you_mean(filters.front(), names)));
}

int run_schema(const SchemaOptions& options) {
  if (options.markdown)
    print_markdown();
  else
    print_text(options.filters);
  return kOk;
}

}  // namespace

void add_schema(Menu& menu) {
  auto options = std::make_shared<SchemaOptions>();
  menu.command(
          {.name = "schema", .what = "Say what network files and settings may contain", .examples = kSchemaExamples},
          [options] { return run_schema(*options); })
      .option("filter", options->filters, "only layers and keys with one of these words")
      .flag("--markdown", options->markdown, "the tables of docs/network-files.md");
}

}  // namespace varve::cli
