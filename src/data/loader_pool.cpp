#include "data/loader_pool.h"

namespace varve::data {

Tensor Pool::Lease::tensor(TensorType type) && {
  Slab* slab = slab_.release();
  // One pointer fits into std::function itself; the slab knows its way home.
  return from_memory(slab->memory.data(), std::move(type), [slab] { give_back(slab); });
}

Pool::Lease Pool::take() {
  const std::lock_guard lock(guard_);
  if (free_.empty()) {
    free_.reserve(all_.size() + 1);
    all_.push_back(std::make_unique<Slab>(Slab{Block(bytes_)}));
    free_.push_back(all_.back().get());
  }
  Slab* slab = free_.back();  // the last one used, which is warm
  free_.pop_back();
  slab->home = shared_from_this();
  return Lease(slab);
}

void Pool::retire() {
  const std::lock_guard lock(guard_);
  retired_ = true;
  for (Slab* slab : free_) slab->memory = Block();
  free_.clear();
}

void Pool::give_back(Slab* slab) noexcept {
  const std::shared_ptr<Pool> home = std::move(slab->home);  // the pool may end with this call, after the lock
  const std::lock_guard lock(home->guard_);
  if (home->retired_)
    slab->memory = Block();
  else
    home->free_.push_back(slab);
}

}  // namespace varve::data
