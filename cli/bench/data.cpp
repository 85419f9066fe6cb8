// `varve bench data`: what the loader delivers, and how short a training step may be before it waits.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/text.h"
#include "bench/clock.h"
#include "cli/menu.h"
#include "cli/text.h"
#include "varve/data.h"

namespace varve::cli {
namespace {

struct BenchDataOptions {
  std::string name = "digits";  // as data::load names sets
  std::int64_t batch = 128;
  int workers = 1;  // measured with none, one, two, four … up to this many
  double step = 5;  // milliseconds of the training step that is imitated
  bool json = false;
};

using Clock = std::chrono::steady_clock;

constexpr double kLoaderSeconds = 0.5;  // seconds of each measurement

struct Case {
  std::string augmentation;  // names of transforms; "" for none
  data::Dataset set;
  int workers = 0;
};

struct Throughput {
  double samples = 0, bytes = 0;  // a second
  double batch_ms = 0;            // from batch to batch when nobody computes
  double waited = 0;              // share of the time, when each batch is followed by a step
};

// A training step as the loader sees it: a core is busy. Sleeping would leave the core to the workers.
void play_step(double milliseconds) {
  for (const auto start = Clock::now(); bench::seconds_since(start) * 1e3 < milliseconds;) {
  }
}

struct Pass {
  double samples = 0, batches = 0, seconds = 0, waited = 0;
};

// Takes batches for a while, epoch after epoch.
Pass pass(const Case& bench, std::int64_t batch_size, double step_ms) {
  Pass total;
  const auto start = Clock::now();
  for (std::int64_t epoch = 0; total.seconds < kLoaderSeconds; ++epoch) {
    data::Loader loader(bench.set, {.batch = batch_size, .epoch = epoch, .workers = bench.workers});
    data::Batch batch;
    while (total.seconds < kLoaderSeconds && loader.next(batch)) {
      total.samples += static_cast<double>(batch.x.dim(0));
      ++total.batches;
      if (step_ms > 0) play_step(step_ms);
      total.seconds = bench::seconds_since(start);
    }
    total.waited += loader.waited_seconds();
  }
  return total;
}

Throughput measure(const Case& bench, const BenchDataOptions& options, std::int64_t batch) {
  const Pass alone = pass(bench, batch, 0), beside = pass(bench, batch, options.step);
  const double sample_bytes = static_cast<double>(bench.set.x().bytes() + bench.set.y().bytes());
  return {alone.samples / alone.seconds, alone.samples / alone.seconds * sample_bytes,
          alone.seconds / alone.batches * 1e3, beside.waited / beside.seconds};
}

std::vector<Case> cases_of(const data::Dataset& set, int workers) {
  std::vector<std::vector<std::string>> augmentations = {{}};
  if (set.x().dtype == f32 && set.x().shape.rank() == 3) {
    augmentations.push_back({"crop", "flip"});
    augmentations.push_back({"rotate", "scale"});
  }
  std::vector<Case> cases;
  for (const std::vector<std::string>& names : augmentations) {
    std::vector<data::Transform> transforms;
    std::string text;
    for (const std::string& name : names) {
      transforms.push_back(data::transform_by_name(name));
      text += (text.empty() ? "" : ", ") + name;
    }
    const data::Dataset mapped = set.map(transforms);
    for (int count = 0; count < workers; count = std::max(1, 2 * count)) cases.push_back({text, mapped, count});
    cases.push_back({text, mapped, workers});
  }
  return cases;
}

// Sets that are made or unpacked when they are first read should be so before the clock runs.
void warm_up(const data::Dataset& set, std::int64_t batch) {
  Progress progress(1);
  data::Loader loader(set, {.batch = batch, .shuffle = false});
  data::Batch taken;
  for (std::int64_t done = 1; loader.next(taken) && progress.seconds() < 10; ++done) {
    if (done * 10 / loader.batches() == (done - 1) * 10 / loader.batches()) continue;  // a line for each tenth
    progress.show(cat("reading ", done, "/", loader.batches()));
  }
}

void print_json(const BenchDataOptions& options, const Case& bench, std::int64_t batch, const Throughput& m) {
  std::cout << nlohmann::ordered_json{{"data", options.name},       {"augmentation", bench.augmentation},
                                      {"workers", bench.workers},   {"batch", batch},
                                      {"samples_per_s", m.samples}, {"bytes_per_s", m.bytes},
                                      {"ms_per_batch", m.batch_ms}, {"step_ms", options.step},
                                      {"waited_share", m.waited}}
                   .dump()
            << std::endl;
}

// The shortest step for which a batch of unchanged and of changed samples is ready in time.
std::string shortest_steps(const std::vector<Case>& cases, const std::vector<Throughput>& measured,
                           std::int64_t batch) {
  std::string text;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (i + 1 < cases.size() && cases[i + 1].augmentation == cases[i].augmentation) continue;  // fewer workers
    text += cat("feeds steps down to ", fixed(measured[i].batch_ms, 3), " ms at batch ", batch,
                cases[i].augmentation.empty() ? "" : " with " + cases[i].augmentation, "\n");
  }
  return text;
}

// ---- beside the library that decodes JPEG

// Files of a folder that are JPEG by their name.
std::vector<std::string> jpeg_files(const std::string& name) {
  std::vector<std::string> files;
  if (!name.starts_with("folder:")) return files;
  const std::filesystem::path folder = name.substr(7);
  const bool parted = std::filesystem::is_directory(folder / "train");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(parted ? folder / "train" : folder)) {
    std::string ending = entry.path().extension().string();
    for (char& c : ending) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if (entry.is_regular_file() && (ending == ".jpg" || ending == ".jpeg")) files.push_back(entry.path().string());
  }
  return files;
}

