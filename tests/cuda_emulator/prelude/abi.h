// What a compiled kernel module and the emulated driver know of each other. Both sides include this file, so it needs
// no other header.
#pragma once

constexpr unsigned kEmuAbi = 3;

struct EmuIndex {
  unsigned x, y, z;
};

struct EmuBlock;

// Runs once, when every lane of a collective has arrived: reads what the lanes brought and writes what they get.
// payloads[lane] is meaningful for the lanes set in `lanes`.
using EmuCombine = void (*)(unsigned lanes, void* const* payloads);

struct EmuBarrierResult {
  int arrived, nonzero;
};

// What a CUtensorMap holds here: tiles of `box` elements of a tensor with four axes, the innermost first.
struct EmuTensorMap {
  char* address;
  unsigned long long sizes[4], strides[3];  // strides in bytes, from the second axis on
  unsigned box[4], element_bytes, swizzle_bytes;
};

// A tile that is on its way to shared memory; the barrier counts its bytes.
struct EmuCopy {
  void* to;
  EmuTensorMap map;
  int at[4];
  unsigned long long* barrier;
};

// What the driver does for a running thread.
struct EmuRuntime {
  EmuBarrierResult (*barrier)(EmuBlock*, int predicate);
  void (*collective)(EmuBlock*, unsigned mask, EmuCombine, void* payload);
  void (*pause)(EmuBlock*);  // lets other threads run: called by loops that wait for memory to change
  unsigned (*live_lanes)(EmuBlock*);
  void (*begin_copy)(EmuBlock*, const EmuCopy&);
  bool (*take_copy)(EmuBlock*, const unsigned long long* barrier, EmuCopy*);  // one of this barrier's, if any is left
  void (*assertion_failed)(EmuBlock*, const char* expression, const char* file, int line);
};

// The running block as its threads see it; `thread` is rewritten at every switch between threads.
struct EmuBlock {
  EmuIndex thread, block, block_size, grid_size;
  void* dynamic_shared;
  unsigned dynamic_shared_bytes;
  unsigned polls, polls_per_pause;
  unsigned waited_for_earlier;  // whether a thread has
  const EmuRuntime* runtime;
};

struct EmuParameter {
  unsigned size, alignment;
};

struct EmuKernel {
  const char* name;
  void (*call)(void* const* arguments);
  unsigned count;
  const EmuParameter* parameters;
};

// `block` gives the address of the calling OS thread's pointer to its running block. It lies in the module's
// thread-local segment, together with the __shared__ variables and nothing else.
struct EmuModule {
  unsigned abi;
  const EmuKernel* kernels;  // ends with a null name
  EmuBlock** (*block)();
};
