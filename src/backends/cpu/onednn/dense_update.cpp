#include <optional>

#include "backends/cpu/onednn/layout.h"

// oneDNN cannot add into a blocked output, but its f32 layouts are stacks of row-major panels, [N/width][K][width]: to
// the matmul primitive a batch of small matrices, into which it can add.

namespace varve::cpu::dnn {
namespace {

struct Panels {
  std::int64_t width;
  std::int64_t stride;  // elements from one panel to the next
};

std::optional<Panels> panels_of(const Desc& layout) {
  const Dims strides = strides_of(layout);
  const auto blocks = inner_blocks(layout);
  if (blocks.empty() || blocks.back().second != 1) return std::nullopt;
  const std::int64_t width = blocks.back().first;
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < blocks.size(); ++i) {
    if (blocks[i].second != 0) return std::nullopt;
    rows *= blocks[i].first;
  }
  // Only then do the blocks of one panel make a single matrix.
  if (strides[0] != rows * width) return std::nullopt;
  return Panels{width, strides[1]};
}

}  // namespace

struct DenseUpdate::Impl {
  Kernel transpose;              // x to xᵀ in scratch: the products then read it in order
  std::optional<Matmul> panels;  // the full ones
  std::optional<Matmul> rest;    // the last, narrower one, or row-major weights as a whole
  std::int64_t rest_column = 0;
  std::int64_t rest_at = 0;
  std::size_t transposed_at = 0;
  std::size_t scratch_bytes = 0;
};

Offer<DenseUpdate> DenseUpdate::prepare(const DenseSpec& s, const PackedLayout& layout, float beta) {
  const Desc& packed = layout.impl().packed;
  if (s.m <= 0 || s.k <= 0 || s.n <= 0) return Refused{"dense update: an empty matrix"};
  if (s.input != Type::f32 || layout.type() != Type::f32) return Refused{"dense update: not f32"};
  if (dims_of(packed) != Dims{s.k, s.n})
    return Refused{"dense update: weights of another shape: " + layout.description()};
  const std::optional<Panels> panels = layout.is_plain() ? Panels{s.n, 0} : panels_of(packed);
  if (!panels) return Refused{"dense update: not a stack of panels: " + layout.description()};

  return offer<DenseUpdate>("dense update", [&]() -> Offer<DenseUpdate> {
    auto impl = std::make_unique<Impl>();
    const bool plain = layout.is_plain();
    const Strides x = plain ? Strides{.row = 1, .col = s.k} : Strides{.row = s.m, .col = 1};
    const auto product = [&](std::int64_t batch, std::int64_t width) {
      return Matmul::prepare({.batch = batch,
                              .m = s.k,
                              .n = width,
                              .k = s.m,
                              .a = x,
                              .b = {.batch = panels->width, .row = s.n, .col = 1},
                              .c = {.batch = panels->stride, .row = panels->width, .col = 1},
                              .beta = beta,
                              .scaled = true,
                              .single_thread = s.single_thread});
    };
    const std::int64_t full = plain ? 0 : s.n / panels->width;
    const std::int64_t rest = s.n - full * panels->width;
    std::size_t product_scratch = 0;
    if (full > 0) {
      auto offered = product(full, panels->width);
      if (!offered) return Refused{"dense update: " + offered.reason()};
      product_scratch = offered->scratch_bytes();
      impl->panels.emplace(std::move(*offered));
    }
    if (rest > 0) {
      auto offered = product(1, rest);
      if (!offered) return Refused{"dense update: " + offered.reason()};
      product_scratch = std::max(product_scratch, offered->scratch_bytes());
      impl->rest.emplace(std::move(*offered));
      impl->rest_column = full * panels->width;
      impl->rest_at = full * panels->stride;
    }
    ScratchPlan plan;
    plan.add(product_scratch);
    if (!plain) {
      const Dims shape{s.m, s.k};
      impl->transpose = make_reorder(Desc(shape, data_type(Type::f32), Dims{s.k, 1}),
                                     Desc(shape, data_type(Type::f32), Dims{1, s.m}), s.single_thread);
      impl->transposed_at = plan.add(static_cast<std::size_t>(s.m * s.k) * sizeof(float));
    }
    impl->scratch_bytes = plan.bytes();
    return DenseUpdate(std::move(impl));
  });
}

DenseUpdate::DenseUpdate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DenseUpdate::DenseUpdate(DenseUpdate&&) noexcept = default;
DenseUpdate& DenseUpdate::operator=(DenseUpdate&&) noexcept = default;
DenseUpdate::~DenseUpdate() = default;

std::size_t DenseUpdate::scratch_bytes() const { return impl_->scratch_bytes; }

std::string DenseUpdate::implementation() const {
  return (impl_->panels ? *impl_->panels : *impl_->rest).implementation() + (impl_->panels ? " on panels" : "");
}

void DenseUpdate::run(const float* x, const float* dy, const float* alpha, float* w, void* scratch) const {
  const void* a = x;
  if (impl_->transpose) {
    a = offset(scratch, impl_->transposed_at);
    impl_->transpose.run({x, a}, nullptr);
  }
  if (impl_->panels) impl_->panels->run({.a = a, .b = dy, .alpha = alpha, .c = w, .scratch = scratch});
  if (impl_->rest) {
    const float* b = dy + impl_->rest_column;
    impl_->rest->run({.a = a, .b = b, .alpha = alpha, .c = w + impl_->rest_at, .scratch = scratch});
  }
}

}  // namespace varve::cpu::dnn
