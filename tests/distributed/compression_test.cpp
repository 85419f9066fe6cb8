// Compressed gradients: each scheme against plain loops over all ranks' values; nothing is lost for good.
#include <cmath>
#include <numeric>

#include "distributed/fit_ranks.h"
#include "temporary_folder.h"
#include "train/checkpoint.h"
#include "varve/varve.h"

namespace varve::test {
namespace {

namespace dist = distributed;

class Compressed : public FitRanks {};

using Values = std::vector<double>;

constexpr std::int64_t kRows = 64, kColumns = 80;

// The gradient that rank r gives at a step, the same for whoever asks.
Tensor gradient_of(int r, int step) {
  return (normal({kRows, kColumns}, {.seed = 100 * step + r + 1, .stream = "test"}) * (r + 1)).eval();
}

// An optimiser that does nothing but keep what it was given: the means.
optim::Bound keeper(Variable& parameter, const dist::Compression& how) {
  return optim::sgd(1).over({parameter}, {.compress = how});
}

// Of several steps: the means, and what each rank has lost in the end.
struct Sent {
  std::vector<Values> means;
  Tensor lost;  // [ranks, rows, columns]
};
Sent send_steps(const dist::Compression& how, int steps, bool compiled) {
  Variable parameter("w", zeros({kRows, kColumns}));
  optim::Bound sgd = keeper(parameter, how);
  auto step = compile([&](const Tensor& gradient) {
    sgd.apply({gradient});
    return sum(gradient);
  });
  Sent sent;
  Tensor before = parameter.value();
  for (int s = 0; s < steps; ++s) {
    const Tensor own = gradient_of(dist::rank(), s);
    if (compiled)
      step(own).eval();
    else
      sgd.apply({own});
    const Tensor now = parameter.value();
    sent.means.push_back((before - now).to_vector<double>());
    before = now;
  }
  for (const Variable& variable : sgd.state())
    if (variable.name() == "lost.w") sent.lost = variable.value();
  return sent;
}

Values sum_of_gradients(int steps) {
  Values all(kRows * kColumns);
  for (int s = 0; s < steps; ++s)
    for (int r = 0; r < dist::size(); ++r) {
      const Values own = gradient_of(r, s).to_vector<double>();
      for (std::size_t i = 0; i < all.size(); ++i) all[i] += own[i];
    }
  return all;
}

void expect_close(const Values& got, const Values& expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::abs(got[i] - expected[i]));
  EXPECT_LE(worst, tolerance);
}

// What was sent and what is still to be sent make all that there was.
TEST_P(Compressed, NothingIsLostForGood) {
  if (started()) return;
  constexpr int kSteps = 5;
  for (const bool compiled : {false, true})
    for (const dist::Compression& how : {dist::half(), dist::one_bit(), dist::top_k(0.05), dist::power_sgd(2)}) {
      const Sent sent = send_steps(how, kSteps, compiled);
      Values all(kRows * kColumns);
      for (const Values& mean : sent.means)
        for (std::size_t i = 0; i < all.size(); ++i) all[i] += mean[i] * dist::size();
      if (dist::size() > 1) {
        ASSERT_TRUE(sent.lost.defined()) << how.name;
        EXPECT_EQ(sent.lost.shape(), (Shape{dist::size(), kRows, kColumns}));
        const Values lost = sum(sent.lost, {.axes = Axes{0}}).to_vector<double>();
        for (std::size_t i = 0; i < all.size(); ++i) all[i] += lost[i];
      } else {
        EXPECT_FALSE(sent.lost.defined()) << "one rank has nothing to compress";
      }
      SCOPED_TRACE(how.name);
      // The sum of halves is rounded to half once more.
      expect_close(all, sum_of_gradients(kSteps), how.name == "half" && dist::size() > 1 ? 0.5 : 2e-3);
    }
}

// Sums of all ranks' values after each rank's own error feedback, by `send`: what a rank's values become.
template <class Send>
std::vector<Values> reference(int steps, Send send) {
  std::vector<Values> lost(static_cast<std::size_t>(dist::size()), Values(kRows * kColumns)), means;
  for (int s = 0; s < steps; ++s) {
    Values mean(kRows * kColumns);
    for (int r = 0; r < dist::size(); ++r) {
      Values& own = lost[static_cast<std::size_t>(r)];
      const Values gradient = gradient_of(r, s).to_vector<double>();
      for (std::size_t i = 0; i < own.size(); ++i) own[i] += gradient[i];
      const Values sent = send(own);
      for (std::size_t i = 0; i < own.size(); ++i) {
        own[i] -= sent[i];
        mean[i] += sent[i] / dist::size();
      }
    }
    means.push_back(mean);
  }
  return means;
}

// Columns have fewer than 256 entries: those of neighbouring halves are joined, 80 to 20.
Values by_one_bit(const Values& v) {
  constexpr std::size_t columns = 20;
  Values sent = v;
  for (std::size_t c = 0; c < columns; ++c) {
    double sums[2] = {}, counts[2] = {};
    for (std::size_t i = c; i < v.size(); i += columns) {
      sums[v[i] >= 0] += v[i];
      ++counts[v[i] >= 0];
    }
    for (std::size_t i = c; i < v.size(); i += columns) sent[i] = sums[v[i] >= 0] / counts[v[i] >= 0];
  }
  return sent;
}

TEST_P(Compressed, OneBitIsTheMeanOfEitherSignInAColumn) {
  if (started() || dist::size() == 1) return;
  const std::vector<Values> expected = reference(3, by_one_bit);
  const Sent sent = send_steps(dist::one_bit(), 3, true);
  for (std::size_t s = 0; s < 3; ++s) {
    // An entry near 0 may have the other sign in f32: then a rank's two means are exchanged there.
    std::size_t others = 0;
    for (std::size_t i = 0; i < expected[s].size(); ++i) others += std::abs(sent.means[s][i] - expected[s][i]) > 1e-3;
    EXPECT_LE(others, 5u);
  }
}

TEST_P(Compressed, TopKIsTheLargestEntries) {
  if (started() || dist::size() == 1) return;
  const auto largest = [](const Values& v) {
    std::vector<std::size_t> order(v.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return std::abs(v[a]) > std::abs(v[b]); });
    Values sent(v.size());
    for (std::size_t k = 0; k < v.size() / 20; ++k) sent[order[k]] = v[order[k]];
    return sent;
  };
  const std::vector<Values> expected = reference(3, largest);
  const Sent sent = send_steps(dist::top_k(0.05), 3, true);
  for (std::size_t s = 0; s < 3; ++s) expect_close(sent.means[s], expected[s], 1e-3);
}

