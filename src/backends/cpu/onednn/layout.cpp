#include "backends/cpu/onednn/layout.h"

namespace varve::cpu::dnn {

PackedLayout make_layout(const Desc& plain, const Desc& packed, Type type) {
  const Desc plain_f32(dims_of(plain), dnnl::memory::data_type::f32, strides_of(plain));
  return PackedLayout(std::make_shared<const PackedLayout::Impl>(PackedLayout::Impl{
      .packed = packed,
      .type = type,
      .pack = make_reorder(plain_f32, packed, false),
      .unpack = make_reorder(packed, plain_f32, false),
  }));
}

std::size_t PackedLayout::bytes() const { return impl_->packed.get_size(); }

Type PackedLayout::type() const { return impl_->type; }

void PackedLayout::pack(const float* plain, void* packed) const { impl_->pack.run({plain, packed}, nullptr); }

void PackedLayout::unpack(const void* packed, float* plain) const { impl_->unpack.run({packed, plain}, nullptr); }

bool PackedLayout::operator==(const PackedLayout& other) const { return impl_->packed == other.impl_->packed; }

std::string PackedLayout::description() const {
  std::string text = impl_->type == Type::bf16 ? "bf16 " : "f32 ";
  const char* separator = "";
  for (const auto dim : dims_of(impl_->packed)) {
    text += separator + std::to_string(dim);
    separator = "x";
  }
  separator = " strides ";
  for (const auto stride : strides_of(impl_->packed)) {
    text += separator + std::to_string(stride);
    separator = ",";
  }
  separator = " blocks ";
  for (const auto& [size, axis] : inner_blocks(impl_->packed)) {
    text += separator + std::to_string(size) + static_cast<char>('a' + axis);
    separator = " ";
  }
  return text;
}

}  // namespace varve::cpu::dnn
