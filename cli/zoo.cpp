// `varve zoo`: networks with names.
#include "varve/zoo.h"

#include <iostream>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "commands.h"
#include "text.h"

namespace varve::cli {
namespace {

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

// The data it is trained with unless told otherwise, from its [train] table.
std::string trained(const zoo::Entry& entry) { return entry.train.empty() ? "" : "yes"; }

}  // namespace

int zoo(const ZooOptions& options) {
  std::vector<const zoo::Entry*> found;
  std::vector<std::string> names;
  for (const zoo::Entry& entry : zoo::entries()) {
    names.push_back(entry.name);
    if (wanted(entry, options.filters)) found.push_back(&entry);
  }
  if (found.empty()) {
    const std::string meant = nearest(options.filters.front(), names);
    throw UsageError(cat("no network has '", options.filters.front(), "' in its name or description.",
                         meant.empty() ? "" : cat(" Did you mean '", meant, "'?")));
  }
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

}  // namespace varve::cli
