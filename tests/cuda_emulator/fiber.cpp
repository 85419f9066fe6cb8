#include "fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

// Pushes what the calling convention lets a function keep, changes stacks, and pops the other side's. It leaves by a
// jump: the processor would predict a `ret` from the calls of the stack we came from.
extern "C" void varve_emulator_switch(void** save_to, void* continue_at);
asm(R"(
.text
.globl varve_emulator_switch
.hidden varve_emulator_switch
.type varve_emulator_switch, @function
varve_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rcx
  jmp *%rcx
.size varve_emulator_switch, .-varve_emulator_switch
)");

namespace varve::emulator {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kStackBytes = 512 * 1024;  // instrumented frames are larger
#else
constexpr std::size_t kStackBytes = 128 * 1024;
#endif
constexpr std::size_t kStacksPerSlab = 32;
constexpr std::uint64_t kCanary = 0x5AFE57AC5AFE57ACull;

}  // namespace

Fiber::Fiber(std::byte* stack, std::size_t bytes, void (*body)()) : stack_(stack), bytes_(bytes), body_(body) {
  restart();
}

void Fiber::restart() {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(stack_, bytes_);
#endif
  std::memcpy(stack_, &kCanary, sizeof(kCanary));
  // Six saved registers, the address to jump to, and the slot where a caller's return address would be.
  auto* top = reinterpret_cast<void**>(stack_ + bytes_);
  top -= 8;
  std::memset(top, 0, 8 * sizeof(void*));
  top[6] = reinterpret_cast<void*>(body_);
  stack_pointer_ = top;
}

void Fiber::enter(void*& from) { varve_emulator_switch(&from, stack_pointer_); }

void Fiber::leave(void* to) { varve_emulator_switch(&stack_pointer_, to); }

bool Fiber::overflowed() const { return std::memcmp(stack_, &kCanary, sizeof(kCanary)) != 0; }

FiberPool::~FiberPool() {
  for (std::byte* slab : slabs_) munmap(slab, kStackBytes * kStacksPerSlab);
}

Fiber* FiberPool::take() {
  if (idle_.empty()) grow();
  Fiber* fiber = idle_.back();
  idle_.pop_back();
  return fiber;
}

void FiberPool::restart_all() {
  idle_.clear();
  for (auto& fiber : fibers_) {
    fiber->restart();
    idle_.push_back(fiber.get());
  }
}

void FiberPool::grow() {
  void* slab = mmap(nullptr, kStackBytes * kStacksPerSlab, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (slab == MAP_FAILED) throw std::bad_alloc();
  slabs_.push_back(static_cast<std::byte*>(slab));
  for (std::size_t i = 0; i < kStacksPerSlab; ++i) {
    // Stacks that begin at multiples of a large power of two would all fall into the same few cache sets.
    std::size_t bytes = kStackBytes - i * 192;
    fibers_.push_back(std::make_unique<Fiber>(slabs_.back() + i * kStackBytes, bytes, body_));
    idle_.push_back(fibers_.back().get());
  }
}

}  // namespace varve::emulator
