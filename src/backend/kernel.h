// What a program is made of once everything is decided: prepared kernels over pointers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ir/packed.h"
#include "varve/op.h"

namespace varve::backend {

// Where indexing kernels note what they refused to touch. The first note wins; it is read after the run.
class ErrorWord {
 public:
  // A device cannot call note(): it writes the number of a text, plus one, and the value's low 48 bits into one word.
  struct Shared {
    volatile std::uint64_t* word = nullptr;
    std::function<const std::string*(int number)> text;
    std::function<void()> release;
  };

  ErrorWord() = default;
  ErrorWord(const ErrorWord&) = delete;
  ErrorWord& operator=(const ErrorWord&) = delete;
  ~ErrorWord() {
    if (shared_.release) shared_.release();
  }
  void share(Shared shared) { shared_ = std::move(shared); }
  volatile std::uint64_t* word() const { return shared_.word; }

  void note(const std::string& what, std::int64_t value) {
    bool expected = false;
    if (taken_.compare_exchange_strong(expected, true)) {
      what_ = &what;  // the kernel's own text: kernels live as long as their program
      value_ = value;
      set_.store(true, std::memory_order_release);
    }
  }
  bool set() const { return set_.load(std::memory_order_acquire) || (shared_.word && *shared_.word != 0); }
  std::string text()
      const;  // the value where the text says {}, or at its end: "gather: … out of range [0, 10). Got 12."
  void clear() {
    set_ = false;
    taken_ = false;
    if (shared_.word) *shared_.word = 0;
  }

 private:
  std::atomic<bool> taken_{false}, set_{false};
  const std::string* what_ = nullptr;
  std::int64_t value_ = 0;
  Shared shared_;
};

struct RunArgs {
  const void* const* in;  // first elements, in the order of the claim's inputs
  void* const* out;
  void* scratch;  // as much as was asked for, 64-byte aligned; nothing in it survives the call
  ErrorWord* errors;
};

// Prepared for fixed types and layouts. Runs without allocating, looking up or locking; one thread at a time.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void run(const RunArgs& args) = 0;
};

// One operand of a kernel as the compiler decided it.
struct Port {
  TensorType type;
  Layout layout;         // offset is 0: the pointer is the first element
  ir::PackedPtr packed;  // set: the elements lie in this private layout, `layout` means nothing
};

struct Prepared {
  std::unique_ptr<Kernel> kernel;
  std::size_t scratch_bytes = 0;
};

}  // namespace varve::backend
