// 128 bits that stand for a structure: what is built from the same values in the same order is taken to be the same.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "base/hash.h"
#include "ir/node.h"

namespace varve::ir {

class Fingerprint {
 public:
  void add(std::uint64_t value) {
    a_ = hash_combine(a_, value);
    b_ = hash_combine(value ^ 0x9FB21C651E98DF25u, b_);
  }
  void add(std::string_view text);
  void add(const Ints& numbers);
  void add(const TensorType& type);
  void add(const Attrs& attrs);
  void add_call(const Node& node);  // operator, attributes and regions; not the inputs

  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
  std::uint64_t low() const { return a_; }

 private:
  std::uint64_t a_ = 0x243F6A8885A308D3u, b_ = 0x13198A2E03707344u;
};

struct FingerprintHash {
  std::size_t operator()(const Fingerprint& print) const { return print.low(); }
};

}  // namespace varve::ir
