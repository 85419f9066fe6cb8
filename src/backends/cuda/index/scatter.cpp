// Writing at positions that are themselves tensors, without atomics: positions are sorted by where they go, so that the
// last of several assigned stays and products are taken in one order.
#include "backends/cuda/index/index_sort.h"

namespace varve::cuda {
namespace {

using backend::Claim;
using backend::Prepared;
using backend::RunArgs;
using backend::Site;

const char* joining(const std::string& mode) {
  if (mode == "max") return "MAXIMUM";
  if (mode == "min") return "MINIMUM";
  return mode == "product" ? "PRODUCT" : "ASSIGN";
}

// Slices of x, or single elements, and where they go.
IndexSort::Keys keys_of(const Task& task, bool singly) {
  const std::int64_t axis = task.attrs.integer("axis");
  const Rows y(task.shape_out(), axis);
  const std::int64_t count = singly ? task.shape_in(1)[static_cast<int>(axis)] : task.shape_in(1).numel();
  return {.dtype = task.dtype_in(1),
          .positions = singly ? task.shape_in(1).numel() : y.outer * count,
          .rows = singly ? task.shape_out().numel() : y.outer * y.size,
          .size = y.size,
          .count = count,
          .inner = singly ? y.inner : 1,
          .flat = singly,
          .text = number_of(out_of_range(task.op, y.size, axis))};
}

Prepared writing(const Task& task, bool singly) {
  if (task.shape_out().numel() == 0 && task.shape_in(2).numel() == 0) return nothing();
  const auto bytes = static_cast<std::size_t>(task.shape_out().numel() * element_bytes(task.dtype_out()));
  const auto start = [bytes](const RunArgs& args) {
    if (args.out[0] != args.in[0]) context().copy(args.out[0], args.in[0], bytes);
  };
  const IndexSort::Keys keys = keys_of(task, singly);
  if (keys.positions == 0) return backend::prepared(start);
  const std::int64_t inner = singly ? 1 : Rows(task.shape_out(), task.attrs.integer("axis")).inner;
  const IndexSort sort(keys);
  const KernelText text{"index/scatter.cu",
                        defines({{"ELEMENT", type_name(task.dtype_out())}, {joining(task.attrs.text("mode")), "1"}})};
  return backend::prepared(
      [=, write = Function("write_sorted", text)](const RunArgs& args) {
        start(args);
        const IndexSort::Sorted sorted = sort(args.in[1], args.scratch, args.errors->word(), nullptr, 0);
        if (inner == 0) return;
        write(striding(keys.positions * inner), sorted.keys, sorted.places, args.in[2], args.out[0], keys.positions,
              keys.rows, inner);
      },
      sort.scratch_bytes());
}

Prepared scatter(const Task& task) { return writing(task, false); }
Prepared put_along_axis(const Task& task) { return writing(task, true); }

template <bool kSingly>
void claim_writing(const Site& site, std::vector<Claim>& claims) {
  const ir::Node& node = site.node();
  const Shape &y = node.types[0].shape, &indices = node.inputs[1].type().shape;
  const Rows rows(y, node.attrs.integer("axis"));
  const std::string no = kSingly ? IndexSort::refusal(indices.numel(), y.numel())
                                 : IndexSort::refusal(rows.outer * indices.numel(), rows.outer * rows.size);
  claims.push_back(no.empty() ? claim_of(site.root(), kSingly ? put_along_axis : scatter)
                              : Claim::no("cuda " + node.op->name, no));
}

}  // namespace

void add_writing_claims(ClaimMap& map) {
  map["scatter"].push_back(claim_writing<false>);
  map["put_along_axis"].push_back(claim_writing<true>);
}

}  // namespace varve::cuda
