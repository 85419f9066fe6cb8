// A concrete value: typed, strided elements in shared memory.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "varve/op.h"

namespace varve::ir {

// Memory with one owner: our allocator, or a user's block with his release function.
struct Storage {
  void* data = nullptr;
  std::size_t bytes = 0;
  std::function<void()> release;             // empty: came from our allocator
  std::shared_ptr<const std::string> error;  // what went wrong while this was computed; thrown at the next read

  Storage() = default;
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  ~Storage();
};
std::shared_ptr<Storage> new_storage(std::size_t bytes);  // throws OutOfMemory

struct Array {
  TensorType type;
  Layout layout;
  std::shared_ptr<Storage> storage;

  const std::byte* data() const {
    return static_cast<const std::byte*>(storage->data) +
           layout.offset * static_cast<std::int64_t>(size_of(type.dtype));
  }
  bool contiguous() const { return is_contiguous(type.shape, layout); }
};
std::shared_ptr<Array> new_array(const TensorType& type);

// Writes the elements in row-major order, converted.
void read_elements(const Array& array, void* out, DType dtype);

}  // namespace varve::ir
