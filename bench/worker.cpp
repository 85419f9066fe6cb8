#include "bench/worker.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <iostream>
#include <new>

#include "backend/device.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "bench/clock.h"
#include "runtime/devices.h"
#include "varve/io.h"
#include "varve/version.h"

namespace varve::bench {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::ordered_json;

void write_answer(const Request& request, const ordered_json& answer) {
  AtomicFile file(request.result);
  file.write(answer.dump());
  file.commit();
}

ordered_json describe(const Request& request) {
  const Network network = network_of(request);
  return {{"parameters", network.parameters()}};
}

void add_difference(distributed::WireTime& sum, const distributed::WireTime& from, const distributed::WireTime& to) {
  sum.busy_seconds += to.busy_seconds - from.busy_seconds;
  sum.waited_seconds += to.waited_seconds - from.waited_seconds;
  sum.sent_bytes += to.sent_bytes - from.sent_bytes;
  sum.messages += to.messages - from.messages;
}

}  // namespace

std::int64_t agreed(std::int64_t number) { return std::stoll(distributed::gather_text(cat(number))[0]); }

double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * t.tv_usec; };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

std::int64_t peak_resident() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
  return 0;
}

double clock_seconds() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

void wait_for(const Request& request) { synchronize(request.device); }

std::int64_t peak_memory(const Request& request) {
  const backend::Device* device = runtime::backend_named(request.device).device();
  return device ? device->memory().peak : peak_resident();
}

// Weights are made by the processor, whatever they are trained on: programs bring them to the device.
Network network_of(const Request& request) {
  return Network(find_workload(request.workload), {.precision = parse_precision(request.precision),
                                                   .dropout = request.dropout,
                                                   .seed = request.seed,
                                                   .rate = request.rate,
                                                   .device = request.device,
                                                   .compress = request.compress,
                                                   .sync_batch_norm = request.sync_batch_norm});
}

TimingRules rules_of(const Request& request) {
  return {.warmup_steps = request.warmup_steps,
          .warmup_seconds = request.warmup_seconds,
          .samples = request.samples,
          .min_seconds = request.min_seconds,
          .max_seconds = request.max_seconds};
}

Timing time_calls(const std::function<void()>& call, const std::function<void()>& finish, const TimingRules& rules) {
  auto start = Clock::now();
  int warm = 0;
  while (agreed(warm < std::max(rules.warmup_steps, 1) || seconds_since(start) < rules.warmup_seconds))
    call(), finish(), ++warm;
  const double once = std::max(1e3 * seconds_since(start) / warm, 1e-4);
  Timing timing;
  timing.calls_per_sample = agreed(std::max<std::int64_t>(1, std::llround(std::ceil(rules.sample_ms / once))));
  start = Clock::now();
  timing.begin = clock_seconds();
  const double cpu = cpu_seconds();
  const auto goes_on = [&](double elapsed) {
    return (static_cast<int>(timing.samples_ms.size()) < rules.samples || elapsed < rules.min_seconds) &&
           (elapsed < rules.max_seconds || timing.samples_ms.size() < 2);
  };
  while (agreed(goes_on(seconds_since(start)))) {
    const distributed::WireTime before = distributed::wire_time();
    const auto begin = Clock::now();
    for (std::int64_t i = 0; i < timing.calls_per_sample; ++i) call();
    finish();
    timing.samples_ms.push_back(1e3 * seconds_since(begin) / static_cast<double>(timing.calls_per_sample));
    add_difference(timing.wire, before, distributed::wire_time());
  }
  timing.wall_seconds = seconds_since(start);
  timing.cpu_seconds = cpu_seconds() - cpu;
  timing.end = clock_seconds();
  return timing;
}

// What is asked for cannot be had here.
struct Unsupported : Error {
  using Error::Error;
};

ordered_json answer(const Request& request) {
  try {
    runtime::backend_named(request.device);
  } catch (const Error& e) {
    throw Unsupported(e.what());
  }
  if (request.precision == "tf32" && request.device == "cpu")
    throw Unsupported("tf32 is of GPUs; a processor computes the same as with precision=f32.");
  set_threads(request.threads);
  if (request.ranks != distributed::size())
    throw Error(cat("ranks: expected to be one of ", request.ranks, ", but the world has ", distributed::size(), "."));
  if (request.task == "describe") return describe(request);
  if (request.task == "files") return write_files(request);
  if (request.task == "losses") return first_losses(request);
  if (request.task == "step") return time_step(request);
  if (request.task == "infer") return time_inference(request);
  if (request.task == "parts") return time_parts(request);
  if (request.task == "train") return train_to_the_end(request);
  throw Error(cat("task: expected describe, files, losses, step, infer, parts or train, got \"", request.task, "\"."));
}

int run_worker(const std::string& request_path) {
  const Request request = load_request(request_path);
  ordered_json written{{"schema", kSchema},    {"status", "ok"},       {"reason", ""},
                       {"framework", "varve"}, {"version", version()}, {"flags", {{"mode", request.mode}}}};
  try {
    written.update(answer(request));
  } catch (const OutOfMemory& e) {
    written["status"] = "out_of_memory", written["reason"] = e.what();
  } catch (const std::bad_alloc& e) {
    written["status"] = "out_of_memory", written["reason"] = e.what();
  } catch (const Unsupported& e) {
    written["status"] = "unsupported", written["reason"] = e.what();
  } catch (const std::exception& e) {
    written["status"] = "failed", written["reason"] = e.what();
  }
  if (!written.contains("peak_bytes"))
    written["peak_bytes"] = written["status"] == "ok" ? peak_memory(request) : peak_resident();
  write_answer(request, written);
  if (written["status"] != "ok") std::cerr << written["reason"].get<std::string>() << '\n';
  return 0;
}

}  // namespace varve::bench
