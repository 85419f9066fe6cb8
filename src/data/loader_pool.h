// Memory of batches, used again when the last tensor on it is gone.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "base/memory.h"
#include "varve/tensor.h"

namespace varve::data {

// Blocks of one size. Tensors may outlive the pool's owner: whoever gives back the last block ends the pool.
class Pool : public std::enable_shared_from_this<Pool> {
  struct Slab {
    Block memory;
    std::shared_ptr<Pool> home = nullptr;  // while somebody has it
  };
  struct GiveBack {
    void operator()(Slab* slab) const noexcept { give_back(slab); }
  };

 public:
  // Memory to write to, until a tensor takes it over.
  class Lease {
   public:
    std::byte* data() const { return slab_->memory.data(); }
    Tensor tensor(TensorType type) &&;  // over the first type.bytes()

   private:
    friend class Pool;
    explicit Lease(Slab* slab) : slab_(slab) {}
    std::unique_ptr<Slab, GiveBack> slab_;
  };

  explicit Pool(std::size_t bytes) : bytes_(bytes) {}
  Lease take();   // throws OutOfMemory
  void retire();  // frees what nobody has, and from now on what comes back

 private:
  static void give_back(Slab* slab) noexcept;

  std::size_t bytes_;
  std::mutex guard_;
  bool retired_ = false;
  std::vector<std::unique_ptr<Slab>> all_;
  std::vector<Slab*> free_;  // has room for all of them: giving back never allocates
};

}  // namespace varve::data