// Pictures a second that threads read and decode to their full size, and do nothing else with.
double decoded_alone(const std::vector<std::string>& files, int threads) {
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> stop = false;
  std::vector<std::thread> all;
  const auto start = Clock::now();
  for (int i = 0; i < threads; ++i)
    all.emplace_back([&] {
      while (!stop && bench::seconds_since(start) < kLoaderSeconds) load_picture(files[next++ % files.size()], 3);
    });
  for (std::thread& thread : all) thread.join();
  return static_cast<double>(next) / bench::seconds_since(start);
}

struct BesideDecoder {
  double alone = 0, loader = 0;  // pictures a second
};

// In turns, so that what else the machine does is shared; the middle one of several rounds each.
BesideDecoder beside_decoder(const data::Dataset& set, const std::vector<std::string>& files, std::int64_t batch,
                             int threads) {
  constexpr int kRounds = 5;
  std::vector<double> alone, loader;
  for (int round = 0; round < kRounds; ++round) {
    alone.push_back(decoded_alone(files, threads));
    const Pass one = pass({"", set, threads}, batch, 0);
    loader.push_back(one.samples / one.seconds);
  }
  for (auto* rates : {&alone, &loader}) std::sort(rates->begin(), rates->end());
  return {alone[kRounds / 2], loader[kRounds / 2]};
}

int run_bench_data(const BenchDataOptions& options) {
  if (options.batch < 1) throw UsageError(cat("batch: expected 1 or more, got ", options.batch, "."));
  if (options.workers < 0) throw UsageError(cat("workers: expected 0 or more, got ", options.workers, "."));
  if (!(options.step > 0 && options.step <= 1e3))
    throw UsageError(cat("step: expected more than 0 and at most 1000 ms, got ", options.step, "."));
  const data::Dataset set = data::load(options.name).train;
  if (set.size() == 0) throw UsageError(cat("\"", options.name, "\" has no samples to train on."));
  const std::int64_t batch = set.streams() > 0 ? set.streams() : options.batch;
  warm_up(set, batch);
  const std::vector<Case> cases = cases_of(set, options.workers);
  std::vector<Throughput> measured;
  std::vector<std::vector<std::string>> rows = {{"augmentation", "workers", "samples/s", "MB/s", "ms a batch",
                                                 cat("waits, ", fixed(options.step, 1), " ms steps")}};
  Progress progress(2);
  for (const Case& bench : cases) {
    progress.show(cat(measured.size() + 1, "/", cases.size(), " ", bench.augmentation));
    const Throughput m = measure(bench, options, batch);
    progress.clear();
    measured.push_back(m);
    if (options.json) print_json(options, bench, batch, m);
    rows.push_back({bench.augmentation.empty() ? "-" : bench.augmentation, cat(bench.workers),
                    thousands(static_cast<std::int64_t>(m.samples)), fixed(m.bytes / 1e6, 1), fixed(m.batch_ms, 3),
                    fixed(100 * m.waited, 2) + "%"});
  }
  const std::vector<std::string> jpegs = jpeg_files(options.name);
  const int threads = std::max(options.workers, 1);
  BesideDecoder beside;
  if (!jpegs.empty()) beside = beside_decoder(set, jpegs, std::min(batch, set.size()), threads);
  if (options.json) {
    if (!jpegs.empty())
      std::cout << nlohmann::ordered_json{{"data", options.name},
                                          {"threads", threads},
                                          {"decoder_alone_per_s", beside.alone},
                                          {"loader_per_s", beside.loader},
                                          {"share", beside.loader / beside.alone}}
                       .dump()
                << std::endl;
    return kOk;
  }
  std::cout << options.name << " · " << thousands(set.size()) << " samples of " << set.x().str() << " · batch " << batch
            << "\n\n"
            << aligned(rows) << '\n'
            << shortest_steps(cases, measured, batch);
  if (!jpegs.empty())
    std::cout << "libjpeg-turbo alone reads " << thousands(std::llround(beside.alone))
              << " of these files a second with " << threads << (threads == 1 ? " thread" : " threads")
              << ", the loader " << thousands(std::llround(beside.loader)) << ": "
              << fixed(beside.loader / beside.alone, 2) << " of that\n";
  return kOk;
}

}  // namespace

void add_bench_data(Menu& bench) {
  auto options = std::make_shared<BenchDataOptions>();
  bench
      .command({.name = "data",
                .what = "Time the loader, with more and more threads that read ahead, beside a simulated step",
                .examples = "Example: varve bench data cifar10 batch=128 workers=4"},
               [options] { return run_bench_data(*options); })
      .option("name", options->name, "the data set")
      .option("--batch", options->batch, "samples in a batch", {.least = 1, .most = 1000000})
      .option("--workers", options->workers, "threads at most", {.least = 1, .most = 256})
      .option("--step", options->step, "milliseconds of the step that is imitated", {.least = 0, .most = 1e6})
      .flag("--json", options->json, "one JSON object a line");
}

}  // namespace varve::cli
