#include "runtime/residence.h"

namespace varve::runtime {

std::shared_ptr<ir::Storage> new_storage(std::size_t bytes, backend::Device* device) {
  return device ? std::make_shared<ir::Storage>(device->allocate(bytes)) : ir::new_storage(bytes);
}

std::shared_ptr<ir::Array> new_array(const TensorType& type, backend::Device* device) {
  auto array = std::make_shared<ir::Array>();
  array->type = type;
  array->layout = contiguous(type.shape);
  array->storage = new_storage(type.bytes(), device);
  return array;
}

bool resides(const ir::Storage& storage, const backend::Device* device) {
  if (!device) return !storage.is_far();
  return storage.remote() && storage.remote()->device == device;
}

void* address(ir::Storage& storage, backend::Device* device) {
  if (!device) return storage.data();
  if (!resides(storage, device)) {
    std::shared_ptr<ir::Remote> remote = device->allocate(storage.bytes);
    device->upload(remote->address, storage.data(), storage.bytes);
    storage.set_remote(std::move(remote));
  }
  return storage.remote()->address;
}

void* address(const ir::Array& array, backend::Device* device) {
  return static_cast<std::byte*>(address(*array.storage, device)) +
         array.layout.offset * static_cast<std::int64_t>(size_of(array.type.dtype));
}

void mark_written(ir::Storage& storage, backend::Device* device) {
  if (device)
    storage.written_there();
  else
    storage.written_here();
}

}  // namespace varve::runtime
