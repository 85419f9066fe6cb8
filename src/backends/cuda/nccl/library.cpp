#include "backends/cuda/nccl/library.h"

#include <dlfcn.h>

#include "backends/cuda/device/context.h"
#include "base/text.h"
#include "varve/error.h"

namespace varve::cuda {
namespace {

constexpr const char* kFile = "libnccl.so.2";
constexpr const char* kPackages =
    "Install NCCL 2: PyPI's package nvidia-nccl-cu13, with the folder of its library in LD_LIBRARY_PATH, or NVIDIA's "
    "package libnccl2.";

template <class F>
void find(void* library, F& function, const char* name) {
  function = reinterpret_cast<F>(dlsym(library, name));
  if (!function) throw Error(cat("ranks on GPUs: ", kFile, " has no ", name, ": it is too old. ", kPackages));
}

Nccl load() {
  void* const library = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw Error(cat("ranks on GPUs need ", kFile, ", which cannot be loaded (", dlerror(), "). ", kPackages));
  Nccl found;
  find(library, found.get_version, "ncclGetVersion");
  find(library, found.get_error_string, "ncclGetErrorString");
  find(library, found.get_last_error, "ncclGetLastError");
  find(library, found.get_unique_id, "ncclGetUniqueId");
  find(library, found.comm_init_rank, "ncclCommInitRank");
  find(library, found.comm_abort, "ncclCommAbort");
  find(library, found.comm_get_async_error, "ncclCommGetAsyncError");
  find(library, found.group_start, "ncclGroupStart");
  find(library, found.group_end, "ncclGroupEnd");
  find(library, found.all_reduce, "ncclAllReduce");
  find(library, found.all_gather, "ncclAllGather");
  find(library, found.reduce_scatter, "ncclReduceScatter");
  find(library, found.broadcast, "ncclBroadcast");
  find(library, found.send, "ncclSend");
  find(library, found.receive, "ncclRecv");
  return found;
}

}  // namespace

const Nccl& nccl() {
  static const Nccl library = load();
  return library;
}

std::string nccl_version() {
  try {
    int version = 0;
    check(nccl().get_version(&version), "ncclGetVersion");
    return cat(version / 10000, ".", version % 10000 / 100, ".", version % 100);
  } catch (const Error&) {
    return cat(kFile, " is not found: no ranks on GPUs");
  }
}

void check(ncclResult_t status, const char* call) {
  if (status == ncclSuccess) return;
  const char* const more = nccl().get_last_error(nullptr);
  throw Error(cat(call, " failed: ", nccl().get_error_string(status), more && *more ? cat(" (", more, ")") : "", "."));
}

}  // namespace varve::cuda
