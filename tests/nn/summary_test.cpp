#include "helpers.h"

namespace varve::nn_tests {
namespace {

TEST(Summary, CountsShapesParametersAndWork) {
  nn::Sequential model;
  model.push(nn::conv2d(4, {.padding = nn::valid, .bias = false}), "conv").push(nn::flatten(), "flat");
  model.push(nn::sequential(nn::dense(5), nn::dense(2)), "head");
  model.build({6, 6, 3});
  model.freeze("conv.*");
  const nn::Summary summary = model.summarize({.batch = 8});
  ASSERT_EQ(summary.rows.size(), 5u);
  std::vector<std::string> rows;
  for (const nn::SummaryRow& row : summary.rows)
    rows.push_back(std::to_string(row.depth) + " " + row.path + " " + row.kind + " " + row.output.str() + " " +
                   std::to_string(row.parameters));
  EXPECT_EQ(rows, (std::vector<std::string>{"0 conv conv2d [8, 4, 4, 4] 108", "0 flat flatten [8, 64] 0",
                                            "0 head sequential [8, 2] 0", "1 head.0 dense [8, 5] 325",
                                            "1 head.1 dense [8, 2] 12"}));
  EXPECT_EQ(summary.parameters, 445);
  EXPECT_EQ(summary.trainable, 337);
  EXPECT_EQ(summary.parameter_bytes, 445 * 4);
  EXPECT_EQ(summary.rows[2].flops, 0);
  EXPECT_NEAR(summary.rows[0].flops, 2.0 * 8 * 16 * 4 * 27, 0.01 * 2 * 8 * 16 * 4 * 27);
  double flops = 0;
  for (const nn::SummaryRow& row : summary.rows) flops += row.flops;
  EXPECT_NEAR(summary.flops, flops, 1);
  EXPECT_GT(summary.peak_bytes, 3 * 4 * 337 + 4 * 108 + 4 * 8 * 6 * 6 * 3);
  EXPECT_GT(model.summarize({.batch = 64}).peak_bytes, summary.peak_bytes);
}

TEST(Summary, DoesNotDisturbTheModel) {
  auto model = nn::sequential(nn::batch_norm(), nn::dropout(0.5), nn::dense(3));
  model(wave(0, {4, 5}), Mode::train).eval();
  std::vector<std::vector<double>> before, after;
  for (const nn::NamedVariable& named : model.named_variables())
    before.push_back(named.variable.value().to_vector<double>());
  model.summarize();
  for (const nn::NamedVariable& named : model.named_variables())
    after.push_back(named.variable.value().to_vector<double>());
  EXPECT_EQ(before, after);
}

TEST(Summary, SharedLayersCountOnce) {
  const nn::Dense shared(4);
  auto model = nn::sequential(shared, shared);
  model.build({4});
  const nn::Summary summary = model.summarize();
  EXPECT_FALSE(summary.rows[0].shared);
  EXPECT_TRUE(summary.rows[1].shared);
  EXPECT_EQ(summary.parameters, 20);
}

TEST(Summary, ReadsAsATable) {
  nn::Summary summary;
  summary.rows = {{.path = "conv", .kind = "conv2d", .output = {32, 4, 4, 4}, .parameters = 1108, .flops = 5.53e5},
                  {.path = "head.0", .kind = "dense", .output = {32, 5}, .parameters = 325, .flops = 450, .depth = 1}};
  summary.parameters = 1433;
  summary.trainable = 1433;
  summary.parameter_bytes = 5732;
  summary.batch = 32;
  summary.flops = 2.5e9;
  summary.peak_bytes = 12'100'000;
  EXPECT_EQ(summary.str(),
            "layer (kind)      output shape   parameters  FLOPs\n"
            "──────────────────────────────────────────────────\n"
            "conv (conv2d)     [32, 4, 4, 4]       1,108  553 k\n"
            "  head.0 (dense)  [32, 5]               325    450\n"
            "──────────────────────────────────────────────────\n"
            "parameters 1,433 (" +
                bytes(5732) +
                "), trainable 1,433\n"
                "forward pass of a batch of 32: 2.5 GFLOPs\n"
                "peak training memory at batch 32 with Adam: 12.1 MB\n");
}

TEST(Summary, NeedsShapes) {
  EXPECT_EQ(message_of([] { nn::dense(2).summarize(); }),
            "dense: a summary needs shapes: call build({…}) with the shape of a sample, or run a batch, first.");
}

}  // namespace
}  // namespace varve::nn_tests
