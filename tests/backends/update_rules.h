// Optimisers whose updates a gradient's product may take up: the same for every backend that does.
#pragma once

#include <functional>
#include <vector>

#include "varve/ops.h"

namespace varve {

// One optimiser: what it does with the gradient of a weight and its two states.
struct Rule {
  const char* kernel;
  std::function<Updated(const Tensor& w, const Tensor& g, const Tensor& m, const Tensor& v, const Operand& rate)>
      update;
};

inline const std::vector<Rule>& rules() {
  static const std::vector<Rule> all = {
      {"matmul+sgd_update", [](auto& w, auto& g, auto&, auto&, auto& rate) { return sgd_update(w, g, {}, rate); }},
      {"matmul+sgd_update",
       [](auto& w, auto& g, auto&, auto&, auto& rate) { return sgd_update(w, g, {}, rate, {.weight_decay = 0.1}); }},
      {"matmul+sgd_momentum_update",
       [](auto& w, auto& g, auto& m, auto&, auto& rate) { return sgd_update(w, g, m, rate, {.momentum = 0.9}); }},
      {"matmul+sgd_nesterov_update",
       [](auto& w, auto& g, auto& m, auto&, auto& rate) {
         return sgd_update(w, g, m, rate, {.momentum = 0.9, .nesterov = true});
       }},
      {"matmul+adam_update",
       [](auto& w, auto& g, auto& m, auto& v, auto& rate) {
         return adam_update(w, g, m, v, rate, tensor(3.f), {.weight_decay = 0.1});
       }},
      {"matmul+adamw_update",
       [](auto& w, auto& g, auto& m, auto& v, auto& rate) {
         return adam_update(w, g, m, v, rate, tensor(3.f), {.weight_decay = 0.1, .decoupled = true});
       }},
      {"matmul+rmsprop_update",
       [](auto& w, auto& g, auto&, auto& v, auto& rate) { return rmsprop_update(w, g, v, rate); }},
      {"matmul+adagrad_update",
       [](auto& w, auto& g, auto&, auto& v, auto& rate) { return adagrad_update(w, g, v, rate); }},
      {"matmul+adam_update",
       [](auto& w, auto& g, auto& m, auto& v, auto& rate) { return adam_update(w, g, m, v, rate, tensor(3.f)); }},
  };
  return all;
}

}  // namespace varve
