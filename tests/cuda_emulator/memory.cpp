// Device memory is host memory, poisoned with 0xFF: as floats that is NaN, so that reading what nobody wrote shows.
#include <cuda.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "settings.h"
#include "stream.h"

namespace varve::emulator {
namespace {

constexpr std::size_t kAlignment = 512;
constexpr std::size_t kGuard = 512;  // on both sides, to notice writes past the ends
constexpr unsigned char kGuardByte = 0xFD;
constexpr std::size_t kPatch = std::size_t{16} << 20;  // from this size on, pages are poisoned only when touched

struct Allocation {
  std::byte* base;
  std::size_t bytes;   // as asked for
  std::size_t mapped;  // the length of the mapping, zero for memory from the heap
};

std::mutex mutex;
std::map<CUdeviceptr, Allocation> allocations;
std::map<void*, std::size_t> host_allocations;
std::size_t used = 0;

std::size_t total_bytes() { return static_cast<std::size_t>(setting("VARVE_EMULATOR_BYTES", 4ll << 30)); }

std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

// A file of poison. Private mappings of it read as poison and cost memory only for the pages that are written.
int poison_file() {
  static const int file = [] {
    int made = memfd_create("varve-emulator-poison", MFD_CLOEXEC);
    if (made < 0 || ftruncate(made, kPatch) != 0) return -1;
    void* view = mmap(nullptr, kPatch, PROT_READ | PROT_WRITE, MAP_SHARED, made, 0);
    if (view == MAP_FAILED) return -1;
    std::memset(view, 0xFF, kPatch);
    munmap(view, kPatch);
    return made;
  }();
  return file;
}

std::byte* map_poison(std::size_t bytes) {
  int file = poison_file();
  if (file < 0) return nullptr;
  void* base = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return nullptr;
  for (std::size_t at = 0; at < bytes; at += kPatch) {
    void* patch = mmap(static_cast<std::byte*>(base) + at, kPatch, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file, 0);
    if (patch != MAP_FAILED) continue;
    munmap(base, bytes);
    return nullptr;
  }
  return static_cast<std::byte*>(base);
}

Allocation allocate(std::size_t bytes) {
  std::size_t whole = kGuard + round_up(bytes, kAlignment) + kGuard;
  Allocation made{.base = nullptr, .bytes = bytes, .mapped = bytes >= kPatch ? round_up(whole, kPatch) : 0};
  if (made.mapped != 0) {
    made.base = map_poison(made.mapped);
    if (!made.base) return made;
  } else {
    made.base = static_cast<std::byte*>(std::aligned_alloc(kAlignment, whole));
    if (!made.base) return made;
    std::memset(made.base + kGuard, 0xFF, bytes);
  }
  std::memset(made.base, kGuardByte, kGuard);
  std::memset(made.base + kGuard + bytes, kGuardByte, kGuard);
  return made;
}

bool guards_intact(const Allocation& allocation) {
  const std::byte* after = allocation.base + kGuard + allocation.bytes;
  for (std::size_t i = 0; i < kGuard; ++i)
    if (allocation.base[i] != std::byte{kGuardByte} || after[i] != std::byte{kGuardByte}) return false;
  return true;
}

CUresult copy(void* to, const void* from, size_t bytes) {
  if (bytes != 0) std::memmove(to, from, bytes);
  return CUDA_SUCCESS;
}

CUresult copy_now(void* to, const void* from, size_t bytes) {
  if (CUresult refused = require_idle_context(); refused != CUDA_SUCCESS) return refused;
  return copy(to, from, bytes);
}

CUresult copy_on(CUstream stream, void* to, const void* from, size_t bytes) {
  if (bytes != 0 && (!to || !from)) return CUDA_ERROR_INVALID_VALUE;
  return submit(stream, CU_GRAPH_NODE_TYPE_MEMCPY, [=] { return copy(to, from, bytes); });
}

void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

template <class T>
CUresult fill_on(CUstream stream, CUdeviceptr to, T value, size_t count) {
  if (count != 0 && (!to || to % sizeof(T) != 0)) return CUDA_ERROR_INVALID_VALUE;
  return submit(stream, CU_GRAPH_NODE_TYPE_MEMSET, [=] {
    for (size_t i = 0; i < count; ++i) std::memcpy(static_cast<T*>(pointer(to)) + i, &value, sizeof(T));
    return CUDA_SUCCESS;
  });
}

}  // namespace
}  // namespace varve::emulator

using namespace varve::emulator;

