#include "backends/cpu/onednn/kernel.h"

namespace varve::cpu::dnn {

void transposed_product(const TransposedProduct& p) {
  limit_isa();
  check(dnnl_sgemm('T', 'N', p.m, p.n, p.k, 1.f, p.a, p.m, p.b, p.n, 0.f, p.c, p.n), "dnnl_sgemm");
}

}  // namespace varve::cpu::dnn
