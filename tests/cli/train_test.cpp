// Training from the command line: a run, and everything that can be done with it afterwards.
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "varve/data.h"
#include "varve/io.h"
#include "varve/ops.h"
#include "varve/train.h"
#include "varve/version.h"

#ifdef VARVE_CLI_PATH
namespace {

using nlohmann::json;
using namespace varve::test;

const std::string kSmall = " data.train=2000 data.test=500 batch=50 rate=3e-3 ";

json trained(const std::string& arguments) {
  const Result result = varve_command("train " + arguments + " --json", Streams::out);
  EXPECT_EQ(result.code, 0) << result.out;
  return json::parse(result.out);  // one object, and nothing else
}

void write_digit(const std::string& path) {
  const std::vector<float> pixels = varve::data::digits({.train = 10, .test = 10}).test.at(0).first.to_vector<float>();
  varve::Picture picture{.height = 28, .width = 28, .channels = 1};
  for (const float p : pixels) picture.pixels.push_back(static_cast<std::uint8_t>(p * 255 + 0.5f));
  varve::save_png(path, picture);
}

TEST(CliTrain, ARunFromTrainingToPrediction) {
  const Folder folder;
  const json run = trained("lenet5" + kSmall + "epochs=1");
  for (const char* key : {"test_accuracy", "test_loss", "train_seconds", "test_seconds", "peak_bytes"})
    EXPECT_GT(run[key].get<double>(), 0) << key;
  EXPECT_GT(run["test_accuracy"], 0.3);  // ten classes
  EXPECT_EQ(run["run"], "runs/lenet5-1");
  EXPECT_EQ(run["parameters"], 61706);
  EXPECT_EQ(run["history"].size(), 1u);
  EXPECT_TRUE(contains(varve::load_text("runs/lenet5-1/index.html"), "<html"));

  const json score = json::parse(varve_command("eval runs/lenet5-1 --json", Streams::out).out);
  EXPECT_DOUBLE_EQ(score["test_accuracy"], run["test_accuracy"]);
  EXPECT_EQ(score["samples"], 500);
  EXPECT_TRUE(contains(varve_command("eval runs/lenet5-1 --classes").out, "precision"));
  EXPECT_TRUE(contains(varve_command("summary runs/lenet5-1").out, "61,706"));

  write_digit("digit.png");
  const json answer = json::parse(varve_command("predict runs/lenet5-1 digit.png top=10 --json", Streams::out).out);
  const json& best = answer[0]["answers"];
  ASSERT_EQ(best.size(), 10u);
  double sum = 0;
  for (const json& one : best) sum += one["value"].get<double>();
  EXPECT_NEAR(sum, 1, 1e-5);
  // The same as asking the library with the pixels of the file.
  const varve::train::TrainedModel model = varve::train::load_run("runs/lenet5-1");
  const varve::Picture picture = varve::load_picture("digit.png");
  const varve::Tensor x =
      varve::tensor(std::vector<float>(picture.pixels.begin(), picture.pixels.end()), {1, 28, 28, 1}) / 255.0;
  const std::vector<float> expected = varve::softmax(varve::train::predict(*model.model, x)).to_vector<float>();
  EXPECT_NEAR(best[0]["value"], expected[std::stoul(best[0]["name"].get<std::string>())], 1e-5);
  EXPECT_TRUE(
      contains(varve_command("predict runs/lenet5-1 digit.png").out, best[0]["name"].get<std::string>() + "  "));
  EXPECT_EQ(varve_command("predict runs/lenet5-1 nothing.png").code, 1);

  // Going on with it: one more epoch, after the first.
  const Result more = varve_command("train runs/lenet5-1 --resume --json epochs=2", Streams::out);
  ASSERT_EQ(more.code, 0);
  const json resumed = json::parse(more.out);
  EXPECT_EQ(resumed["run"], "runs/lenet5-1");
  ASSERT_EQ(resumed["history"].size(), 2u);
  EXPECT_EQ(resumed["history"][0]["loss"], run["history"][0]["loss"]);

  for (const char* out : {"w.safetensors", "w.npz", "t.safetensors layout=pytorch dtype=f16"})
    EXPECT_EQ(varve_command(std::string("export runs/lenet5-1 ") + out).code, 0) << out;
  EXPECT_EQ(varve::load_npz("w.npz").size(), varve::load_safetensors("w.safetensors").tensors.size());
  EXPECT_EQ(varve::load_safetensors("t.safetensors").tensors[0].second.dtype(), varve::f16);
  EXPECT_EQ(varve_command("export runs/lenet5-1 w.txt").code, 2);
  const json loaded =
      json::parse(varve_command("eval lenet5 weights=w.safetensors" + kSmall + "--json", Streams::out).out);
  EXPECT_NEAR(loaded["test_accuracy"], resumed["test_accuracy"], 1e-9);
}

// Stopped in the first epoch by a signal, it saves, says how to go on, and goes on from the step where it was.
TEST(CliTrain, ASignalStopsItAndItGoesOn) {
  const Folder folder;
  const std::string stopped =
      "train lenet5 epochs=1 data.train=20000 data.test=100 batch=20 > out 2>&1 & p=$!; "
      "until grep -q parameters out; do sleep 0.02; done; kill -TERM $p; wait $p; echo code $?; cat out";
  const Result first = varve_command(stopped);
  EXPECT_TRUE(contains(first.out, "code 143\n")) << first.out;
  EXPECT_TRUE(contains(first.out, "To go on: varve train runs/lenet5-1 --resume")) << first.out;
  const Result second = varve_command("train runs/lenet5-1 --resume");
  EXPECT_EQ(second.code, 0) << second.out;
  EXPECT_TRUE(contains(second.out, "resuming runs/lenet5-1 at epoch 1 of 1, step ")) << second.out;
  EXPECT_FALSE(contains(second.out, "step 0 of")) << second.out;
  EXPECT_TRUE(contains(second.out, "test accuracy")) << second.out;
}

TEST(CliTrain, SaysWhatItDoes) {
  const Folder folder;
  std::ofstream("net.toml") << "input = [28, 28, 1]\n[[layer]]\nflatten = {}\n[[layer]]\ndense = 10\n[train]\n"
                               "data = {digits = {train = 1000, test = 200}}\nepochs = 2\n";
  const Result result = varve_command("train net.toml --threads=1");
  EXPECT_EQ(result.code, 0) << result.out;
  const std::string banner = std::string("varve ") + varve::version() + " · cpu, 1 thread";
  for (const char* part :
       {banner.c_str(), "net 7,850 parameters", "peak in a step", "900 samples, 100 to validate, 200 to test",
        "best val_accuracy", " at epoch ", "test accuracy", "runs/net-1/index.html"})
    EXPECT_TRUE(contains(result.out, part)) << part << " in\n" << result.out;
  EXPECT_TRUE(
      contains(varve_command("train net.toml validation=0 epochs=1 name=other").out, "no samples are held out"));
  EXPECT_TRUE(std::filesystem::exists("runs/other-1/config.toml"));
  EXPECT_EQ(varve_command("train net.toml --quiet epochs=1").out, "");
  EXPECT_TRUE(std::filesystem::exists("runs/net-2/config.toml"));
}

TEST(CliTrain, FilesThatAreWrongAreFailures) {
  const Folder folder;
  std::ofstream("net.toml") << "input = [28, 28, 1]\n[[layer]]\nconv2d = {out = 3, kernal = 3}\n";
  const Result result = varve_command("train net.toml");
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.out,
            "error: net.toml:3: conv2d: unknown key 'kernal'. Did you mean 'kernel'? Known: out, kernel, "
            "stride, padding, dilation, groups, bias, activation, weight_init, bias_init.\n");
  EXPECT_EQ(varve_command("train missing.toml").code, 1);
  std::ofstream("small.toml") << "input = [28, 28, 1]\n[[layer]]\nflatten = {}\n[[layer]]\ndense = 3\n"
                                 "[train]\ndata = {digits = {train = 100, test = 20}}\n";
  EXPECT_TRUE(contains(varve_command("train small.toml").out, "gives 3 outputs, but digits has 10 classes"));
  std::ofstream("wide.toml") << "input = [32, 32, 3]\n[[layer]]\nflatten = {}\n[[layer]]\ndense = 10\n"
                                "[train]\ndata = {digits = {train = 100, test = 20}}\n";
  EXPECT_TRUE(contains(varve_command("train wide.toml").out, "takes samples of f32 [32, 32, 3], but digits gives"));
  EXPECT_TRUE(contains(varve_command("train resnet50").out, "name some, such as data=cifar10"));
  EXPECT_FALSE(std::filesystem::exists("runs"));  // none of them came so far as to make a run
}

TEST(CliTrain, TheRateFinderDrawsAndSuggests) {
  const Folder folder;
  const Result result = varve_command("lr-find linear data=digits data.train=1000 data.test=10 steps=40");
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_TRUE(contains(result.out, "suggestion: rate=")) << result.out;
  EXPECT_TRUE(contains(varve::load_text("lr-find.svg"), "<svg"));
}

TEST(CliTrain, ASheetOfSamples) {
  const Folder folder;
  const Result result = varve_command("datasets digits train=40 test=10 --sheet sheet.png");
  EXPECT_EQ(result.code, 0) << result.out;
  const varve::Picture sheet = varve::load_picture("sheet.png");
  EXPECT_EQ(sheet.width, 20 * 29 - 1);
  EXPECT_EQ(sheet.height, 2 * 29 - 1);
}

TEST(CliTrain, TheDemoIsLeNet) {
  const Folder folder;
  const Result result = varve_command("demo epochs=1 data.train=500 data.test=100");
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_TRUE(contains(result.out, "lenet5 61,706 parameters")) << result.out;
  EXPECT_TRUE(contains(result.out, "runs/lenet5-1/index.html")) << result.out;
}

}  // namespace
#endif
