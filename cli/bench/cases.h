// What `varve bench ops` measures.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "varve/compile.h"

namespace varve::cli {

// A compiled program with its arguments.
struct Runner {
  std::function<void()> run;
  std::function<Profile()> profile;  // runs once too
};

struct BenchCase {
  std::string op, shape;
  std::function<Runner()> make;  // allocates; called just before the case is measured
};

std::vector<BenchCase> bench_cases();

// By topic, in the order of the table.
void add_product_cases(std::vector<BenchCase>& cases);
void add_image_cases(std::vector<BenchCase>& cases);
void add_row_cases(std::vector<BenchCase>& cases);
void add_sequence_cases(std::vector<BenchCase>& cases);
void add_memory_cases(std::vector<BenchCase>& cases);

template <class F, class... A>
Runner runner(F f, A... args) {
  auto program = std::make_shared<decltype(compile(f))>(compile(f, {.name = "bench"}));
  return {[=] { (*program)(args...); }, [=] { return program->profile(1, args...); }};
}

// Random numbers at hand: inputs are not part of what is measured.
Tensor data(const Shape& shape, std::int64_t seed = 1);
Tensor indices(const Shape& shape, std::int64_t below, std::int64_t seed = 1);
// A parameter: programs may keep it in a layout of their own.
Variable weight(const Shape& shape, std::int64_t seed = 2);

}  // namespace varve::cli
