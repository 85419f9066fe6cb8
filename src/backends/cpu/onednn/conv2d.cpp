#include "backends/cpu/onednn/conv2d_passes.h"
#include "backends/cpu/onednn/layout.h"

namespace varve::cpu::dnn {
namespace {

std::int64_t out_size(std::int64_t in, std::int64_t before, std::int64_t after, std::int64_t kernel,
                      std::int64_t dilation, std::int64_t stride) {
  const std::int64_t room = in + before + after - ((kernel - 1) * dilation + 1);
  return room < 0 ? 0 : room / stride + 1;
}

std::string refusal_of(const Conv2dSpec& s) {
  if (s.groups < 1 || s.in_channels % s.groups != 0 || s.out_channels % s.groups != 0) {
    return "channels are not a multiple of groups";
  }
  if (s.stride_height < 1 || s.stride_width < 1 || s.dilation_height < 1 || s.dilation_width < 1) {
    return "stride and dilation start at 1";
  }
  if (s.batch < 1 || s.in_channels < 1 || s.out_channels < 1 || s.kernel_height < 1 || s.kernel_width < 1) {
    return "an empty tensor";
  }
  if (s.pad_top < 0 || s.pad_bottom < 0 || s.pad_left < 0 || s.pad_right < 0) return "negative padding";
  if (s.out_height() < 1 || s.out_width() < 1) return "a kernel larger than the padded image";
  if ((s.input == Type::bf16 || s.output == Type::bf16) && !has_bf16()) return "this CPU has no bf16 products";
  return "";
}

// Weights that the caller has in another layout than the kernel: they pass through scratch memory.
struct Detour {
  Kernel reorder;
  std::size_t at = 0;

  static Detour make(const Desc& given, const Desc& used, bool writes, bool single_thread, ScratchPlan& plan) {
    if (given == used) return {};
    const Desc& from = writes ? used : given;
    const Desc& to = writes ? given : used;
    return {make_reorder(from, to, single_thread), plan.add(used.get_size())};
  }

  void* place(void* given, void* scratch) const { return reorder ? offset(scratch, at) : given; }
  void read(void* given, void* scratch) const {
    if (reorder) reorder.run({given, offset(scratch, at)}, nullptr);
  }
  void write(void* given, void* scratch) const {
    if (reorder) reorder.run({offset(scratch, at), given}, nullptr);
  }
};

// The library's favourite layout comes first for plain weights too: next to the product, a reorder costs little.
std::optional<ConvKernel> find_kernel(Conv2dPass pass, const Conv2dSpec& s, const PackedLayout* shared) {
  ConvLayouts wanted = open_layouts(pass, s);
  if (shared) {
    ConvLayouts with_shared = wanted;
    with_shared.weights = shared->impl().packed;
    if (auto kernel = prepare_pass(pass, s, with_shared)) return kernel;
  }
  return prepare_pass(pass, s, wanted);
}

}  // namespace

std::int64_t Conv2dSpec::out_height() const {
  return out_size(in_height, pad_top, pad_bottom, kernel_height, dilation_height, stride_height);
}

std::int64_t Conv2dSpec::out_width() const {
  return out_size(in_width, pad_left, pad_right, kernel_width, dilation_width, stride_width);
}

struct Conv2d::Impl {
  explicit Impl(PackedLayout weights_layout) : layout(std::move(weights_layout)) {}

  Kernel kernel;
  PackedLayout layout;
  Detour weights;
  Conv2dPass pass = Conv2dPass::forward;
  std::size_t scratch_bytes = 0;

  void run(const Conv2dArgs& args) const;
};

Offer<Conv2d> Conv2d::prepare(Conv2dPass pass, const Conv2dSpec& s, const PackedLayout* shared) {
  if (const std::string reason = refusal_of(s); !reason.empty()) return Refused{"conv2d: " + reason};
  return offer<Conv2d>("conv2d", [&]() -> Offer<Conv2d> {
    const OneThread guard(s.single_thread);
    const ConvLayouts plain = plain_layouts(pass, s);
    if (shared && (type_of(shared->impl().packed) != type_of(plain.weights) ||
                   dims_of(shared->impl().packed) != dims_of(plain.weights))) {
      return Refused{"conv2d: weights of another type or shape: " + shared->description()};
    }
    std::optional<ConvKernel> found = find_kernel(pass, s, shared);
    if (!found) return Refused{"conv2d: oneDNN has no kernel, or only its reference one, for this convolution"};

    const Desc given = shared ? shared->impl().packed : s.packed_weights ? found->used.weights : plain.weights;
    const Type type = pass == Conv2dPass::backward_weights ? Type::f32 : s.input;
    auto impl = std::make_unique<Impl>(shared ? *shared : make_layout(plain.weights, given, type));
    impl->pass = pass;
    impl->kernel = std::move(found->kernel);
    ScratchPlan plan;
    plan.add(impl->kernel.scratch_bytes());
    impl->weights =
        Detour::make(given, found->used.weights, pass == Conv2dPass::backward_weights, s.single_thread, plan);
    impl->scratch_bytes = plan.bytes();
    return Conv2d(std::move(impl));
  });
}

Conv2d::Conv2d(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Conv2d::Conv2d(Conv2d&&) noexcept = default;
Conv2d& Conv2d::operator=(Conv2d&&) noexcept = default;
Conv2d::~Conv2d() = default;

std::size_t Conv2d::scratch_bytes() const { return impl_->scratch_bytes; }
const PackedLayout& Conv2d::weights_layout() const { return impl_->layout; }
bool Conv2d::reorders_weights() const { return static_cast<bool>(impl_->weights.reorder); }
std::string Conv2d::implementation() const { return impl_->kernel.implementation(); }

void Conv2d::Impl::run(const Conv2dArgs& args) const {
  const bool writes_weights = pass == Conv2dPass::backward_weights;
  if (!writes_weights) weights.read(args.weights, args.scratch);
  kernel.run({args.x, weights.place(args.weights, args.scratch), args.bias, args.y}, args.scratch);
  if (writes_weights) weights.write(args.weights, args.scratch);
}

void Conv2d::run(const Conv2dArgs& args) const { impl_->run(args); }

}  // namespace varve::cpu::dnn
