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

constexpr const char* kLibrary = "libvarve_cuda.so";

// VARVE_CUDA_LIBRARY alone when it is set; else beside the program, in its lib folders, and where the system looks.
std::vector<std::string> candidates() {
  if (const char* chosen = std::getenv("VARVE_CUDA_LIBRARY"); chosen && *chosen) return {chosen};
  std::vector<std::string> paths;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error)
    for (const char* folder : {".", "lib", "../lib", "../lib/x86_64-linux-gnu"})
      paths.push_back((program.parent_path() / folder / kLibrary).lexically_normal().string());
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
                      "them, or name their folders in LD_LIBRARY_PATH."));
  }
  std::string looked;
  for (const std::string& path : paths) looked += (looked.empty() ? "" : ", ") + path;
  throw Error(cat("device 'cuda' needs ", kLibrary, ", which was not found (looked at ", looked,
                  "). Build Varve where the CUDA toolkit 13 and cuDNN 9 are installed, set VARVE_CUDA_LIBRARY to the "
                  "library, or use device=cpu."));
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
