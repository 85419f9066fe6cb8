#include <varve/error.h>

#include <optional>

#include "backends/cpu/onednn/layout.h"

// oneDNN calls a dense layer an inner product and its weights [N, K] = [out, in]: our layouts with the axes swapped.

namespace varve::cpu::dnn {
namespace {

std::string refusal_of(const DenseSpec& s, const PackedLayout& layout, Type weights) {
  if (s.m <= 0 || s.k <= 0 || s.n <= 0) return "an empty matrix";
  if ((s.input == Type::bf16 || s.output == Type::bf16) && !has_bf16()) return "this CPU has no bf16 products";
  if (layout.type() != weights) return "weights of another type: " + layout.description();
  if (dims_of(layout.impl().packed) != Dims{s.k, s.n}) return "weights of another shape: " + layout.description();
  return "";
}

Desc row_major(std::int64_t rows, std::int64_t cols, Type type) {
  return Desc({rows, cols}, data_type(type), Dims{cols, 1});
}

Desc any_weights(const DenseSpec& s, Type type) {
  return Desc({s.n, s.k}, data_type(type), dnnl::memory::format_tag::any);
}

// oneDNN wants the forward pass as a hint; which one does not matter to the dense gradients.
dnnl::inner_product_forward::primitive_desc forward_hint(const DenseSpec& s) {
  return describe<dnnl::inner_product_forward>(user_scratch_attr(), dnnl::prop_kind::forward_training,
                                               row_major(s.m, s.k, s.input), any_weights(s, s.input), Desc(),
                                               row_major(s.m, s.n, s.input));
}

}  // namespace

// --- dx = dy·wᵀ ------------------------------------------------------------------------------------------------------

struct DenseBackwardData::Impl {
  std::optional<Matmul> matmul;  // row-major weights
  Kernel kernel;                 // other layouts
  Kernel reorder;                // of the result for the one, of the weights for the other
  std::size_t reordered_at = 0;
  std::size_t scratch_bytes = 0;

