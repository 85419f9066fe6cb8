// `varve summary`: layers, shapes, parameters, operations and memory of a network.
#include <charconv>
#include <iostream>

#include "base/text.h"
#include "cli/menu.h"
#include "cli/subject.h"
#include "cli/text.h"
#include "varve/train.h"

namespace varve::cli {
namespace {

constexpr const char* kSummaryExamples = R"(Examples:
  varve summary resnet50 batch=16
  varve summary lenet.toml
  varve summary runs/lenet5-1)";

int run_summary(Subject subject) {
  std::int64_t batch = 32;
  std::erase_if(subject.settings, [&](const std::string& setting) {
    if (!setting.starts_with("batch=")) return false;
    const char* end = setting.data() + setting.size();
    const auto [stop, error] = std::from_chars(setting.data() + 6, end, batch);
    if (error != std::errc() || stop != end || batch < 1 || batch > 1'000'000)
      throw UsageError(cat("batch: expected an integer from 1 to 1000000, got '", setting.substr(6), "'."));
    return true;
  });
  const train::Config config = config_of(subject);
  nn::Layer model;
  std::vector<Field> inputs = train::network_inputs(config);
  if (is_run(subject.what)) {
    const train::TrainedModel run = train::load_run(subject.what);
    model = run.model;
    inputs = run.inputs;
  } else {
    model = train::make_network(config);
    model->build_all(inputs, {.dtype = inputs[0].type.dtype, .batch = batch});
  }
  const TensorType& input = inputs[0].type;
  std::cout << config.name;
  if (inputs.size() > 1)
    std::cout << " · inputs " << str(inputs) << '\n';
  else
    std::cout << " · input " << input.shape << (input.dtype == i32 ? " of token ids" : "") << '\n';
  std::cout << model->summarize({.batch = batch}).str() << std::flush;
  return kOk;
}

}  // namespace

void add_summary(Menu& menu) {
  menu.network_command({.name = "summary",
                        .what = "Print a network's layers, shapes, parameters, operations and memory",
                        .examples = kSummaryExamples},
                       run_summary);
}

}  // namespace varve::cli
