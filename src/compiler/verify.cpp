#include <unordered_map>
#include <unordered_set>

#include "base/text.h"
#include "compiler/draft.h"

namespace varve::compiler {
namespace {

class Verifier {
 public:
  Verifier(const Draft& draft, const std::string& after, Stage stage) : draft_(draft), after_(after), stage_(stage) {
    for (const ir::NodePtr& input : draft.graph.inputs) inputs_.insert(input.get());
  }

  void run() {
    for (std::size_t u = 0; u < draft_.units.size(); ++u) check_outputs(u);
    for (std::size_t u = 0; u < draft_.units.size(); ++u) {
      for (const ir::Value& input : draft_.units[u].claim.inputs) check_read(input, u);
      check_operands(draft_.units[u].claim);
    }
    for (const ir::Value& output : draft_.graph.outputs) check_read(output, draft_.units.size());
    check_state();
  }

 private:
  [[noreturn]] void broken(const std::string& what) const {
    throw Error(cat("draft is broken after '", after_, "': ", what, "."));
  }
  [[noreturn]] void broken(const backend::Claim& claim, const std::string& what) const {
    broken(cat("kernel '", claim.kernel, "' ", what));
  }
  std::string text(const ir::Value& value) const { return cat("output ", value.index, " of ", value.node->op->name); }

  // A value and the views above what has a buffer: each as its operator's shape rule says.
  void check_types(ir::Value value) {
    while (checked_.insert(value.node.get()).second) {
      ir::verify(*value.node, after_);
      if (!is_view(*value.node)) return;
      value = value.node->inputs[0];
    }
  }

  void check_outputs(std::size_t unit) {
    const backend::Claim& claim = draft_.units[unit].claim;
    if (!claim.accepted()) broken(claim, cat("has refused: ", claim.refusal));
    if (claim.nodes.empty()) broken(claim, "covers nothing");
    for (const ir::Value& output : claim.outputs) {
      if (output.index < 0 || output.index >= static_cast<int>(output.node->types.size()))
        broken(claim, cat("writes ", text(output), ", which has ", output.node->types.size()));
      if (inputs_.count(output.node.get())) broken(claim, "writes an input of the program");
      if (is_view(*output.node)) broken(claim, cat("writes ", text(output), ", a view"));
      if (!writer_.emplace(output, unit).second) broken(claim, cat("writes ", text(output), ", as another does"));
      check_types(output);
    }
  }

  void check_read(const ir::Value& value, std::size_t reader) {
    check_types(value);
    const ir::Value from = source(value);
    if (stage_ == Stage::incomplete || inputs_.count(from.node.get())) return;
    const auto writer = writer_.find(from);
    if (writer == writer_.end()) broken(cat("nobody writes ", text(from)));
    if (stage_ == Stage::in_order && writer->second >= reader)
      broken(cat(text(from), " is read by unit ", reader, " before unit ", writer->second, " writes it"));
  }

  void check_operands(const backend::Claim& claim) const {
    if (claim.memory.size() > claim.inputs.size() || claim.wants.size() > claim.inputs.size())
      broken(claim, "asks for the memory of an input that it does not have");
    for (const auto& [out, in] : claim.in_place)
      if (out < 0 || out >= static_cast<int>(claim.outputs.size()) || in < 0 ||
          in >= static_cast<int>(claim.inputs.size()))
        broken(claim, cat("may write output ", out, " in place of input ", in, ", but has ", claim.outputs.size(),
                          " and ", claim.inputs.size()));
  }

  void check_state() const {
    std::unordered_set<int> updated;
    for (const auto& [in, out] : draft_.graph.updates) {
      if (!updated.insert(in).second) broken(cat("input ", in, " is updated twice"));
      const TensorType &to = draft_.graph.inputs.at(static_cast<std::size_t>(in))->types[0],
                       &from = draft_.graph.outputs.at(static_cast<std::size_t>(out)).type();
      if (from != to) broken(cat("input ", in, ", ", to.str(), ", is updated by ", from.str()));
    }
  }

  const Draft& draft_;
  const std::string& after_;
  const Stage stage_;
  std::unordered_set<const ir::Node*> inputs_, checked_;
  std::unordered_map<ir::Value, std::size_t, ir::ValueHash> writer_;
};

}  // namespace

void verify(const Draft& draft, const std::string& after, Stage stage) { Verifier(draft, after, stage).run(); }

}  // namespace varve::compiler
