// A concrete value: typed, strided elements in shared memory.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "varve/op.h"

namespace varve::ir {

// Bytes in the memory of a device, which the processor cannot read in place.
class Remote {
 public:
  virtual ~Remote() = default;
  virtual void fetch(void* to) = 0;             // waits for what computes them; throws Error when that failed
  virtual bool ready() const { return false; }  // fetching them would not wait

  const void* device = nullptr;  // whose memory
  void* address = nullptr;       // there
  std::size_t bytes = 0;
  bool foreign = false;        // another library's: never written
  bool on_both_sides = false;  // the processor's memory, which the device reads through the same address
};

// Bytes with one owner: in the processor's memory (our allocator's, or a user's block with his release function), in a
// device's, or in both.
class Storage {
 public:
  Storage(std::size_t size, void* memory, std::function<void()> free_memory = {})
      : bytes(size), release(std::move(free_memory)), data_(memory) {}
  explicit Storage(std::shared_ptr<Remote> remote)
      : bytes(remote->bytes), made_there(true), remote_(std::move(remote)), far_(true) {}
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  ~Storage();

  // Where the processor reads and writes them: fetched first when a device has the newest. What it writes to bytes that
  // a device has read before must be announced.
  void* data() const { return far_.load(std::memory_order_acquire) ? fetched() : data_; }
  void written_here() { remote_ = nullptr; }

  // The copy that a device may read, or null; and the word that it has written it, so that ours is stale.
  const std::shared_ptr<Remote>& remote() const { return remote_; }
  void set_remote(std::shared_ptr<Remote> remote) { remote_ = std::move(remote); }
  void written_there();
  // For another library that reads the copy in place: it keeps its address and its bytes while this is held.
  std::shared_ptr<Remote> hold_remote() const;
  bool move_remote(std::shared_ptr<Remote> to);                         // false where somebody holds it
  bool is_far() const { return far_.load(std::memory_order_acquire); }  // the newest bytes are on a device alone

  const std::size_t bytes;
  const std::function<void()> release;       // empty: came from our allocator
  const bool made_there = false;             // by a device; the processor's bytes are a copy
  std::shared_ptr<const std::string> error;  // what went wrong while this was computed; thrown at the next read

 private:
  void* fetched() const;
  mutable void* data_ = nullptr;
  std::shared_ptr<Remote> remote_;
  mutable std::atomic<bool> far_{false};
};
std::shared_ptr<Storage> new_storage(std::size_t bytes);  // throws OutOfMemory

struct Array {
  TensorType type;
  Layout layout;
  std::shared_ptr<Storage> storage;

  const std::byte* data() const {
    return static_cast<const std::byte*>(storage->data()) +
           layout.offset * static_cast<std::int64_t>(size_of(type.dtype));
  }
  bool contiguous() const { return is_contiguous(type.shape, layout); }
};
std::shared_ptr<Array> new_array(const TensorType& type);

// Writes the elements in row-major order, converted.
void read_elements(const Array& array, void* out, DType dtype);

}  // namespace varve::ir
