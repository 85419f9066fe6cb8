// Tensors to and from other libraries through DLPack: no copy where memory, type and layout allow.
#include "dlpack.h"

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "bindings.h"

namespace varve::python {
namespace {

using dlpack::Unversioned;
using dlpack::Versioned;

[[noreturn]] void buffer_error(const std::string& text) { throw nb::buffer_error(text.c_str()); }

// ---- types and devices

dlpack::DataType type_of(DType dtype) {
  const auto code = dtype == bf16        ? dlpack::kBfloat
                    : is_floating(dtype) ? dlpack::kFloat
                    : dtype == boolean   ? dlpack::kBool
                    : dtype == u8        ? dlpack::kUInt
                                         : dlpack::kInt;
  return {code, static_cast<std::uint8_t>(size_of(dtype) * 8), 1};
}

std::string text_of(const dlpack::DataType& type) {
  static constexpr const char* kNames[] = {"int", "uint", "float", "handle", "bfloat", "complex", "bool"};
  const std::string name =
      type.code < std::size(kNames) ? kNames[type.code] : "code " + std::to_string(type.code) + " of ";
  return name + std::to_string(type.bits) + (type.lanes == 1 ? "" : " × " + std::to_string(type.lanes) + " lanes");
}

DType dtype_of(const dlpack::DataType& type) {
  for (const DType dtype : kAllDTypes) {
    const dlpack::DataType known = type_of(dtype);
    if (known.code == type.code && known.bits == type.bits && type.lanes == 1) return dtype;
  }
  buffer_error("from_dlpack: no type of Varve holds elements of " + text_of(type) +
               ". Convert them where they come from first, to float32 or int32 say (x.astype(...), x.to(...)).");
}

std::string name_of(const dlpack::Device& device) {
  if (device.type == dlpack::kCpu || device.type == dlpack::kCudaHost) return "cpu";
  if (device.type == dlpack::kCuda || device.type == dlpack::kCudaManaged)
    return device.id == 0 ? "cuda" : "cuda:" + std::to_string(device.id);
  buffer_error("from_dlpack: memory of DLPack's device type " + std::to_string(device.type) +
               " cannot be read here. Copy it to the processor first (x.cpu(), or device=\"cpu\").");
}

dlpack::Device device_named(const std::string& name) {
  if (name.rfind("cuda", 0) != 0) return {dlpack::kCpu, 0};
  return {dlpack::kCuda, name.size() > 5 ? std::stoi(name.substr(5)) : 0};
}

// The same values in memory of their own on that GPU. Its programs are kept: a copy is asked for again and again.
Tensor copied_on(const std::string& device, const Tensor& tensor) {
  const auto copy = [](const Tensor& x) { return identity(x); };
  using Copy = decltype(compile(copy));
  static auto& mutex = *new std::mutex;
  static auto& copies = *new std::map<std::string, Copy>;
  const std::lock_guard lock(mutex);
  const auto known = copies.try_emplace(device, compile(copy, {.device = device, .name = "copy"})).first;
  return known->second(tensor).eval();
}

// ---- to others

// What a capsule's deleter frees, from any thread, without the interpreter: the struct, and its hold on the memory.
template <class Managed>
struct Export {
  Managed managed{};
  std::shared_ptr<const void> memory;
  std::vector<std::int64_t> shape, strides;
};

template <class Managed>
void destroy_unused(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, Managed::kName)) return;  // its consumer owns it now
  auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, Managed::kName));
  managed->deleter(managed);
}

template <class Managed>
nb::object capsule_of(const Tensor& tensor, std::shared_ptr<const void> memory, dlpack::Device device, bool copied) {
  auto made = std::make_unique<Export<Managed>>();
  made->memory = std::move(memory);
  made->shape.assign(tensor.shape().begin(), tensor.shape().end());
  made->strides.resize(made->shape.size());
  std::int64_t stride = 1;
  for (std::size_t axis = made->shape.size(); axis-- > 0;) {
    made->strides[axis] = stride;
    stride *= made->shape[axis];
  }
  Managed& managed = made->managed;
  managed.array = {const_cast<void*>(made->memory.get()),
                   device,
                   tensor.rank(),
                   type_of(tensor.dtype()),
                   made->shape.data(),
                   made->strides.data(),
                   0};
  managed.owner = made.get();
  managed.deleter = [](Managed* used) { delete static_cast<Export<Managed>*>(used->owner); };
  if constexpr (std::is_same_v<Managed, Versioned>) {
    managed.major = Versioned::kMajor;
    managed.minor = Versioned::kMinor;
    managed.flags = copied ? Versioned::kCopied : Versioned::kReadOnly;
  }
  PyObject* const capsule = PyCapsule_New(&managed, Managed::kName, destroy_unused<Managed>);
  if (!capsule) throw nb::python_error();
  static_cast<void>(made.release());
  return nb::steal(capsule);
}

dlpack::Device device_of_value(const Tensor& tensor) {
  return device_named(unlocked([&] { return device_of(tensor); }));
}

