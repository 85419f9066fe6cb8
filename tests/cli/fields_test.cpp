// Networks of several inputs and outputs from the command line.
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "varve/varve.h"

#ifdef VARVE_CLI_PATH
namespace {

using nlohmann::json;
using namespace varve::test;

TEST(Fields, AreTrainedResumedScoredAndPredicted) {
  const Folder folder;
  const std::string network = std::string(VARVE_TESTS_DIR) + "/../examples/networks/digit-pairs.toml";
  const std::string small = " data.train=300 data.test=40 ";
  ASSERT_EQ(varve_command("train " + network + small + "epochs=1 --quiet").code, 0);
  ASSERT_EQ(varve_command("train runs/digit-pairs-1 epochs=2 --resume --quiet").code, 0);
  const Result summary = varve_command("summary " + network);
  EXPECT_TRUE(contains(summary.out, "inputs left f32 [28, 28, 1], right f32 [28, 28, 1]"));
  const json score = json::parse(varve_command("eval runs/digit-pairs-1 --json", Streams::out).out);
  EXPECT_TRUE(score.contains("test_sum_accuracy"));
  EXPECT_TRUE(score.contains("test_difference_mean_absolute_error"));
  // The same sample from the test data, as arrays, and one by one.
  const varve::Tensors sample = varve::data::digit_pairs({.train = 300, .test = 40}).test.sample(3).first;
  varve::save_npy("l.npy", sample["left"]);
  varve::save_npy("r.npy", sample["right"]);
  varve::save_npz("pairs.npz", {{"left", sample["left"]}, {"right", sample["right"]}});
  const auto outputs = [](const std::string& words) {
    const json all = json::parse(varve_command("predict runs/digit-pairs-1 --json " + words, Streams::out).out);
    return all.at(0).at("outputs");
  };
  const json wanted = outputs("test:3");
  EXPECT_EQ(wanted["sum"].size(), 3u);
  EXPECT_EQ(wanted["difference"].size(), 1u);
  EXPECT_EQ(outputs("left=l.npy right=r.npy"), wanted);
  EXPECT_EQ(outputs("pairs.npz"), wanted);
  EXPECT_TRUE(contains(varve_command("predict runs/digit-pairs-1 --csv test:0 test:1").out,
                       "input,sum,sum_probability,difference\ntest:0,"));
  EXPECT_TRUE(contains(varve_command("predict runs/digit-pairs-1 test:0").out, "difference"));
}

TEST(Fields, RefuseWhatDoesNotSayWhichInputItIs) {
  const Folder folder;
  const std::string network = std::string(VARVE_TESTS_DIR) + "/../examples/networks/digit-pairs.toml";
  ASSERT_EQ(varve_command("train " + network + " data.train=100 data.test=10 epochs=1 --quiet").code, 0);
  varve::save_npy("l.npy", varve::zeros({28, 28}));
  varve::save_npz("pairs.npz", {{"left", varve::zeros({28, 28, 1})}});
  const auto refusal = [](const std::string& words) {
    const Result result = varve_command("predict runs/digit-pairs-1 " + words);
    EXPECT_NE(result.code, 0) << words;
    return result.out;
  };
  EXPECT_TRUE(
      contains(refusal("l.npy"), "'l.npy' does not say which input it is: give each input, left=FILE right=FILE"));
  EXPECT_TRUE(contains(refusal("left=l.npy"), "the input 'right' is missing"));
  EXPECT_TRUE(contains(refusal("left=l.npy rigt=l.npy"), "no input 'rigt'. Did you mean 'right'?"));
  EXPECT_TRUE(contains(refusal("left=l.npy right=l.npy"), "expected [28, 28, 1] as left"));
  EXPECT_TRUE(contains(refusal("pairs.npz"), "holds no array 'right'"));
  EXPECT_TRUE(contains(refusal("test:99"), "sample 99 was asked for"));
  EXPECT_TRUE(contains(refusal("test:x"), "expected test:N"));
}

}  // namespace
#endif
