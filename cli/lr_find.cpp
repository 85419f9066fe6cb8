// `varve lr-find`: which rate to learn with.
#include <algorithm>
#include <cmath>
#include <iostream>

#include "base/text.h"
#include "cli/menu.h"
#include "cli/subject.h"
#include "cli/text.h"
#include "varve/io.h"
#include "varve/train/run.h"

namespace varve::cli {
namespace {

struct LrFindOptions {
  std::string out = "lr-find.svg";
};

constexpr const char* kLrFindExamples =
    R"(Settings of its own: from=1e-7 to=10 steps=100. All others are those of `varve train`. Weights are not kept.

Examples:
  varve lr-find fnn-mnist
  varve lr-find net.toml batch=256 from=1e-5 to=1 --out rates.html)";

constexpr int kColumns = 60, kRows = 14;

// Loss over the logarithm of the rate, a dot a column; what blew up is cut off at four times the fall.
std::string plot(const train::RateFinder& found) {
  const double low = *std::min_element(found.losses.begin(), found.losses.end());
  const double high = std::min(*std::max_element(found.losses.begin(), found.losses.end()),
                               low + 1.3 * (found.losses.front() - low) + 1e-6);
  const double begin = std::log10(found.rates.front()), end = std::log10(found.rates.back());
  std::vector<std::string> lines(kRows, std::string(kColumns, ' '));
  const auto column = [&](double rate) {
    return std::clamp(static_cast<int>((std::log10(rate) - begin) / (end - begin) * (kColumns - 1)), 0, kColumns - 1);
  };
  if (found.suggestion > 0)
    for (auto& line : lines) line[static_cast<std::size_t>(column(found.suggestion))] = '|';
  for (std::size_t i = 0; i < found.rates.size(); ++i) {
    if (!std::isfinite(found.losses[i]) || found.losses[i] > high) continue;
    const int row = static_cast<int>((high - found.losses[i]) / (high - low) * (kRows - 1) + 0.5);
    lines[static_cast<std::size_t>(std::clamp(row, 0, kRows - 1))][static_cast<std::size_t>(column(found.rates[i]))] =
        '*';
  }
  std::string text;
  for (int row = 0; row < kRows; ++row) {
    const double loss = high - (high - low) * row / (kRows - 1);
    text += right(row % 4 == 0 ? fixed(loss, 3) : "", 8) + " │" + lines[static_cast<std::size_t>(row)] + "\n";
  }
  return text + right("", 8) + " └" +
         [] {
           std::string dashes;
           for (int i = 0; i < kColumns; ++i) dashes += "─";
           return dashes;
         }() +
         "\n" + right("", 10) + padded(cat(found.rates.front()), kColumns - 8) + right(cat(found.rates.back()), 8) +
         "\n";
}

double taken(std::vector<std::string>& settings, const std::string& name, double standard) {
  for (auto it = settings.begin(); it != settings.end(); ++it) {
    if (!it->starts_with(name + "=")) continue;
    std::size_t used = 0;
    double value = 0;
    const std::string word = it->substr(name.size() + 1);
    try {
      value = std::stod(word, &used);
    } catch (const std::exception&) {
    }
    if (used != word.size() || word.empty() || !(value > 0 && value < 1e9))
      throw UsageError(cat(name, ": expected a number above 0, got '", word, "'."));
    settings.erase(it);
    return value;
  }
  return standard;
}

std::string page(const std::string& svg) {
  return "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Rates</title><body>" + svg +
         "</body></html>\n";
}

int run_lr_find(const LrFindOptions& options, Subject subject) {
  train::RateFinderOptions search;
  search.from = taken(subject.settings, "from", search.from);
  search.to = taken(subject.settings, "to", search.to);
  search.steps = static_cast<std::int64_t>(taken(subject.settings, "steps", static_cast<double>(search.steps)));
  if (search.from >= search.to) throw UsageError("from must be less than to.");
  const train::Prepared prepared = train::prepare(config_of(subject));
  const train::FitOptions fitting = train::fit_options(prepared);
  search.loss = fitting.loss;
  search.optimizer = fitting.optimizer;
  search.batch = fitting.batch;
  search.seed = fitting.seed;
  search.precision = fitting.precision;
  const train::RateFinder found = train::find_rate(*prepared.model, prepared.data.train, search);
  if (found.rates.empty()) throw Error("the loss was not a number from the first step on: start lower, from=1e-10.");
  save_text(options.out, options.out.ends_with(".html") ? page(found.svg) : found.svg);
  std::cout << plot(found);
  if (found.suggestion > 0)
    std::cout << "suggestion: rate=" << found.suggestion << " (where the loss falls fastest)\n";
  else
    std::cout << "no clear descent: the loss falls no further than it differs from batch to batch, so no rate is "
                 "suggested. Try more steps (steps=300), a larger batch or other bounds (from=, to=).\n";
  std::cout << options.out << '\n';
  return kOk;
}

}  // namespace

void add_lr_find(Menu& menu) {
  auto options = std::make_shared<LrFindOptions>();
  menu.network_command({.name = "lr-find",
                        .what = "Find a rate to learn with: the loss as the rate rises step by step",
                        .examples = kLrFindExamples},
                       [options](const Subject& subject) { return run_lr_find(*options, subject); })
      .option("--out", options->out, "where the chart goes: .svg or .html");
}

}  // namespace varve::cli