// The consumer's stream, by the rules of the protocol.
std::intptr_t stream_of(nb::handle stream, bool on_gpu) {
  if (!on_gpu) {
    if (!stream.is_none())
      throw nb::value_error("__dlpack__: values of the processor have no stream: pass stream=None.");
    return -1;
  }
  const std::intptr_t number = stream.is_none() ? 1 : nb::cast<std::intptr_t>(stream);
  if (number == 0 || number < -1)
    throw nb::value_error(
        "__dlpack__: stream must be 1 (CUDA's default stream), 2 (the thread's), a CUstream's address, or -1 (none).");
  return number;
}

nb::object to_dlpack(const Tensor& tensor, nb::handle stream, nb::handle max_version, nb::handle dl_device,
                     nb::handle copy) {
  dlpack::Device device = device_of_value(tensor);
  bool moved = false;
  if (!dl_device.is_none()) {
    const auto [type, id] = nb::cast<std::pair<std::int32_t, std::int32_t>>(dl_device);
    moved = type != device.type || id != device.id;
    if (type != dlpack::kCpu && type != dlpack::kCuda)
      buffer_error("__dlpack__: dl_device can be the processor (1, 0) or a GPU (2, number), got (" +
                   std::to_string(type) + ", " + std::to_string(id) + ").");
    device = {type, id};
  }
  const bool must_share = !copy.is_none() && !nb::cast<bool>(copy);
  bool copied = !copy.is_none() && nb::cast<bool>(copy);
  if (moved && must_share)
    buffer_error("__dlpack__: the values lie on another device: copy=False cannot be kept. Pass copy=None.");
  const bool on_gpu = device.type == dlpack::kCuda;
  const std::string name = name_of(device);
  const std::intptr_t number = stream_of(stream, on_gpu);
  std::shared_ptr<const void> memory = unlocked([&]() -> std::shared_ptr<const void> {
    std::shared_ptr<const void> shared = data_on(name, tensor, number);
    if (!copied) return shared;
    if (on_gpu) {  // a value of its own, which nobody else holds
      return data_on(name, copied_on(name, tensor), number);
    }
    const std::size_t bytes = tensor.type().bytes();
    auto own = std::make_shared<std::vector<std::byte>>(bytes);
    if (bytes) std::memcpy(own->data(), shared.get(), bytes);
    const void* const data = own->data();
    return {std::move(own), data};
  });
  const bool versioned =
      !max_version.is_none() && nb::cast<std::uint32_t>(nb::cast<nb::tuple>(max_version)[0]) >= Versioned::kMajor;
  return versioned ? capsule_of<Versioned>(tensor, std::move(memory), device, copied)
                   : capsule_of<Unversioned>(tensor, std::move(memory), device, copied);
}

// ---- from others

struct Imported {
  dlpack::Array array;
  std::function<void()> release;
};

// Takes the struct out of the capsule, which is empty from then on.
template <class Managed>
Imported taken(PyObject* capsule) {
  auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, Managed::kName));
  if (!managed) throw nb::python_error();
  if constexpr (std::is_same_v<Managed, Versioned>)
    if (managed->major > Versioned::kMajor)
      buffer_error("from_dlpack: the capsule is of DLPack " + std::to_string(managed->major) + "." +
                   std::to_string(managed->minor) + "; versions up to 1 are understood.");
  if (PyCapsule_SetName(capsule, Managed::kUsed) != 0) throw nb::python_error();
  return {managed->array, [managed] {
            if (managed->deleter) managed->deleter(managed);
          }};
}

bool is_row_major(const dlpack::Array& array) {
  if (!array.strides) return true;
  std::int64_t expected = 1;
  for (int axis = array.ndim - 1; axis >= 0; --axis) {
    if (array.shape[axis] != 1 && array.strides[axis] != expected) return false;
    expected *= array.shape[axis];
  }
  return true;
}

// Row-major, from any strides.
Tensor gathered(const dlpack::Array& array, const std::byte* from, const TensorType& type) {
  const auto size = static_cast<std::int64_t>(size_of(type.dtype));
  const auto last = static_cast<std::size_t>(array.ndim) - 1;
  std::vector<std::byte> bytes(type.bytes());
  std::vector<std::int64_t> at(static_cast<std::size_t>(array.ndim), 0);
  for (std::byte* to = bytes.data(); to != bytes.data() + bytes.size();) {
    std::int64_t offset = 0;
    for (std::size_t axis = 0; axis < last; ++axis) offset += at[axis] * array.strides[axis];
    for (std::int64_t i = 0; i < array.shape[last]; ++i, to += size)
      std::memcpy(to, from + (offset + i * array.strides[last]) * size, static_cast<std::size_t>(size));
    for (std::size_t axis = last; axis-- > 0;) {
      if (++at[axis] < array.shape[axis]) break;
      at[axis] = 0;
    }
  }
  return detail::from_bytes(bytes.data(), type);
}

