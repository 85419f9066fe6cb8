// Control flow in programs: a branch that is taken or not, and a loop that ends when a value says so, each one
// operator. Both are recorded, compiled and differentiated like any other; scan (varve/ops.h) is the loop of known
// length.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "varve/tensor.h"

namespace varve {

// What `then` gives where the predicate (one truth value) holds, else what `otherwise` gives: only that one is
// computed. Both are called once, to be recorded, with what stands for the operands; they must give the same types.
// Tensors and variables that they capture are operands too. Neither may read values, assign variables or exchange
// values with other ranks. The gradient is a cond over the two gradients, which compute the branch once more.
using Branch = std::function<std::vector<Tensor>(const std::vector<Tensor>& operands)>;
std::vector<Tensor> cond(const Tensor& predicate, const Branch& then, const Branch& otherwise,
                         const std::vector<Tensor>& operands);
// One result, of what the branches capture or of one operand.
Tensor cond(const Tensor& predicate, const std::function<Tensor()>& then, const std::function<Tensor()>& otherwise);
Tensor cond(const Tensor& predicate, const std::function<Tensor(const Tensor&)>& then,
            const std::function<Tensor(const Tensor&)>& otherwise, const Tensor& operand);

struct WhileOptions {
  // The most steps that the loop may take: one that would go on is an Error at the next read. Its gradient keeps the
  // carries of each step, [max_steps, …], and needs this. -1: as many as it takes.
  std::int64_t max_steps = -1;
  // The gradient computes the carries of each step from the first ones instead: no memory and no bound, but the time of
  // n²/2 steps.
  bool recompute = false;
};

// carry = body(carry) for as long as condition(carry), one truth value, holds. Carries keep their types. What the
// functions capture does not change from step to step. Neither may read values, assign variables or exchange values
// with other ranks.
using LoopCondition = std::function<Tensor(const std::vector<Tensor>& carry)>;
using LoopBody = std::function<std::vector<Tensor>(const std::vector<Tensor>& carry)>;
std::vector<Tensor> while_loop(const LoopCondition& condition, const LoopBody& body, const std::vector<Tensor>& carry,
                               const WhileOptions& = {});
Tensor while_loop(const std::function<Tensor(const Tensor&)>& condition,
                  const std::function<Tensor(const Tensor&)>& body, const Tensor& carry, const WhileOptions& = {});

}  // namespace varve
