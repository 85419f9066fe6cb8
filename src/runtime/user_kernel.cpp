#include "base/text.h"
#include "runtime/devices.h"
#include "varve/error.h"
#include "varve/kernel.h"

namespace varve {
namespace {

// Views are made when the kernel is prepared; a run only fills in the pointers.
class UserKernel final : public backend::Kernel {
 public:
  UserKernel(KernelFn fn, Attrs attrs, const std::vector<backend::Port>& in, const std::vector<backend::Port>& out)
      : fn_(std::move(fn)), attrs_(std::move(attrs)) {
    for (const backend::Port& port : in) in_.push_back({port.type});
    for (const backend::Port& port : out) out_.push_back({port.type});
  }

  void run(const backend::RunArgs& args) override {
    for (std::size_t i = 0; i < in_.size(); ++i) in_[i].data = const_cast<void*>(args.in[i]);
    for (std::size_t o = 0; o < out_.size(); ++o) out_[o].data = args.out[o];
    fn_({in_, out_, attrs_});
  }

 private:
  KernelFn fn_;
  Attrs attrs_;
  std::vector<KernelView> in_, out_;
};

}  // namespace

void add_kernel(const OpDef& op, KernelFn kernel, const std::string& device) {
  if (!kernel) throw Error(cat("add_kernel: the kernel for '", op.name(), "' is empty."));
  if (!device.empty()) runtime::backend_named(device);
  for (const std::string& name : runtime::backend_names()) {
    if (!device.empty() && name != device) continue;
    backend::add_user_kernel(op.record(), name, [kernel](const ir::Node& node) -> backend::Prepare {
      return [kernel, attrs = node.attrs](const std::vector<backend::Port>& in, const std::vector<backend::Port>& out) {
        return backend::Prepared{std::make_unique<UserKernel>(kernel, attrs, in, out), 0};
      };
    });
  }
}

}  // namespace varve
