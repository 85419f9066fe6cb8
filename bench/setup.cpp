#include "bench/setup.h"

#include <cstdlib>
#include <filesystem>
#include <ostream>

#include "base/text.h"
#include "bench/frameworks.h"

namespace varve::bench {
namespace {

void must(const std::vector<std::string>& words, const std::string& what, double limit_seconds) {
  const Finished done = run({.words = words, .limit_seconds = limit_seconds});
  if (done.exit_code == 0) return;
  throw Error(cat(what, " failed", done.timed_out ? " (it ran past its limit)" : "", ":\n", done.output));
}

}  // namespace

void setup_peers(const SetupOptions& options, std::ostream& out) {
  if (const char* given = std::getenv("VARVE_PEERS_PYTHON"); given && *given) {
    out << "VARVE_PEERS_PYTHON is " << given << ": that environment is used as it is.\n";
    return;
  }
  const std::string folder = peers_folder(), requirements = adapters_folder() + "/requirements.txt";
  std::error_code ignored;
  if (!std::filesystem::exists(requirements, ignored))
    throw Error(cat("the list of pinned versions is not at ", requirements, "; VARVE_ADAPTERS may name its folder."));
  if (peers_python().empty()) {
    out << "making a virtual environment in " << folder << std::endl;
    must({options.python, "-m", "venv", folder}, "python3 -m venv (Debian: apt install python3-venv)", 300);
  }
  out << "installing " << requirements << " from PyPI: gigabytes, minutes" << std::endl;
  must({peers_python(), "-m", "pip", "install", "--disable-pip-version-check", "--requirement", requirements},
       "pip install", options.limit_seconds);
  for (const Framework& framework : frameworks()) {
    const std::string why = missing(framework);
    out << framework.name << ": " << (why.empty() ? "ready" : why) << '\n';
  }
}

}  // namespace varve::bench
