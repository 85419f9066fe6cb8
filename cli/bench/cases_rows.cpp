// Operators along rows, over sequences, and over plain memory.
#include "cli/bench/cases.h"
#include "varve/varve.h"

namespace varve::cli {
namespace {

constexpr std::int64_t kMega = 1 << 20;

// Eight elementwise operators: read once and written once when fused.
Tensor chain_of_eight(const Tensor& x) { return abs(minimum(maximum(x * 1.5 + 0.25, -3), 3) - 0.5) * x + x; }
// The same length, but bound by arithmetic: a tanh alone takes as long as the memory.
Tensor chain_with_tanh(const Tensor& x) { return tanh(abs(minimum(maximum(x * 1.5 + 0.25, -3), 3) - 0.5)) * x; }

Runner adam_runner(std::int64_t count) {
  Variable w = weight({count}), m("m", zeros({count})), v("v", zeros({count})), step("step", full_int({}, 0));
  return runner(
      [=](Tensor g) mutable {
        step.assign(step + 1);
        const Updated next = adam_update(w, g, m, v, 1e-3, step);
        w.assign(next.parameter);
        m.assign(next.state[0]);
        v.assign(next.state[1]);
      },
      data({count}));
}

Runner sgd_runner(std::int64_t count) {
  Variable w = weight({count}), velocity("velocity", zeros({count}));
  return runner(
      [=](Tensor g) mutable {
        const Updated next = sgd_update(w, g, velocity, 1e-3, {.momentum = 0.9});
        w.assign(next.parameter);
        velocity.assign(next.state[0]);
      },
      data({count}));
}

Runner lstm_runner(std::int64_t steps, std::int64_t batch, std::int64_t size) {
  const Variable w = weight({size, 4 * size}), h = weight({size, 4 * size}), b = weight({4 * size});
  return runner([=](Tensor x) { return lstm(x, {{.input = w, .hidden = h, .bias = b}}).y; },
                data({steps, batch, size}));
}

}  // namespace

void add_row_cases(std::vector<BenchCase>& cases) {
  cases.push_back({"softmax", "4096x1024", [] {
                     return runner([](Tensor x) { return softmax(x); }, data({4096, 1024}));
                   }});
  cases.push_back({"cross_entropy", "4096x10000", [] {
                     return runner([](Tensor x, Tensor l) { return cross_entropy(x, l); }, data({4096, 10000}),
                                   indices({4096}, 10000));
                   }});
  cases.push_back({"cross_entropy value+grad", "4096x10000", [] {
                     return runner(
                         [](Tensor x, Tensor l) {
                           const Tensor loss = cross_entropy(x, l);
                           return std::pair(loss, gradients(loss, {x})[0]);
                         },
                         data({4096, 10000}), indices({4096}, 10000));
                   }});
  cases.push_back({"layer_norm", "4096x1024", [] {
                     return runner([s = weight({1024}), t = weight({1024})](Tensor x) { return layer_norm(x, s, t); },
                                   data({4096, 1024}));
                   }});
  cases.push_back({"layer_norm grad", "4096x1024", [] {
                     return runner(
                         [s = weight({1024}), t = weight({1024})](Tensor x, Tensor dy) {
                           const Tensor scale = s, shift = t;
                           return gradients({layer_norm(x, scale, shift)}, {dy}, {x, scale, shift});
                         },
                         data({4096, 1024}), data({4096, 1024}));
                   }});
  cases.push_back({"sum", "4096x4096 rows", [] {
                     return runner([](Tensor x) { return sum(x, {.axes = Axes{1}}); }, data({4096, 4096}));
                   }});
  cases.push_back({"sum", "4096x4096 columns", [] {
                     return runner([](Tensor x) { return sum(x, {.axes = Axes{0}}); }, data({4096, 4096}));
                   }});
}

void add_sequence_cases(std::vector<BenchCase>& cases) {
  cases.push_back(
      {"embedding", "10000x256 [4096]", [] {
         return runner([t = weight({10000, 256})](Tensor i) { return embedding(t, i); }, indices({4096}, 10000));
       }});
  cases.push_back({"embedding grad", "10000x256 [4096]", [] {
                     return runner(
                         [t = weight({10000, 256})](Tensor i, Tensor dy) {
                           const Tensor table = t;
                           return gradients({embedding(table, i)}, {dy}, {table})[0];
                         },
                         indices({4096}, 10000), data({4096, 256}));
                   }});
  cases.push_back({"lstm", "32 steps 128x256", [] { return lstm_runner(32, 128, 256); }});
  cases.push_back({"attention", "16x8x256x64", [] {
                     return runner([](Tensor q, Tensor k, Tensor v) { return attention(q, k, v, {.causal = true}); },
                                   data({16, 8, 256, 64}), data({16, 8, 256, 64}), data({16, 8, 256, 64}));
                   }});
}

void add_memory_cases(std::vector<BenchCase>& cases) {
  cases.push_back({"chain of 8 elementwise", "16M", [] { return runner(chain_of_eight, data({16 * kMega})); }});
  cases.push_back({"chain of 8 with tanh", "16M", [] { return runner(chain_with_tanh, data({16 * kMega})); }});
  cases.push_back({"add", "16M", [] {
                     return runner([](Tensor a, Tensor b) { return a + b; }, data({16 * kMega}), data({16 * kMega}, 3));
                   }});
  cases.push_back({"gelu", "16M", [] { return runner([](Tensor x) { return gelu(x); }, data({16 * kMega})); }});
  cases.push_back({"dropout", "16M",
                   [] { return runner([](Tensor x) { return dropout(x, 0.5, {.seed = 3}); }, data({16 * kMega})); }});
  cases.push_back({"random_normal", "16M", [] { return runner([] { return normal({16 * kMega}, {.seed = 3}); }); }});
  cases.push_back({"transpose", "4096x4096", [] {
                     return runner([](Tensor x) { return transpose(x) + 0; }, data({4096, 4096}));
                   }});
  cases.push_back({"sgd_update momentum", "16M", [] { return sgd_runner(16 * kMega); }});
  cases.push_back({"adam_update", "16M", [] { return adam_runner(16 * kMega); }});
}

}  // namespace varve::cli
