#include "ir/fingerprint.h"

#include <bit>

#include "ir/graph.h"

namespace varve::ir {

void Fingerprint::add(std::string_view text) { add(hash_bytes(text)), add(hash_bytes(text, text.size() + 1)); }

void Fingerprint::add(const Ints& numbers) {
  add(numbers.size());
  for (const std::int64_t number : numbers) add(static_cast<std::uint64_t>(number));
}

void Fingerprint::add(const TensorType& type) {
  add(static_cast<std::uint64_t>(type.dtype));
  add(type.shape.vec());
}

void Fingerprint::add(const Attrs& attrs) {
  add(attrs.entries().size());
  for (const auto& [key, value] : attrs.entries()) {
    add(key);
    if (const auto* flag = value.get<bool>())
      add(*flag ? 1u : 2u);
    else if (const auto* whole = value.get<std::int64_t>())
      add(3u), add(static_cast<std::uint64_t>(*whole));
    else if (const auto* number = value.get<double>())
      add(4u), add(std::bit_cast<std::uint64_t>(*number));
    else if (const auto* text = value.get<std::string>())
      add(5u), add(*text);
    else if (const auto* list = value.get<Ints>())
      add(6u), add(*list);
    else if (const auto* dtype = value.get<DType>())
      add(7u), add(static_cast<std::uint64_t>(*dtype));
  }
}

void Fingerprint::add_call(const Node& node) {
  add(reinterpret_cast<std::uintptr_t>(node.op));
  add(node.attrs);
  for (const auto& region : node.regions) add(structure(*region));
}

}  // namespace varve::ir
