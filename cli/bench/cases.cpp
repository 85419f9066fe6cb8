#include "cli/bench/cases.h"

#include "base/text.h"
#include "varve/varve.h"

namespace varve::cli {

Tensor data(const Shape& shape, std::int64_t seed) {
  Tensor values = normal(shape, {.seed = seed, .stream = "bench"});
  values.eval();
  return values;
}

Tensor indices(const Shape& shape, std::int64_t below, std::int64_t seed) {
  Tensor values = cast(floor(uniform(shape, {.seed = seed, .stream = "bench"}) * static_cast<double>(below)), i64);
  values.eval();
  return values;
}

Variable weight(const Shape& shape, std::int64_t seed) { return Variable("weight", data(shape, seed) * 0.02); }

std::vector<BenchCase> bench_cases() {
  std::vector<BenchCase> cases;
  add_product_cases(cases);
  add_image_cases(cases);
  add_row_cases(cases);
  add_sequence_cases(cases);
  add_memory_cases(cases);
  return cases;
}

// ---- dense products

namespace {

struct Gemm {
  std::int64_t m, k, n;
  std::string str() const { return cat(m, "x", k, "x", n); }
};

BenchCase product(const Gemm& g) {
  return {"matmul", g.str(), [g] {
            return runner([w = weight({g.k, g.n})](Tensor x) { return matmul(x, w); }, data({g.m, g.k}));
          }};
}

BenchCase dense(const Gemm& g) {
  return {"linear+relu", g.str(), [g] {
            return runner([w = weight({g.k, g.n}), b = weight({g.n})](Tensor x) { return relu(linear(x, w, b)); },
                          data({g.m, g.k}));
          }};
}

// Forward, both gradients and the update of one layer.
BenchCase dense_step(const Gemm& g) {
  return {"linear sgd step", g.str(), [g] {
            Variable w = weight({g.k, g.n});
            return runner(
                [w](Tensor x, Tensor dy) mutable {
                  const Tensor now = w;
                  const std::vector<Tensor> grads = gradients({matmul(x, now)}, {dy}, {x, now});
                  w.assign(sgd_update(now, grads[1], {}, 1e-6).parameter);
                  return grads[0];
                },
                data({g.m, g.k}), data({g.m, g.n}));
          }};
}

}  // namespace

void add_product_cases(std::vector<BenchCase>& cases) {
  for (const Gemm& g : {Gemm{1024, 1024, 1024}, Gemm{64, 2048, 26752}, Gemm{64, 26752, 2048}, Gemm{64, 2048, 2048},
                        Gemm{128, 256, 10000}, Gemm{80, 784, 512}})
    cases.push_back(product(g));
  cases.push_back(
      {"matmul", "128x(256x64x256)", [] {
         return runner([](Tensor a, Tensor b) { return matmul(a, b); }, data({128, 256, 64}), data({128, 64, 256}));
       }});
  cases.push_back(dense({64, 2048, 2048}));
  cases.push_back(dense({4096, 512, 2048}));
  cases.push_back(dense_step({64, 2048, 2048}));
}

}  // namespace varve::cli
