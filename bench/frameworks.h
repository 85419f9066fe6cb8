// Who can be measured: Varve itself, and other frameworks through the programs of bench/adapters.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bench/process.h"
#include "bench/request.h"

namespace varve::bench {

struct Framework {
  std::string name = {};
  std::string adapter = {};                 // a file of bench/adapters; "": Varve
  std::vector<std::string> modes = {};      // each measured in processes of its own
  std::string package = {};                 // a folder of the environment's site-packages that must be there
  std::vector<std::string> gpu_modes = {};  // on a GPU, the most promising first; empty: the same
  const std::vector<std::string>& modes_on(const std::string& device) const {
    return device == "cpu" || gpu_modes.empty() ? modes : gpu_modes;
  }
};
const std::vector<Framework>& frameworks();
const Framework& find_framework(const std::string& name);  // Error with the nearest name

std::string adapters_folder();  // VARVE_ADAPTERS, else that of the installation or of the sources
std::string peers_folder();     // the virtual environment: ~/.cache/varve/peers
std::string peers_python();     // VARVE_PEERS_PYTHON, else that of peers_folder(); "" when there is none
// The Python of an adapter: that of the peers, and of Varve's own VARVE_PYTHON, which `python -m varve` sets to itself.
std::string python_of(const Framework& framework);

// Why it cannot be measured here and what to do about it; "" when it can.
std::string missing(const Framework& framework);

// The command that answers a request which was written to `request_path`.
Command worker_command(const Framework& framework, const Request& request, const std::string& request_path);

// What a worker left, checked: whatever went wrong is an answer too.
nlohmann::json read_answer(const Finished& done, const Request& request);

// Runs a worker to its end. An answer always comes back: when the worker left none, or a wrong one, its status says
// what happened and `reason` holds its last words.
struct Answer {
  nlohmann::json json = {};
  double seconds = 0;
  std::vector<double> busy = {};         // processors in use over its life
  nlohmann::ordered_json gpu = nullptr;  // what its clock saw of the GPU (gpu_watch.h); null on the processor
  std::string status() const;
  bool ok() const { return status() == "ok"; }
};
// `environment` is added to that of Varve's own worker alone.
Answer ask(const Framework& framework, const Request& request, double limit_seconds,
           const std::map<std::string, std::string>& environment = {});

}  // namespace varve::bench
