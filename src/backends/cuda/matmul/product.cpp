#include "backends/cuda/matmul/product.h"

#include "base/text.h"

namespace varve::cuda {
namespace {

// [B,M,K]·[K,N] is [B·M,K]·[K,N] where the rows of all matrices follow each other.
bool more_rows(Product& p) {
  if (p.batch.empty()) return false;
  const std::int64_t a = p.m == 1 ? p.a.batch.back() : p.a.row, c = p.m == 1 ? p.c.batch.back() : p.c.row;
  if (p.b.batch.back() != 0 || p.a.batch.back() != p.m * a || p.c.batch.back() != p.m * c || a == 0) return false;
  p.a.row = a;
  p.c.row = c;
  p.m *= p.batch.back();
  p.batch.pop_back();
  for (MatrixStrides* side : p.sides()) side->batch.pop_back();
  return true;
}

}  // namespace

void fold(Product& p) {
  backend::merge_batch_axes(p);
  while (more_rows(p)) {
  }
}

Offsets offsets_of(const Product& p, std::size_t axes, std::int64_t index) {
  Offsets at;
  for (std::size_t axis = axes; axis-- > 0;) {
    const std::int64_t i = index % p.batch[axis];
    at.a += i * p.a.batch[axis];
    at.b += i * p.b.batch[axis];
    at.c += i * p.c.batch[axis];
    index /= p.batch[axis];
  }
  return at;
}

std::string name_of(const Product& p) {
  return cat(p.m, "x", p.n, "x", p.k, " a", p.a.row, ",", p.a.col, " b", p.b.row, ",", p.b.col);
}

Product folded_product(const backend::Port& a, const backend::Port& b, const backend::Port& c, Transposes transposes) {
  Product p = backend::product_of(a, b, c, transposes);
  if (!p.empty()) fold(p);
  return p;
}

}  // namespace varve::cuda
