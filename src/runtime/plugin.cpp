#include "runtime/plugin.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/text.h"
#include "varve/error.h"
#include "varve/version.h"

namespace varve::runtime {
namespace {

// A library of ours that is not linked.
struct Library {
  std::string file;      // "libvarve_cuda.so"
  std::string variable;  // that names it, in place of where it is looked for
  std::string what;      // "device 'cuda'"
  std::string needs, otherwise;
};

const Library kCuda = {"libvarve_cuda.so", "VARVE_CUDA_LIBRARY", "device 'cuda'",
                       "It needs CUDA 13's libnvrtc.so.13 and libcublasLt.so.13 and cuDNN 9's libcudnn.so.9: install "
                       "them (in Python: pip install nvidia-cuda-nvrtc nvidia-cublas nvidia-cudnn-cu13), or name their "
                       "folders in LD_LIBRARY_PATH.",
                       "In Python, the package varve-dl-cuda13 brings it; else build Varve where the CUDA toolkit 13 "
                       "and cuDNN 9 are installed (make cuda), set VARVE_CUDA_LIBRARY to the library, or use "
                       "device=cpu."};

// The file that holds this very code: the program, libvarve.so, or the Python package's module.
std::filesystem::path this_file() {
  Dl_info found{};
  std::error_code error;
  if (!dladdr(reinterpret_cast<const void*>(&load_cuda_backend), &found) || !found.dli_fname) return {};
  return std::filesystem::canonical(found.dli_fname, error);
}

// The one that the variable names; else beside this code and the program, in their lib folders, in the package
// varve-dl-cuda13 that was installed beside the Python package, and where the system looks.
std::vector<std::string> candidates(const Library& wanted) {
  if (const char* chosen = std::getenv(wanted.variable.c_str()); chosen && *chosen) return {chosen};
  std::vector<std::string> paths;
  std::error_code error;
  for (const std::filesystem::path& file : {this_file(), std::filesystem::read_symlink("/proc/self/exe", error)}) {
    if (file.empty()) continue;
    for (const char* folder :
         {".", "lib", "..", "../lib", "../lib/x86_64-linux-gnu", "../varve_cuda13", "../../varve_cuda13"}) {
      const std::string path = (file.parent_path() / folder / wanted.file).lexically_normal().string();
      if (std::find(paths.begin(), paths.end(), path) == paths.end()) paths.push_back(path);
    }
  }
  paths.push_back(wanted.file);
  return paths;
}

void* load(const Library& wanted) {
  const std::vector<std::string> paths = candidates(wanted);
  for (const std::string& path : paths) {
    std::error_code error;
    const bool named = path.find('/') != std::string::npos;
    if (named && !std::filesystem::exists(path, error)) continue;
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    const std::string why = dlerror();
    if (named) throw Error(cat(wanted.what, ": ", path, " cannot be loaded: ", why, ". ", wanted.needs));
  }
  // Of a list of places, the first ones say enough.
  const std::string more = paths.size() > 1 ? cat(" and ", paths.size() - 1, " places near it") : "";
  throw Error(cat(wanted.what, " needs ", wanted.file, ", which was not found (looked at ", paths.front(), more, "). ",
                  wanted.otherwise));
}

template <class Function>
Function* resolve(void* library, const Library& wanted, const char* name) {
  auto* const found = reinterpret_cast<Function*>(dlsym(library, name));
  if (!found)
    throw Error(cat(wanted.what, ": ", wanted.file, " has no ", name, ": it is not of this version of Varve."));
  return found;
}

// The library's maker, when it is of this version.
template <class Function>
Function* maker(const Library& wanted, const char* name) {
  void* const library = load(wanted);
  const std::string found = resolve<const char*()>(library, wanted, "varve_plugin_version")();
  if (found != version())
    throw Error(cat(wanted.what, ": ", wanted.file, " is of Varve ", found, ", this program of ", version(),
                    ". Install both from one build."));
  return resolve<Function>(library, wanted, name);
}

void check_driver() {
  if (!dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL))
    throw Error(
        "device 'cuda': this machine has no NVIDIA driver (libcuda.so.1 is not found). Install driver 580 or later, "
        "or use device=cpu.");
}

Library communicator_library(const std::string& engine) {
  const std::string package = engine == "gloo"      ? "libgloo-dev"
                              : engine == "openmpi" ? "libopenmpi-dev"
                                                    : "libmpich-dev";
  return {"libvarve_" + engine + ".so", "VARVE_COMMUNICATOR_LIBRARY", "ranks by " + engine,
          "Install Debian's package " + package + ", or what it is called here.",
          "Build Varve where Debian's package " + package +
              " is installed, or set VARVE_COMMUNICATOR_LIBRARY to the library."};
}

}  // namespace

std::unique_ptr<backend::Backend> load_cuda_backend(int ordinal) {
  check_driver();
  return std::unique_ptr<backend::Backend>(maker<backend::Backend*(int)>(kCuda, "varve_plugin_backend")(ordinal));
}

int count_gpus() {
  check_driver();
  return maker<int()>(kCuda, "varve_plugin_gpus")();
}

std::unique_ptr<backend::Communicator> load_communicator(const std::string& engine, const backend::Joining& joining) {
  using Make = backend::Communicator*(const backend::Joining&);
  return std::unique_ptr<backend::Communicator>(
      maker<Make>(communicator_library(engine), "varve_plugin_communicator")(joining));
}

}  // namespace varve::runtime
