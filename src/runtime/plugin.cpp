#include "runtime/plugin.h"

#include <dlfcn.h>

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
                       "them, or name their folders in LD_LIBRARY_PATH.",
                       "Build Varve where the CUDA toolkit 13 and cuDNN 9 are installed, set VARVE_CUDA_LIBRARY to the "
                       "library, or use device=cpu."};

// The one that the variable names; else beside the program, in its lib folders, and where the system looks.
std::vector<std::string> candidates(const Library& wanted) {
  if (const char* chosen = std::getenv(wanted.variable.c_str()); chosen && *chosen) return {chosen};
  std::vector<std::string> paths;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error)
    for (const char* folder : {".", "lib", "../lib", "../lib/x86_64-linux-gnu"})
      paths.push_back((program.parent_path() / folder / wanted.file).lexically_normal().string());
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
  std::string looked;
  for (const std::string& path : paths) looked += (looked.empty() ? "" : ", ") + path;
  throw Error(
      cat(wanted.what, " needs ", wanted.file, ", which was not found (looked at ", looked, "). ", wanted.otherwise));
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
  if (!dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL))
    throw Error(
        "device 'cuda': this machine has no NVIDIA driver (libcuda.so.1 is not found). Install driver 580 or later, "
        "or use device=cpu.");
  return std::unique_ptr<backend::Backend>(maker<backend::Backend*(int)>(kCuda, "varve_plugin_backend")(ordinal));
}

std::unique_ptr<backend::Communicator> load_communicator(const std::string& engine, const backend::Joining& joining) {
  using Make = backend::Communicator*(const backend::Joining&);
  return std::unique_ptr<backend::Communicator>(
      maker<Make>(communicator_library(engine), "varve_plugin_communicator")(joining));
}

}  // namespace varve::runtime
