// Varve's own worker, task by task, in this process.
#include "bench/worker.h"

#include <gtest/gtest.h>

#include <fstream>

#include "bench/answers.h"
#include "temporary_folder.h"
#include "varve/error.h"
#include "varve/io.h"
#include "varve/ops.h"

namespace varve::bench {
namespace {

using nlohmann::json;
using test::TemporaryFolder;

Request small(const std::string& task) {
  return {.task = task,
          .workload = "fcn-scaling-1x16",
          .batch = 8,
          .threads = 1,
          .warmup_steps = 1,
          .warmup_seconds = 0,
          .samples = 3,
          .min_seconds = 0};
}

TEST(Worker, TimesAreAnswersThatCanBeBelieved) {
  for (const char* task : {"step", "infer", "parts"}) {
    const json said = json::parse(answer(small(task)).dump());
    EXPECT_EQ(objection(said, task), "") << said;
    EXPECT_EQ(said.at("parameters"), 784 * 16 + 16 + 16 * 10 + 10);
  }
  const json step = json::parse(answer(small("step")).dump());
  EXPECT_EQ(step.at("samples_ms").size(), 3u);
  EXPECT_GE(step.at("steps_per_sample"), 1);
  EXPECT_GT(step.at("planned_bytes"), 0);
  const json parts = json::parse(answer(small("parts")).dump());
  EXPECT_GE(parts.at("layers").size(), 2u);
}

TEST(Worker, SamplesEndAtTheLimit) {
  int calls = 0;
  const Timing timing = time_calls([&] { ++calls; }, [] {}, {.samples = 1000000, .max_seconds = 0.05, .sample_ms = 1});
  EXPECT_LT(timing.samples_ms.size(), 100000u);
  EXPECT_GE(timing.samples_ms.size(), 2u);
  EXPECT_GT(timing.calls_per_sample, 1);
}

// The same weights and batches give the same losses, whoever asks; other weights do not.
TEST(Worker, FilesGiveTheSameLosses) {
  const TemporaryFolder folder;
  Request request = small("files");
  request.weights = folder / "w.safetensors", request.batches = folder / "b.safetensors";
  answer(request);
  request.task = "losses", request.dropout = false;
  const auto first = answer(request).at("losses").get<std::vector<double>>();
  request.seed = 5;  // of weights that the file replaces
  EXPECT_EQ(answer(request).at("losses").get<std::vector<double>>(), first);
  ASSERT_EQ(first.size(), 5u);
  EXPECT_NE(first[0], first[1]);
  EXPECT_EQ(load_safetensors(request.weights).tensors[0].first, "000:1.weight");
}

TEST(Worker, WeightsOfAnotherNetworkAreRefused) {
  const TemporaryFolder folder;
  Request request = small("files");
  request.weights = folder / "w.safetensors", request.batches = folder / "b.safetensors";
  answer(request);
  request.task = "losses", request.workload = "fcn-scaling-1x17";
  EXPECT_THROW(answer(request), Error);
  request.workload = "fcn-scaling-2x16";
  EXPECT_THROW(answer(request), Error);
}

TEST(Worker, TrainsOnAFileOfSamples) {
  const TemporaryFolder folder;
  Safetensors file;
  for (const char* part : {"train", "validation", "test"}) {
    // The class is where the bright pixel stands: learnt in a few steps.
    Tensor y = cast(uniform({200}, {.seed = 3}) * 9.99, i32);
    file.tensors.emplace_back(std::string("x_") + part,
                              reshape(pad(one_hot(y, 10), {{0, 0}, {0, 774}}), {200, 28, 28, 1}).eval());
    file.tensors.emplace_back(std::string("y_") + part, y.eval());
  }
  save_safetensors(folder / "d.safetensors", file);
  Request request = small("train");
  request.data = folder / "d.safetensors", request.epochs = 30, request.target = 0.5;
  const json said = json::parse(answer(request).dump());
  EXPECT_EQ(objection(said, "train"), "");
  EXPECT_EQ(said.at("epochs").size(), 30u);
  EXPECT_GT(said.at("test_accuracy"), 0.9) << said;
  EXPECT_GE(said.at("epochs_to_target"), 1);
  EXPECT_LE(said.at("seconds_to_target").get<double>(), said.at("train_seconds").get<double>() * 1.01);
}

TEST(Worker, FailuresAreWritten) {
  const TemporaryFolder folder;
  Request request = small("sing");
  request.result = folder / "r.json";
  std::ofstream(folder / "q.json") << request_json(request).dump();
  EXPECT_EQ(run_worker(folder / "q.json"), 0);
  const json said = json::parse(load_text(folder / "r.json"));
  EXPECT_EQ(said.at("status"), "failed");
  EXPECT_NE(said.at("reason").get<std::string>().find("sing"), std::string::npos);
  request.task = "step", request.device = "cuda:99";
  std::ofstream(folder / "q.json") << request_json(request).dump();
  run_worker(folder / "q.json");
  EXPECT_EQ(json::parse(load_text(folder / "r.json")).at("status"), "unsupported");
}

TEST(Worker, ProcessorsHaveNoTf32) {
  Request request = small("step");
  request.precision = "tf32";
  EXPECT_THROW(answer(request), Error);
}

TEST(Worker, DamagedRequestsAreRefusedByName) {
  const TemporaryFolder folder;
  for (const char* text : {"", "[]", "{}", R"({"task": 3})",
                           R"({"task":"step","workload":{"name":"fcn5"},"batch":0,"threads":1,"result":"r"})"}) {
    std::ofstream(folder / "q.json") << text;
    EXPECT_THROW(load_request(folder / "q.json"), Error) << text;
  }
}

}  // namespace
}  // namespace varve::bench
