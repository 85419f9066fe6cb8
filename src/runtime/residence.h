// Where values lie: in the processor's memory, or on the device whose kernels read them.
#pragma once

#include <memory>

#include "backend/device.h"
#include "ir/array.h"

namespace varve::runtime {

// In all of these a null device is the processor.
std::shared_ptr<ir::Storage> new_storage(std::size_t bytes, backend::Device* device);  // throws OutOfMemory
std::shared_ptr<ir::Array> new_array(const TensorType& type, backend::Device* device);

bool resides(const ir::Storage& storage, const backend::Device* device);  // its newest bytes can be read there
// The first byte, or element, where the device reads it; brought there first, and kept there, when it is elsewhere.
void* address(ir::Storage& storage, backend::Device* device);
void* address(const ir::Array& array, backend::Device* device);
// The device has written these bytes.
void mark_written(ir::Storage& storage, backend::Device* device);

}  // namespace varve::runtime
