#include <cstdlib>
#include <iostream>

#include "base/convert.h"
#include "base/text.h"
#include "runtime/engine.h"

namespace varve::runtime {

bool explains() {
  static const bool on = [] {
    const char* value = std::getenv("VARVE_EXPLAIN");
    return value && *value && std::string(value) != "0";
  }();
  return on;
}

void print_explanation(const std::string& name, const compiler::Plan& plan, const std::string& captured) {
  std::cerr << "-- " << name << ": " << plan.steps.size() << " kernels, arena " << human_bytes(plan.arena_bytes) << "\n"
            << plan.text << captured << plan.explain << std::flush;
}

void fill_scalar(const ir::Node& fill, void* out) {
  const DType dtype = fill.types[0].dtype;
  for (const auto& [key, value] : fill.attrs.entries())
    if (key == "value") {
      if (const auto* whole = value.get<std::int64_t>()) return store_i(out, dtype, 0, *whole);
    }
  store_f(out, dtype, 0, fill.attrs.number("value"));
}

}  // namespace varve::runtime
