#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>

#include "backends/cpu/onednn/kernel.h"

namespace varve::cpu::dnn {
namespace {

bool cpu_has_amx() {
  constexpr unsigned kAmxTile = 1u << 24;  // leaf 7, edx
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & kAmxTile) != 0;
}

// Linux hands out the 8 KiB of tile state only to processes that ask.
bool request_amx() {
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

void settle_amx() {
  if (!cpu_has_amx()) return;
  // Version 2.6 uses the tiles without asking for them and dies with an illegal instruction.
  if (kVersion3 && request_amx()) return;
  // A refusal means that oneDNN was used before; then it is too late, and nothing is lost by going on.
  (void)dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16);
}

// Asked of oneDNN, so that DNNL_MAX_CPU_ISA is obeyed; but asking settles the matter, so the limit goes first. Each
// value's bits contain those of the instruction sets below it.
bool may_use(int isa) {
  limit_isa();
  return (static_cast<int>(dnnl_get_effective_cpu_isa()) & isa) == isa;
}

}  // namespace

void limit_isa() {
  static std::once_flag once;
  std::call_once(once, settle_amx);
}

bool has_bf16() {
  static const bool present = may_use(dnnl_cpu_isa_avx512_core_bf16);
  return present;
}

bool gains_from_bf16() {
  static const bool gains = has_bf16() && (!cpu_has_amx() || may_use(dnnl_cpu_isa_avx512_core_amx));
  return gains;
}

std::string version() {
  const dnnl_version_t* v = dnnl_version();
  return std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
}

}  // namespace varve::cpu::dnn