// A matrix of the rank of the factors is sent whole; and what is sent never has a higher one.
TEST_P(Compressed, PowerSgdSendsLowRankMatricesWhole) {
  if (started() || dist::size() == 1) return;
  Variable parameter("w", zeros({kRows, kColumns}));
  optim::Bound sgd = keeper(parameter, dist::power_sgd(3));
  const auto factor = [](std::int64_t seed, const Shape& shape) { return normal(shape, {.seed = seed}); };
  Tensor mean = zeros({kRows, kColumns});
  for (int r = 0; r < dist::size(); ++r)
    mean = mean + matmul(factor(7, {kRows, 2}), factor(r + 11, {2, kColumns})) * (1.0 / dist::size());
  sgd.apply({matmul(factor(7, {kRows, 2}), factor(dist::rank() + 11, {2, kColumns}))});
  expect_close((0 - parameter.value()).to_vector<double>(), mean.to_vector<double>(), 1e-3);
}

TEST_P(Compressed, FewerBytesTravel) {
  if (started() || dist::size() == 1) return;
  const auto bytes_of = [](const dist::Compression& how) {
    auto model = nn::sequential(nn::dense(800, {.activation = nn::relu}), nn::dense(400));
    model.build({1000}, {.seed = 1});
    auto sgd = optim::sgd(0.1).over(model.parameters(), {.compress = how});
    auto step = compile([&](const Tensor& x) {
      auto [loss, grads] = value_and_grad([&] { return sum(model(x, Mode::train)); }, model.parameters());
      sgd.apply(grads);
      return loss;
    });
    step(ones({4, 1000})).eval();
    const double before = dist::wire_time().sent_bytes;
    step(ones({4, 1000})).eval();
    return static_cast<double>(dist::wire_time().sent_bytes - before);
  };
  const double plain = bytes_of({});
  const double gathers = dist::size() / 2.0;  // a gather's bytes grow with the ranks, a sum's do not
  EXPECT_NEAR(plain / bytes_of(dist::half()), 2, 0.05);
  EXPECT_GT(plain / bytes_of(dist::one_bit()), 25 / gathers);
  EXPECT_GT(plain / bytes_of(dist::top_k(0.001)), 200 / gathers);
  EXPECT_GT(plain / bytes_of(dist::power_sgd(4)), 50);
}

