// The pages hold together: links lead somewhere, quoted sources are what the sources say.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "varve/dtype.h"

namespace {

namespace fs = std::filesystem;

const fs::path kRoot = fs::path(VARVE_TESTS_DIR).parent_path();

std::string read(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<fs::path> pages() {
  std::vector<fs::path> found;
  for (const char* name : {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "bench/adapters/README.md",
                           "bench/results/README.md"})
    found.push_back(kRoot / name);
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "docs"))
    if (entry.path().extension() == ".md") found.push_back(entry.path());
  return found;
}

TEST(Pages, LinksLeadSomewhere) {
  const std::regex link(R"(\]\(([^)#:\s]+)(#[^)]*)?\))");
  for (const fs::path& page : pages()) {
    const std::string text = read(page);
    for (auto it = std::sregex_iterator(text.begin(), text.end(), link); it != std::sregex_iterator(); ++it)
      EXPECT_TRUE(fs::exists(page.parent_path() / (*it)[1].str())) << page << " links to " << (*it)[1];
  }
}

// A block whose info string is `c++ <file>` quotes that file: each of its lines stands there, in this order.
TEST(Pages, QuotedSourcesAreTheSources) {
  const std::regex fence("```c\\+\\+ (\\S+)\n([^`]*)```");
  int quotes = 0;
  for (const fs::path& page : pages()) {
    const std::string text = read(page);
    for (auto it = std::sregex_iterator(text.begin(), text.end(), fence); it != std::sregex_iterator();
         ++it, ++quotes) {
      const std::string source = read(kRoot / (*it)[1].str());
      ASSERT_FALSE(source.empty()) << page << " quotes " << (*it)[1] << ", which is not there";
      std::istringstream lines((*it)[2].str());
      std::size_t at = 0;
      for (std::string line; std::getline(lines, line);) {
        if (line.empty() || line == "…") continue;
        const std::size_t found = source.find(line, at);
        EXPECT_NE(found, std::string::npos) << page << " quotes from " << (*it)[1] << ": " << line;
        if (found != std::string::npos) at = found + line.size();
      }
    }
  }
  EXPECT_GT(quotes, 0);
}

// The table of promotion says what promote() does.
TEST(Pages, PromotionTable) {
  const std::string text = read(kRoot / "docs/tensors.md");
  for (const varve::DType a : varve::kAllDTypes) {
    std::string row = std::string("| **") + varve::name(a) + "** |";
    for (const varve::DType b : varve::kAllDTypes) row += std::string(" ") + varve::name(varve::promote(a, b)) + " |";
    EXPECT_NE(text.find(row + "\n"), std::string::npos) << row;
  }
}

// A newcomer reads it in two minutes.
TEST(Pages, TheReadmeIsShort) {
  const std::string text = read(kRoot / "README.md");
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 150);
}

#ifdef VARVE_CLI_PATH
// docs/results.md, its plots and the README's table are what the tool makes of the records.
TEST(Pages, ResultsAreThoseOfTheRecords) {
  const std::string command = "'" + (kRoot / "tools/results-page").string() + "' --check '" + VARVE_CLI_PATH + "' 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string said;
  char part[4096];
  while (const std::size_t count = std::fread(part, 1, sizeof part, pipe)) said.append(part, count);
  EXPECT_EQ(pclose(pipe), 0) << said;
}
#endif

}  // namespace
