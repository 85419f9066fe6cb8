// The command as a user meets it: what it prints and how it ends.
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/command.h"
#include "varve/io.h"
#include "varve/ops.h"
#include "varve/version.h"

#ifdef VARVE_CLI_PATH
namespace {

using nlohmann::json;
using namespace varve::test;

TEST(Cli, HelpTeachesWithExamples) {
  const Result help = varve_command("--help");
  EXPECT_EQ(help.code, 0);
  for (const char* part : {"train", "demo", "ops", "bench", "info", "Examples:", "varve bench ops matmul threads=1"})
    EXPECT_TRUE(contains(help.out, part)) << part << " in\n" << help.out;
  for (const char* command :
       {"train",        "eval",         "predict",       "summary",       "datasets",    "zoo",
        "lr-find",      "export",       "runs",          "watch",         "info",        "doctor",
        "completion",   "schema",       "demo",          "ops",           "bench",       "bench ops",
        "bench data",   "bench step",   "bench infer",   "bench parts",   "bench train", "bench quick",
        "bench ablate", "bench verify", "bench explain", "bench compare", "bench setup", "bench scale"}) {
    const Result one = varve_command(std::string(command) + " --help");
    EXPECT_EQ(one.code, 0) << command;
    EXPECT_TRUE(contains(one.out, "Example") || command == std::string("bench")) << command << "\n" << one.out;
  }
}

TEST(Cli, Version) {
  const Result result = varve_command("--version");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, std::string("varve ") + varve::version() + "\n");
}

TEST(Cli, UnknownThingsAreAnsweredWithTheNearest) {
  struct Case {
    const char* arguments;
    const char* answer;
  };
  for (const Case& c : {Case{"dmo", "unknown command 'dmo'. Did you mean 'demo'?"},
                        Case{"bench oops", "unknown command 'oops'. Did you mean 'ops'?"},
                        Case{"train lenet5 --jsn", "unknown option '--jsn'. Did you mean '--json'?"},
                        Case{"train lenet5 epoch=3", "error: unknown key 'epoch'. Did you mean 'epochs'?"},
                        Case{"train lenet5 --epoch=3", "error: unknown key 'epoch'. Did you mean 'epochs'?"},
                        Case{"train lenet55", "Did you mean 'lenet5'?"},
                        Case{"train", "needs a network file"},
                        Case{"train lenet5 cnn-mnist", "unexpected argument 'cnn-mnist'"},
                        Case{"train lenet5 --resume", "--resume goes on with a run"},
                        Case{"train lenet5 epochs=many", "epochs: expected an integer"},
                        Case{"train lenet5 data=mnst", "Did you mean 'mnist'?"},
                        Case{"train lenet5 device=referense", "Did you mean 'reference'?"},
                        Case{"demo epoch=3", "Did you mean 'epochs'?"},
                        Case{"eval lenet5", "weights="},
                        Case{"predict", "run"},
                        Case{"predict nowhere x.png", "not the folder of a run"},
                        Case{"predict nowhere", "something to look at"},
                        Case{"export nowhere a.npz", "not the folder of a run"},
                        Case{"summary lenet5 batch=0", "batch"},
                        Case{"summary lenet5 clases=3", "Did you mean 'classes'?"},
                        Case{"datasets mnst", "Did you mean 'mnist'?"},
                        Case{"datasets --sheet a.png", "name a data set"},
                        Case{"zoo resnett", "Did you mean 'resnet"},
                        Case{"schema conv2dd", "Did you mean 'conv"},
                        Case{"lr-find lenet5 from=x", "from: expected a number"},
                        Case{"completion tcsh", "Known: bash, zsh, fish"},
                        Case{"bench ops device=referense", "unknown device 'referense'. Did you mean 'reference'?"},
                        Case{"ops softmx", "Did you mean 'softmax'?"},
                        Case{"bench ops matmull", "Did you mean 'matmul'?"},
                        Case{"bench ops threads=0", "threads"},
                        Case{"bench step modes=eager", "eager not in {compile,"},
                        Case{"", "Examples:"}}) {
    const Result result = varve_command(c.arguments);
    EXPECT_EQ(result.code, 2) << c.arguments;
    EXPECT_TRUE(contains(result.out, c.answer)) << c.arguments << " gave\n" << result.out;
  }
}

TEST(Cli, InfoNamesBuildAndMachine) {
  const json info = json::parse(varve_command("info --json").out);
  EXPECT_EQ(info["version"], varve::version());
  EXPECT_EQ(info["backends"], (json{"cpu", "reference", "null"}));
  EXPECT_GE(info["threads"], 1);
  EXPECT_EQ(info["operators"], varve::operators().size());
  EXPECT_TRUE(contains(varve_command("info").out, "backends"));
  EXPECT_TRUE(info["cuda"]["usable"].is_boolean());
  EXPECT_EQ(info["cuda"]["usable"].get<bool>(), !info["cuda"].contains("reason"));
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
  EXPECT_TRUE(contains(varve_command("ops gelu").out, "3 operators"));
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
  const Result result = varve_command("bench ops 80x784x512 --json", Streams::out);
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

TEST(Cli, ThePageOfNetworkFilesEndsWithTheSchema) {
  const std::string page = varve::load_text(VARVE_TESTS_DIR "/../docs/network-files.md");
  const std::size_t mark = page.find("<!-- From here on");
  ASSERT_NE(mark, std::string::npos);
  EXPECT_EQ(page.substr(page.find('\n', mark) + 2), varve_command("schema --markdown").out) << "Run: make docs";
}

TEST(Cli, CompletionsAreValidScripts) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Result script = varve_command(std::string("completion ") + shell);
    EXPECT_EQ(script.code, 0);
    for (const char* word : {"train", "lenet5", "epochs="}) EXPECT_TRUE(contains(script.out, word)) << shell << word;
  }
  EXPECT_EQ(varve_command("completion bash | bash -n").out, "");
  // What it offers after "varve tr", and after "varve train lene".
  const std::string complete =
      "completion bash > c.sh; bash -c 'source ./c.sh; COMP_WORDS=(varve tr); COMP_CWORD=1; _varve; "
      "echo \"${COMPREPLY[@]}\"; COMP_WORDS=(varve train lene); COMP_CWORD=2; _varve; echo \"${COMPREPLY[@]}\"'";
  const Folder folder;
  EXPECT_EQ(varve_command(complete).out, "train\nlenet5\n");
}

TEST(Cli, ListsAreTables) {
  EXPECT_TRUE(contains(varve_command("zoo lenet").out, "61,706"));
  const json zoo = json::parse(varve_command("zoo --json").out);
  EXPECT_GT(zoo.size(), 30u);
  EXPECT_TRUE(contains(varve_command("datasets").out, "digits"));
  EXPECT_EQ(json::parse(varve_command("datasets --json").out)[0]["name"], "digits");
  EXPECT_TRUE(contains(varve_command("schema epochs").out, "how often"));
  EXPECT_TRUE(contains(varve_command("summary lenet5 batch=8").out, "61,706"));
}

TEST(Cli, DoctorIsContentWithThisMachine) {
  const Result result = varve_command("doctor");
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_TRUE(contains(result.out, "a small network learns")) << result.out;
}

}  // namespace
#endif
