// The command as a user meets it: what it prints and how it ends.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "varve/ops.h"

#ifdef VARVE_CLI_PATH
namespace {

using nlohmann::json;

struct Result {
  int code = -1;
  std::string out;  // both streams
};

Result varve_command(const std::string& arguments, bool with_errors = true) {
  const std::string command = std::string(VARVE_CLI_PATH) + " " + arguments + (with_errors ? " 2>&1" : " 2>/dev/null");
  Result result;
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return result;
  std::array<char, 4096> part;
  while (const std::size_t count = fread(part.data(), 1, part.size(), pipe)) result.out.append(part.data(), count);
  const int status = pclose(pipe);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Cli, HelpTeachesWithExamples) {
  const Result help = varve_command("--help");
  EXPECT_EQ(help.code, 0);
  for (const char* part : {"demo", "ops", "bench", "info", "Examples:", "varve bench ops matmul threads=1"})
    EXPECT_TRUE(contains(help.out, part)) << part << " in\n" << help.out;
  for (const char* command : {"demo", "ops", "bench", "bench ops", "info"})
    EXPECT_EQ(varve_command(std::string(command) + " --help").code, 0) << command;
}

TEST(Cli, Version) {
  const Result version = varve_command("--version");
  EXPECT_EQ(version.code, 0);
  EXPECT_EQ(version.out, std::string("varve ") + VARVE_VERSION + "\n");
}

TEST(Cli, UnknownThingsAreAnsweredWithTheNearest) {
  struct Case {
    const char* arguments;
    const char* answer;
  };
  for (const Case& c :
       {Case{"dmo", "unknown command 'dmo'. Did you mean 'demo'?"},
        Case{"bench oops", "unknown command 'oops'. Did you mean 'ops'?"},
        Case{"demo --step 3", "unknown option 'step'. Did you mean 'steps'?"},
        Case{"demo step=3", "unknown option 'step'. Did you mean 'steps'?"},
        Case{"demo device=referense", "unknown device 'referense'. Did you mean 'reference'?"},
        Case{"ops softmx", "Did you mean 'softmax'?"}, Case{"bench ops matmull", "Did you mean 'matmul'?"},
        Case{"demo steps=many", "steps"}, Case{"bench ops threads=0", "threads"}, Case{"", "Examples:"}}) {
    const Result result = varve_command(c.arguments);
    EXPECT_EQ(result.code, 2) << c.arguments;
    EXPECT_TRUE(contains(result.out, c.answer)) << c.arguments << " gave\n" << result.out;
  }
}

TEST(Cli, InfoNamesBuildAndMachine) {
  const json info = json::parse(varve_command("info --json").out);
  EXPECT_EQ(info["version"], VARVE_VERSION);
  EXPECT_EQ(info["backends"], (json{"cpu", "reference", "null"}));
  EXPECT_GE(info["threads"], 1);
  EXPECT_EQ(info["operators"], varve::operators().size());
  EXPECT_TRUE(contains(varve_command("info").out, "backends"));
}

TEST(Cli, OpsListsEveryOperatorAndWhoRunsIt) {
  const json list = json::parse(varve_command("ops --json").out);
  ASSERT_EQ(list.size(), varve::operators().size());
  for (const json& op : list) {
    EXPECT_FALSE(op["doc"].get<std::string>().empty()) << op["name"];
    EXPECT_FALSE(op["types"].empty()) << op["name"] << " has no sample call in cli/op_samples.cpp";
    for (const char* backend : {"cpu", "reference"})
      EXPECT_NE(op["backends"][backend], "-") << op["name"] << " on " << backend;
  }
  EXPECT_TRUE(contains(varve_command("ops gelu").out, "2 operators"));
}

#ifdef VARVE_HAS_ONEDNN
TEST(Cli, ThePageOfOperatorsIsWhatTheCommandPrints) {
  std::ifstream page(VARVE_TESTS_DIR "/../docs/operators.md");
  std::istringstream printed(varve_command("ops --markdown").out);
  for (int line = 1; page || printed; ++line) {
    std::string committed, now;
    std::getline(page, committed);
    std::getline(printed, now);
    ASSERT_EQ(committed, now) << "line " << line << ". Run: build/varve ops --markdown > docs/operators.md";
  }
}
#endif

TEST(Cli, BenchPrintsOneObjectALine) {
  const Result result = varve_command("bench ops 80x784x512 --json", false);
  ASSERT_EQ(result.code, 0) << result.out;
  std::istringstream lines(result.out);
  int rows = 0;
  for (std::string line; std::getline(lines, line); ++rows) {
    const json row = json::parse(line);
    EXPECT_TRUE(row["op"].is_string() && row["shape"].is_string());
    for (const char* key : {"ms", "gflops", "gbps", "peak_gflops", "peak_gbps"})
      EXPECT_GT(row[key].get<double>(), 0) << key;
    EXPECT_GE(row["samples"], 10);
  }
  EXPECT_GE(rows, 1);
}

TEST(Cli, DemoLearns) {
  const Result result = varve_command("demo");
  ASSERT_EQ(result.code, 0) << result.out;
  const std::size_t at = result.out.find("test accuracy ");
  ASSERT_NE(at, std::string::npos) << result.out;
  EXPECT_GT(std::stod(result.out.substr(at + 14)), 0.95) << result.out;
  EXPECT_TRUE(contains(varve_command("demo steps=5 device=reference").out, "reference"));
}

}  // namespace
#endif
