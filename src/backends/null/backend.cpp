#include "backends/null/backend.h"

#include "base/text.h"

namespace varve::null {
namespace {

using backend::Claim;
using backend::Port;
using backend::Prepared;

Prepared nothing(const std::vector<Port>&, const std::vector<Port>&) {
  return backend::prepared([](const backend::RunArgs&) {});
}

// What the fuse pass can put into a group.
bool groups(const ir::Node& node) {
  if (node.op->elementwise() || node.is("fill")) return true;
  const bool reduces = node.is("sum") || node.is("prod") || node.is("max") || node.is("min");
  return reduces && node.inputs[0].type().shape.numel() > 0;
}

class NullBackend final : public backend::Backend {
 public:
  std::string name() const override { return "null"; }
  bool fuses() const override { return true; }
  bool executes() const override { return false; }

  std::vector<Claim> claims(const backend::Site& site) const override {
    if (groups(site.node())) return {Claim::no("null", "left for a generated group")};
    return {Claim::of(cat("null ", site.node().op->name), site.root(), nothing)};
  }

  Claim claim_group(const backend::Group& group) const override {
    Claim claim;
    claim.kernel = cat("null group of ", group.nodes.size());
    claim.nodes = group.nodes;
    claim.inputs = group.inputs;
    claim.outputs = group.outputs;
    claim.memory.assign(group.inputs.size(), backend::Memory::strided);
    claim.prepare = nothing;
    return claim;
  }

  Prepared prepare_copy(const Port& from, const Port& to) const override { return nothing({from}, {to}); }
};

}  // namespace

std::unique_ptr<backend::Backend> make_null_backend() { return std::make_unique<NullBackend>(); }

}  // namespace varve::null
