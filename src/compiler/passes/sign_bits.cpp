// A value of which a later kernel wants to know only what is above 0 is written, and read, as bits for it.
#include "base/text.h"
#include "compiler/pipeline.h"
#include "tensor/record.h"

namespace varve::compiler {
namespace {

constexpr std::size_t kLeastBytes = std::size_t{1} << 18;  // less stays in the cache

std::vector<TensorType> shape_of_bits(const Call& call) {
  const std::int64_t count = call.in[0].shape.numel();
  if (count % 8 != 0) throw Error(cat("sign_bits: expected a multiple of 8 elements, got ", call.in[0].str(), "."));
  return {{u8, {count / 8}}};
}

const OpRecord& sign_bits_op() {
  static const OpRecord& record = define({.name = "sign_bits",
                                          .doc = "Which elements are above 0: eight neighbours in a byte, the first in "
                                                 "its lowest bit.",
                                          .family = "compiler",
                                          .arity = 1,
                                          .shape = shape_of_bits,
                                          .differentiable = false})
                                      .record();
  return record;
}

// Of a value that a kernel writes, by the same kernel.
ir::Value sign_bits_of(const ir::Value& value) {
  const ir::NodePtr node = ir::make_node(sign_bits_op(), {value}, {}, {{u8, {value.type().shape.numel() / 8}}});
  node->origin = value.node->origin;
  return {node, 0};
}

}  // namespace

void pass_sign_bits(Draft& draft) {
  std::unordered_map<ir::Value, std::size_t, ir::ValueHash> writers;
  for (std::size_t u = 0; u < draft.units.size(); ++u)
    if (const backend::Claim& claim = draft.units[u].claim; claim.sign_bits.output >= 0)
      writers[claim.outputs[static_cast<std::size_t>(claim.sign_bits.output)]] = u;
  std::unordered_map<ir::Value, ir::Value, ir::ValueHash> written;
  for (Unit& reader : draft.units) {
    if (reader.claim.sign_bits.input < 0) continue;
    ir::Value& input = reader.claim.inputs[static_cast<std::size_t>(reader.claim.sign_bits.input)];
    const auto writer = writers.find(input);
    if (writer == writers.end() || input.type().bytes() < kLeastBytes) continue;
    const auto [bits, is_new] = written.try_emplace(input);
    if (is_new) {
      bits->second = sign_bits_of(input);
      draft.units[writer->second].claim.outputs.push_back(bits->second);
      draft.explain += cat(input.node->op->name, " ", input.type().str(), " of '", input.node->origin.path,
                           "' is read as bits in the backward pass\n");
    }
    input = bits->second;
  }
}

}  // namespace varve::compiler
