// Runs that are there: listed, compared, drawn and deleted; and found from any folder.
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "varve/io.h"

#ifdef VARVE_CLI_PATH
namespace {

using nlohmann::json;
using namespace varve::test;
namespace fs = std::filesystem;

const std::string kTinyLenet = "train lenet5 --quiet data.train=200 data.test=20 batch=20 ";

TEST(CliRuns, ListCompareAndPlot) {
  const Folder folder;
  EXPECT_EQ(varve_command("runs").out,
            "error: there is no folder 'runs'. `varve train` makes runs, under runs/ unless told otherwise.\n");
  ASSERT_EQ(varve_command(kTinyLenet + "epochs=1").code, 0);
  ASSERT_EQ(varve_command(kTinyLenet + "--epochs 2 --rate 3e-3").code, 0);
  ASSERT_EQ(varve_command("train runs/lenet5-1 --resume --quiet epochs=2 save_steps=1").code, 0);
  fs::create_directory("runs/not-a-run");
  const json all = json::parse(varve_command("runs --json", Streams::out).out);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0]["run"], "runs/lenet5-1");
  EXPECT_EQ(all[1]["state"], "finished");
  EXPECT_EQ(all[1]["epochs"], 2);
  EXPECT_TRUE(all[1]["test_accuracy"].is_number());
  const std::string list = varve_command("runs list runs").out;
  for (const char* part : {"state", "runs/lenet5-2", "finished", "2/2", "val_accuracy 0.", "test accuracy"})
    EXPECT_TRUE(contains(list, part)) << part << " in\n" << list;

  const std::string compared = varve_command("runs compare runs/lenet5-1 runs/lenet5-2").out;
  for (const char* part : {"optimizer", "rate", "save_steps", "val_loss", "test accuracy", "best epoch"})
    EXPECT_TRUE(contains(compared, part)) << part << " in\n" << compared;
  EXPECT_FALSE(contains(compared, "batch")) << compared;  // the same in both

  EXPECT_EQ(varve_command("runs plot runs --out all.html").out, "all.html\n");
  const std::string page = varve::load_text("all.html");
  for (const char* part : {"<svg", "lenet5-1", "lenet5-2", "validation accuracy", "2 runs"})
    EXPECT_TRUE(contains(page, part)) << part;
  std::ofstream("runs/lenet5-2/last.safetensors") << "damaged";
  const std::string damaged = varve_command("runs").out;
  EXPECT_TRUE(contains(damaged, "runs/lenet5-1  finished")) << damaged;
  EXPECT_TRUE(contains(damaged, "runs/lenet5-2  damaged")) << damaged;
}

TEST(CliRuns, DeleteAsksAndDeletesRunsOnly) {
  const Folder folder;
  ASSERT_EQ(varve_command(kTinyLenet + "epochs=1").code, 0);
  fs::create_directory("precious");
  const auto refused = [](const std::string& arguments, int code, const std::string& why) {
    const Result result = varve_command("runs delete " + arguments);
    EXPECT_EQ(result.code, code) << arguments;
    EXPECT_TRUE(contains(result.out, why)) << result.out;
    EXPECT_TRUE(fs::exists("runs/lenet5-1") && fs::exists("precious"));
  };
  refused("", 2, "delete needs the folders of runs");
  refused("runs/lenet5-1 precious --yes", 2, "'precious' is not the folder of a run");
  refused("runs --yes", 2, "'runs' is not the folder of a run");
  refused("runs/lenet5-1 < /dev/null", 2, "add --yes");
  EXPECT_EQ(varve_command("runs delete runs/lenet5-1 --yes").out, "deleted runs/lenet5-1\n");
  EXPECT_FALSE(fs::exists("runs/lenet5-1"));
  EXPECT_TRUE(contains(varve_command("runs delte").out, "Did you mean 'delete'?"));
}

TEST(CliRuns, AreFoundFromAnyFolder) {
  const Folder folder;
  std::ofstream table("table.csv");
  table << "a,b,kind\n";
  for (int i = 0; i < 60; ++i) table << i % 7 << ',' << i % 5 << ',' << (i % 2 ? "odd" : "even") << '\n';
  table.close();
  std::ofstream("net.toml")
      << "input = [2]\n[[layer]]\ndense = 2\n[train]\ndata = \"csv:table.csv#kind\"\nepochs = 1\n";
  const Result trained = varve_command("train net.toml --quiet");
  ASSERT_EQ(trained.code, 0) << trained.out;
  EXPECT_TRUE(contains(varve::load_text("runs/net-1/index.html"), "<blockquote>a "));  // a row, in its own units
  const fs::path here = fs::current_path();
  fs::create_directory("elsewhere");
  fs::current_path("elsewhere");
  const Result scored = varve_command("eval " + (here / "runs/net-1").string());
  EXPECT_EQ(scored.code, 0) << scored.out;
  const Result resumed = varve_command("train ../runs/net-1 --resume epochs=2");
  EXPECT_EQ(resumed.code, 0) << resumed.out;
  EXPECT_TRUE(contains(resumed.out, "resuming ../runs/net-1 at epoch 2 of 2")) << resumed.out;
  fs::current_path(here);
}

TEST(CliSettings, ComeInThreeForms) {
  const Folder folder;
  const auto settings = [](const std::string& words) {
    fs::remove_all("runs");
    const Result result = varve_command("train lenet5 --quiet data.train=100 data.test=20 " + words);
    EXPECT_EQ(result.code, 0) << result.out;
    return varve::load_text("runs/lenet5-1/config.toml");
  };
  const std::string expected = settings("epochs=1 batch=25 seed=3 optimizer.beta1=0.8");
  EXPECT_EQ(settings("--epochs=1 --batch=25 --seed=3 --optimizer.beta1=0.8"), expected);
  EXPECT_EQ(settings("--epochs 1 --batch 25 --seed 3 --optimizer.beta1 0.8"), expected);
  EXPECT_TRUE(contains(varve_command("train lenet5 --seed -3").out, "seed: expected an integer from 0"));
  const Result missing = varve_command("train lenet5 --epochs");
  EXPECT_EQ(missing.code, 2);
  EXPECT_EQ(missing.out, "error: --epochs needs a value: --epochs VALUE or epochs=VALUE.\n");
  EXPECT_EQ(varve_command("train lenet5 --epochs --json").code, 2);
  const Result unknown = varve_command("train lenet5 --epoch 3");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_TRUE(contains(unknown.out, "unknown option '--epoch'. Did you mean '--epochs'?")) << unknown.out;
  EXPECT_EQ(varve_command("datasets digits --train 30 --test 10").code, 0);
}

TEST(CliSettings, GpuIsCuda) {
  const Folder folder;
  const std::string cuda = varve_command("train lenet5 epochs=1 data.train=100 data.test=20 device=cuda").out;
  const std::string gpu = varve_command("train lenet5 epochs=1 data.train=100 data.test=20 device=gpu").out;
  EXPECT_EQ(gpu.substr(0, 30), cuda.substr(0, 30)) << gpu;
  EXPECT_FALSE(contains(gpu, "unknown device")) << gpu;
}

}  // namespace
#endif