Tensor to_tensor(Imported imported, std::optional<bool> copy) {
  // Given back here unless a tensor takes it over.
  const auto owner = std::make_shared<GiveBack>(std::move(imported.release));
  const dlpack::Array& array = imported.array;
  TensorType type;
  type.dtype = dtype_of(array.dtype);
  for (int axis = 0; axis < array.ndim; ++axis) type.shape.push_back(array.shape[axis]);
  const std::string device = name_of(array.device);
  const auto* const data = static_cast<const std::byte*>(array.data) + (array.data ? array.byte_offset : 0);
  const bool row_major = type.shape.numel() == 0 || is_row_major(array);
  const bool aligned = reinterpret_cast<std::uintptr_t>(data) % size_of(type.dtype) == 0;
  if (device != "cpu") {
    if (!row_major)
      buffer_error(
          "from_dlpack: a GPU's array must lie in row-major order. Make it contiguous first (x.contiguous()).");
    const Tensor shared = unlocked([&] { return from_memory(data, type, device, [owner] {}); });
    if (!copy.value_or(false)) return shared;
    return unlocked([&] { return copied_on(device, shared); });
  }
  if (row_major && aligned && !copy.value_or(false)) return from_memory(data, type, [owner] {});
  if (copy && !*copy)
    buffer_error(std::string("from_dlpack: copy=False cannot be kept, because the array does not lie in ") +
                 (row_major ? "aligned memory" : "row-major order") + ". Pass copy=None, or make it contiguous first.");
  return unlocked([&] { return row_major ? detail::from_bytes(data, type) : gathered(array, data, type); });
}

Tensor from_capsule(nb::handle capsule, std::optional<bool> copy) {
  PyObject* const object = capsule.ptr();
  if (PyCapsule_IsValid(object, Versioned::kName)) return to_tensor(taken<Versioned>(object), copy);
  if (PyCapsule_IsValid(object, Unversioned::kName)) return to_tensor(taken<Unversioned>(object), copy);
  const char* const name = PyCapsule_CheckExact(object) ? PyCapsule_GetName(object) : nullptr;
  throw nb::value_error(
      (std::string("from_dlpack: expected a DLPack capsule, ") +
       (name ? "got one called '" + std::string(name) + "': it was used before, or is something else. Make a new one."
             : "got something else."))
          .c_str());
}

// Asks for a capsule as DLPack 1 has it; a producer that is older does not know the arguments.
nb::object capsule_from(nb::handle value, const nb::dict& options) {
  const nb::object ask = value.attr("__dlpack__");
  try {
    return ask(**options);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;
  }
  nb::dict old;
  if (options.contains("stream")) old["stream"] = options["stream"];
  return ask(**old);
}

}  // namespace

bool is_foreign_array(nb::handle value) {
  if (!nb::hasattr(value, "__dlpack__")) return false;
  const nb::object from = nb::getattr(value.type(), "__module__", nb::str(""));
  return nb::cast<std::string>(nb::str(from)).rfind("numpy", 0) != 0;
}

Tensor from_dlpack(nb::handle value, const std::string& device, std::optional<bool> copy) {
  give_back_now();
  if (PyCapsule_CheckExact(value.ptr())) return from_capsule(value, copy);
  if (!nb::hasattr(value, "__dlpack__") || !nb::hasattr(value, "__dlpack_device__"))
    throw nb::type_error(("from_dlpack: expected an object with __dlpack__ and __dlpack_device__, got a " +
                          nb::cast<std::string>(nb::str(value.type().attr("__name__"))) +
                          ". Use varve.tensor(x) to copy it.")
                             .c_str());
  const auto place = nb::cast<std::pair<std::int32_t, std::int32_t>>(value.attr("__dlpack_device__")());
  dlpack::Device from{place.first, place.second};
  nb::dict options;
  options["max_version"] = nb::make_tuple(Versioned::kMajor, Versioned::kMinor);
  if (!device.empty()) {
    const dlpack::Device wanted = device_named(device);
    const bool here = from.type == dlpack::kCudaHost && wanted.type == dlpack::kCpu;
    if (!here && (wanted.type != from.type || wanted.id != from.id)) {
      options["dl_device"] = nb::make_tuple(wanted.type, wanted.id);
      if (copy) options["copy"] = *copy;
      from = wanted;
    }
  }
  // What was written to it comes before what we start on this stream.
  if (const std::string name = name_of(from); name != "cpu")
    options["stream"] = unlocked([&] { return device_stream(name); });
  return from_capsule(capsule_from(value, options), copy);
}

void bind_dlpack(nb::module_& m) {
  m.def("_to_dlpack", &to_dlpack, "tensor"_a, "stream"_a.none(), "max_version"_a.none(), "dl_device"_a.none(),
        "copy"_a.none());
  m.def("_dlpack_device", [](const Tensor& tensor) {
    const dlpack::Device device = device_of_value(tensor);
    return std::pair(device.type, device.id);
  });
  m.def("_is_foreign_array", &is_foreign_array, "value"_a.none());
  m.def("_from_dlpack", &from_dlpack, "value"_a, "device"_a, "copy"_a.none());
  m.def(
      "device_of", [](const Tensor& tensor) { return unlocked([&] { return device_of(tensor); }); }, "tensor"_a,
      "Where the value of a tensor lies: \"cpu\", \"cuda\". Computes it first.\n\n>>> import varve as vv\n>>> "
      "vv.device_of(vv.ones((2,)))\n'cpu'");
}

}  // namespace varve::python