// ---- whole trainings

nn::Sequential small_network() {
  return nn::sequential(nn::conv2d(8, {.kernel = 3}), nn::max_pool2d(2), nn::flatten(),
                        nn::dense(32, {.activation = nn::relu}), nn::dense(10));
}

train::FitOptions compressed_options(const dist::Compression& how, int epochs) {
  return {.optimizer = optim::sgd(0.05, {.momentum = 0.9}),
          .epochs = epochs,
          .batch = 24,
          .seed = 3,
          .verbosity = train::Verbosity::quiet,
          .parallel = {.compress = how}};
}

TEST_P(Compressed, TrainsAsWellAsWithout) {
  if (started() || dist::size() != 2) return;
  const auto data = data::digits({.train = 480, .test = 200});
  const auto accuracy = [&](const dist::Compression& how) {
    auto model = nn::sequential(nn::flatten(), nn::dense(64, {.activation = nn::relu}), nn::dense(10));
    train::fit(model, data.train, compressed_options(how, 6));
    return train::evaluate(model, data.test).accuracy;
  };
  const double plain = accuracy({});
  EXPECT_GT(plain, 0.65);
  for (const dist::Compression& how : {dist::half(), dist::one_bit(), dist::top_k(0.1), dist::power_sgd(4)})
    EXPECT_GT(accuracy(how), plain - 0.06) << how.name;
}

std::vector<float> weights_after(const std::string& run, const dist::Compression& how, int epochs, bool resumes) {
  auto options = compressed_options(how, epochs);
  options.run = run;
  options.resume = resumes;
  auto model = small_network();
  train::fit(model, data::digits({.train = 48, .test = 1}).train, options);
  std::vector<float> all;
  for (const Variable& variable : model.parameters()) {
    const std::vector<float> values = variable.value().to_vector<float>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

TEST_P(Compressed, GoesOnBitForBit) {
  if (started() || dist::size() == 1) return;
  const TemporaryFolder folder;
  for (const dist::Compression& how : {dist::half(), dist::one_bit(), dist::top_k(0.01), dist::power_sgd(2)}) {
    const std::vector<float> whole = weights_after(folder / how.name, how, 3, false);
    weights_after(folder / (how.name + "-again"), how, 1, false);
    EXPECT_EQ(whole, weights_after(folder / (how.name + "-again"), how, 3, true)) << how.name;
  }
}

// One rank begins, as many as there are go on; the first process goes on with what two have left.
TEST_P(Compressed, AnyNumberOfRanksGoesOnWithACheckpoint) {
  const TemporaryFolder folder;
  if (!std::getenv("VARVE_RANK")) {
    setenv("ONE_RUN", (folder / "run").c_str(), 1);
    weights_after(folder / "run", dist::one_bit(), 1, false);
  }
  if (started()) {
    weights_after(folder / "run", dist::one_bit(), 3, true);
    return;
  }
  weights_after(std::getenv("ONE_RUN"), dist::one_bit(), 2, true);
}

// A file of one rank more: what all had lost is shared evenly.
TEST_P(Compressed, AnotherNumberOfRanksSharesWhatWasLost) {
  if (started() || dist::size() == 1) return;
  const std::int64_t ranks = dist::size();
  const TemporaryFolder folder;
  const std::string path = dist::rank() == 0 ? folder / "lost.safetensors" : "";
  const Variable lost = dist::variable_of_each_rank("lost", full({5}, dist::rank() + 1.0));
  train::save_checkpoint(path, {{"lost", lost}}, {});
  if (dist::rank() > 0) return;
  Safetensors file = load_safetensors(path);
  EXPECT_EQ(file.tensors[0].second.shape(), (Shape{ranks, 5}));
  file.tensors[0].second = concat({file.tensors[0].second, full({1, 5}, 4)}, 0);
  file.metadata["varve.crc32"] = "";
  save_safetensors(path, file);
  std::vector<Tensor> values;
  train::load_checkpoint(path, {{"lost", lost}}, &values);
  ASSERT_EQ(values.size(), 1u);
  const double sum = static_cast<double>(ranks * (ranks + 1)) / 2 + 4;
  for (const float value : values[0].to_vector<float>()) EXPECT_FLOAT_EQ(value, static_cast<float>(sum / ranks));
  EXPECT_EQ(values[0].shape(), (Shape{ranks, 5}));
}

INSTANTIATE_TEST_SUITE_P(Of, Compressed, ::testing::Values(1, 2, 3));

}  // namespace
}  // namespace varve::test