CUresult cuMemAlloc(CUdeviceptr* address, size_t bytes) {
  if (!address || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult refused = require_idle_context(); refused != CUDA_SUCCESS) return refused;
  std::lock_guard lock(mutex);
  if (bytes > total_bytes() || used + round_up(bytes, kAlignment) > total_bytes()) return CUDA_ERROR_OUT_OF_MEMORY;
  Allocation made = allocate(bytes);
  if (!made.base) return CUDA_ERROR_OUT_OF_MEMORY;
  used += round_up(bytes, kAlignment);
  *address = reinterpret_cast<CUdeviceptr>(made.base + kGuard);
  allocations.emplace(*address, made);
  return CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr address) {
  if (address == 0) return CUDA_SUCCESS;
  if (CUresult refused = require_idle_context(); refused != CUDA_SUCCESS) return refused;
  std::lock_guard lock(mutex);
  auto found = allocations.find(address);
  if (found == allocations.end()) {
    std::fprintf(stderr, "CUDA emulator: cuMemFree of %p, which is not allocated\n", pointer(address));
    return CUDA_ERROR_INVALID_VALUE;
  }
  Allocation allocation = found->second;
  allocations.erase(found);
  used -= round_up(allocation.bytes, kAlignment);
  bool intact = guards_intact(allocation);
  if (!intact)
    std::fprintf(stderr, "CUDA emulator: something wrote past the ends of the %zu bytes at %p\n", allocation.bytes,
                 pointer(address));
  if (allocation.mapped != 0) {
    munmap(allocation.base, allocation.mapped);
  } else {
    std::free(allocation.base);
  }
  return intact ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

CUresult cuMemGetInfo(size_t* free_bytes, size_t* total) {
  std::lock_guard lock(mutex);
  *total = total_bytes();
  *free_bytes = *total - used;
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t* bytes, CUdevice) {
  *bytes = total_bytes();
  return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void** address, size_t bytes, unsigned) {
  if (!address || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult refused = require_idle_context(); refused != CUDA_SUCCESS) return refused;
  *address = std::aligned_alloc(4096, round_up(bytes, 4096));
  if (!*address) return CUDA_ERROR_OUT_OF_MEMORY;
  std::memset(*address, 0xFF, bytes);
  std::lock_guard lock(mutex);
  host_allocations.emplace(*address, bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemAllocHost(void** address, size_t bytes) { return cuMemHostAlloc(address, bytes, 0); }

CUresult cuMemFreeHost(void* address) {
  if (CUresult refused = require_idle_context(); refused != CUDA_SUCCESS) return refused;
  std::lock_guard lock(mutex);
  if (host_allocations.erase(address) == 0) return CUDA_ERROR_INVALID_VALUE;
  std::free(address);
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr* device, void* host, unsigned) {
  std::lock_guard lock(mutex);
  auto after = host_allocations.upper_bound(host);
  if (after == host_allocations.begin()) return CUDA_ERROR_INVALID_VALUE;
  auto [start, bytes] = *std::prev(after);
  if (static_cast<std::byte*>(host) >= static_cast<std::byte*>(start) + bytes) return CUDA_ERROR_INVALID_VALUE;
  *device = reinterpret_cast<CUdeviceptr>(host);
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  if (attribute != CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) return CUDA_ERROR_NOT_SUPPORTED;
  std::lock_guard lock(mutex);
  const auto inside = [&](const auto& blocks, auto key, auto size_of) {
    const auto after = blocks.upper_bound(key);
    return after != blocks.begin() &&
           address < reinterpret_cast<CUdeviceptr>(std::prev(after)->first) + size_of(std::prev(after)->second);
  };
  const bool known = inside(allocations, address, [](const Allocation& block) { return block.bytes; }) ||
                     inside(host_allocations, pointer(address), [](std::size_t bytes) { return bytes; });
  if (!known) return CUDA_ERROR_INVALID_VALUE;
  *static_cast<int*>(data) = 0;
  return CUDA_SUCCESS;
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy_now(pointer(to), pointer(from), bytes);
}
CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) { return copy_now(pointer(to), from, bytes); }
CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) { return copy_now(to, pointer(from), bytes); }
CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes) { return cuMemcpy(to, from, bytes); }

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy_on(stream, pointer(to), pointer(from), bytes);
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return copy_on(stream, pointer(to), from, bytes);
}
CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy_on(stream, to, pointer(from), bytes);
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy_on(stream, pointer(to), pointer(from), bytes);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return fill_on(stream, to, value, count);
}
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  return fill_on(stream, to, value, count);
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  return fill_on(stream, to, value, count);
}
CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t count) { return fill_on(nullptr, to, value, count); }
CUresult cuMemsetD32(CUdeviceptr to, unsigned value, size_t count) { return fill_on(nullptr, to, value, count); }
