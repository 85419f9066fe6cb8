// Memory that one sample is read into.
#pragma once

#include <vector>

#include "varve/data.h"

namespace varve::data {

class SampleMemory {
 public:
  explicit SampleMemory(const std::vector<Field>& fields) : fields_(fields), memory_(fields.size()) {
    for (std::size_t i = 0; i < fields.size(); ++i) {
      memory_[i].resize(fields[i].type.bytes());
      parts_.push_back(memory_[i].data());
    }
  }
  SampleMemory(const SampleMemory&) = delete;
  SampleMemory& operator=(const SampleMemory&) = delete;

  FieldMemory parts() const { return parts_; }
  Tensors tensors() const {
    Tensors all;
    for (std::size_t i = 0; i < fields_.size(); ++i)
      all.add(fields_[i].name, varve::detail::from_bytes(parts_[i], fields_[i].type));
    return all;
  }

 private:
  std::vector<Field> fields_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<std::byte*> parts_;
};

}  // namespace varve::data
