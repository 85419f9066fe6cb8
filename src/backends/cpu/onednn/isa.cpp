#include <mutex>

#include "backends/cpu/onednn/kernel.h"

namespace varve::cpu::dnn {
namespace {

std::optional<Bf16> pretended;

void settle_amx() {
  // Too late where oneDNN was used before; nothing is lost by going on.
  if (is_kept_from_amx(amx())) (void)dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16);
}

// Asked of oneDNN, so that DNNL_MAX_CPU_ISA is obeyed; but asking settles the matter, so the limit goes first. Each
// value's bits contain those of the instruction sets below it.
bool may_use(int isa) {
  limit_isa();
  return (static_cast<int>(dnnl_get_effective_cpu_isa()) & isa) == isa;
}

}  // namespace

// Version 2.6 uses the tiles of any processor that has them without asking the kernel, and then dies with an illegal
// instruction.
bool is_kept_from_amx(Amx amx) { return amx == Amx::refused; }

void limit_isa() {
  static std::once_flag once;
  std::call_once(once, settle_amx);
}

Bf16 decide_bf16(bool vectors, bool tiles, Amx amx) {
  if (!vectors) return Bf16::none;
  if (amx == Amx::absent) return Bf16::avx512;
  return amx == Amx::granted && tiles ? Bf16::amx : Bf16::amx_refused;
}

Bf16 bf16_products() {
  static const Bf16 found =
      decide_bf16(may_use(dnnl_cpu_isa_avx512_core_bf16), may_use(dnnl_cpu_isa_avx512_core_amx), amx());
  return pretended.value_or(found);
}

void pretend_bf16_products(std::optional<Bf16> products) { pretended = products; }

bool has_bf16() { return bf16_products() != Bf16::none; }

std::string version() {
  const dnnl_version_t* v = dnnl_version();
  return std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
}

}  // namespace varve::cpu::dnn
