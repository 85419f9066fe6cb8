#include "backends/reference/backend.h"

#include <cstring>

#include "backend/collective.h"
#include "backends/reference/elementwise.h"
#include "backends/reference/kernels.h"
#include "base/text.h"

namespace varve::reference {
namespace {

using backend::Claim;
using backend::Port;
using backend::Prepared;

// A function over views, with the types they refer to.
class ViewKernel final : public backend::Kernel {
 public:
  ViewKernel(ir::NodePtr node, RefFn fn, const std::vector<Port>& in, const std::vector<Port>& out)
      : node_(std::move(node)), fn_(std::move(fn)) {
    for (const Port& port : in) in_types_.push_back(port.type);
    for (const Port& port : out) out_types_.push_back(port.type);
    for (const TensorType& type : in_types_) in_.push_back({&type, nullptr});
    for (const TensorType& type : out_types_) out_.push_back({&type, nullptr});
  }

  void run(const backend::RunArgs& args) override {
    for (std::size_t i = 0; i < in_.size(); ++i) in_[i].data = const_cast<void*>(args.in[i]);  // read only
    for (std::size_t i = 0; i < out_.size(); ++i) out_[i].data = args.out[i];
    fn_(*node_, in_, out_, *args.errors);
  }

 private:
  ir::NodePtr node_;
  RefFn fn_;
  std::vector<TensorType> in_types_, out_types_;
  std::vector<View> in_, out_;
};

Claim claim_of(const std::string& kernel, const ir::NodePtr& node, RefFn fn) {
  return Claim::of(kernel, node, [node, fn = std::move(fn)](const std::vector<Port>& in, const std::vector<Port>& out) {
    return Prepared{std::make_unique<ViewKernel>(node, fn, in, out), 0};
  });
}

class ReferenceBackend final : public backend::Backend {
 public:
  std::string name() const override { return "reference"; }

  std::vector<Claim> claims(const backend::Site& site) const override {
    const ir::NodePtr& node = site.root();
    if (node->op->elementwise()) return {claim_of(cat("reference ", node->op->name), node, elementwise_kernel(*node))};
    if (const backend::Maker make = backend::collective_maker(node->op->name))
      return {backend::claim_of(cat("reference ", node->op->name), node, make)};
    const auto found = kernels().find(node->op->name);
    if (found == kernels().end()) return {Claim::no("reference", cat("no kernel for '", node->op->name, "'"))};
    return {claim_of(cat("reference ", node->op->name), node, found->second)};
  }

  Prepared prepare_copy(const Port& from, const Port& to) const override {
    return backend::prepared([from, to](const backend::RunArgs& args) {
      const Shape& shape = from.type.shape;
      const auto size = static_cast<std::int64_t>(size_of(from.type.dtype));
      const std::int64_t count = shape.numel();
      Ints index(static_cast<std::size_t>(shape.rank()), 0);
      for (std::int64_t i = 0; i < count; ++i) {
        std::int64_t source = 0, target = 0;
        for (std::size_t a = 0; a < index.size(); ++a) {
          source += index[a] * from.layout.strides[a];
          target += index[a] * to.layout.strides[a];
        }
        std::memcpy(static_cast<std::byte*>(args.out[0]) + target * size,
                    static_cast<const std::byte*>(args.in[0]) + source * size, static_cast<std::size_t>(size));
        next_index(index, shape);
      }
    });
  }
};

}  // namespace

std::unique_ptr<backend::Backend> make_reference_backend() { return std::make_unique<ReferenceBackend>(); }

}  // namespace varve::reference
