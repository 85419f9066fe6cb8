#include "bench/frameworks.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "base/text.h"
#include "bench/answers.h"
#include "bench/gpu_watch.h"
#include "bench/scratch.h"
#include "varve/io.h"

namespace varve::bench {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool package_present(const std::string& python, const std::string& package) {
  // <environment>/bin/python: its packages are in <environment>/lib/python3.*/site-packages.
  const fs::path root = fs::path(python).parent_path().parent_path() / "lib";
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(root, ignored))
    if (fs::exists(entry.path() / "site-packages" / package, ignored)) return true;
  return false;
}

nlohmann::json failed(const std::string& status, const std::string& reason) {
  return {{"schema", kSchema}, {"status", status}, {"reason", reason}};
}

std::string last_words(const std::string& output) {
  std::string text = output;
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  return text;
}

// What a worker claims is checked before anything is made of it.
std::string wrong_in(const nlohmann::json& answer, const Request& request) {
  if (!answer.is_object()) return "it is not a JSON object";
  if (!answer.contains("schema") || answer["schema"] != kSchema) return cat("its schema is not ", kSchema);
  const auto status = answer.find("status");
  if (status == answer.end() || !status->is_string()) return "it has no status";
  const std::string said = *status;
  if (said == "out_of_memory" || said == "failed" || said == "unsupported")
    return answer.contains("reason") && !answer["reason"].is_string() ? "its reason is no text" : "";
  return said == "ok" ? objection(answer, request.task) : cat("its status is \"", said, "\"");
}

}  // namespace

nlohmann::json read_answer(const Finished& done, const Request& request) {
  const std::string words = last_words(done.output);
  if (!done.started) return failed("failed", words);
  if (done.timed_out) return failed("failed", cat("no answer within ", std::llround(done.seconds), " s. ", words));
  if (done.signal == SIGKILL) return failed("out_of_memory", cat("killed by the system. ", words));
  std::error_code ignored;
  if (!fs::exists(request.result, ignored))
    return failed("failed", cat(done.signal ? cat("ended by signal ", done.signal) : cat("exit code ", done.exit_code),
                                " and no answer. ", words));
  try {
    const nlohmann::json answer = nlohmann::json::parse(load_text(request.result, 1 << 28));
    const std::string wrong = wrong_in(answer, request);
    return wrong.empty() ? answer : failed("failed", cat("the worker's answer is wrong: ", wrong, ". ", words));
  } catch (const nlohmann::json::exception& e) {
    return failed("failed", cat("the worker's answer is not JSON: ", e.what()));
  }
}

const std::vector<Framework>& frameworks() {
  static const std::vector<Framework> all = {
      {"varve", "", {"plain"}, ""},
      {"torch", "torch_adapter.py", {"plain"}, "torch", {"graph", "compile-graph", "compile", "plain"}},
      {"torch-compile", "torch_adapter.py", {"plain"}, "torch"},
      {"keras-tensorflow", "keras_adapter.py", {"plain", "xla"}, "tensorflow"},
      {"keras-jax", "keras_adapter.py", {"plain"}, "jax"},
      {"jax", "jax_adapter.py", {"plain"}, "jax"},
      {"varve-python", "varve_adapter.py", {"plain"}, "varve"},
  };
  return all;
}

const Framework& find_framework(const std::string& name) {
  std::vector<std::string> names;
  for (const Framework& f : frameworks()) {
    if (f.name == name) return f;
    names.push_back(f.name);
  }
  throw Error(cat("unknown framework '", name, "'.", did_you_mean(name, names), " Known: ", quoted_list(names), "."));
}

std::string adapters_folder() {
  if (const std::string given = variable("VARVE_ADAPTERS"); !given.empty()) return given;
  std::error_code ignored;
  const fs::path installed = fs::path(this_program()).parent_path() / ".." / VARVE_ADAPTERS_INSTALLED;
  if (fs::is_directory(installed, ignored)) return fs::weakly_canonical(installed, ignored).string();
  return cat(VARVE_SOURCE_DIR, "/bench/adapters");
}

std::string peers_folder() {
  const std::string cache = variable("XDG_CACHE_HOME"), home = variable("HOME");
  return (cache.empty() ? fs::path(home) / ".cache" : fs::path(cache)) / "varve" / "peers";
}

std::string peers_python() {
  if (const std::string given = variable("VARVE_PEERS_PYTHON"); !given.empty()) return given;
  const std::string python = peers_folder() + "/bin/python";
  return access(python.c_str(), X_OK) == 0 ? python : "";
}

std::string python_of(const Framework& framework) {
  return is_peer(framework.name) ? peers_python() : variable("VARVE_PYTHON");
}

std::string missing(const Framework& framework) {
  if (framework.adapter.empty()) return "";
  const std::string adapter = adapters_folder() + "/" + framework.adapter;
  if (access(adapter.c_str(), R_OK) != 0)
    return cat("its adapter is not at ", adapter, "; VARVE_ADAPTERS may name its folder");
  const std::string python = python_of(framework);
  if (!is_peer(framework.name) && python.empty())
    return "no Python that has the package varve; run `python -m varve bench …` with the one that has it, or name it "
           "in "
           "VARVE_PYTHON";
  if (!is_peer(framework.name)) return "";  // the adapter says when its import fails
  if (python.empty()) return "no virtual environment of peers; `varve bench setup` makes it";
  if (variable("VARVE_PEERS_PYTHON").empty() && !package_present(python, framework.package))
    return cat("the package ", framework.package, " is not installed there; `varve bench setup` adds it");
  return "";
}

Command worker_command(const Framework& framework, const Request& request, const std::string& request_path) {
  Command command;
  if (framework.adapter.empty())
    command.words = {kThisProgram, "bench", "worker", request_path};
  else
    command.words = {python_of(framework), adapters_folder() + "/" + framework.adapter, request_path};
  command.processors = spread_processors(request.threads);
  const std::string threads = cat(request.threads);
  command.environment = {{"OMP_NUM_THREADS", threads}, {"MKL_NUM_THREADS", threads}, {"PYTHONUNBUFFERED", "1"}};
  // A processor to each thread: two on one make a slow mode of their own. Where a GPU computes, threads wait for it and
  // compile its kernels, and whatever they start would be bound to the first one's processor.
  if (request.device == "cpu") command.environment["OMP_PROC_BIND"] = "true";
  return command;
}

std::string Answer::status() const { return json.value("status", "failed"); }

Answer ask(const Framework& framework, const Request& given, double limit_seconds,
           const std::map<std::string, std::string>& environment) {
  const Scratch folder;
  Request request = given;
  request.framework = framework.name;
  request.result = folder.path("result.json");
  const std::string path = folder.path("request.json");
  save_text(path, request_json(request).dump());
  Command command = worker_command(framework, request, path);
  command.limit_seconds = limit_seconds;
  if (framework.adapter.empty())
    for (const auto& [name, value] : environment) command.environment[name] = value;
  GpuWatch watch(request.device);
  command.meanwhile = [&watch] { watch.look(); };
  const Finished done = run(command);
  Answer answer{read_answer(done, request), done.seconds, done.busy};
  if (const auto timed = answer.json.find("timed"); timed != answer.json.end())
    answer.gpu = watch.between(timed->at(0), timed->at(1));
  return answer;
}

}  // namespace varve::bench
