// What travels instead of gradients (distributed::Compression), and what is kept of what did not.
#pragma once

#include <vector>

#include "varve/distributed.h"

namespace varve::optim {

class Compressor {
 public:
  Compressor(const distributed::Compression& how, const std::vector<Variable>& parameters);

  // Averages over ranks. Those of small parameters, and what is not f32, travel as they are, together.
  std::vector<Tensor> means(const std::vector<Tensor>& gradients);
  std::vector<Variable> state() const;

 private:
  // A parameter whose gradients are compressed.
  struct Member {
    std::size_t index;
    Variable lost;    // of this rank's gradients until now: added to the next one
    Variable factor;  // power_sgd: the last right factor, [rank, columns]; the same on all ranks
  };
  std::vector<Tensor> half(const std::vector<Tensor>& gradients);
  std::vector<Tensor> one_bit(const std::vector<Tensor>& gradients);
  std::vector<Tensor> top_k(const std::vector<Tensor>& gradients);
  std::vector<Tensor> power_sgd(const std::vector<Tensor>& gradients);
  bool compresses(const Variable& parameter) const;

  distributed::Compression how_;
  std::vector<Member> members_;
};

}  // namespace varve::optim
