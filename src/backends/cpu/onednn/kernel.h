#pragma once

// Inside this folder only: oneDNN's types, and the differences between its versions 2 and 3.

#include <array>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <dnnl.hpp>

#include "backends/cpu/onednn/onednn.h"

namespace varve::cpu::dnn {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;

// The process-wide CPU engine; the first call settles the instruction set.
const dnnl::engine& engine();

// Throws an Error that names the call.
void check(dnnl_status_t status, const char* call);

dnnl::memory::data_type data_type(Type type);
inline std::size_t size_of(Type type) { return type == Type::bf16 ? 2 : 4; }

dnnl::memory::data_type type_of(const Desc& desc);
Dims dims_of(const Desc& desc);
Dims strides_of(const Desc& desc);
// Pairs of (block size, axis), outermost first.
std::vector<std::pair<std::int64_t, int>> inner_blocks(const Desc& desc);

void append_activation(dnnl::post_ops& ops, Activation activation);
dnnl::primitive_attr user_scratch_attr();

// Limits oneDNN to the calling thread while it lives. The setting is OpenMP's, per thread, so others do not notice.
class OneThread {
 public:
  explicit OneThread(bool active);
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int previous_ = 0;
};

// Version 3 describes a primitive in one step, version 2 in two. The result is empty when no kernel fits.
template <class Primitive, class... Args>
typename Primitive::primitive_desc describe(const dnnl::primitive_attr& attr, const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
  return typename Primitive::primitive_desc(engine(), args..., attr, true);
#else
  return typename Primitive::primitive_desc(typename Primitive::desc(args...), attr, engine(), true);
#endif
}

// The same for a gradient, which wants its forward pass as a hint.
template <class Primitive, class Hint, class... Args>
typename Primitive::primitive_desc describe_gradient(const dnnl::primitive_attr& attr, const Hint& hint,
                                                     const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
  return typename Primitive::primitive_desc(engine(), args..., hint, attr, true);
#else
  return typename Primitive::primitive_desc(typename Primitive::desc(args...), attr, engine(), hint, true);
#endif
}

// oneDNN's reference loops are correct but some hundred times too slow to offer.
template <class PrimitiveDesc>
bool is_fast(const PrimitiveDesc& desc) {
  return desc && std::string(desc.impl_info_str()).find("ref") == std::string::npos;
}

// One primitive with its memory objects. A run binds pointers, in the order of the arguments, and allocates nothing.
class Kernel {
 public:
  // An empty description keeps the place of an optional argument that this instance goes without.
  struct Argument {
    int number;
    Desc desc;
  };

  Kernel() = default;
  // A copy would share the memory objects and fight over their pointers.
  Kernel(Kernel&&) = default;
  Kernel& operator=(Kernel&&) = default;

  template <class Primitive>
  static Kernel make(const typename Primitive::primitive_desc& desc, std::initializer_list<Argument> arguments,
                     bool single_thread) {
    return Kernel(Primitive(desc), desc.scratchpad_desc(), desc.impl_info_str(), arguments, single_thread);
  }

  explicit operator bool() const { return count_ > 0; }
  std::size_t scratch_bytes() const { return scratch_bytes_; }
  const std::string& implementation() const { return implementation_; }

  void run(std::initializer_list<const void*> pointers, void* scratch) const;

 private:
  static constexpr std::size_t kMaxArguments = 8;

  Kernel(dnnl::primitive primitive, const Desc& scratch, std::string implementation,
         std::initializer_list<Argument> arguments, bool single_thread);
  void add(const Argument& argument);
  void bind(std::size_t slot, const void* pointer) const;

  dnnl::primitive primitive_;
  dnnl::stream stream_;
  std::string implementation_;
  std::array<dnnl::memory, kMaxArguments> memories_;
  std::array<dnnl_exec_arg_t, kMaxArguments> arguments_{};
  // What each memory object points to now: binding is skipped when nothing changed.
  mutable std::array<const void*, kMaxArguments> bound_{};
  std::size_t slots_ = 0;
  std::size_t count_ = 0;
  std::size_t scratch_bytes_ = 0;
  bool single_thread_ = false;
};

Kernel make_reorder(const Desc& from, const Desc& to, bool single_thread);

// Lays several pieces of scratch memory one after the other.
class ScratchPlan {
 public:
  std::size_t add(std::size_t bytes) {
    const std::size_t offset = bytes_;
    bytes_ += (bytes + 63) / 64 * 64;
    return offset;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

inline void* offset(void* base, std::size_t bytes) { return base ? static_cast<char*>(base) + bytes : nullptr; }

// Runs a preparation; oneDNN's exceptions become refusals.
template <class T, class Function>
Offer<T> offer(const char* what, const Function& function) {
  try {
    return function();
  } catch (const dnnl::error& error) {
    return Refused{std::string(what) + ": oneDNN says \"" + error.message + "\""};
  }
}

}  // namespace varve::cpu::dnn