  std::string prepare_row_major(const DenseSpec& s);
};

// dxᵀ = w·dyᵀ: turning the small activations instead of the large weights is 5 to 15% faster, where N is long enough
// to pay for turning dx back.
std::string DenseBackwardData::Impl::prepare_row_major(const DenseSpec& s) {
  constexpr std::int64_t kLong = 1024;
  const bool turned = s.n >= kLong && s.m < s.k;
  const Strides w{.row = s.n, .col = 1};
  const Strides wt{.row = 1, .col = s.n};
  auto offered = Matmul::prepare({.m = turned ? s.k : s.m,
                                  .n = turned ? s.m : s.k,
                                  .k = s.n,
                                  .a = w,  // dy has the same strides
                                  .b = wt,
                                  .c = {.row = turned ? s.m : s.k, .col = 1},
                                  .input = s.input,
                                  .output = s.output,
                                  .single_thread = s.single_thread});
  if (!offered) return offered.reason();
  matmul.emplace(std::move(*offered));
  ScratchPlan plan;
  plan.add(matmul->scratch_bytes());
  if (turned) {
    const Dims shape{s.m, s.k};
    const Desc result(shape, data_type(s.output), Dims{1, s.m});
    reorder = make_reorder(result, row_major(s.m, s.k, s.output), s.single_thread);
    reordered_at = plan.add(result.get_size());
  }
  scratch_bytes = plan.bytes();
  return "";
}

Offer<DenseBackwardData> DenseBackwardData::prepare(const DenseSpec& s, const PackedLayout& layout) {
  const std::string reason = refusal_of(s, layout, s.input);
  if (!reason.empty()) return Refused{"dense backward data: " + reason};
  return offer<DenseBackwardData>("dense backward data", [&]() -> Offer<DenseBackwardData> {
    auto impl = std::make_unique<Impl>();
    if (layout.is_plain()) {
      const std::string refusal = impl->prepare_row_major(s);
      if (!refusal.empty()) return Refused{"dense backward data: " + refusal};
      return DenseBackwardData(std::move(impl));
    }
    const OneThread guard(s.single_thread);
    const Desc dx = row_major(s.m, s.k, s.output);
    const Desc dy = row_major(s.m, s.n, s.input);
    const Desc given = transposed(layout.impl().packed);
    const auto describe_with = [&](const Desc& weights) {
      return describe_gradient<dnnl::inner_product_backward_data>(user_scratch_attr(), forward_hint(s), dx, weights,
                                                                  dy);
    };
    auto desc = describe_with(given);
    if (!is_fast(desc)) desc = describe_with(any_weights(s, s.input));
    if (!is_fast(desc)) return Refused{"dense backward data: oneDNN has only its reference kernel"};
    const Desc used = desc.weights_desc();
    impl->kernel = Kernel::make<dnnl::inner_product_backward_data>(
        desc, {{DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_WEIGHTS, used}, {DNNL_ARG_DIFF_SRC, dx}}, s.single_thread);
    ScratchPlan plan;
    plan.add(impl->kernel.scratch_bytes());
    if (used != given) {
      impl->reorder = make_reorder(given, used, s.single_thread);
      impl->reordered_at = plan.add(used.get_size());
    }
    impl->scratch_bytes = plan.bytes();
    return DenseBackwardData(std::move(impl));
  });
}

DenseBackwardData::DenseBackwardData(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DenseBackwardData::DenseBackwardData(DenseBackwardData&&) noexcept = default;
DenseBackwardData& DenseBackwardData::operator=(DenseBackwardData&&) noexcept = default;
DenseBackwardData::~DenseBackwardData() = default;

std::size_t DenseBackwardData::scratch_bytes() const { return impl_->scratch_bytes; }

std::string DenseBackwardData::implementation() const {
  if (impl_->matmul) return impl_->matmul->implementation() + (impl_->reorder ? ", turned" : "");
  return impl_->kernel.implementation() + (impl_->reorder ? " after a reorder" : "");
}

void DenseBackwardData::run(const void* dy, const void* w, void* dx, void* scratch) const {
  void* reordered = offset(scratch, impl_->reordered_at);
  if (impl_->matmul && impl_->reorder) {
    impl_->matmul->run({.a = w, .b = dy, .c = reordered, .scratch = scratch});
    return impl_->reorder.run({reordered, dx}, nullptr);
  }
  if (impl_->matmul) return impl_->matmul->run({.a = dy, .b = w, .c = dx, .scratch = scratch});
  if (impl_->reorder) {
    impl_->reorder.run({w, reordered}, nullptr);
    w = reordered;
  }
  impl_->kernel.run({dy, w, dx}, scratch);
}

// --- dw = xᵀ·dy ------------------------------------------------------------------------------------------------------

struct DenseBackwardWeights::Impl {
  Kernel kernel;
  Kernel reorder;
  std::size_t reordered_at = 0;
  std::size_t scratch_bytes = 0;
};

Offer<DenseBackwardWeights> DenseBackwardWeights::prepare(const DenseSpec& s, const PackedLayout& layout) {
  const std::string reason = refusal_of(s, layout, Type::f32);
  if (!reason.empty()) return Refused{"dense backward weights: " + reason};
  return offer<DenseBackwardWeights>("dense backward weights", [&]() -> Offer<DenseBackwardWeights> {
    const OneThread guard(s.single_thread);
    const Desc x = row_major(s.m, s.k, s.input);
    const Desc dy = row_major(s.m, s.n, s.input);
    const Desc db = s.bias ? Desc({s.n}, data_type(Type::f32), Dims{1}) : Desc();
    const Desc given = transposed(layout.impl().packed);
    const auto describe_with = [&](const Desc& weights) {
      return describe_gradient<dnnl::inner_product_backward_weights>(user_scratch_attr(), forward_hint(s), x, weights,
                                                                     db, dy);
    };
    auto desc = describe_with(given);
    if (!is_fast(desc)) desc = describe_with(any_weights(s, Type::f32));
    if (!is_fast(desc)) return Refused{"dense backward weights: oneDNN has only its reference kernel"};
    const Desc used = desc.diff_weights_desc();
    auto impl = std::make_unique<Impl>();
    impl->kernel = Kernel::make<dnnl::inner_product_backward_weights>(
        desc, {{DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_WEIGHTS, used}, {DNNL_ARG_DIFF_BIAS, db}},
        s.single_thread);
    ScratchPlan plan;
    plan.add(impl->kernel.scratch_bytes());
    if (used != given) {
      impl->reorder = make_reorder(used, given, s.single_thread);
      impl->reordered_at = plan.add(used.get_size());
    }
    impl->scratch_bytes = plan.bytes();
    return DenseBackwardWeights(std::move(impl));
  });
}

DenseBackwardWeights::DenseBackwardWeights(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DenseBackwardWeights::DenseBackwardWeights(DenseBackwardWeights&&) noexcept = default;
DenseBackwardWeights& DenseBackwardWeights::operator=(DenseBackwardWeights&&) noexcept = default;
DenseBackwardWeights::~DenseBackwardWeights() = default;

std::size_t DenseBackwardWeights::scratch_bytes() const { return impl_->scratch_bytes; }

std::string DenseBackwardWeights::implementation() const {
  return impl_->kernel.implementation() + (impl_->reorder ? " before a reorder" : "");
}

void DenseBackwardWeights::run(const void* x, const void* dy, float* dw, float* db, void* scratch) const {
  if (!impl_->reorder) return impl_->kernel.run({x, dy, dw, db}, scratch);
  void* reordered = offset(scratch, impl_->reordered_at);
  impl_->kernel.run({x, dy, reordered, db}, scratch);
  impl_->reorder.run({reordered, dw}, nullptr);
}

}  // namespace varve::cpu::dnn
