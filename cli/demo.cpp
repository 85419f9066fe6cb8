// `varve demo`: a first network. Three interleaved spirals, a perceptron with two hidden layers, Adam; a training step
// is one compiled program over the variables.
#include <cmath>
#include <iostream>
#include <numbers>

#include "base/cpu.h"
#include "base/text.h"
#include "commands.h"
#include "text.h"
#include "varve/varve.h"

namespace varve::cli {
namespace {

constexpr std::int64_t kArms = 3, kHidden = 48, kBatch = 192, kTest = 900;
constexpr double kRate = 1e-2;

struct Points {
  Tensor x;       // f32 [n, 2]
  Tensor labels;  // i64 [n]: which arm
};

// Points on `kArms` spirals that wind once round the centre, with a little noise.
Points spirals(std::int64_t count, std::int64_t seed, const Tensor& counter, const std::string& stream) {
  const RandomOptions draw{.seed = seed, .stream = stream, .counter = counter};
  RandomOptions noise = draw;
  noise.stream += "/noise";
  const Tensor labels = arange(count) % kArms;
  const Tensor radius = 0.05 + 0.95 * uniform({count}, draw);
  const Tensor angle =
      2 * std::numbers::pi * (radius + cast(labels, f32) / static_cast<double>(kArms)) + 0.12 * normal({count}, noise);
  return {stack({radius * cos(angle), radius * sin(angle)}, 1), labels};
}

struct Perceptron {
  std::vector<Variable> parameters;

  explicit Perceptron(std::int64_t seed) {
    const std::int64_t sizes[] = {2, kHidden, kHidden, kArms};
    for (std::size_t i = 0; i + 1 < std::size(sizes); ++i) {
      const std::string layer = cat("layer", i);
      const double deviation = std::sqrt(2.0 / static_cast<double>(sizes[i]));
      parameters.emplace_back(layer + ".w",
                              deviation * normal({sizes[i], sizes[i + 1]}, {.seed = seed, .stream = layer}));
      parameters.emplace_back(layer + ".b", zeros({sizes[i + 1]}));
    }
  }
  Tensor operator()(Tensor x) const {
    for (std::size_t i = 0; i < parameters.size(); i += 2) {
      x = linear(x, parameters[i], parameters[i + 1]);
      if (i + 2 < parameters.size()) x = relu(x);
    }
    return x;
  }
  std::int64_t count() const {
    std::int64_t total = 0;
    for (const Variable& p : parameters) total += p.shape().numel();
    return total;
  }
};

struct Adam {
  std::vector<Variable> m, v;
  Variable step{"step", full_int({}, 0), false};

  explicit Adam(const std::vector<Variable>& parameters) {
    for (const Variable& p : parameters) {
      m.emplace_back(p.name() + ".m", zeros(p.shape()), false);
      v.emplace_back(p.name() + ".v", zeros(p.shape()), false);
    }
  }
  void apply(std::vector<Variable>& parameters, const std::vector<Tensor>& grads) {
    step.assign(step + 1);
    for (std::size_t i = 0; i < grads.size(); ++i) {
      const Updated next = adam_update(parameters[i], grads[i], m[i], v[i], kRate, step);
      parameters[i].assign(next.parameter);
      m[i].assign(next.state[0]);
      v[i].assign(next.state[1]);
    }
  }
};

std::string bar(std::int64_t done, std::int64_t all) {
  constexpr std::int64_t kWidth = 20;
  std::string text;
  for (std::int64_t i = 0; i < kWidth; ++i) text += i * all < done * kWidth ? "━" : " ";
  return text;
}

}  // namespace

int demo(const DemoOptions& options) {
  use_device(options.device, options.threads);
  Perceptron model(options.seed);
  Adam adam(model.parameters);
  // The data are part of the program: the number of the step is the counter that fresh points are drawn with.
  auto step = compile(
      [&] {
        const Points batch = spirals(kBatch, options.seed, adam.step, "train");
        auto [loss, grads] =
            value_and_grad([&] { return cross_entropy(model(batch.x), batch.labels); }, model.parameters);
        adam.apply(model.parameters, grads);
        return loss;
      },
      {.name = "demo step"});

  std::cout << "varve " << VARVE_VERSION << " · " << device() << ", " << threads()
            << (threads() == 1 ? " thread, " : " threads, ") << isa_name() << " · " << kArms
            << " spirals, a perceptron of " << thousands(model.count()) << " parameters · " << bytes(step.peak_bytes())
            << " peak in a step\n";
  const Progress clock(0);
  const std::int64_t report = std::max<std::int64_t>(1, options.steps / 6);
  for (std::int64_t i = 1; i <= options.steps; ++i) {
    const Tensor loss = step();
    if (i % report == 0 || i == options.steps)
      std::cout << "step " << right(cat(i), cat(options.steps).size()) << "/" << options.steps << " "
                << bar(i, options.steps) << "  loss " << fixed(loss.item<float>(), 4) << std::endl;
  }
  const Points test = spirals(kTest, options.seed, {}, "test");
  const Tensor right_ones = argmax(model(test.x)) == test.labels;
  const double accuracy = mean(cast(right_ones, f32)).item<double>();
  std::cout << "test accuracy " << fixed(accuracy, 4) << " on " << kTest << " points it has not seen · "
            << fixed(clock.seconds(), 1) << " s\n";
  return kOk;
}

}  // namespace varve::cli
