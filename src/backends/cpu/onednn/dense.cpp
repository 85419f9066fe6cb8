#include <optional>

#include "backends/cpu/onednn/layout.h"

namespace varve::cpu::dnn {

struct DenseBackwardData::Impl {
  std::optional<Matmul> matmul;
  Kernel reorder;  // of a result that was computed transposed
  std::size_t transposed_at = 0;
  std::size_t scratch_bytes = 0;
};

// dxᵀ = w·dyᵀ: transposing the small activations instead of the large weights is 5 to 15% faster, where N is long
// enough to pay for transposing dx back.
Offer<DenseBackwardData> DenseBackwardData::prepare(const DenseSpec& s) {
  if (s.m <= 0 || s.k <= 0 || s.n <= 0) return Refused{"dense backward data: an empty matrix"};
  return offer<DenseBackwardData>("dense backward data", [&]() -> Offer<DenseBackwardData> {
    constexpr std::int64_t kLong = 1024;
    const bool transposed = s.n >= kLong && s.m < s.k;
    const Strides w{.row = s.n, .col = 1};
    const Strides wt{.row = 1, .col = s.n};
    auto offered = Matmul::prepare({.m = transposed ? s.k : s.m,
                                    .n = transposed ? s.m : s.k,
                                    .k = s.n,
                                    .a = w,  // dy has the same strides
                                    .b = wt,
                                    .c = {.row = transposed ? s.m : s.k, .col = 1},
                                    .input = s.input,
                                    .output = s.output,
                                    .single_thread = s.single_thread});
    if (!offered) return Refused{"dense backward data: " + offered.reason()};
    auto impl = std::make_unique<Impl>();
    impl->matmul.emplace(std::move(*offered));
    ScratchPlan plan;
    plan.add(impl->matmul->scratch_bytes());
    if (transposed) {
      const Dims shape{s.m, s.k};
      const Desc result(shape, data_type(s.output), Dims{1, s.m});
      impl->reorder = make_reorder(result, Desc(shape, data_type(s.output), Dims{s.k, 1}), s.single_thread);
      impl->transposed_at = plan.add(result.get_size());
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
  return impl_->matmul->implementation() + (impl_->reorder ? ", transposed" : "");
}

void DenseBackwardData::run(const void* dy, const void* w, void* dx, void* scratch) const {
  if (!impl_->reorder) return impl_->matmul->run({.a = dy, .b = w, .c = dx, .scratch = scratch});
  void* transposed = offset(scratch, impl_->transposed_at);
  impl_->matmul->run({.a = w, .b = dy, .c = transposed, .scratch = scratch});
  impl_->reorder.run({transposed, dx}, nullptr);
}

}  // namespace varve::cpu::dnn
