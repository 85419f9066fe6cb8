#include "module.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "image.h"
#include "settings.h"
#include "stream.h"

using namespace varve::emulator;

namespace {

// Finds the module's thread-local segment: where this OS thread has its __shared__ variables. False: the loader does
// not say, as while another thread loads something.
bool find_shared_variables(CUmod_st& module) {
  struct Search {
    CUmod_st& module;
    ElfW(Addr) base;
    std::byte* pointer;
    bool found = false;
  };
  link_map* map = nullptr;
  dlinfo(module.library, RTLD_DI_LINKMAP, &map);
  Search search{module, map->l_addr, reinterpret_cast<std::byte*>(module.table->block())};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto& wanted = *static_cast<Search*>(data);
        if (info->dlpi_addr != wanted.base) return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          if (info->dlpi_phdr[i].p_type != PT_TLS || !info->dlpi_tls_data) continue;
          wanted.found = true;
          wanted.module.shared_offset = static_cast<std::byte*>(info->dlpi_tls_data) - wanted.pointer;
          wanted.module.shared_bytes = info->dlpi_phdr[i].p_memsz;
        }
        return 1;
      },
      &search);
  return search.found;
}

}  // namespace

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  if (!module || !image) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult refused = require_idle_context(); refused != CUDA_SUCCESS) return refused;
  const auto* text = static_cast<const char*>(image);
  if (std::strncmp(text, kImagePrefix, std::strlen(kImagePrefix)) != 0) return CUDA_ERROR_INVALID_IMAGE;
  const char* path = text + std::strlen(kImagePrefix);
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    std::fprintf(stderr, "CUDA emulator: %s\n", dlerror());
    return CUDA_ERROR_INVALID_IMAGE;
  }
  auto made = std::make_unique<CUmod_st>();
  made->library = library;
  made->table = static_cast<const EmuModule*>(dlsym(library, "emu_module"));
  if (!made->table || made->table->abi != kEmuAbi) {
    dlclose(library);
    return CUDA_ERROR_INVALID_IMAGE;
  }
  while (!find_shared_variables(*made)) std::this_thread::yield();
  for (const EmuKernel* kernel = made->table->kernels; kernel->name; ++kernel)
    made->functions.push_back({made.get(), kernel, kSharedBytesPerBlock});
  *module = made.release();
  return CUDA_SUCCESS;
}

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, CUjit_option*, void**) {
  return cuModuleLoadData(module, image);
}

CUresult cuModuleUnload(CUmodule module) {
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  dlclose(module->library);
  delete module;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  if (!function || !module || !name) return CUDA_ERROR_INVALID_VALUE;
  for (CUfunc_st& candidate : module->functions) {
    if (std::strcmp(candidate.kernel->name, name) != 0) continue;
    *function = &candidate;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_NOT_FOUND;
}

CUresult cuFuncGetName(const char** name, CUfunction function) {
  *name = function->kernel->name;
  return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t* offset, size_t* size) {
  if (index >= function->kernel->count) return CUDA_ERROR_INVALID_VALUE;
  size_t at = 0;
  for (size_t i = 0;; ++i) {
    const EmuParameter& parameter = function->kernel->parameters[i];
    at = (at + parameter.alignment - 1) / parameter.alignment * parameter.alignment;
    if (i == index) {
      if (offset) *offset = at;
      if (size) *size = parameter.size;
      return CUDA_SUCCESS;
    }
    at += parameter.size;
  }
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) return CUDA_SUCCESS;
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_ERROR_INVALID_VALUE;
  if (value < 0 || static_cast<unsigned>(value) > kSharedBytesPerBlockOptin) return CUDA_ERROR_INVALID_VALUE;
  function->max_dynamic_shared = static_cast<unsigned>(value);
  return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  if (!function || !value) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = kMaxThreadsPerBlock;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = static_cast<int>(function->module->shared_bytes - sizeof(void*));
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = static_cast<int>(function->max_dynamic_shared);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = 32;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = 90;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
      *value = 0;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int threads,
                                                     size_t dynamic_shared) {
  if (!blocks || !function || threads <= 0) return CUDA_ERROR_INVALID_VALUE;
  size_t shared = function->module->shared_bytes - sizeof(void*) + dynamic_shared;
  unsigned whole_warps = (static_cast<unsigned>(threads) + 31) / 32 * 32;
  size_t by_shared = kSharedBytesPerMultiprocessor / (shared + kReservedSharedBytesPerBlock);
  size_t by_threads = kMaxThreadsPerMultiprocessor / whole_warps;
  *blocks = static_cast<int>(std::min({by_shared, by_threads, size_t{kMaxBlocksPerMultiprocessor}}));
  if (whole_warps > kMaxThreadsPerBlock || dynamic_shared > function->max_dynamic_shared) *blocks = 0;
  return CUDA_SUCCESS;
}
