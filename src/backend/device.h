// Where kernels of a backend run when the processor cannot reach their memory: allocation, copies, and work in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/kernel.h"
#include "ir/array.h"

namespace varve::backend {

// A point in a device's work.
class Mark {
 public:
  virtual ~Mark() = default;
  virtual bool passed() const = 0;
  virtual void wait() const = 0;
};

// Work that was recorded once and runs again as a whole.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual void replay() = 0;  // returns at once; work of one device runs in order
};

struct DeviceMemory {
  std::int64_t held = 0, peak = 0, total = 0;  // bytes of our allocator now and at most; bytes of the device
};

// What a device can do at best: the measure of every speed claim.
struct DevicePeaks {
  double gbps = 0;                     // bytes read and written by a large copy within it; measured
  double f32 = 0, tf32 = 0, bf16 = 0;  // GFLOP/s of products in each precision; as its maker says
};

using DeviceFacts = std::vector<std::pair<std::string, std::string>>;  // name, value, for people

// What an engine of a device's own that joins ranks (NCCL) needs to know of them, and asks of their host engine.
struct DeviceRanks {
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;
  std::string host;                                          // address of this machine; empty: not known
  std::function<void(void* data, std::size_t bytes)> first;  // makes these bytes those of rank 0, on every rank
  std::function<std::string()> failure;                      // why the job cannot go on; empty: all is well
  std::function<void(const std::string& why)> fail;          // this rank cannot go on: the others are told
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::shared_ptr<ir::Remote> allocate(std::size_t bytes) = 0;  // throws OutOfMemory
  // For a few bytes that kernels write and the processor reads: one address for both.
  virtual std::shared_ptr<ir::Remote> allocate_shared(std::size_t bytes) = 0;
  // From the processor's memory, which may change as soon as this returns. Kernels started later see it; it waits for
  // work started earlier, up to `after` where that is given, and otherwise runs beside it.
  virtual void upload(void* to, const void* from, std::size_t bytes, const Mark* after = nullptr) = 0;
  virtual std::shared_ptr<Mark> mark() = 0;                              // here: everything started so far
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;  // within the device
  // Kernels and copies that the pieces start are kept, not run. Each piece waits for those named in its `after`, which
  // come before it in the list; the others may run beside it.
  struct Piece {
    std::function<void()> work;
    std::vector<int> after;
  };
  virtual std::unique_ptr<Recording> record(const std::vector<Piece>& pieces) = 0;
  // Why what runs cannot be decided within a recording; empty: it can.
  virtual std::string decision_refusal() const = 0;
  virtual void refuse_decisions(const std::string& why) = 0;  // it was tried, and failed
  // One of the two, as a truth value in the device's memory says. Unless this is recorded, the processor waits for it.
  virtual void choose(const void* predicate, const std::function<void()>& then,
                      const std::function<void()>& otherwise) = 0;
  struct Repeat {
    void* predicate;         // a truth value: whether it goes on; written by `decide`
    void* steps;             // i64: how many were run; written here
    std::int64_t max_steps;  // one that would go on is noted; -1: any number
    ErrorWord* errors;
    const std::string& too_long;
  };
  // `decide`, and as long as the predicate holds `work` and `decide` again. It ends early when something was noted.
  virtual void repeat(const Repeat& how, const std::function<void()>& decide, const std::function<void()>& work) = 0;
  // Within the device, to the row of this number (i64) in its memory.
  virtual void copy_row(void* rows, const void* from, std::size_t bytes, const void* number) = 0;
  // Memory that was given back and kept for the next taker goes back to the device.
  virtual void release_unused() = 0;
  virtual void wait() = 0;                    // until everything started has ended; throws what went wrong there
  virtual void share(ErrorWord& errors) = 0;  // kernels given this word can note in it
  virtual std::vector<double> time(const std::vector<std::function<void()>>& pieces) = 0;  // runs them, seconds of each
  // Memory that another library has here; never written. `release` is called when the device has read what it was to
  // read. Throws Error where the address is not of this device.
  virtual std::shared_ptr<ir::Remote> adopt(void* address, std::size_t bytes, std::function<void()> release) = 0;
  // Streams, ours and other libraries', are numbered as in DLPack: 1 the default one, 2 the thread's own, -1 none.
  virtual std::intptr_t stream_number() const = 0;
  virtual void let_follow(std::intptr_t stream) = 0;  // what it is given from now on runs after what was started here
  virtual void follow(std::intptr_t stream) = 0;      // and what is started here after what it was given
  // Before collectives run here, by all ranks at one place of their programs. From then on waits end with an Error when
  // another rank is gone. Throws Error: which library is missing, who is gone.
  virtual void join(const DeviceRanks& ranks) = 0;
  virtual std::string engine() const = 0;  // by which it has joined: "nccl"; empty: it has not
  virtual DeviceMemory memory() const = 0;
  virtual DevicePeaks peaks() = 0;        // measured at the first call
  virtual DeviceFacts about() const = 0;  // the device, its driver, and the libraries that kernels come from
};

}  // namespace varve::backend
