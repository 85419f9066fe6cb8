#include "backends/reference/kernels.h"
#include "base/philox.h"

namespace varve::reference {
namespace {

using Views = std::vector<View>;

std::uint32_t bits_at(const ir::Node& node, const View& seed, const View& counter, std::int64_t index) {
  return random_bits(static_cast<std::uint64_t>(seed.get_int(0)),
                     static_cast<std::uint64_t>(node.attrs.integer("stream")),
                     static_cast<std::uint64_t>(counter.get_int(0)), static_cast<std::uint64_t>(index));
}

void random_uniform_of(const ir::Node& node, const Views& in, const Views& out, backend::ErrorWord&) {
  for (std::int64_t i = 0; i < out[0].numel(); ++i) out[0].set(i, uniform01(bits_at(node, in[0], in[1], i)));
}

void random_normal_of(const ir::Node& node, const Views& in, const Views& out, backend::ErrorWord&) {
  for (std::int64_t i = 0; i < out[0].numel(); ++i) out[0].set(i, normal_from_bits(bits_at(node, in[0], in[1], i)));
}

void random_bits_of(const ir::Node& node, const Views& in, const Views& out, backend::ErrorWord&) {
  for (std::int64_t i = 0; i < out[0].numel(); ++i) out[0].set_int(i, bits_at(node, in[0], in[1], i));
}

// The comparison is made in f32, as every backend does it.
void dropout(const ir::Node& node, const Views& in, const Views& out, backend::ErrorWord&) {
  const double rate = node.attrs.number("rate");
  for (std::int64_t i = 0; i < out[0].numel(); ++i) {
    const bool kept = uniform01(bits_at(node, in[1], in[2], i)) >= static_cast<float>(rate);
    out[0].set(i, kept ? in[0].get(i) / (1 - rate) : 0);
  }
}

}  // namespace

void add_random_kernels(KernelMap& map) {
  map["random_uniform"] = random_uniform_of;
  map["random_normal"] = random_normal_of;
  map["random_bits"] = random_bits_of;
  map["dropout"] = dropout;
}

}  // namespace varve::reference
