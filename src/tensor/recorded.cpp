#include "varve/recorded.h"

#include <mutex>

#include "ir/node.h"

namespace varve::detail {

Recorded recorded(const Tensor& tensor) {
  const std::lock_guard lock(ir::graph_mutex());
  const ir::Node& node = *tensor.node();
  Recorded found{.op = node.op, .attrs = node.attrs, .inputs = {}, .number = node.id};
  for (const ir::Value& input : node.inputs) found.inputs.emplace_back(input);
  found.forgotten = node.inputs.empty() && node.op->arity != 0 &&
                    node.slots[static_cast<std::size_t>(tensor.index())].value() != nullptr;
  return found;
}

std::uint64_t next_record() { return ir::next_id(); }

}  // namespace varve::detail
