// `varve zoo`: networks with names.
#include "varve/zoo.h"

#include <iostream>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/menu.h"
#include "cli/text.h"

namespace varve::cli {
namespace {

struct ZooOptions {
  std::vector<std::string> filters;
  bool json = false;
};

constexpr const char* kZooExamples =
    "Example: varve zoo resnet       those with \"resnet\" in name or description\n"
    "Then:    varve summary resnet20, varve train resnet20";

bool wanted(const zoo::Entry& entry, const std::vector<std::string>& filters) {
  for (const std::string& word : filters)
    if (entry.name.find(word) != std::string::npos || entry.doc.find(word) != std::string::npos) return true;
  return filters.empty();
}

std::string sizes_of(const Shape& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : "×") + cat(size);
  return text;
}

// Whether it has a recipe, a [train] table.
std::string trained(const zoo::Entry& entry) { return entry.train.empty() ? "" : "yes"; }

int run_zoo(const ZooOptions& options) {
  std::vector<const zoo::Entry*> found;
  std::vector<std::string> names;
  for (const zoo::Entry& entry : zoo::entries()) {
    names.push_back(entry.name);
    if (wanted(entry, options.filters)) found.push_back(&entry);
  }
  if (found.empty())
    throw UsageError(cat("no network has '", options.filters.front(), "' in its name or description.",
                         did_you_mean(options.filters.front(), names)));
  if (options.json) {
    auto list = nlohmann::ordered_json::array();
    for (const zoo::Entry* entry : found)
      list.push_back({{"name", entry->name},
                      {"parameters", entry->parameters},
                      {"input", entry->input.vec()},
                      {"dtype", name(entry->dtype)},
                      {"classes", entry->classes},
                      {"sizes", entry->sizes},
                      {"train", entry->train},
                      {"doc", entry->doc}});
    std::cout << list.dump(1) << '\n';
    return kOk;
  }
  std::size_t widest = 0;
  for (const zoo::Entry* entry : found) widest = std::max(widest, thousands(entry->parameters).size());
  std::vector<std::vector<std::string>> rows = {{"name", right("parameters", widest), "input", "recipe", ""}};
  for (const zoo::Entry* entry : found)
    rows.push_back({entry->name, right(thousands(entry->parameters), std::max<std::size_t>(widest, 10)),
                    sizes_of(entry->input), trained(*entry), entry->doc});
  std::cout << aligned(rows) << found.size()
            << " networks; those with a recipe train as they are, the others need data=…\n";
  return kOk;
}

}  // namespace

void add_zoo(Menu& menu) {
  auto options = std::make_shared<ZooOptions>();
  menu.command({.name = "zoo", .what = "List the networks that have names", .examples = kZooExamples},
               [options] { return run_zoo(*options); })
      .option("filter", options->filters, "only networks with one of these words")
      .flag("--json", options->json, "one JSON array");
}

}  // namespace varve::cli
