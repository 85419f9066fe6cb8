// Sums over all leading axes: the gradients of biases. f32 and bf16, where no fused group would take the sum along.
#include <numeric>

#include "backends/cpu/common/loops.h"
#include "backends/cpu/reduce/column_sums.h"

namespace varve::cpu {
namespace {

using backend::Claim;
using backend::Port;
using backend::Prepared;
using backend::RunArgs;
using backend::Site;

template <class T>
void add_rows(const T* x, std::int64_t begin, std::int64_t end, std::int64_t columns, float* sums) {
  const auto at = [=](std::int64_t row, std::int64_t c) { return cast_to<float>(element(x, row * columns + c)); };
  std::int64_t row = begin;
  for (; row + 4 <= end; row += 4) {
#pragma omp simd
    for (std::int64_t c = 0; c < columns; ++c)
      sums[c] += (at(row, c) + at(row + 1, c)) + (at(row + 2, c) + at(row + 3, c));
  }
  for (; row < end; ++row) {
#pragma omp simd
    for (std::int64_t c = 0; c < columns; ++c) sums[c] += at(row, c);
  }
}

template <class T>
Prepared sum_columns(std::int64_t rows, std::int64_t columns) {
  const ColumnSums sums(rows, columns);
  return backend::prepared(
      [sums, columns](const RunArgs& args) {
        const T* x = static_cast<const T*>(args.in[0]);
        T* out = static_cast<T*>(args.out[0]);
        sums.run(args.scratch,
                 [=](std::int64_t begin, std::int64_t end, float* part) { add_rows(x, begin, end, columns, part); });
        sums.finish(args.scratch, 0, columns, [=](std::int64_t c, float sum) { out[c] = cast_to<T>(sum); });
      },
      sums.scratch_bytes());
}

std::string column_sum_refusal(const ir::Node& node) {
  constexpr std::int64_t kFewest = 64;
  const TensorType& in = node.inputs[0].type();
  if ((in.dtype != f32 && in.dtype != bf16) || node.types[0].dtype != in.dtype) return name(in.dtype);
  Ints leading(node.attrs.ints("axes").size());
  std::iota(leading.begin(), leading.end(), std::int64_t{0});
  if (node.attrs.ints("axes") != leading) return "not the leading axes";
  const std::int64_t columns = node.types[0].shape.numel();
  if (columns < kFewest || in.shape.numel() < kFewest * columns) return "few rows or columns";
  const ir::Node& from = *node.inputs[0].node;
  if (from.op->elementwise() || from.is("fill")) return "left to what computes its input";
  if (from.op->view && !from.is("reshape")) return "a view";
  return "";
}

void claim_sum(const Site& site, std::vector<Claim>& claims) {
  const std::string refusal = column_sum_refusal(site.node());
  if (!refusal.empty()) return claims.push_back(Claim::no("columns sum", refusal));
  const TensorType& in = site.node().inputs[0].type();
  const std::int64_t columns = site.node().types[0].shape.numel(), rows = in.shape.numel() / columns;
  claims.push_back(Claim::of("columns sum", site.root(),
                             [rows, columns, dtype = in.dtype](const std::vector<Port>&, const std::vector<Port>&) {
                               return dtype == f32 ? sum_columns<float>(rows, columns)
                                                   : sum_columns<bfloat16>(rows, columns);
                             }));
}

}  // namespace

void add_column_claims(ClaimMap& map) { map["sum"].push_back(claim_sum); }

}  // namespace varve::cpu
