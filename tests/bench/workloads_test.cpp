// The table of workloads agrees with the zoo, and its counts with the networks themselves.
#include "bench/workloads.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/flops.h"
#include "bench/network.h"
#include "varve/error.h"
#include "varve/zoo.h"

namespace varve::bench {
namespace {

TEST(Workloads, AreNetworksOfTheZoo) {
  EXPECT_EQ(workloads().size(), 17u);
  for (const Workload& w : workloads()) {
    const zoo::Entry& entry = zoo::find(w.zoo);
    EXPECT_EQ(entry.input, w.input) << w.name;
    EXPECT_EQ(entry.dtype, w.dtype) << w.name;
    EXPECT_EQ(entry.classes, w.classes) << w.name;
    EXPECT_EQ(count_work(w, 1).parameters, entry.parameters) << w.name;
    EXPECT_GT(w.optimizer.rate(), 0) << w.name;
    EXPECT_EQ(workload_json(w).at("name"), w.name);
  }
}

// The zoo counts a forward pass operator by operator; ours, from the sizes, leaves out what is bounded by memory.
TEST(Workloads, CountedWorkIsThatOfTheNetwork) {
  for (const char* name : {"fnn-mnist", "cnn-mnist", "vgg16-cifar", "alexnet", "resnet50", "lstm32", "lstm-imdb",
                           "autoencoder-mnist", "fcn-scaling"}) {
    const Workload& w = find_workload(name);
    const nn::Layer model = zoo::make(w.zoo, w.sizes);
    model->build(w.input, {.dtype = w.dtype});
    const double forward = model->summarize({.batch = 2}).flops;
    const Work work = count_work(w, 2);
    EXPECT_LE(work.forward, 1.001 * forward) << name;
    EXPECT_GE(work.forward, 0.9 * forward) << name;
    EXPECT_GT(work.step, 2 * work.forward) << name;
    EXPECT_LE(work.step, 3 * work.forward) << name;
  }
}

TEST(Workloads, StepOfFcn5) {
  // Forward and the gradient of weights of every layer, the gradient of data of all but the first.
  const double big = 2.0 * 64 * 26752 * 2048, small = 2.0 * 64 * 2048 * 2048;
  EXPECT_DOUBLE_EQ(count_work(find_workload("fcn5"), 64).step, 2 * big + 3 * (big + 2 * small));
}

TEST(Workloads, ScalingNamesSizes) {
  const Workload& w = find_workload("fcn-scaling-4x1024-tanh");
  EXPECT_EQ(w.network.hidden, (std::vector<std::int64_t>(4, 1024)));
  EXPECT_EQ(w.network.activation, "tanh");
  EXPECT_EQ(&w, &find_workload("fcn-scaling-4x1024-tanh"));
  EXPECT_EQ(Network(find_workload("fcn-scaling-1x64"), {}).parameters(), 784 * 64 + 64 + 64 * 10 + 10);
}

TEST(Workloads, DropoutCanBeLeftOut) {
  const Workload& w = find_workload("cnn-mnist");
  const Sample sample = synthetic_batch(w, 4, 7);
  Network without(w, {.dropout = false}), with(w, {});
  EXPECT_EQ(without.loss(sample.x, sample.y).item<float>(), without.loss(sample.x, sample.y).item<float>());
  EXPECT_NE(with.loss(sample.x, sample.y).item<float>(), without.loss(sample.x, sample.y).item<float>());
}

TEST(Workloads, SyntheticIdsStayInTheVocabulary) {
  const Workload& w = find_workload("lstm-imdb");
  const Sample sample = synthetic_batch(w, 64, 3);
  for (const std::int32_t id : sample.x.to_vector<std::int32_t>()) ASSERT_TRUE(id >= 0 && id < 5000) << id;
  for (const std::int32_t label : sample.y.to_vector<std::int32_t>()) ASSERT_TRUE(label >= 0 && label < 2) << label;
}

}  // namespace
}  // namespace varve::bench
