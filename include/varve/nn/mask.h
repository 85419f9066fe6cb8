// Which steps of a batch of sequences are valid, and which are padding. A mask belongs to the call of a module, never
// to a tensor: `model(x, mode, mask)`. Layers hand it on by themselves.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "varve/tensor.h"
#include "varve/tensors.h"

namespace varve::nn {

class Mask {  // a cheap handle; an undefined one: every step is valid
 public:
  Mask() = default;
  // Sequence i has `lengths[i]` of `steps` steps, padding is on the right. lengths: i32 or i64 [N].
  static Mask of_lengths(const Tensor& lengths, std::int64_t steps);
  static Mask of_valid(const Tensor& valid);                        // bool [N, T]; padding may be anywhere
  static Mask of_ids(const Tensor& ids, std::int64_t padding = 0);  // token ids [N, T]: valid where they are others

  bool defined() const { return data_ != nullptr; }
  std::int64_t samples() const;  // N
  std::int64_t steps() const;    // T
  bool right_padded() const;     // known to be: made of lengths
  Tensor valid() const;          // bool [N, T]
  Tensor lengths() const;        // i64 [N]: valid steps of each
  Tensor weights() const;        // f32 [N, T]: 1 where valid, as losses and metrics take it
  bool same(const Mask& other) const { return data_ == other.data_; }

 private:
  struct Data {
    Tensor valid, lengths;  // one of them
    std::int64_t steps;
  };
  explicit Mask(Data data) : data_(std::make_shared<const Data>(std::move(data))) {}
  const Data& data(const char* asked) const;
  std::shared_ptr<const Data> data_;
};

// What a module gives, and which of its steps are valid; no mask: all, or it has no steps.
struct Masked {
  Tensor y;
  Mask mask = {};
};
struct MaskedTensors {
  Tensors y;
  std::vector<Mask> masks = {};  // one of each
};

// What a kind of module does with a mask that it is called with.
enum class Masking : std::uint8_t {
  along,    // it says nothing: the mask goes along the calls inside it, as far as that is sound; Error where it is not
  passes,   // each step by itself: what was valid is valid
  uses,     // masked_forward() sees to it
  refuses,  // it would have to ignore it: Error
};

}  // namespace varve::nn
