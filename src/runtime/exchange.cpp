// Values that other libraries of this process read, or made, in a device's memory.
#include "base/text.h"
#include "runtime/compiled.h"
#include "runtime/devices.h"
#include "runtime/residence.h"

namespace varve {
namespace {

std::shared_ptr<const ir::Array> contiguous_array(const Tensor& tensor) {
  tensor.eval();
  if (!runtime::array_of(tensor)->contiguous()) static_cast<void>(tensor.data());
  return runtime::array_of(tensor);
}

}  // namespace

std::string device_of(const Tensor& tensor) {
  tensor.eval();
  const ir::Storage& storage = *runtime::array_of(tensor)->storage;
  const std::shared_ptr<ir::Remote> remote = storage.hold_remote();
  if (!remote || !(storage.is_far() || storage.made_there)) return runtime::backend_names().front();
  return runtime::loaded_device(remote->device);
}

Tensor from_memory(const void* data, TensorType type, const std::string& device, std::function<void()> release) {
  backend::Device* const where = runtime::backend_named(device).device();
  if (!where) return from_memory(data, std::move(type), std::move(release));
  if (!data && type.bytes()) throw Error("from_memory: the pointer is null.");
  auto array = std::make_shared<ir::Array>();
  array->type = type;
  array->layout = contiguous(type.shape);
  array->storage =
      std::make_shared<ir::Storage>(where->adopt(const_cast<void*>(data), type.bytes(), std::move(release)));
  return Tensor(ir::Value{ir::constant_node(array), 0});
}

std::shared_ptr<const void> data_on(const std::string& device, const Tensor& tensor, std::intptr_t stream) {
  backend::Device* const where = runtime::backend_named(device).device();
  if (!where) {
    auto held = std::make_shared<Tensor>(tensor);
    const void* const data = held->data();
    return {std::move(held), data};
  }
  // What is read, the tensor beside it so that no program takes the memory again, and the end of it.
  struct Held {
    backend::Device* where = nullptr;
    std::intptr_t stream = 0;
    Tensor tensor;
    std::shared_ptr<ir::Remote> memory;
    ~Held() {
      try {
        if (memory) where->follow(stream);
      } catch (const Error&) {  // the GPU has failed; who reads a value hears of it
      }
    }
  };
  const std::shared_ptr<const ir::Array> array = contiguous_array(tensor);
  auto held = std::make_shared<Held>();
  held->where = where;
  held->stream = stream;
  held->tensor = tensor;
  // Another thread's program may move the value between the two lines; what is held is moved no more.
  while (!held->memory || held->memory->device != where) {
    runtime::address(*array->storage, where);
    held->memory = array->storage->hold_remote();
  }
  void* address = static_cast<std::byte*>(held->memory->address) +
                  array->layout.offset * static_cast<std::int64_t>(size_of(array->type.dtype));
  if (held->memory->on_both_sides) {  // a small result in the processor's memory: one of the device's own
    std::shared_ptr<ir::Remote> own = where->allocate(array->type.bytes());
    where->copy(own->address, address, array->type.bytes());
    address = own->address;
    held->memory = std::move(own);
  }
  where->let_follow(stream);
  return {std::move(held), address};
}

std::intptr_t device_stream(const std::string& device) {
  const backend::Device* const where = runtime::backend_named(device).device();
  if (!where) throw Error(cat("device_stream: device '", device, "' has no streams; GPUs have."));
  return where->stream_number();
}

}  // namespace varve
