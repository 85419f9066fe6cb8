// The structs of DLPack 1.x (dmlc/dlpack, include/dlpack/dlpack.h), which all array libraries exchange.
#pragma once

#include <cstdint>

namespace varve::python::dlpack {

enum DeviceType : std::int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13 };
enum TypeCode : std::uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6 };

struct Device {
  std::int32_t type, id;
};

struct DataType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};

struct Array {
  void* data;
  Device device;
  std::int32_t ndim;
  DataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null: row-major
  std::uint64_t byte_offset;
};

struct Unversioned {
  static constexpr const char* kName = "dltensor";
  static constexpr const char* kUsed = "used_dltensor";
  Array array;
  void* owner;
  void (*deleter)(Unversioned*);
};

struct Versioned {
  static constexpr const char* kName = "dltensor_versioned";
  static constexpr const char* kUsed = "used_dltensor_versioned";
  static constexpr std::uint32_t kMajor = 1, kMinor = 0;  // what we speak: a higher major may have another layout
  static constexpr std::uint64_t kReadOnly = 1, kCopied = 2;
  std::uint32_t major, minor;
  void* owner;
  void (*deleter)(Versioned*);
  std::uint64_t flags;
  Array array;
};

}  // namespace varve::python::dlpack
