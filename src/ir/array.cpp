#include "ir/array.h"

#include <cstring>
#include <mutex>

#include "base/convert.h"
#include "base/memory.h"

namespace varve::ir {

Storage::~Storage() {
  if (release)
    release();
  else if (data_)
    varve::release(data_, bytes);
}

namespace {
std::mutex& fetch_mutex() {
  static std::mutex mutex;
  return mutex;
}
}  // namespace

void* Storage::fetched() const {
  const std::lock_guard lock(fetch_mutex());
  if (!far_) return data_;  // another thread was first
  if (!data_) data_ = allocate(bytes);
  remote_->fetch(data_);
  far_ = false;
  return data_;
}

void Storage::written_there() {
  const std::lock_guard lock(fetch_mutex());
  far_ = true;
}

std::shared_ptr<Remote> Storage::hold_remote() const {
  const std::lock_guard lock(fetch_mutex());
  return remote_;
}

bool Storage::move_remote(std::shared_ptr<Remote> to) {
  const std::lock_guard lock(fetch_mutex());
  if (remote_.use_count() > 1) return false;
  remote_ = std::move(to);
  return true;
}

std::shared_ptr<Storage> new_storage(std::size_t bytes) { return std::make_shared<Storage>(bytes, allocate(bytes)); }

std::shared_ptr<Array> new_array(const TensorType& type) {
  auto array = std::make_shared<Array>();
  array->type = type;
  array->layout = contiguous(type.shape);
  array->storage = new_storage(type.bytes());
  return array;
}

namespace {

// Visits the rows of the innermost axis: their first element and their place in row-major order.
template <class Visit>
void for_each_row(const Array& array, Visit visit) {
  const Shape& shape = array.type.shape;
  const std::int64_t columns = shape.rank() ? shape.back() : 1;
  const std::int64_t rows = columns ? shape.numel() / columns : 0;
  Ints index(static_cast<std::size_t>(shape.rank()), 0);
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t offset = array.layout.offset;
    for (int a = 0; a + 1 < shape.rank(); ++a)
      offset += index[static_cast<std::size_t>(a)] * array.layout.strides[static_cast<std::size_t>(a)];
    visit(offset, row * columns, columns);
    for (int a = shape.rank() - 2; a >= 0; --a) {
      if (++index[static_cast<std::size_t>(a)] < shape[a]) break;
      index[static_cast<std::size_t>(a)] = 0;
    }
  }
}

}  // namespace

void read_elements(const Array& array, void* out, DType dtype) {
  const DType from = array.type.dtype;
  if (array.contiguous()) return convert(array.data(), from, out, dtype, array.type.shape.numel());
  const std::int64_t stride = array.type.shape.rank() ? array.layout.strides.back() : 1;
  for_each_row(array, [&](std::int64_t offset, std::int64_t place, std::int64_t columns) {
    for (std::int64_t i = 0; i < columns; ++i) {
      const auto* element = static_cast<const std::byte*>(array.storage->data()) +
                            (offset + i * stride) * static_cast<std::int64_t>(size_of(from));
      convert(element, from, static_cast<std::byte*>(out) + (place + i) * static_cast<std::int64_t>(size_of(dtype)),
              dtype, 1);
    }
  });
}

}  // namespace varve::ir
