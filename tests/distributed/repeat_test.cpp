// A number of ranks gives the same bits each time, after a stop too; and ranks that have come apart are noticed.
#include <fstream>

#include "base/ranks.h"
#include "distributed/fit_ranks.h"
#include "temporary_folder.h"
#include "varve/varve.h"

namespace varve::test {
namespace {

namespace dist = distributed;

class RepeatedRuns : public Ranks {};

nn::Sequential repeated_network() {
  return nn::sequential(nn::conv2d(4, {.kernel = 3}), nn::batch_norm(), nn::activation(nn::relu), nn::flatten(),
                        nn::dropout(0.2), nn::dense(10));
}

// Four batches an epoch, the last of four samples. `stop_after`: so many steps, then begin again where it was saved.
std::vector<float> weights_of_run(const std::string& run, std::int64_t stop_after) {
  const auto data = data::digits({.train = 100, .test = 1}).train;
  train::FitOptions options{.optimizer = optim::adam(1e-2),
                            .epochs = 3,
                            .batch = 32,
                            .run = run,
                            .seed = 3,
                            .verbosity = train::Verbosity::quiet};
  auto model = repeated_network();
  if (stop_after > 0) {
    auto first = options;
    first.callbacks = {train::each_step([&](train::Session& session) {
      if (session.step() == stop_after) throw Stopped("enough");
    })};
    EXPECT_THROW(train::fit(model, data, first), Stopped);
    model = repeated_network();
    options.resume = true;
  }
  train::fit(model, data, options);
  std::vector<float> all;
  for (const nn::NamedVariable& named : model.named_variables()) {
    const std::vector<float> values = named.variable.value().to(f32).to_vector<float>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

TEST_P(RepeatedRuns, InOneGoAndStoppedInTheMiddleOfAnEpoch) {
  if (started()) return;
  const TemporaryFolder folder;
  const std::vector<float> whole = weights_of_run(folder / "whole", 0);
  EXPECT_EQ(whole, weights_of_run(folder / "again", 0));
  EXPECT_EQ(whole, weights_of_run(folder / "stopped", 6));
}

TEST_P(RepeatedRuns, RanksThatComeApartAreNoticed) {
  if (started()) return;
  auto model = repeated_network();
  train::FitOptions options{.epochs = 5, .batch = 32, .verbosity = train::Verbosity::quiet};
  options.parallel.check_every = 4;
  std::int64_t steps = 0;
  options.callbacks = {train::each_step([&](train::Session& session) {
    steps = session.step();
    if (steps == 6 && dist::rank() == 1) {
      Variable bias = session.model().parameters().back();
      bias.assign(bias.value() + 1e-3);
    }
  })};
  try {
    train::fit(model, data::digits({.train = 96, .test = 1}).train, options);
    FAIL() << "nobody noticed";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("of rank 1 differs from rank 0's"), std::string::npos) << error.what();
    EXPECT_EQ(steps, 8);
  }
}

TEST(UnlikeRanks, AreNamed) {
  EXPECT_EQ(unlike_ranks({"AVX2"}), "");
  EXPECT_EQ(unlike_ranks({"AVX2", "AVX2"}), "");
  EXPECT_EQ(unlike_ranks({"AVX-512", "AVX2", "AVX-512", "baseline"}), "rank 1 has AVX2, rank 3 has baseline");
}

INSTANTIATE_TEST_SUITE_P(Of, RepeatedRuns, ::testing::Values(2, 3));

}  // namespace
}  // namespace varve::test
