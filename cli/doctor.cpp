// `varve doctor`: is this installation in order, and what would make it better?
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <iostream>

#include "base/container.h"
#include "base/cpu.h"
#include "base/text.h"
#include "cli/gpu.h"
#include "cli/menu.h"
#include "cli/text.h"
#include "varve/compile.h"
#include "varve/train.h"
#ifdef VARVE_HAS_ONEDNN
#include "backends/cpu/onednn/onednn.h"
#endif

namespace varve::cli {
namespace {

namespace fs = std::filesystem;

enum class State { ok, warn, fail };
struct Finding {
  State state;
  std::string what;
  std::string advice = "";
};

Finding processor() {
  const CpuFeatures& cpu = cpu_features();
  const std::string what = cat(cpu_name(), ", ", isa_name());
  if (!cpu.avx2) return {State::warn, what, "No AVX2: everything works, slowly."};
  return {State::ok, what};
}

Finding kernels() {
#ifdef VARVE_HAS_ONEDNN
  return {State::ok, cat("oneDNN ", cpu::dnn::version())};
#else
  return {State::warn, "built without oneDNN",
          "Convolutions and products use Varve's own kernels. Install libdnnl-dev and build again for faster ones."};
#endif
}

// A machine without a GPU is in order.
Finding graphics() {
  const Gpu gpu = find_gpu();
  return gpu.usable() ? Finding{State::ok, "cuda: " + gpu.str()}
                      : Finding{State::ok, "no GPU is used", "device=cuda: " + gpu.why_not};
}

Finding cores() {
  const std::string what = cat(threads(), threads() == 1 ? " thread on " : " threads on ", physical_cores(), " cores");
  if (threads() > physical_cores())
    return {State::warn, what, "More threads than cores slow each other down: unset VARVE_THREADS."};
  return {State::ok, what};
}

Finding memory() {
  const std::uint64_t free = free_memory();
  const std::optional<MemoryLimit> limit = container_memory();
  const std::string what =
      cat(human_bytes(free), " of memory free",
          limit ? cat(", of the ", human_bytes(limit->bytes), " that this container allows") : std::string());
  if (free < (std::uint64_t{1} << 30))
    return {State::warn, what, "Large networks may not fit: `varve summary NAME batch=8` says what one needs."};
  return {State::ok, what};
}

Finding disk() {
  std::error_code error;
  const fs::space_info space = fs::space(".", error);
  if (error) return {State::warn, cat("the disk here cannot be asked: ", error.message())};
  const std::string what = cat(human_bytes(space.available), " free on the disk here, where runs/ will be");
  if (access(".", W_OK) != 0)
    return {State::fail, "this folder cannot be written to", "Train elsewhere, or with runs=FOLDER."};
  if (space.available < (std::uint64_t{500} << 20))
    return {State::warn, what, "A run keeps a few copies of its weights: make room, or use runs=FOLDER."};
  return {State::ok, what};
}

Finding data_folder() {
  int here = 0, all = 0;
  for (const data::CatalogEntry& entry : data::catalog()) {
    ++all;
    here += entry.present;
  }
  const std::string what = cat(here, " of ", all, " data sets are here, in ", data::root());
  fs::path folder = data::root();
  while (!folder.empty() && !fs::exists(folder) && folder != folder.parent_path()) folder = folder.parent_path();
  if (access(folder.empty() ? "." : folder.c_str(), W_OK) != 0)
    return {State::warn, what, "The folder cannot be written to: set VARVE_DATA to one that can."};
  return {State::ok, what};
}

Finding learning_on(const std::string& where) {
  const data::Splits digits = data::digits({.train = 512, .test = 64});
  auto model = nn::sequential(nn::flatten(), nn::dense(32, {.activation = nn::relu}), nn::dense(10));
  const train::History history =
      train::fit(model, digits.train, {.epochs = 4, .batch = 64, .verbosity = train::Verbosity::quiet});
  const double first = history.epochs.front().value("loss"), last = history.epochs.back().value("loss");
  const std::string what = cat("a small network learns on ", where, ": loss ", fixed(first, 3), " to ", fixed(last, 3));
  if (!(last < 0.8 * first))
    return {State::fail,
            cat("a small network does not learn on ", where, ": loss ", fixed(first, 3), " to ", fixed(last, 3)),
            "The build is broken: run its tests, and try VARVE_THREADS=1 and device=reference."};
  return {State::ok, what};
}

Finding learning() { return learning_on(device()); }

Finding learning_there() {
  set_device("cuda");
  return learning_on("cuda");
}

int run_doctor() {
  bool failed = false;
  std::vector<Finding (*)()> checks = {processor, kernels, graphics, cores, memory, disk, data_folder, learning};
  if (find_gpu().usable()) checks.push_back(learning_there);
  for (const auto& check : checks) {
    Finding finding{State::fail, ""};
    try {
      finding = check();
    } catch (const std::exception& e) {
      finding.what = e.what();
    }
    const char* word = finding.state == State::ok ? "ok  " : finding.state == State::warn ? "warn" : "FAIL";
    std::cout << word << "  " << finding.what << '\n';
    if (!finding.advice.empty()) std::cout << "      " << finding.advice << '\n';
    std::cout << std::flush;
    failed |= finding.state == State::fail;
  }
  return failed ? kFailure : kOk;
}

}  // namespace

void add_doctor(Menu& menu) {
  menu.command({.name = "doctor",
                .what = "Check the installation: processor, libraries, memory, disk, data, and that it learns",
                .examples = "Example: varve doctor\nThe exit code is 1 when something does not work."},
               run_doctor);
}

}  // namespace varve::cli
