#include "backends/cuda/device/kernel_texts.h"

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "base/hash.h"
#include "base/text.h"
#include "varve/error.h"

namespace varve::cuda {
namespace {

constexpr const char* kGenerated = "generated.cuh";

const std::string& file_text(const std::string& name) {
  // Never destroyed: threads may still compile when the process ends.
  static const auto& files = *new std::unordered_map<std::string, std::string>(kernel_files());
  const auto found = files.find(name);
  if (found == files.end()) throw Error(cat("no kernel text is called '", name, "'."));
  return found->second;
}

// Names in `#include "name"` lines, whether or not conditions leave them out.
std::vector<std::string> included_names(const std::string& text) {
  constexpr std::string_view kDirective = "#include \"";
  std::vector<std::string> names;
  for (std::size_t at = text.find(kDirective); at != std::string::npos; at = text.find(kDirective, at)) {
    const bool begins_line = at == 0 || text[at - 1] == '\n';
    at += kDirective.size();
    if (begins_line) names.push_back(text.substr(at, text.find('"', at) - at));
  }
  return names;
}

}  // namespace

KernelText generated_kernel(std::string text) { return {"device/generated.cu", std::move(text)}; }

std::string defines(const Constants& constants) {
  std::string text;
  for (const auto& [name, value] : constants) text += cat("#define ", name, " ", value, "\n");
  return text;
}

std::vector<NamedText> reached_texts(const KernelText& text) {
  std::vector<NamedText> reached{{text.file, file_text(text.file)}};
  for (std::size_t i = 0; i < reached.size(); ++i)
    for (const std::string& name : included_names(reached[i].text)) {
      if (std::any_of(reached.begin(), reached.end(), [&](const NamedText& known) { return known.name == name; }))
        continue;
      reached.push_back({name, name == kGenerated ? "#pragma once\n" + text.generated : file_text(name)});
    }
  return reached;
}

std::string hash_of(const KernelText& text) {
  std::string all;
  for (const NamedText& part : reached_texts(text)) all += cat(part.name, "\n", part.text.size(), "\n", part.text);
  char name[33];
  std::snprintf(name, sizeof name, "%016llx%016llx", static_cast<unsigned long long>(hash_bytes(all, 1)),
                static_cast<unsigned long long>(hash_bytes(all, 2)));
  return name;
}

}  // namespace varve::cuda
