// A stack that a thread of a block runs on, and the switch between two of them. Not swapcontext: it saves the signal
// mask with a system call each time.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace varve::emulator {

class Fiber {
 public:
  // `body` must never return: it switches away for good instead.
  Fiber(std::byte* stack, std::size_t bytes, void (*body)());

  void restart();           // forgets what was running; the next switch enters the body anew
  void enter(void*& from);  // continues here; `from` keeps what leave() needs to come back
  void leave(void* to);     // back to where enter() was called
  bool overflowed() const;  // whether the far end of the stack was written to

 private:
  std::byte* stack_;
  std::size_t bytes_;
  void (*body_)();
  void* stack_pointer_ = nullptr;
};

// The fibers of one OS thread, made on demand and kept for the next block.
class FiberPool {
 public:
  explicit FiberPool(void (*body)()) : body_(body) {}
  ~FiberPool();
  FiberPool(const FiberPool&) = delete;
  FiberPool& operator=(const FiberPool&) = delete;

  Fiber* take();
  void give_back(Fiber* fiber) { idle_.push_back(fiber); }
  void restart_all();  // after a failed block, whose threads are stuck half-way

 private:
  void grow();

  void (*body_)();
  std::vector<std::byte*> slabs_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
};

}  // namespace varve::emulator
