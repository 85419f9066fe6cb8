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

constexpr const char* kLibrary = "libvarve_cuda.so";

// The file that holds this very code: the program, libvarve.so, or the Python package's module.
std::filesystem::path this_file() {
  Dl_info found{};
  std::error_code error;
  if (!dladdr(reinterpret_cast<const void*>(&load_cuda_backend), &found) || !found.dli_fname) return {};
  return std::filesystem::canonical(found.dli_fname, error);
}

// VARVE_CUDA_LIBRARY alone when it is set; else beside this code and the program, in their lib folders, in the package
// varve-dl-cuda13 that was installed beside the Python package, and where the system looks.
std::vector<std::string> candidates() {
  if (const char* chosen = std::getenv("VARVE_CUDA_LIBRARY"); chosen && *chosen) return {chosen};
  std::vector<std::string> paths;
  std::error_code error;
  for (const std::filesystem::path& file : {this_file(), std::filesystem::read_symlink("/proc/self/exe", error)}) {
    if (file.empty()) continue;
    for (const char* folder :
         {".", "lib", "../lib", "../lib/x86_64-linux-gnu", "../varve_cuda13", "../../varve_cuda13"}) {
      const std::string path = (file.parent_path() / folder / kLibrary).lexically_normal().string();
      if (std::find(paths.begin(), paths.end(), path) == paths.end()) paths.push_back(path);
    }
  }
  paths.push_back(kLibrary);
  return paths;
}

void* load(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    std::error_code error;
    const bool named = path.find('/') != std::string::npos;
    if (named && !std::filesystem::exists(path, error)) continue;
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    const std::string why = dlerror();
    if (named)
      throw Error(cat("device 'cuda': ", path, " cannot be loaded: ", why,
                      ". It needs CUDA 13's libnvrtc.so.13 and libcublasLt.so.13 and cuDNN 9's libcudnn.so.9: install "
                      "them (in Python: pip install nvidia-cuda-nvrtc nvidia-cublas nvidia-cudnn-cu13), or name their "
                      "folders in LD_LIBRARY_PATH."));
  }
  // Of a list of places, the first ones say enough.
  const std::string more = paths.size() > 1 ? cat(" and ", paths.size() - 1, " places near it") : "";
  throw Error(cat("device 'cuda' needs ", kLibrary, ", which was not found (looked at ", paths.front(), more,
                  "). In Python, the package varve-dl-cuda13 brings it; else build Varve where the CUDA toolkit 13 and "
                  "cuDNN 9 are installed (make cuda), set VARVE_CUDA_LIBRARY to the library, or use device=cpu."));
}

template <class Function>
Function* resolve(void* library, const char* name) {
  auto* const found = reinterpret_cast<Function*>(dlsym(library, name));
  if (!found) throw Error(cat("device 'cuda': ", kLibrary, " has no ", name, ": it is not of this version of Varve."));
  return found;
}

}  // namespace

std::unique_ptr<backend::Backend> load_cuda_backend(int ordinal) {
  if (!dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL))
    throw Error(
        "device 'cuda': this machine has no NVIDIA driver (libcuda.so.1 is not found). Install driver 580 or later, "
        "or use device=cpu.");
  void* const library = load(candidates());
  const std::string found = resolve<const char*()>(library, "varve_plugin_version")();
  if (found != version())
    throw Error(cat("device 'cuda': ", kLibrary, " is of Varve ", found, ", this program of ", version(),
                    ". Install both from one build."));
  return std::unique_ptr<backend::Backend>(resolve<backend::Backend*(int)>(library, "varve_plugin_backend")(ordinal));
}

}  // namespace varve::runtime
